package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

func TestSlowHeaderIsCut(t *testing.T) {
	r := start(t, Options{ReadHeaderTimeout: 50 * time.Millisecond})
	for _, sent := range []string{"", "GET /healthz HTTP/1.1\r\nHost: local"} {
		conn := r.dial(t)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(conn) // until the server closes
		if err != nil {
			t.Errorf("after %q: %v", sent, err)
		}
		if strings.Contains(string(data), "200 OK") {
			t.Errorf("after %q: %s", sent, data)
		}
	}
}

func TestLongHeaders(t *testing.T) {
	r := start(t, Options{MaxHeaderBytes: 8 << 10})
	if got := r.do(t, http.MethodGet, "/healthz", map[string]string{"X-Pad": strings.Repeat("x", 4<<10)}, ""); got.status != 200 {
		t.Errorf("within: %d", got.status)
	}
	if got := r.do(t, http.MethodGet, "/healthz", map[string]string{"X-Pad": strings.Repeat("x", 16<<10)}, ""); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("beyond: %d", got.status)
	}
}

// TestServerAtItsCap holds that those beyond the cap are served in the end.
func TestServerAtItsCap(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, Options{MaxConnections: 1, Doors: map[string]http.Handler{
		"GET /wait": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-release }),
	}})
	wait := func() net.Conn {
		conn := r.dial(t)
		if _, err := io.WriteString(conn, "GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := wait()
	<-entered
	second := wait()
	if r.listener.open() != 1 {
		t.Errorf("%v connections", r.listener.open())
	}
	close(release)
	readAnswer(t, first)
	<-entered
	readAnswer(t, second)
}

// piped serves one connection without a network, so that synctest's clock
// rules it.
func piped(t *testing.T, opts Options) (client net.Conn, r *running) {
	t.Helper()
	client, server := net.Pipe()
	opts.peer = ourselves
	s := newServer(t.Context(), opts.defaults(), netip.MustParseAddr("127.0.0.1"), &oneConn{conn: server, done: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	r = &running{Server: s, stop: cancel, done: make(chan error, 1)}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		r.done <- s.Serve(ctx)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		cancel()
		<-returned
	})
	return client, r
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

func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 10 * time.Second
		client, _ := piped(t, Options{BodyTimeout: within, Doors: map[string]http.Handler{
			"POST /": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var v any
				if err := wire.Decode(w, r, 1<<20, &v); err != nil {
					e := bridge.AsError(err)
					wire.JSON(w, wire.Status(e), e.Message)
					return
				}
				wire.JSON(w, 200, v)
			}),
		}})
		began := time.Now()
		if _, err := io.WriteString(client, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		status, body := readAnswer(t, client)
		if status != http.StatusRequestTimeout || time.Since(began) != within {
			t.Errorf("%d after %s: %s", status, time.Since(began), body)
		}
	})
}

// TestLongAnswerToQuickBody: the time for the body must not run on while the
// answer is made, nor one answer's time to write into the next.
func TestLongAnswerToQuickBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := piped(t, Options{BodyTimeout: time.Second, IdleTimeout: time.Hour, Doors: map[string]http.Handler{
			"POST /": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
				select {
				case <-time.After(10 * time.Minute):
				case <-r.Context().Done():
					t.Error("ended early")
				}
				if _, err := io.WriteString(w, "done"); err != nil {
					t.Error(err)
				}
				// Not every handler sets deadlines.
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}),
		}})
		for i := range 3 {
			if _, err := io.WriteString(client, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
				t.Fatal(err)
			}
			if status, body := readAnswer(t, client); status != 200 || body != "done" {
				t.Errorf("request %d: %d %s", i, status, body)
			}
			<-time.After(2 * patience)
		}
	})
}

// TestSilentEndOfStream: the last event may be long ago when a stream ends.
func TestSilentEndOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := piped(t, Options{Doors: map[string]http.Handler{
			"GET /stream": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := wire.NewStream(w, r).Data("x"); err != nil {
					t.Error(err)
				}
				<-time.After(2 * patience)
			}),
		}})
		if _, err := io.WriteString(client, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if status, body := readAnswer(t, client); status != 200 || body != "data: x\n\n" {
			t.Errorf("%d %q", status, body)
		}
	})
}

// TestUnwantedBody: a client that announces a body, is refused and then sends
// nothing is cut.
func TestUnwantedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := piped(t, Options{Token: "t"})
		began := time.Now()
		if _, err := io.WriteString(client, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		if status, body := readAnswer(t, client); status != 401 {
			t.Errorf("%d %s", status, body)
		}
		if _, err := io.ReadAll(client); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*leftover {
			t.Errorf("held for %s", took)
		}
	})
}

func TestFrontsOwnAnswersToSlowReaders(t *testing.T) {
	for _, path := range []string{"/", "/metrics", "/healthz", "/nowhere"} {
		synctest.Test(t, func(t *testing.T) {
			client, _ := piped(t, Options{})
			began := time.Now()
			if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * patience) // a pipe holds nothing: nobody reads
			if _, err := io.ReadAll(client); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 3*patience {
				t.Errorf("%s: held for %s", path, took)
			}
		})
	}
}
