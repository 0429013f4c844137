package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// closeWrite ends the client's side of the connection.
func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		t.Fatalf("%T cannot be closed by half", c)
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// flood opens connections that each send some bytes and then stop.
func (r *running) flood(t *testing.T, n int, said string) []net.Conn {
	t.Helper()
	var all []net.Conn
	for range n {
		conn := r.dial(t)
		if _, err := io.WriteString(conn, said); err != nil && said == "" {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	return all
}

// Clients without the token cannot take all connections.
func TestIdleConnectionsGiveWay(t *testing.T) {
	floods := map[string]string{
		"silent":       "",
		"slow headers": "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"slow bodies":  "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"refused":      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n",
		"open paths":   "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	}
	for name, said := range floods {
		t.Run(name, func(t *testing.T) {
			r := start(t, Options{Token: "right", Doors: map[string]http.Handler{"GET /v1/models": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}})
			auth := map[string]string{"Authorization": "Bearer right"}
			if got := r.do(t, http.MethodGet, "/v1/models", auth, ""); got.status != 200 {
				t.Fatalf("before: %d", got.status)
			}
			kept := r.dial(t)
			ask := func(c net.Conn) {
				t.Helper()
				if _, err := io.WriteString(c, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if err := c.SetReadDeadline(time.Now().Add(patient)); err != nil {
					t.Fatal(err)
				}
				if status, body := readAnswer(t, c); status != 200 {
					t.Errorf("%d %s", status, body)
				}
			}
			ask(kept)
			r.flood(t, 1300, said)
			began := time.Now()
			ask(r.dial(t))                                 // somebody new
			ask(kept)                                      // and somebody who rested meanwhile
			if took := time.Since(began); took > 5*grace { // not as long as the flood lasts
				t.Errorf("answered after %s", took)
			}
			if open := r.listener.open(); open > 1024 {
				t.Errorf("%v connections", open)
			}
		})
	}
}

// Known connections with a request under way are never cut, and fill every
// place if need be; who rests between requests gives way.
func TestBusyConnectionsStay(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 8)
	r := start(t, Options{MaxConnections: 4, Token: "right", Doors: map[string]http.Handler{
		"GET /stream": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "begun ")
			_ = http.NewResponseController(w).Flush()
			entered <- struct{}{}
			<-release
			_, _ = io.WriteString(w, "ended")
		}),
		"GET /quick": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}})
	send := func(path string) net.Conn {
		c := r.dial(t)
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: right\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var streams []net.Conn
	for range 3 {
		streams = append(streams, send("/stream"))
		<-entered
	}
	resting := send("/quick")
	if status, _ := readAnswer(t, resting); status != 200 {
		t.Fatalf("quick: %d", status)
	}
	streams = append(streams, send("/stream")) // in the place of the one that rests
	<-entered
	if _, err := resting.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("the one that rested: %v", err)
	}
	r.flood(t, 3, "")
	waiting := send("/quick")
	close(release)
	for i, c := range streams {
		if status, body := readAnswer(t, c); status != 200 || body != "begun ended" {
			t.Errorf("stream %d: %d %q", i, status, body)
		}
	}
	if status, _ := readAnswer(t, waiting); status != 200 {
		t.Errorf("the one that waited: %d", status)
	}
}

// A WebSocket that was opened with the token stays, whatever comes.
func TestHijackedConnectionsStay(t *testing.T) {
	known := make(chan struct{})
	r := start(t, Options{MaxConnections: 4, Token: "right", Doors: map[string]http.Handler{
		"GET /rpc": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			close(known)
			_, _ = io.Copy(rw, rw) // echo until the client goes
			_ = rw.Flush()
		}),
	}})
	ws := r.dial(t)
	if _, err := io.WriteString(ws, "GET /rpc HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: right\r\n\r\nfirst"); err != nil {
		t.Fatal(err)
	}
	<-known // before that it is a newcomer like any other
	r.flood(t, 20, "")
	if _, err := io.WriteString(ws, "last"); err != nil {
		t.Fatal(err)
	}
	closeWrite(t, ws)
	if all, err := io.ReadAll(ws); err != nil || string(all) != "firstlast" {
		t.Errorf("%q %v", all, err)
	}
}

// Close wakes an Accept that waits for a place.
func TestCloseWakesAccept(t *testing.T) {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	l := limit(tcp, 1)
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p, ok := first.(*placed)
	if !ok {
		t.Fatalf("%T has no place", first)
	}
	p.prove()
	p.begin()
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		waiting <- err
	}()
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
	for range 2 {
		_ = first.Close() // twice frees one place, not two
	}
	if l.open() != 0 || l.known != 0 {
		t.Errorf("%v open, %d known", l.open(), l.known)
	}
}

func BenchmarkAcceptAtTheLimit(b *testing.B) {
	l := limit(nil, 1024)
	client, server := net.Pipe()
	b.Cleanup(func() { _ = errors.Join(client.Close(), server.Close()) })
	for b.Loop() {
		l.admit(&placed{Conn: server, all: l, leave: func() {}})
	}
}

// A burst of new connections does not cost any of them its place before its
// request could arrive: the last wait for the first instead.
func TestNewcomersKeepTheirPlaces(t *testing.T) {
	r := start(t, Options{MaxConnections: 8, Token: "right", Doors: map[string]http.Handler{"GET /quick": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}})
	conns := r.flood(t, 20, "")
	for i, c := range conns {
		if _, err := io.WriteString(c, "GET /quick HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: right\r\n\r\n"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if status, _ := readAnswer(t, c); status != 200 {
			t.Errorf("connection %d: %d", i, status)
		}
	}
}
