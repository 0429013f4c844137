package demomodel

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func do(t *testing.T, method, url, key string, body io.Reader) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestRoutes(t *testing.T) {
	s := start(t)
	good := "Bearer " + s.Key()
	hello := string(newChat("hello").json(t))
	tests := []struct {
		name, method, path, key, body string
		status                        int
		want                          string
	}{
		{"chat", "POST", "/chat/completions", good, hello, 200, "hello"},
		{"chat v1", "POST", "/v1/chat/completions", good, hello, 200, "hello"},
		{"models", "GET", "/models", good, "", 200, ModelID},
		{"models v1", "GET", "/v1/models", good, "", 200, ModelID},
		{"no key", "POST", "/chat/completions", "", hello, 401, `"code":"invalid_api_key"`},
		{"wrong key", "POST", "/chat/completions", good + "x", hello, 401, `"type":"invalid_request_error"`},
		{"key without scheme", "GET", "/models", s.Key(), "", 401, "invalid_api_key"},
		{"models without key", "GET", "/models", "", "", 401, "invalid_api_key"},
		{"no such route", "GET", "/v2/models", good, "", 404, "no such route"},
		{"wrong method", "GET", "/chat/completions", good, "", 404, "no such route"},
		{"not JSON", "POST", "/chat/completions", good, "{", 400, "not a chat completion request"},
		{"no messages", "POST", "/chat/completions", good, `{"model":"m"}`, 400, "no messages"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := do(t, tt.method, s.URL()+tt.path, tt.key, strings.NewReader(tt.body))
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s", status, body)
			}
			if status != 200 && !json.Valid([]byte(body)) {
				t.Errorf("the error is not JSON: %s", body)
			}
		})
	}
	if strings.Contains(s.URL(), s.Key()) || !strings.HasPrefix(s.URL(), "http://127.0.0.1:") || s.Model() != ModelID {
		t.Errorf("%s %s", s.URL(), s.Model())
	}
}

func TestBodyLimit(t *testing.T) {
	s := start(t)
	body := io.MultiReader(strings.NewReader(`{"messages":[{"role":"user","content":"`), bytes.NewReader(bytes.Repeat([]byte("x"), maxBody)), strings.NewReader(`"}]}`))
	if status, text := do(t, "POST", s.URL()+"/chat/completions", "Bearer "+s.Key(), body); status != 413 || !json.Valid([]byte(text)) {
		t.Errorf("%d %s", status, text)
	}
}

func TestKeysDiffer(t *testing.T) {
	if a, b := New().Key(), New().Key(); a == b || len(a) < 20 {
		t.Errorf("%q %q", a, b)
	}
}

func TestLifetime(t *testing.T) {
	s := New()
	if s.URL() != "" {
		t.Error("a URL before the start")
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cancel() // bounds the start alone
	if g := post(t, s, newChat("hello").json(t)); g.status != 200 {
		t.Errorf("%+v", g)
	}
	if err := s.Start(t.Context()); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Errorf("second start: %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if g := post(t, s, newChat("hello").json(t)); g.err == nil {
		t.Errorf("answered after Close: %+v", g)
	}
	if err := New().Close(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Handlers that wait must not outlive Close, nor keep it.
func TestCloseEndsWaiting(t *testing.T) {
	for name, step := range map[string]Step{"silence": Silence(), "delay": Delay(time.Hour), "gate": WaitFor(make(chan struct{}))} {
		for _, stream := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				s := start(t)
				entered := make(chan struct{})
				s.Handle(func(Request) (Reply, bool) {
					close(entered)
					return Reply{Text("a"), step, Text("never")}, true
				})
				c := newChat("hello")
				c.Stream = stream
				result := make(chan got, 1)
				go func() { result <- post(t, s, c.json(t)) }()
				<-entered
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if g := <-result; g.err == nil || strings.Contains(g.body, "never") {
					t.Errorf("%+v", g)
				}
			})
		}
	}
}

func TestClientGoesAway(t *testing.T) {
	s := start(t)
	released := make(chan struct{})
	s.Handle(func(r Request) (Reply, bool) {
		return Reply{Chunks("a"), stepFunc(func(p *player) error {
			<-p.ctx.Done()
			close(released)
			return errEnded
		})}, r.LastUser() == "gone"
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := send(ctx, t, s, newChat("gone").json(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-released:
	case <-time.After(10 * time.Second):
		t.Error("the handler did not notice")
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

type stepFunc func(*player) error

func (f stepFunc) play(p *player) error { return f(p) }

func TestManyAtOnce(t *testing.T) {
	s := start(t, WithJournal(10))
	s.Handle(func(r Request) (Reply, bool) { return Reply{ToolCall("t", nil), Text(r.LastUser())}, true })
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for i := range 32 {
		wg.Go(func() {
			user := strings.Repeat("x", i+1)
			g := post(t, s, newChat(user).json(t))
			mu.Lock()
			defer mu.Unlock()
			if g.text != user || len(g.calls) != 1 || ids[g.calls[0].ID] {
				t.Errorf("%+v", g)
				return
			}
			ids[g.calls[0].ID] = true
		})
	}
	wg.Wait()
	if n := len(s.Requests()); n != 10 {
		t.Errorf("%d requests kept", n)
	}
}
