package front

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
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

func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, Options{DrainTimeout: 50 * time.Millisecond, Doors: map[string]http.Handler{
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
	r.drain(stopping())
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
