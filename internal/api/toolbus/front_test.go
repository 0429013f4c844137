package toolbus

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
)

// Behind the front, which hijacking, its checks and its shutdown all concern.
func TestBehindTheFront(t *testing.T) {
	f, started, release := blocked()
	h := New(f, Options{})
	s, err := httpserver.Listen(t.Context(), httpserver.Options{Token: "secret", Doors: map[string]http.Handler{"GET /rpc": h, "POST /rpc": h}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	if _, err := Dial(t.Context(), Dialing{URL: s.URL()}); bridge.CodeOf(err) != bridge.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
	c, err := Dial(t.Context(), Dialing{URL: s.URL(), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make(chan error)
	call := func() {
		_, err := c.Call(t.Context(), "mcp.fs.read", ReadParams{Path: "a"}, nil)
		got <- err
	}
	go call()
	<-started
	release <- struct{}{}
	if err := <-got; err != nil {
		t.Error(err)
	}
	ws, _, err := websocket.Dial(t.Context(), s.URL()+"/rpc", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer secret"}}}) //nolint:bodyclose // the library closes it
	if err != nil {
		t.Fatal(err)
	}
	go call()
	<-started
	stop()
	if err := <-got; bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Errorf("at the end: %v", err)
	}
	if code := closedWith(t, ws); code != websocket.StatusGoingAway {
		t.Errorf("closed with %v", code)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// While the bridge drains, running calls are answered, and connections are
// closed once nothing runs on them.
func TestDrain(t *testing.T) {
	f, started, release := blocked()
	h := New(f, Options{})
	s, err := httpserver.Listen(t.Context(), httpserver.Options{Token: "secret", DrainTimeout: time.Hour, Doors: map[string]http.Handler{"GET /rpc": h}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	dial := func() *websocket.Conn {
		ws, _, err := websocket.Dial(t.Context(), s.URL()+"/rpc", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer secret"}}}) //nolint:bodyclose // the library closes it
		if err != nil {
			t.Fatal(err)
		}
		return ws
	}
	busy, idle := dial(), dial()
	say(t, busy, ask("1", "a"))
	<-started
	stop()
	if code := closedWith(t, idle); code != websocket.StatusGoingAway {
		t.Errorf("closed with %v", code)
	}
	close(release)
	if got := outcomes(t, []string{hear(t, busy)}); got != "1: 0" {
		t.Errorf("got %s", got)
	}
	if code := closedWith(t, busy); code != websocket.StatusGoingAway {
		t.Errorf("closed with %v", code)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}
