package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStreamTranscript(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewStream(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if s.Started() || w.Flushed {
		t.Error("started before the first event")
	}
	w.Header().Set("X-Copilot-Bridge-Model", "m")
	steps := []func() error{
		func() error { return s.Event("", map[string]string{"text": "<a> & \"b\"\n"}) },
		func() error { return s.Event("ping", struct{}{}) },
		func() error { s.Comment("keep-alive"); return s.Flush() },
		func() error { s.Append("a", []byte(`{"n":1}`)); s.Append("", []byte(`{"n":2}`)); return s.Flush() },
		s.Flush,
		func() error { return s.Data("[DONE]") },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if !s.Started() || !w.Flushed {
			t.Errorf("step %d has not been sent", i)
		}
	}
	want := "data: {\"text\":\"<a> & \\\"b\\\"\\n\"}\n\n" +
		"event: ping\ndata: {}\n\n" +
		": keep-alive\n\n" +
		"event: a\ndata: {\"n\":1}\n\ndata: {\"n\":2}\n\n" +
		"data: [DONE]\n\n"
	if got := w.Body.String(); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream; charset=utf-8" || w.Header().Get("X-Copilot-Bridge-Model") != "m" {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
}

func TestStreamLeavesAChoiceUntilItStarts(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewStream(w, httptest.NewRequest(http.MethodPost, "/", nil))
	s.Append("", []byte(`{}`))
	if s.Started() {
		t.Error("an event that was not flushed started the stream")
	}
	JSON(w, 503, map[string]string{"error": "x"})
	if w.Code != 503 || w.Body.String() != `{"error":"x"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestStreamAfterHangUp(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	w := httptest.NewRecorder()
	s := NewStream(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	hangUp()
	first := s.Data("x")
	if bridge.CodeOf(first) != bridge.CodeCanceled || s.Started() {
		t.Errorf("error %v, started %t", first, s.Started())
	}
	s.Append("", []byte("1"))
	if err := s.Event("", 1); !errors.Is(err, first) {
		t.Errorf("then %v", err)
	}
	if w.Body.Len() > 0 || len(s.buf) > 0 {
		t.Errorf("sent %q, kept %q", w.Body, s.buf)
	}
}

func TestStreamAtShutdown(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	w := httptest.NewRecorder()
	s := NewStream(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	end(&bridge.Error{Code: bridge.CodeUnavailable, Message: "closing"})
	if err := s.Data("last words"); err != nil || w.Body.String() != "data: last words\n\n" {
		t.Errorf("error %v, sent %q", err, w.Body)
	}
}

func TestStreamWriteFails(t *testing.T) {
	w := &failing{header: http.Header{}}
	s := NewStream(w, httptest.NewRequest(http.MethodPost, "/", nil))
	err := s.Data("x")
	if bridge.CodeOf(err) != bridge.CodeCanceled || !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if again := s.Data("y"); !errors.Is(again, err) || w.writes != 1 {
		t.Errorf("error %v, %d writes", again, w.writes)
	}
}

type failing struct {
	header http.Header
	writes int
}

func (f *failing) Header() http.Header       { return f.header }
func (f *failing) WriteHeader(int)           {}
func (f *failing) Write([]byte) (int, error) { f.writes++; return 0, net.ErrClosed }

// TestSlowClients serves over a pipe, which holds nothing back: a client that
// does not read blocks the very first byte.
func TestSlowClients(t *testing.T) {
	large := strings.Repeat("x", 10*piece)
	tests := []struct {
		name  string
		pause time.Duration // before each read of one piece
		write func(w http.ResponseWriter, r *http.Request) error
		cut   bool
	}{
		{"steady but slow", patience / 3, func(w http.ResponseWriter, r *http.Request) error { return NewStream(w, r).Data(large) }, false},
		{"stands still", patience + time.Second, func(w http.ResponseWriter, r *http.Request) error { return NewStream(w, r).Data(large) }, true},
		{"stands still in one answer", patience + time.Second, func(w http.ResponseWriter, r *http.Request) error {
			JSON(w, 200, large)
			_, err := w.Write([]byte("x"))
			return err
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				result := make(chan error, 1)
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { result <- tt.write(w, r) })}
				l := &oneConn{conn: server, done: make(chan struct{})}
				served := make(chan error, 1)
				go func() { served <- srv.Serve(l) }()

				if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				read := make(chan struct{})
				go func() {
					defer close(read)
					_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, pausing{client, tt.pause}, make([]byte, piece))
				}()
				err := <-result
				took := time.Since(start)
				if tt.cut && (err == nil || took > 2*patience) {
					t.Errorf("%v after %s, want the client cut", err, took)
				}
				if !tt.cut && (err != nil || took < 2*patience) {
					t.Errorf("%v after %s, want all of it sent to a slow client", err, took)
				}
				_ = client.Close()
				<-read
				if err := srv.Close(); err != nil {
					t.Error(err)
				}
				<-served
			})
		})
	}
}

type pausing struct {
	r     io.Reader
	pause time.Duration
}

func (p pausing) Read(b []byte) (int, error) {
	<-time.After(p.pause) // by the clock of synctest
	return io.ReadFull(p.r, b)
}

// oneConn is a listener that has one connection to give.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { close(l.done); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestJSON(t *testing.T) {
	w := httptest.NewRecorder()
	JSON(w, 201, map[string]string{"a": "<&>"})
	if got := w.Body.String(); got != `{"a":"<&>"}` || w.Code != 201 {
		t.Errorf("%d %s", w.Code, got)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Content-Length") != "11" {
		t.Errorf("headers %v", h)
	}
	w = httptest.NewRecorder()
	JSON(w, 200, func() {})
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestStatus(t *testing.T) {
	tests := []struct {
		code   bridge.Code
		status int // of the error
		want   int
	}{
		{bridge.CodeInvalid, 0, 400},
		{bridge.CodeInvalid, 408, 408},
		{bridge.CodeInvalid, 413, 413},
		{bridge.CodeInvalid, 415, 415},
		{bridge.CodeInvalid, 500, 400},
		{bridge.CodeNotFound, 0, 404},
		{bridge.CodeUnauthenticated, 0, 503},
		{bridge.CodeDenied, 0, 403},
		{bridge.CodeConsent, 0, 403},
		{bridge.CodeUnavailable, 0, 503},
		{bridge.CodeCrashed, 0, 503},
		{bridge.CodeBusy, 0, 429},
		{bridge.CodeTimeout, 0, 504},
		{bridge.CodeCanceled, 0, 499},
		{bridge.CodeRateLimited, 0, 429},
		{bridge.CodeProvider, 0, 503},
		{bridge.CodeProvider, 200, 502},
		{bridge.CodeProvider, 422, 422},
		{bridge.CodeProvider, 529, 503},
		{bridge.CodeProvider, 600, 503},
		{bridge.CodeBudget, 0, 429},
		{bridge.CodeConflict, 0, 409},
		{bridge.CodeUnsupported, 0, 400},
		{bridge.CodeInternal, 0, 500},
		{"never heard of", 0, 500},
	}
	for _, tt := range tests {
		if got := Status(&bridge.Error{Code: tt.code, Status: tt.status}); got != tt.want {
			t.Errorf("%s (%d): %d, want %d", tt.code, tt.status, got, tt.want)
		}
	}
}
