package toolbus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// site is a door that can be reached. Its connections are pipes, so that time
// stands still in a bubble while they wait.
type site struct {
	t      *testing.T
	client *http.Client
	stop   context.CancelCauseFunc // as the front does it
	gone   sync.WaitGroup          // handlers
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func serve(t *testing.T, h http.Handler) *site {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	base, stop := context.WithCancelCause(context.Background())
	s := &site{t: t, stop: stop}
	srv := &http.Server{BaseContext: func(net.Listener) context.Context { return base }, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.gone.Add(1)
		defer s.gone.Done()
		h.ServeHTTP(w, r)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		stop(stopping)
		s.gone.Wait()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
		transport.CloseIdleConnections()
	})
	return s
}

var stopping = &bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge is shutting down"}

func (s *site) dial(header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(s.t.Context(), "ws://bridge/rpc", &websocket.DialOptions{HTTPClient: s.client, HTTPHeader: header, Subprotocols: protocols})
}

// socket connects, and closes at the end of the test.
func (s *site) socket() *websocket.Conn {
	s.t.Helper()
	ws, _, err := s.dial(nil) //nolint:bodyclose // the library closes it
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func say(t *testing.T, ws *websocket.Conn, message string) {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	_, message, err := ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

// closedWith returns the code with which the other side closes, after what it
// still has to say.
func closedWith(t *testing.T, ws *websocket.Conn) websocket.StatusCode {
	t.Helper()
	for {
		if _, _, err := ws.Read(t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func TestWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws := serve(t, New(&fake{}, Options{})).socket()
		say(t, ws, ask("1", "a"))
		if got := hear(t, ws); outcomes(t, []string{got}) != "1: 0" {
			t.Errorf("got %s", got)
		}
		say(t, ws, `{"jsonrpc":"2.0","id":2,"method":"mcp.shell.run","params":{"cmd":"x"}}`)
		if got := hear(t, ws); !strings.Contains(got, `"method":"bridge.progress"`) {
			t.Errorf("got %s", got)
		}
		hear(t, ws)
		if got := hear(t, ws); outcomes(t, []string{got}) != "2: 0" {
			t.Errorf("got %s", got)
		}
		// Silence is nothing bad, as long as the client lives.
		reading := ws.CloseRead(t.Context())
		time.Sleep(time.Hour)
		if reading.Err() != nil {
			t.Error("the idle connection was closed")
		}
	})
}

func TestWhoMayConnect(t *testing.T) {
	header := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Add(kv[i], kv[i+1])
		}
		return h
	}
	admitted := func(r *http.Request) bool { return r.Header.Get("X-Seen") != "" }
	for _, tt := range []struct {
		name      string
		opts      Options
		header    http.Header
		protocols []string
		status    int
		agreed    string
	}{
		{"no token needed", Options{}, nil, nil, 101, ""},
		{"a token that is not needed", Options{}, header("Authorization", "Bearer x"), nil, 101, ""},
		{"no token", Options{Token: "secret"}, nil, nil, 401, ""},
		{"wrong token", Options{Token: "secret"}, header("Authorization", "Bearer secrex"), nil, 401, ""},
		{"wrong scheme", Options{Token: "secret"}, header("Authorization", "Basic secret"), nil, 401, ""},
		{"in a header", Options{Token: "secret"}, header("Authorization", "bearer secret"), nil, 101, ""},
		{"as a sub-protocol", Options{Token: "secret"}, nil, []string{"bearer.secret"}, 101, "bearer.secret"},
		{"beside another", Options{Token: "secret"}, nil, []string{"bearer.secret", "jsonrpc"}, 101, "jsonrpc"},
		{"wrong sub-protocol", Options{Token: "secret"}, nil, []string{"bearer.secrex", "jsonrpc"}, 401, ""},
		{"empty", Options{Token: "secret"}, nil, []string{"bearer."}, 401, ""},
		{"another sub-protocol", Options{}, nil, []string{"graphql-ws"}, 101, ""},
		{"seen by the front", Options{Token: "secret", Admitted: admitted}, header("X-Seen", "1"), nil, 101, ""},
		{"not seen by the front", Options{Token: "secret", Admitted: admitted}, nil, nil, 401, ""},
		{"not seen by the front, but here", Options{Token: "secret", Admitted: admitted}, nil, []string{"bearer.secret"}, 101, "bearer.secret"},
		{"a web page", Options{}, header("Origin", "https://example.com"), nil, 403, ""},
		{"a web page of ours", Options{}, header("Origin", "http://bridge"), nil, 403, ""},
		{"a web page from nowhere", Options{}, header("Origin", "null"), nil, 403, ""},
		{"a web page with a token", Options{Token: "secret"}, header("Origin", "http://bridge", "Authorization", "Bearer secret"), nil, 403, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws, resp, err := serve(t, New(&fake{}, tt.opts)).dial(tt.header, tt.protocols...) //nolint:bodyclose // the library closes it
				if resp == nil || resp.StatusCode != tt.status || (err == nil) != (tt.status == 101) {
					t.Fatalf("response %v, error %v; want %d", resp, err, tt.status)
				}
				if err != nil {
					var body response
					if json.NewDecoder(resp.Body).Decode(&body) != nil || body.Error == nil || body.Error.Message == "" {
						t.Errorf("no reason: %v", body)
					}
					return
				}
				if ws.Subprotocol() != tt.agreed {
					t.Errorf("sub-protocol %q, want %q", ws.Subprotocol(), tt.agreed)
				}
				say(t, ws, ask("1", "a"))
				hear(t, ws)
				if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWhatIsNoMessage(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind websocket.MessageType
		data []byte
		want websocket.StatusCode
	}{
		{"binary", websocket.MessageBinary, []byte(ask("1", "a")), websocket.StatusUnsupportedData},
		{"not UTF-8", websocket.MessageText, []byte("\"\xff\""), websocket.StatusInvalidFramePayloadData},
		{"too large", websocket.MessageText, bytes.Repeat([]byte(" "), 1001), websocket.StatusMessageTooBig},
		{"far too large", websocket.MessageText, bytes.Repeat([]byte(" "), 1<<20), websocket.StatusMessageTooBig},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws := serve(t, New(&fake{}, Options{MaxMessage: 1000})).socket()
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					_ = ws.Write(t.Context(), tt.kind, tt.data) // it may be cut
				}()
				if got := closedWith(t, ws); got != tt.want {
					t.Errorf("closed with %v, want %v", got, tt.want)
				}
				<-wrote
			})
		})
	}
	t.Run("just fits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ws := serve(t, New(&fake{}, Options{MaxMessage: 1000})).socket()
			say(t, ws, ask("1", "a")+strings.Repeat(" ", 1000-len(ask("1", "a"))))
			if got := hear(t, ws); outcomes(t, []string{got}) != "1: 0" {
				t.Errorf("got %s", got)
			}
		})
	})
}

func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, New(&fake{}, Options{MaxConnections: 2}))
		first := s.socket()
		s.socket()
		if _, resp, err := s.dial(nil); err == nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" { //nolint:bodyclose // the library closes it
			t.Errorf("response %v, error %v", resp, err)
		}
		if err := first.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		say(t, s.socket(), ask("1", "a"))
	})
}

// A client that leaves takes its calls with it.
func TestLeaving(t *testing.T) {
	for name, leave := range map[string]func(*websocket.Conn){
		"politely": func(ws *websocket.Conn) { _ = ws.Close(websocket.StatusNormalClosure, "") },
		"at once":  func(ws *websocket.Conn) { _ = ws.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, started, _ := blocked()
				s := serve(t, New(f, Options{}))
				ws := s.socket()
				say(t, ws, ask("1", "a"))
				<-started
				leave(ws)
				s.gone.Wait() // the call has ended
			})
		})
	}
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, started, _ := blocked()
		s := serve(t, New(f, Options{}))
		busy, idle := s.socket(), s.socket()
		say(t, busy, ask("1", "a"))
		<-started
		s.stop(stopping)
		if got := hear(t, busy); outcomes(t, []string{got}) != "1: -32015" || !strings.Contains(got, stopping.Message) {
			t.Errorf("got %s", got)
		}
		for _, ws := range []*websocket.Conn{busy, idle} {
			if got := closedWith(t, ws); got != websocket.StatusGoingAway {
				t.Errorf("closed with %v", got)
			}
		}
		s.gone.Wait()
	})
}

// Neither a call that does not end nor a client that does not answer holds up
// the other.
func TestStubbornShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		started := make(chan struct{})
		f := &fake{read: func(context.Context, string) (files.Content, error) {
			close(started)
			<-release
			return files.Content{}, nil
		}}
		s := serve(t, New(f, Options{}))
		ws := s.socket()
		s.socket() // never reads
		say(t, ws, ask("1", "a"))
		<-started
		began := time.Now()
		s.stop(stopping)
		if got := closedWith(t, ws); got != websocket.StatusGoingAway {
			t.Errorf("closed with %v", got)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
		s.gone.Wait()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A client that does not read its large answers does not pile them up: the usual
// bound of running calls holds.
func TestUnreadAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		f := &fake{read: func(context.Context, string) (files.Content, error) {
			reads.Add(1)
			return files.Content{Content: strings.Repeat("x", 1<<20)}, nil
		}}
		ws := serve(t, New(f, Options{MaxConcurrent: 4})).socket()
		for i := range 100 {
			say(t, ws, ask(fmt.Sprint(i), "a"))
		}
		synctest.Wait()
		if n := reads.Load(); n != 4 {
			t.Errorf("%d answers wait", n)
		}
	})
}

// There is one bound for the hits that all calls hold together.
func TestHeldHits(t *testing.T) {
	d := newDoor(&fake{}, Options{})
	c := d.connect(t.Context(), &kept{})
	defer c.end(nil)
	first, second := &call{conn: c, cancel: func(error) {}}, &call{conn: c, cancel: func(error) {}}
	if !first.holds(maxFoundAll-1) || second.holds(2) || !second.holds(1) {
		t.Error("the bound does not hold")
	}
	c.dismiss(first)
	if !second.holds(maxFoundAll - 1) {
		t.Error("nothing was given back")
	}
}

// A client that does not read is cut, and holds up no command for longer.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		f := &fake{shell: func(ctx context.Context, _ string, progress Progress) (task.Result, error) {
			for ctx.Err() == nil {
				progress("stdout", "y\n")
			}
			ended <- time.Now()
			return task.Result{}, ctx.Err()
		}}
		s := serve(t, New(f, Options{}))
		ws := s.socket()
		say(t, ws, `{"jsonrpc":"2.0","id":1,"method":"mcp.shell.run","params":{"cmd":"yes"}}`)
		began := time.Now()
		if took := (<-ended).Sub(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("cut after %v", took)
		}
		s.gone.Wait()
	})
}

// One that reads slowly, but reads, is not.
func TestFarClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{shell: func(_ context.Context, _ string, progress Progress) (task.Result, error) {
			for i := range 200 {
				progress("stdout", fmt.Sprint(i))
			}
			return task.Result{}, nil
		}}
		ws := serve(t, New(f, Options{PingInterval: time.Hour})).socket()
		say(t, ws, `{"jsonrpc":"2.0","id":1,"method":"mcp.shell.run","params":{"cmd":"yes"}}`)
		for i := range 200 {
			if got := hear(t, ws); !strings.Contains(got, fmt.Sprintf(`"text":"%d"`, i)) {
				t.Fatalf("got %s", got)
			}
			time.Sleep(9 * time.Second)
		}
		if got := hear(t, ws); outcomes(t, []string{got}) != "1: 0" {
			t.Errorf("got %s", got)
		}
	})
}

// One that vanished without a word is found out by a ping.
func TestVanishedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, started, _ := blocked()
		s := serve(t, New(f, Options{}))
		ws := s.socket()
		say(t, ws, ask("1", "a"))
		<-started
		began := time.Now()
		s.gone.Wait() // nobody reads, so no ping is answered
		if took := time.Since(began); took < 30*time.Second || took > time.Minute {
			t.Errorf("found out after %v", took)
		}
	})
}

func TestHTTP(t *testing.T) {
	h := New(&fake{}, Options{MaxMessage: 1000, Hub: &Hub{}})
	for _, tt := range []struct {
		name, method, kind, body string
		status                   int
		want                     string
	}{
		{"a request", "POST", "application/json", ask("1", "a"), 200, "1: 0"},
		{"with a charset", "POST", "application/json; charset=utf-8", ask("1", "a"), 200, "1: 0"},
		{"a batch", "POST", "application/json", "[" + ask("1", "a") + "," + ask("2", "a") + "]", 200, "1: 0, 2: 0"},
		{"a notification", "POST", "application/json", `{"jsonrpc":"2.0","method":"bridge.status"}`, 204, ""},
		{"without progress", "POST", "application/json", `{"jsonrpc":"2.0","id":1,"method":"mcp.shell.run","params":{"cmd":"x"}}`, 200, "1: 0"},
		{"no subscriptions", "POST", "application/json", `{"jsonrpc":"2.0","id":1,"method":"bridge.approvals.subscribe"}`, 200, "1: -32013"},
		{"not JSON", "POST", "application/json", `{`, 200, "null: -32700"},
		{"nothing", "POST", "application/json", ``, 200, "null: -32700"},
		{"another type", "POST", "text/plain", ask("1", "a"), 415, "null: -32602"},
		{"no type", "POST", "", ask("1", "a"), 415, "null: -32602"},
		{"too large", "POST", "application/json", strings.Repeat(" ", 1001), 413, "null: -32602"},
		{"not a WebSocket", "GET", "", "", 426, "null: -32602"},
		{"another method", "DELETE", "", "", 405, "null: -32602"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, "/rpc", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var got []string
		if w.Body.Len() > 0 {
			got = append(got, w.Body.String())
		}
		if w.Code != tt.status || outcomes(t, got) != tt.want {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
}
