package demomodel

import (
	"bufio"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every reply means the same streamed and not.
func TestReplies(t *testing.T) {
	tests := []struct {
		name  string
		reply Reply
		want  got
	}{
		{"text", Reply{Text("Hello there,  world\n")}, got{text: "Hello there,  world\n", finish: "stop"}},
		{"chunks", Reply{Chunks("a", "", "b\"\\\u2028<&>\x00é")}, got{text: "ab\"\\\u2028<&>\x00é", finish: "stop"}},
		{"nothing", Reply{}, got{finish: "stop"}},
		{"nil step", Reply{nil, Text("x")}, got{text: "x", finish: "stop"}},
		{"reasoning", Reply{Reasoning("let me see"), Text("yes")}, got{thought: "let me see", text: "yes", finish: "stop"}},
		{"call", Reply{ToolCall("bash", map[string]any{"command": "ls & rm"})}, got{calls: []Call{{"call_1", "bash", `{"command":"ls \u0026 rm"}`}}, finish: "tool_calls"}},
		{"parallel calls", Reply{Text("Now:"), ToolCall("a", nil), ToolCallID("mine", "b", json.RawMessage(`{"x":1}`)), ToolCall("c", `{broken`)},
			got{text: "Now:", calls: []Call{{"call_1", "a", "{}"}, {"mine", "b", `{"x":1}`}, {"call_2", "c", "{broken"}}, finish: "tool_calls"}},
		{"finish", Reply{Text("cut sh"), Finish("length")}, got{text: "cut sh", finish: "length"}},
		{"delay", Reply{Text("a"), Delay(time.Millisecond), Text("b")}, got{text: "ab", finish: "stop"}},
		{"gate", Reply{WaitFor(closed()), Text("b")}, got{text: "b", finish: "stop"}},
	}
	for _, tt := range tests {
		for _, stream := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				s := start(t)
				s.Push(tt.reply)
				c := newChat("hello")
				c.Stream = stream
				g := post(t, s, c.json(t))
				if g.status != 200 || g.err != nil || g.done != stream {
					t.Fatalf("%+v", g)
				}
				g = got{text: g.text, thought: g.thought, calls: g.calls, finish: g.finish}
				if !reflect.DeepEqual(g, tt.want) {
					t.Errorf("got  %+v\nwant %+v", g, tt.want)
				}
			})
		}
	}
}

func closed() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

func TestUsage(t *testing.T) {
	s := start(t)
	for _, stream := range []bool{true, false} {
		c := newChat("hello")
		c.Stream = stream
		s.Push(Reply{Text("x"), Usage(10, 20, 5, 7)}, Reply{Reasoning("1234"), Text("12345")}, Reply{Reasoning("1234"), Text("12345")})
		want := usageStep{10, 20, 5, 7}.wire()
		if g := post(t, s, c.json(t)); !reflect.DeepEqual(g.usage, want) || g.usage.Total != 30 {
			t.Errorf("stream %v: %+v", stream, g.usage)
		}
		first, second := post(t, s, c.json(t)), post(t, s, c.json(t))
		if u := first.usage; u == nil || u.Completion != 3 || u.CompletionDetails.Reasoning != 1 || u.Prompt < 30 || u.Prompt > 80 {
			t.Errorf("stream %v: counted %+v", stream, u)
		}
		if !reflect.DeepEqual(first.usage, second.usage) {
			t.Errorf("%+v then %+v", first.usage, second.usage)
		}
	}
	c := newChat("hello")
	c.StreamOptions = nil
	if g := post(t, s, c.json(t)); g.usage != nil {
		t.Errorf("usage that was not asked for: %+v", g.usage)
	}
}

// Each chunk must reach the client before the next step is played.
func TestChunksAreFlushed(t *testing.T) {
	s := start(t)
	gate := make(chan struct{})
	s.Push(Reply{Chunks("first"), WaitFor(gate), Chunks("second")})
	resp, err := send(t.Context(), t, s, newChat("hello").json(t))
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(resp.Body)
	if l, err := r.ReadString('\n'); err != nil || !strings.Contains(l, "first") {
		t.Fatalf("%q %v", l, err)
	}
	close(gate)
	var rest strings.Builder
	if _, err := r.WriteTo(&rest); err != nil || !strings.Contains(rest.String(), "second") {
		t.Errorf("%q %v", rest.String(), err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name       string
		reply      Reply
		status     int
		retryAfter string
		want       string
	}{
		{"status", Reply{Status(500, "the disk is full")}, 500, "", `"message":"the disk is full","type":"server_error","param":null,"code":null`},
		{"status without words", Reply{Status(503, "")}, 503, "", "Service Unavailable"},
		{"401", Reply{Status(401, "no")}, 401, "", "invalid_api_key"},
		{"after a delay", Reply{Delay(time.Millisecond), Usage(1, 2, 3, 4), Status(500, "late")}, 500, "", "late"},
		{"rate limit", Reply{RateLimit(1500 * time.Millisecond)}, 429, "2", "rate_limit_exceeded"},
		{"no wait", Reply{RateLimit(0)}, 429, "0", "rate_limit_exceeded"},
		{"bad arguments", Reply{ToolCall("x", func() {})}, 500, "", "not JSON"},
	}
	for _, tt := range tests {
		for _, stream := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				s := start(t)
				s.Push(append(tt.reply, Text("never")))
				c := newChat("hello")
				c.Stream = stream
				g := post(t, s, c.json(t))
				if g.status != tt.status || g.header.Get("Retry-After") != tt.retryAfter || !strings.Contains(g.body, tt.want) || strings.Contains(g.body, "never") {
					t.Errorf("%+v", g)
				}
				if g.header.Get("Content-Type") != "application/json" || !json.Valid([]byte(g.body)) {
					t.Errorf("not a JSON error: %+v", g)
				}
			})
		}
	}
}

func TestErrorInStream(t *testing.T) {
	s := start(t)
	s.Push(Reply{Chunks("a"), Status(500, "broken"), Chunks("never")})
	g := post(t, s, newChat("hello").json(t))
	if g.status != 200 || g.text != "a" || !strings.Contains(g.body, `data: {"error":{"message":"broken"`) || g.done || g.err != nil {
		t.Errorf("%+v", g)
	}
}

func TestCut(t *testing.T) {
	s := start(t)
	s.Push(Reply{Chunks("a", "b"), Cut()})
	g := post(t, s, newChat("hello").json(t))
	if g.text != "ab" || g.err == nil || g.done || g.finish != "" {
		t.Errorf("%+v", g)
	}
	for _, stream := range []bool{true, false} {
		s.Push(Reply{Cut()})
		c := newChat("hello")
		c.Stream = stream
		// A client may try once more on a connection that it kept; the second
		// reply would then be an echo.
		c.Messages[1].Content = "rehearsal: cut"
		if g := post(t, s, c.json(t)); g.err == nil {
			t.Errorf("%+v", g)
		}
	}
}

func TestSilence(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := start(t)
		s.Push(Reply{Chunks("a"), Silence()})
		c := newChat("hello")
		c.Stream = stream
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := send(ctx, t, s, c.json(t)) // returns, since headers come
		if err != nil {
			t.Fatal(err)
		}
		if stream {
			if l, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(l, `"a"`) {
				t.Errorf("%q %v", l, err)
			}
		}
		cancel()
		if n, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes", n)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMalformed(t *testing.T) {
	s := start(t)
	s.Push(Reply{Chunks("a"), Malformed("data: {oops\n\n"), Chunks("b")}, Reply{Malformed("{oops")})
	if g := post(t, s, newChat("hello").json(t)); g.text != "ab" || !strings.Contains(g.body, "\n\ndata: {oops\n\n") {
		t.Errorf("%+v", g)
	}
	c := newChat("hello")
	c.Stream = false
	if g := post(t, s, c.json(t)); g.body != "{oops" {
		t.Errorf("%+v", g)
	}
}

// The same request to a new server gets the same bytes.
func TestDeterministic(t *testing.T) {
	bodies := map[string]bool{}
	for range 3 {
		s := start(t)
		bodies[post(t, s, newChat("create a.txt saying hi and list the files", builtins()...).json(t)).body] = true
	}
	if len(bodies) != 1 {
		t.Errorf("%d different replies", len(bodies))
	}
}
