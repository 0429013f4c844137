package demomodel

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDirectives(t *testing.T) {
	tests := []struct {
		line string
		want Step
	}{
		{`text hello  world`, Text("hello  world")},
		{`text a\nb\\n\tc`, Text("a\nb\\n\tc")},
		{`text`, Text("")},
		{`chunks a|b |\| c|\n`, Chunks("a", "b ", "| c", "\n")},
		{`reason because of this`, Reasoning("because of this")},
		{`delay 50ms`, Delay(50 * time.Millisecond)},
		{`tool bash {"command":"ls | wc"}`, ToolCall("bash", `{"command":"ls | wc"}`)},
		{`tool list_bash`, ToolCall("list_bash", nil)},
		{`status 500`, Status(500, "")},
		{`status 503 out of order`, Status(503, "out of order")},
		{`ratelimit 2s`, RateLimit(2 * time.Second)},
		{`cut`, Cut()},
		{`silence`, Silence()},
		{`usage 10 20`, Usage(10, 20, 0, 0)},
		{`usage 10 20 5 7`, Usage(10, 20, 5, 7)},
		{`finish length`, Finish("length")},
		{`malformed data: {\n\n`, Malformed("data: {\n\n")},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			sc, found, err := parseScript("ignored\n  rehearsal: " + tt.line + "\r\nignored")
			if err != nil || !found {
				t.Fatal(found, err)
			}
			if want := [][]Reply{{{tt.want}}}; !reflect.DeepEqual(sc.parts, want) {
				t.Errorf("got %#v, want %#v", sc.parts, want)
			}
		})
	}
}

func TestBadDirectives(t *testing.T) {
	for _, line := range []string{
		"sing", "", "delay", "delay soon", "delay -1s", "delay 11m", "tool", "tool bash nonsense", `tool bash [1]`, `tool bash {"a":}`,
		"status", "status 200", "status x", "usage", "usage 1", "usage 1 2 3 4 5", "usage -1 2", "usage a b", "ratelimit x", "ratelimit 2h",
		"cut here", "silence please", "next one", "once more", "finish",
	} {
		t.Run(line, func(t *testing.T) {
			s := start(t)
			directive := strings.TrimSpace("rehearsal: " + line)
			g := post(t, s, newChat("hello\n"+directive+"\nrehearsal: text never").json(t))
			if g.status != 200 || !strings.Contains(g.text, "line 2: \""+strings.ReplaceAll(directive, `"`, `\"`)) || strings.Contains(g.text, "never") {
				t.Errorf("%q", g.text)
			}
		})
	}
	if _, _, err := parseScript(strings.Repeat("rehearsal: cut\n", maxDirectives+1)); err == nil {
		t.Error("too many directives went through")
	}
}

func TestDirectivesAreOnlyAtLineStarts(t *testing.T) {
	if _, found, err := parseScript("about the rehearsal: text is fine"); found || err != nil {
		t.Error(found, err)
	}
}

const scripted = `Do as you are told.
rehearsal: text working
rehearsal: tool f {"n":1}
rehearsal: tool g
rehearsal: next
rehearsal: tool h
rehearsal: next
rehearsal: text all done`

func TestNext(t *testing.T) {
	s := start(t)
	c := newChat(scripted)
	g := post(t, s, c.json(t))
	if g.text != "working" || len(g.calls) != 2 || g.calls[0] != (Call{"call_1", "f", `{"n":1}`}) || g.calls[1].ID != "call_2" {
		t.Fatalf("%+v", g)
	}
	c.round(g.calls, "F", "G")
	if g = post(t, s, c.json(t)); g.text != "" || len(g.calls) != 1 || g.calls[0].Name != "h" {
		t.Fatalf("%+v", g)
	}
	c.round(g.calls, "H")
	if g = post(t, s, c.json(t)); g.text != "all done" || g.finish != "stop" {
		t.Fatalf("%+v", g)
	}
	// The next message of the user begins a new turn.
	c.round(nil)
	c.Messages = append(c.Messages, chatMessage{Role: "user", Content: "rehearsal: text again"})
	if g = post(t, s, c.json(t)); g.text != "again" {
		t.Fatalf("%+v", g)
	}
}

func TestScriptEnd(t *testing.T) {
	s := start(t)
	c := newChat("rehearsal: tool f")
	g := post(t, s, c.json(t))
	c.round(g.calls, "the result "+strings.Repeat("x", 5000))
	if g = post(t, s, c.json(t)); len(g.calls) != 0 || !strings.Contains(g.text, "f answered: the result") || len(g.text) > 3000 {
		t.Errorf("%+v", g)
	}
}

func TestOnce(t *testing.T) {
	s := start(t)
	body := newChat("rehearsal: status 500\nrehearsal: once\nrehearsal: ratelimit 1s\nrehearsal: once\nrehearsal: text at last").json(t)
	other := newChat("rehearsal: status 503\nrehearsal: once\nrehearsal: text other").json(t)
	var statuses []int
	for range 4 {
		statuses = append(statuses, post(t, s, body).status)
	}
	if !reflect.DeepEqual(statuses, []int{500, 429, 200, 200}) {
		t.Error(statuses)
	}
	if g := post(t, s, other); g.status != 503 {
		t.Errorf("another request's attempts were counted: %+v", g)
	}
}

func TestAttemptsAreForgotten(t *testing.T) {
	var a attempts
	for i := range maxAttempts + 10 {
		if n := a.next([]byte{byte(i), byte(i >> 8)}); n != 0 {
			t.Fatal(i, n)
		}
	}
	if len(a.seen) != maxAttempts || len(a.order) != maxAttempts {
		t.Error(len(a.seen), len(a.order))
	}
	if a.next([]byte{0, 0}) != 0 || a.next([]byte{0, 0}) != 1 {
		t.Error("miscounted")
	}
}

// An id that the conversation holds from an earlier server is not used again.
func TestCallIDsAreNotReused(t *testing.T) {
	s := start(t)
	c := newChat("rehearsal: tool f\nrehearsal: next\nrehearsal: tool g\nrehearsal: tool h")
	c.round([]Call{{"call_2", "f", "{}"}}, "F")
	g := post(t, s, c.json(t))
	if len(g.calls) != 2 || g.calls[0].ID != "call_1" || g.calls[1].ID != "call_3" {
		t.Errorf("%+v", g.calls)
	}
}

func TestOrderOfSources(t *testing.T) {
	s := start(t)
	s.Push(Reply{Text("queued")})
	s.Handle(func(r Request) (Reply, bool) { return Reply{Text("handled")}, r.LastUser() == "h" })
	s.Handle(func(r Request) (Reply, bool) { return Reply{Text("second")}, r.LastUser() == "h" })
	for _, want := range [][2]string{{"h", "handled"}, {"rehearsal: text scripted", "queued"}, {"rehearsal: text scripted", "scripted"}, {"hm", "You said: hm"}} {
		if g := post(t, s, newChat(want[0]).json(t)); !strings.HasPrefix(g.text, want[1]) {
			t.Errorf("%q: %q", want[0], g.text)
		}
	}
}

func TestWords(t *testing.T) {
	if got := words("a  b\n\nc d "); !reflect.DeepEqual(got, []string{"a  ", "b\n\n", "c ", "d "}) {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("word ", 10*maxWords)
	got := words(long)
	if strings.Join(got, "") != long || len(got) > maxWords+1 {
		t.Errorf("%d chunks", len(got))
	}
	if words("") != nil {
		t.Error("chunks of nothing")
	}
}

func FuzzDirectives(f *testing.F) {
	f.Add(scripted)
	f.Add("rehearsal: chunks a|\\|b\\\nrehearsal: once\nrehearsal: usage 1 2")
	f.Add("rehearsal:\nrehearsal: tool x {\"a\":1}\nrehearsal: delay 1ms")
	f.Fuzz(func(t *testing.T, text string) {
		sc, found, err := parseScript(text)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if !found {
			return
		}
		for n := range 3 {
			tn := turn{user: text, rounds: make([]round, n)}
			reply := sc.reply(&tn, func() int { return n })
			if len(reply) > maxDirectives {
				t.Errorf("%d steps", len(reply))
			}
			size := 0
			for _, step := range reply {
				if s, ok := step.(textStep); ok {
					size += len(strings.Join(s.chunks, ""))
				}
			}
			if size > len(text)+100 {
				t.Errorf("%d bytes of text from %d", size, len(text))
			}
		}
	})
}
