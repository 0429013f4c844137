package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// edges are lines that no careful client sends, and what each is answered;
// over HTTP with which status.
var edges = map[string]struct {
	line   string
	want   string // the start of the answer, "" for none
	status int
}{
	"noise":                 {`garbage`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`, 400},
	"half a message":        {`{"jsonrpc":"2.0","id":6`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`, 400},
	"two in a line":         {`{"jsonrpc":"2.0","id":6,"method":"ping"} x`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`, 400},
	"a number":              {`3`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, 400},
	"null":                  {`null`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, 400},
	"empty batch":           {`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, 400},
	"method is a number":    {`{"jsonrpc":"2.0","id":6,"method":7}`, `{"jsonrpc":"2.0","id":6,"error":{"code":-32600,`, 400},
	"another version":       {`{"jsonrpc":"1.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32600,`, 400},
	"id is an object":       {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, 400},
	"id has a fraction":     {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, 400},
	"id is too large":       {`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, 400},
	"unknown method":        {`{"jsonrpc":"2.0","id":6,"method":"nope"}`, `{"jsonrpc":"2.0","id":6,"error":{"code":-32601,`, 200},
	"unknown notification":  {`{"jsonrpc":"2.0","method":"nope"}`, ``, 202},
	"answer to no question": {`{"jsonrpc":"2.0","id":6,"result":{}}`, ``, 202},
	"params are a list":     {`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[1]}`, `{"jsonrpc":"2.0","id":6,"error":{"code":-32602,`, 200},
	"no params":             {`{"jsonrpc":"2.0","id":6,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":6,"error":{"code":-32600,`, 400},
	"bad cancel":            {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}`, ``, 202},
}

// Nothing that a client writes ends the connection.
func TestStdioSurvives(t *testing.T) {
	for name, e := range edges {
		t.Run(name, func(t *testing.T) {
			lines := talk(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, e.line, `{"jsonrpc":"2.0","id":99,"method":"ping"}`)
			// Answers may change places.
			got := []string{lines.next(t)}
			if e.want != "" {
				got = append(got, lines.next(t))
			}
			pong := `{"jsonrpc":"2.0","id":99,"result":{}}`
			if got[0] != pong && got[len(got)-1] != pong {
				t.Errorf("no ping: %q", got)
			}
			if e.want != "" && !strings.HasPrefix(got[0], e.want) && !strings.HasPrefix(got[1], e.want) {
				t.Errorf("got %q, want %s", got, e.want)
			}
		})
	}
}

func TestStdioBatch(t *testing.T) {
	for name, tc := range map[string]struct {
		batch string
		want  map[string]string // by id: what the answer has
	}{
		"calls":             {`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/list"}]`, map[string]string{`1`: `"result":{}`, `"b"`: `"tools":[`}},
		"notifications":     {`[{"jsonrpc":"2.0","method":"nope"},{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"nope"}]`, map[string]string{`1`: `"result":{}`}},
		"one is no message": {`[7,{"jsonrpc":"2.0","id":1,"method":"ping"}]`, map[string]string{`1`: `"result":{}`, `null`: `-32600`}},
		"none is one":       {`[7]`, map[string]string{`null`: `-32600`}},
		"an id twice":       {`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"nope"}]`, map[string]string{`1`: `"id"`}},
	} {
		t.Run(name, func(t *testing.T) {
			lines := talk(t, tc.batch)
			var answers []json.RawMessage
			line := lines.next(t)
			if err := json.Unmarshal([]byte(line), &answers); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			for _, a := range answers {
				var head struct{ ID json.RawMessage }
				if err := json.Unmarshal(a, &head); err != nil || tc.want[string(head.ID)] == "" || !strings.Contains(string(a), tc.want[string(head.ID)]) {
					t.Errorf("%s", a)
				}
			}
			if want := max(len(tc.want), strings.Count(tc.batch, `"id"`)); len(answers) != want {
				t.Errorf("%d answers, want %d: %s", len(answers), want, line)
			}
		})
	}
}

// A line that is too long is skipped, and what waits for its answer may be
// asked about in other lines.
func TestStdioLongLineAndIdInUse(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	f := &fake{task: func(context.Context, Task) (TaskResult, error) {
		close(began)
		<-end
		return TaskResult{}, nil
	}}
	in, client := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- NewCopilot(f, Options{}).Serve(t.Context(), in, answers) }()
	lines := conversation{bufio.NewReader(out)}
	say := func(line string) {
		if _, err := io.WriteString(client, line+"\n"); err != nil {
			t.Error(err)
		}
	}
	say(initialize)
	lines.skip(t, `{"jsonrpc":"2.0","id":0,"result":`)
	say(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"copilot_code_task","arguments":{"prompt":"x"}}}`)
	<-began
	say(strings.Repeat(" ", maxMessage) + "{}")
	lines.skip(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`)
	say(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	lines.skip(t, `{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"the id is in use"}}`)
	close(end)
	lines.skip(t, `{"jsonrpc":"2.0","id":5,"result":`)
	say(`{"jsonrpc":"2.0","id":5,"method":"ping"}`) // it is free again
	lines.skip(t, `{"jsonrpc":"2.0","id":5,"result":{}}`)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A client that does not read holds up neither the end of the server nor, for
// long, its last words.
func TestStdioEndsThoughNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		out, answers := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- NewMemory(memory{}, allowAll{}, Options{}).Serve(ctx, in, answers) }()
		go func() {
			for range 500 {
				if _, err := io.WriteString(client, "noise\n"); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		_, _ = in.Close(), out.Close() // so that the goroutines go, which in a process end with it
	})
}

// HTTP clients get the same answers as stdio clients.
func TestHTTPAnswersInJSONRPC(t *testing.T) {
	s := NewCopilot(&fake{}, Options{})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	defer s.Close()
	session := ""
	post := func(t *testing.T, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		_, data, ok := strings.Cut(string(text), "data: ")
		if !ok {
			data = string(text)
		}
		return res.StatusCode, data
	}
	if status, text := post(t, initialize); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for name, e := range edges {
		t.Run(name, func(t *testing.T) {
			if status, text := post(t, e.line); status != e.status || !strings.HasPrefix(text, e.want) || e.want == "" && text != "" {
				t.Errorf("%d %s, want %d %s", status, text, e.status, e.want)
			}
		})
	}
	if status, text := post(t, strings.Repeat(" ", maxMessage)+"{}"); status != 413 || !strings.HasPrefix(text, `{"jsonrpc":"2.0","id":null,"error":`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := post(t, `{"jsonrpc":"2.0","id":99,"method":"ping"}`); status != 200 || !strings.Contains(text, `"result":{}`) {
		t.Errorf("%d %s", status, text)
	}
}

// conversation is what a server writes.
type conversation struct{ *bufio.Reader }

// talk sends lines to a server that is initialized and ends with the test.
func talk(t *testing.T, lines ...string) conversation {
	t.Helper()
	in, client := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- NewCopilot(&fake{}, Options{}).Serve(context.Background(), in, answers) }()
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.WriteString(client, initialize+"\n")
	}()
	c := conversation{bufio.NewReader(out)}
	c.skip(t, `{"jsonrpc":"2.0","id":0,"result":`)
	<-said
	go func() {
		for _, line := range lines {
			_, _ = io.WriteString(client, line+"\n")
		}
	}()
	t.Cleanup(func() {
		_ = client.Close()
		_ = out.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c conversation) next(t *testing.T) string {
	t.Helper()
	line, err := c.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (c conversation) skip(t *testing.T, want string) {
	t.Helper()
	if got := c.next(t); !strings.HasPrefix(got, want) {
		t.Fatalf("got %s, want %s…", got, want)
	}
}
