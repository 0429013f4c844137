package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// goodbye streams until its context ends, and then says why.
func goodbye(w http.ResponseWriter, r *http.Request) {
	s := wire.NewStream(w, r)
	if s.Event("hello", 1) != nil {
		return
	}
	<-r.Context().Done()
	e := bridge.AsError(context.Cause(r.Context()))
	if s.Event("error", map[string]any{"code": e.Code, "message": e.Message}) != nil {
		return
	}
	_ = s.Data("[DONE]")
}

func TestShutdownEndsStreamsCleanly(t *testing.T) {
	r := start(t, Options{Doors: map[string]http.Handler{"POST /stream": http.HandlerFunc(goodbye)}})
	const streams = 8
	var clients sync.WaitGroup
	begun := make(chan struct{}, streams)
	for range streams {
		clients.Go(func() {
			resp, err := r.client.Post(r.URL()+"/stream", "application/json", strings.NewReader("{}"))
			begun <- struct{}{} // headers come with the first event
			if err != nil {
				t.Error(err)
				return
			}
			data, err := io.ReadAll(resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err != nil {
				t.Errorf("the stream broke: %v", err)
			}
			want := "event: hello\ndata: 1\n\nevent: error\ndata: {\"code\":\"unavailable\",\"message\":\"the bridge is shutting down\"}\n\ndata: [DONE]\n\n"
			if string(data) != want {
				t.Errorf("read %q", data)
			}
		})
	}
	for range streams {
		<-begun
	}
	if err := r.finish(t); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	clients.Wait()
	if _, err := r.client.Get(r.URL() + "/healthz"); err == nil { //nolint:bodyclose // there is no answer
		t.Error("still accepts connections")
	}
}

// Running requests may finish. Meanwhile new ones are refused, the handlers
// know, and the connections are not used again.
func TestDrain(t *testing.T) {
	entered, draining, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r := start(t, Options{DrainTimeout: patient, Doors: map[string]http.Handler{
		"GET /wait": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-wire.Draining(r.Context()).Done()
			close(draining)
			<-release
			if err := r.Context().Err(); err != nil {
				t.Errorf("the request was ended: %v", err)
			}
			wire.JSON(w, http.StatusOK, "done")
		}),
	}})
	rests := r.dial(t)
	if _, err := io.WriteString(rests, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if status, _ := readAnswer(t, rests); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	waits := r.dial(t)
	if _, err := io.WriteString(waits, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	r.stop()
	<-draining
	if _, err := io.ReadAll(rests); err != nil {
		t.Errorf("a connection that rests: %v", err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://")); err == nil {
		t.Error("still accepts connections")
	}
	close(release)
	if all, err := io.ReadAll(waits); err != nil || !strings.Contains(string(all), "Connection: close") || !strings.HasSuffix(string(all), `"done"`) {
		t.Errorf("%q, %v", all, err)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// What does not finish in time is told to end.
func TestDrainEnds(t *testing.T) {
	entered := make(chan struct{})
	r := start(t, Options{DrainTimeout: 10 * time.Millisecond, Doors: map[string]http.Handler{
		"GET /stream": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			goodbye(w, r)
		}),
	}})
	got := make(chan answer, 1)
	go func() { got <- r.get(t, "/stream") }()
	<-entered
	if err := r.finish(t); err != nil {
		t.Error(err)
	}
	if a := <-got; !strings.Contains(a.body, "unavailable") || !strings.HasSuffix(a.body, "[DONE]\n\n") {
		t.Errorf("%+v", a)
	}
}

// A client that stops in the middle of its request gets an answer, whether its
// body is read or not, and does not delay the shutdown.
func TestShutdownDoesNotWaitForBodies(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		entered := make(chan struct{})
		r := start(t, Options{Doors: map[string]http.Handler{
			"POST /slow": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				if !wanted {
					<-r.Context().Done()
					wire.JSON(w, http.StatusServiceUnavailable, "stopping")
					return
				}
				var v any
				e := bridge.AsError(wire.Decode(w, r, 1<<20, &v))
				wire.JSON(w, wire.Status(e), e.Message)
			}),
		}})
		conn := r.dial(t)
		if _, err := io.WriteString(conn, "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		<-entered
		began := time.Now()
		if err := r.finish(t); err != nil {
			t.Errorf("wanted %v: Serve returned %v", wanted, err)
		}
		if took := time.Since(began); took > leftover/2 {
			t.Errorf("wanted %v: it took %s", wanted, took)
		}
		if status, body := readAnswer(t, conn); status != http.StatusServiceUnavailable {
			t.Errorf("wanted %v: %d %s", wanted, status, body)
		}
	}
}

// Connections on which nothing, or not all of a header, has come do not hold
// the end up.
func TestShutdownDoesNotWaitForNewcomers(t *testing.T) {
	r := start(t, Options{Doors: map[string]http.Handler{"GET /": echo()}})
	for _, said := range []string{"", "GET / HTTP/1.1\r\nHo"} {
		if _, err := io.WriteString(r.dial(t), said); err != nil {
			t.Fatal(err)
		}
	}
	// One that came later has been answered, so those were accepted.
	if a := r.get(t, "/healthz"); a.status != http.StatusOK {
		t.Errorf("%d", a.status)
	}
	began := time.Now()
	if err := r.finish(t); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, Options{StopTimeout: 50 * time.Millisecond, Doors: map[string]http.Handler{
		"GET /stuck": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-release }),
	}})
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	err := r.finish(t)
	var cut *bridge.Error
	if !errors.As(err, &cut) || cut.Code != bridge.CodeTimeout || !strings.Contains(err.Error(), "1 requests did not end") {
		t.Errorf("error %v", err)
	}
	_, _ = io.ReadAll(conn) // returns, however the connection was closed
	close(release)
}

func TestShutdownWaitsForHijacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		client, r := piped(t, Options{Doors: map[string]http.Handler{
			"GET /socket": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				<-r.Context().Done()
				<-release
				if _, err := io.WriteString(conn, context.Cause(r.Context()).Error()); err != nil {
					t.Error(err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}),
		}})
		if _, err := io.WriteString(client, "GET /socket HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.stop()
		synctest.Wait()
		select {
		case err := <-r.done:
			t.Fatalf("Serve returned %v before the handler", err)
		default:
		}
		close(release)
		if data, err := io.ReadAll(client); err != nil || string(data) != stopping().Error() {
			t.Errorf("%q, %v", data, err)
		}
		if err := <-r.done; err != nil {
			t.Error(err)
		}
	})
}

func TestNotReadyWhileEnding(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, Options{Doors: map[string]http.Handler{
		"GET /wait": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-release }),
	}})
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	r.endRequests(stopping())
	if got := r.get(t, "/readyz"); got.status != 503 || got.body != `{"ready":false,"reason":"the bridge is shutting down"}` {
		t.Errorf("%+v", got)
	}
	if got := r.get(t, "/healthz"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	close(release)
	readAnswer(t, conn)
}

// TestHangUp: a client that leaves ends its request, and only that.
func TestHangUp(t *testing.T) {
	causes := make(chan error, 1)
	r := start(t, Options{Doors: map[string]http.Handler{
		"POST /stream": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			goodbye(w, r)
			causes <- context.Cause(r.Context())
		}),
	}})
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "POST /stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-causes; !errors.Is(err, context.Canceled) {
		t.Errorf("cause %v", err)
	}
}
