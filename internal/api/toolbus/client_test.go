package toolbus

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

func (s *site) connect(o Dialing) *Client {
	s.t.Helper()
	o.URL, o.client = "http://bridge", s.client
	c, err := Dial(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, New(&fake{}, Options{Token: "secret"})).connect(Dialing{Token: "secret"})
		result, err := c.Call(t.Context(), "mcp.fs.read", ReadParams{Path: "a"}, nil)
		if err != nil || !strings.Contains(string(result), `"content":"of a"`) {
			t.Errorf("got %s, %v", result, err)
		}
		var heard []string
		_, err = c.Call(t.Context(), "mcp.shell.run", json.RawMessage(`{"cmd":"x"}`), func(stream, text string) { heard = append(heard, stream+": "+text) })
		if err != nil || strings.Join(heard, ", ") != "stdout: ran , stderr: x" {
			t.Errorf("heard %v, %v", heard, err)
		}
		_, err = c.Call(t.Context(), "mcp.edit.applyPatch", nil, nil)
		if bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), "params.unifiedDiff: is missing") {
			t.Errorf("got %v", err)
		}
		_, err = c.Call(t.Context(), "no.such", nil, nil)
		if e := bridge.AsError(err); e == nil || e.Code != bridge.CodeInvalid || e.Remedy != "rpc.discover lists the methods" {
			t.Errorf("got %v", err)
		}
		_, err = c.Call(t.Context(), "x", func() {}, nil)
		if bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}

func TestClientCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, started, release := blocked()
		c := serve(t, New(f, Options{})).connect(Dialing{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Call(t.Context(), "mcp.fs.read", ReadParams{Path: "stays"}, nil); err != nil {
				t.Errorf("the other call: %v", err)
			}
		})
		<-started
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		began := time.Now()
		wg.Go(func() {
			if _, err := c.Call(ctx, "mcp.fs.read", ReadParams{Path: "goes"}, nil); !errors.Is(err, why) {
				t.Errorf("got %v", err)
			}
			if time.Since(began) > 0 {
				t.Error("the server was not told")
			}
			close(release)
		})
		<-started
		cancel(why)
		wg.Wait()
	})
}

func TestClientLosesItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := &fake{shell: func(context.Context, string, Progress) (task.Result, error) {
			<-release
			return task.Result{}, nil
		}}
		s := serve(t, New(f, Options{}))
		defer close(release)
		c := s.connect(Dialing{})
		got := make(chan error)
		go func() {
			_, err := c.Call(t.Context(), "mcp.shell.run", ShellParams{Cmd: "x"}, nil)
			got <- err
		}()
		synctest.Wait()
		s.stop(stopping)
		if err := <-got; bridge.CodeOf(err) != bridge.CodeUnavailable || !strings.Contains(err.Error(), "the bridge is shutting down") {
			t.Errorf("got %v", err)
		}
		if _, err := c.Call(t.Context(), "bridge.status", nil, nil); bridge.CodeOf(err) != bridge.CodeUnavailable {
			t.Errorf("then got %v", err)
		}
	})
}

func TestClientSendsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, New(&fake{}, Options{MaxMessage: 1000})).connect(Dialing{})
		_, err := c.Call(t.Context(), "mcp.fs.read", ReadParams{Path: strings.Repeat("x", 1<<20)}, nil)
		if bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), "too large") {
			t.Errorf("got %v", err)
		}
	})
}

func TestApprovalOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		f := &fake{shell: func(ctx context.Context, _ string, _ Progress) (task.Result, error) {
			if answer, err := h.Ask(ctx, question1); answer.Consent != approval.Once {
				return task.Result{}, &bridge.Error{Code: bridge.CodeDenied, Message: "no", Cause: err}
			}
			return task.Result{Stdout: "done"}, nil
		}}
		s := serve(t, New(f, Options{Hub: h}))
		questions := make(chan Approval, 1)
		asker := s.connect(Dialing{})
		decider := s.connect(Dialing{Notify: func(method string, params json.RawMessage) {
			var q Approval
			if method == "bridge.approval.requested" && json.Unmarshal(params, &q) == nil {
				questions <- q
			}
		}})
		if _, err := asker.Call(t.Context(), "mcp.shell.run", ShellParams{Cmd: "x"}, nil); bridge.CodeOf(err) != bridge.CodeDenied {
			t.Errorf("without anybody: %v", err)
		}
		if _, err := decider.Call(t.Context(), "bridge.approvals.subscribe", nil, nil); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := asker.Call(t.Context(), "mcp.shell.run", ShellParams{Cmd: "x"}, nil)
			done <- err
		}()
		q := <-questions
		if _, err := decider.Call(t.Context(), "bridge.approval.answer", answerParams{ID: q.ID, Answer: "once"}, nil); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// answering is a person who always says the same.
type answering struct {
	said  approval.Consent
	err   error
	asked chan approval.Question
	wait  bool
}

func (a *answering) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	a.asked <- q
	if a.wait {
		<-ctx.Done()
		return approval.Answer{}, ctx.Err()
	}
	return approval.Answer{Consent: a.said}, a.err
}

// A client with a person at hand has the questions about its own calls
// answered by them.
func TestClientAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		limit := time.Hour
		f := &fake{shell: func(ctx context.Context, _ string, _ Progress) (task.Result, error) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if answer, err := h.Ask(ctx, question1); answer.Consent == approval.No {
				return task.Result{}, &bridge.Error{Code: bridge.CodeDenied, Message: "no", Cause: err}
			}
			return task.Result{}, nil
		}}
		s := serve(t, New(f, Options{Hub: h}))
		for _, tt := range []struct {
			person *answering
			want   bridge.Code
		}{
			{&answering{said: approval.Once}, ""},
			{&answering{said: approval.Session}, ""},
			{&answering{said: approval.No}, bridge.CodeDenied},
			{&answering{err: errors.New("gone"), said: approval.Once}, bridge.CodeDenied},
			{&answering{wait: true}, bridge.CodeDenied},
		} {
			tt.person.asked = make(chan approval.Question, 2)
			c := s.connect(Dialing{Asker: tt.person})
			_, err := c.Call(t.Context(), "mcp.shell.run", ShellParams{Cmd: "x"}, nil)
			if err == nil && tt.want != "" || err != nil && bridge.CodeOf(err) != tt.want {
				t.Errorf("%+v: %v", tt.person, err)
			}
			if q := <-tt.person.asked; q.Summary != question1.Summary || q.Detail != question1.Detail || q.Request.Kind != bridge.PermissionShell {
				t.Errorf("asked %+v", q)
			}
			c.Close()
		}
		// A bridge that takes no consent from its clients is no trouble.
		plain := serve(t, New(&fake{}, Options{}))
		plain.connect(Dialing{Asker: &answering{}}).Close()
	})
}

func TestAddress(t *testing.T) {
	for given, want := range map[string]string{
		"http://127.0.0.1:8788":      "http://127.0.0.1:8788/rpc",
		"http://127.0.0.1:8788/":     "http://127.0.0.1:8788/rpc",
		"ws://127.0.0.1:8788/rpc":    "ws://127.0.0.1:8788/rpc",
		"wss://example.com/b/rpc?x=": "wss://example.com/b/rpc?x=",
		"https://me:pw@example.com":  "https://example.com/rpc",
		"127.0.0.1:8788":             "",
		"localhost:8788":             "",
		"ftp://x":                    "",
		"http://":                    "",
		"":                           "",
		"http://a b":                 "",
	} {
		if got, err := address(given); got != want || (err != nil) != (want == "") || err != nil && bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%q: got %q, %v; want %q", given, got, err, want)
		}
	}
}

func TestRefusedConnections(t *testing.T) {
	status, body := 0, ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	for _, tt := range []struct {
		status int
		body   string
		code   bridge.Code
		want   string
	}{
		{401, `{"error":{"message":"no token"}}`, bridge.CodeUnauthenticated, "(401 Unauthorized): no token"},
		{403, `{"error":{"message":"which host?"}}`, bridge.CodeDenied, "which host?"},
		{503, ``, bridge.CodeBusy, "(503 Service Unavailable)"},
		{404, `<html>`, bridge.CodeUnavailable, "(404 Not Found)"},
		{302, ``, bridge.CodeUnavailable, "(302 Found)"},
		{200, `hello`, bridge.CodeUnavailable, "(200 OK)"},
	} {
		status, body = tt.status, tt.body
		_, err := Dial(t.Context(), Dialing{URL: srv.URL, Token: "hunter2hunter2"})
		if bridge.CodeOf(err) != tt.code || !strings.HasSuffix(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%d: %v", tt.status, err)
		}
	}
	srv.Close()
	if _, err := Dial(t.Context(), Dialing{URL: srv.URL}); bridge.CodeOf(err) != bridge.CodeUnavailable || bridge.AsError(err).Remedy == "" {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, Dialing{URL: srv.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
