package openai

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const helloStream = `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"stream":true}`

// host is a real HTTP server on pipes, so that time can be faked.
type host struct {
	conns chan net.Conn
	once  sync.Once
	end   context.CancelCauseFunc // of every request
}

func (h *host) Accept() (net.Conn, error) {
	c, ok := <-h.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (h *host) Close() error   { h.once.Do(func() { close(h.conns) }); return nil }
func (h *host) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func serve(t *testing.T, d *door) *host {
	t.Helper()
	ctx, end := context.WithCancelCause(context.Background())
	h := &host{conns: make(chan net.Conn), end: end}
	srv := &http.Server{Handler: d.mux(), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: time.Minute}
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Serve(h) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		end(nil)
	})
	return h
}

// ask sends a chat request on a new connection.
func (h *host) ask(t *testing.T, body string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	h.conns <- server
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body))
	if err := r.Write(client); err != nil {
		t.Fatal(err)
	}
	return client
}

// silent is an Answer that says hello if it is told to, and then waits until it is aborted.
func silent(hello bool) (*script, <-chan time.Time) {
	ended := make(chan time.Time, 1)
	return &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		defer func() { ended <- time.Now() }()
		if hello && !yield(bridge.TextDelta{Message: "m", Text: "hello"}, nil) {
			return
		}
		<-ctx.Done()
		yield(nil, ctx.Err())
	}}, ended
}

func readUntil(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%q did not come: %v", text, err)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

func TestHangUpAbortsTheTurn(t *testing.T) {
	for _, body := range []string{hello, helloStream} {
		synctest.Test(t, func(t *testing.T) {
			svc, ended := silent(true)
			conn := serve(t, fixed(svc)).ask(t, body)
			if body == helloStream {
				readUntil(t, bufio.NewReader(conn), `"hello"`)
			} else {
				synctest.Wait()
			}
			start := time.Now()
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			if d := (<-ended).Sub(start); d > 200*time.Millisecond {
				t.Errorf("aborted only after %v", d)
			}
		})
	}
}

func TestSlowClientIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		svc := &script{list: testModels(), answer: func(_ context.Context, yield func(bridge.Event, error) bool) {
			defer close(ended)
			for yield(bridge.TextDelta{Message: "m", Text: "more and more"}, nil) {
			}
		}}
		serve(t, fixed(svc)).ask(t, helloStream) // and never reads
		start := time.Now()
		<-ended
		if d := time.Since(start); d < 10*time.Second || d > time.Minute {
			t.Errorf("cut after %v", d)
		}
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			wait(ctx, 35*time.Second)
			if !yield(bridge.TextDelta{Message: "m", Text: "at last"}, nil) {
				return
			}
			wait(ctx, 15*time.Second)
			yield(nil, &bridge.Error{Code: bridge.CodeTimeout, Message: "silent"})
		}}
		status, got := answerOf(t, serve(t, fixed(svc)).ask(t, helloStream))
		if status != http.StatusOK || strings.Count(got, ": keep-alive\n\n") != 3 { // after 20, 30, and 10 more
			t.Errorf("got %d %s", status, got)
		}
		if !strings.HasSuffix(got, `"code":"timeout"}}`+"\n\ndata: [DONE]\n\n") {
			t.Errorf("got %s", got)
		}
	})
}

// The runtime tries for 15 s; the error after that still has its status.
func TestLateErrorBeforeTheFirstWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			if !yield(bridge.ModelCalled{}, nil) {
				return
			}
			wait(ctx, 15*time.Second)
			yield(nil, &bridge.Error{Code: bridge.CodeProvider, Status: 500, Message: "the model failed"})
		}}
		status, got := answerOf(t, serve(t, fixed(svc)).ask(t, helloStream))
		if status != http.StatusServiceUnavailable || !strings.Contains(got, "copilot_unavailable") {
			t.Errorf("got %d %s", status, got)
		}
	})
}

// When the server stops, streams end with words, not with a broken connection.
func TestServerStops(t *testing.T) {
	stopping := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the server stops"}
	for _, c := range []struct {
		name, body string
		begun      bool
		status     int
	}{
		{"in a stream", helloStream, true, 200},
		{"before a stream", helloStream, false, 503},
		{"before a whole answer", hello, true, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc, _ := silent(c.begun)
				h := serve(t, fixed(svc))
				conn := h.ask(t, c.body)
				time.AfterFunc(time.Second, func() { h.end(stopping) })
				status, text := answerOf(t, conn)
				if status != c.status || !strings.Contains(text, "the server stops") {
					t.Errorf("got %d %s", status, text)
				}
				if c.status == 200 && !strings.HasSuffix(text, "\n\ndata: [DONE]\n\n") {
					t.Errorf("got %s", text)
				}
			})
		})
	}
}

// A turn that waits for the client's tools must outlive the request.
func TestLastEventDoesNotAbort(t *testing.T) {
	for _, body := range []string{hello, helloStream} {
		synctest.Test(t, func(t *testing.T) {
			aborted := make(chan error, 1)
			svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
				yield(bridge.MessageDone{Message: "m", Calls: []bridge.ToolCall{{ID: "c", Name: "f"}}}, nil)
				if !yield(bridge.TurnEnded{Reason: bridge.EndTools}, nil) {
					aborted <- errors.New("left")
					return
				}
				wait(ctx, time.Second)
				aborted <- ctx.Err()
			}}
			_, got := answerOf(t, serve(t, fixed(svc)).ask(t, body))
			if !strings.Contains(got, `"tool_calls"`) {
				t.Errorf("got %s", got)
			}
			if err := <-aborted; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStopSequenceAborts(t *testing.T) {
	for _, stream := range []string{"true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan struct{})
			svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
				defer close(ended)
				if yield(bridge.TextDelta{Message: "m", Text: "hello"}, nil) && yield(bridge.MessageDone{Message: "m", Text: "hello"}, nil) {
					<-ctx.Done() // an agent that goes on
				}
			}}
			_, got := answerOf(t, serve(t, fixed(svc)).ask(t, `{"model":"agent/gpt-5","messages":[{"role":"user","content":"hi"}],"stop":"ll","stream":`+stream+`}`))
			if !strings.Contains(got, `"content":"he"`) || !strings.Contains(got, `"finish_reason":"stop"`) {
				t.Errorf("got %s", got)
			}
			<-ended
		})
	}
}

func TestTurnsThatEndBadly(t *testing.T) {
	for _, c := range []struct {
		events []bridge.Event
		code   int
	}{
		{nil, 500},
		{[]bridge.Event{bridge.TurnEnded{Reason: bridge.EndFailed}}, 500},
		{[]bridge.Event{bridge.TurnEnded{Reason: bridge.EndAborted}}, 499},
	} {
		for _, body := range []string{hello, helloStream} {
			if w := post(t, fixed(plays(nil, c.events...)), "/v1/chat/completions", body); w.Code != c.code {
				t.Errorf("%v: got %d %s", c.events, w.Code, w.Body)
			}
		}
	}
}

// gate is a client that takes nothing until it is opened, and counts.
type gate struct {
	*httptest.ResponseRecorder
	first   sync.Once
	opened  chan struct{}
	flushes int
}

func (g *gate) Flush() {
	g.first.Do(func() { <-g.opened })
	g.flushes++
	g.ResponseRecorder.Flush()
}

// What lies ready is sent together, each delta in its own chunk.
func TestWaitingEventsAreSentTogether(t *testing.T) {
	const n = 40
	g := &gate{ResponseRecorder: httptest.NewRecorder(), opened: make(chan struct{})}
	svc := &script{list: testModels(), answer: func(_ context.Context, yield func(bridge.Event, error) bool) {
		for range n {
			if !yield(bridge.TextDelta{Message: "m", Text: "x"}, nil) {
				return
			}
		}
		yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
		close(g.opened)
	}}
	fixed(svc).mux().ServeHTTP(g, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(helloStream)))
	if got := strings.Count(g.Body.String(), `"content":"x"`); got != n || g.flushes > 2 {
		t.Errorf("got %d chunks in %d flushes", got, g.flushes)
	}
}

// wait lets time pass unless the turn is aborted.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// answerOf reads a whole answer.
func answerOf(t *testing.T, conn net.Conn) (status int, text string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(body)
}
