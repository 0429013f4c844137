package load

import (
	"context"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// busy starts a server with a request of each kind on its way, clients that do
// not come to the point, calls that wait for theirs, and conversations that
// are held. What becomes of the requests is sent to the channel.
func busy(t *testing.T) (s *server, requests int, ends <-chan ending) {
	t.Helper()
	m := newModel(t)
	s = serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=6")
	v := newVisitors(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	for range 3 {
		for _, p := range protocols() {
			c := v.next(p)
			c.talk(ctx, 1)
			c.call(ctx)
			told(t, c)
		}
	}
	out := make(chan ending)
	begun := make(chan struct{})
	for _, p := range protocols() {
		for _, stream := range []bool{true, false} {
			c := v.next(p)
			c.says("hang")
			var onText func() bool
			if stream {
				onText = func() bool { begun <- struct{}{}; return true }
			}
			c.asks.stream = stream
			go func() { out <- ending{c.proto, stream, c.client.ask(ctx, c.proto, &c.asks, onText)} }()
			if stream {
				<-begun
				continue
			}
			eventually(t, "the model is asked", func() bool { return m.heard(c.nonce) })
		}
	}
	for _, said := range []string{"", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"} {
		linger(t, s, said)
	}
	// All places are taken: this one has to wait.
	c := v.next(completions{})
	c.says("echo")
	before := s.inFlight()
	go func() { out <- ending{c.proto, false, c.client.ask(ctx, c.proto, &c.asks, nil)} }()
	eventually(t, "one more request is there", func() bool { return s.inFlight() > before })
	return s, 7, out
}

// linger is a client that says so much and no more.
func linger(t *testing.T, s *server, said string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(said)); err != nil {
		t.Fatal(err)
	}
}

type ending struct {
	proto  protocol
	stream bool
	*reply
}

// A server that is told to stop ends what runs with an error of the API's own
// form, and leaves nothing.
func TestShutdown(t *testing.T) {
	s, requests, ends := busy(t)
	began := time.Now()
	s.signal(syscall.SIGTERM)
	for range requests {
		e := <-ends
		want := http.StatusServiceUnavailable
		if e.stream {
			want = http.StatusOK
		}
		if e.broken != nil || e.status != want || e.fault != faults[e.proto.name()].stopping || !e.ended {
			t.Errorf("%s, streaming %v: %d %q, ended %v, broken by %v: %s", e.proto.name(), e.stream, e.status, e.fault, e.ended, e.broken, tail(e.raw))
		}
	}
	t.Logf("the requests ended after %s", time.Since(began).Round(time.Millisecond))
	if code := s.ended(patience); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("the server ended after %s", took)
	if took > shutdownWithin {
		t.Errorf("it took %s to end", took)
	}
	if conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), time.Second); err == nil {
		_ = conn.Close()
		t.Error("somebody still listens")
	}
	s.alone()
}

// A server that is killed takes everything below it along.
func TestKilled(t *testing.T) {
	s, requests, ends := busy(t)
	if len(s.tree()) == 0 {
		t.Fatal("nothing runs below the server")
	}
	s.signal(syscall.SIGKILL)
	for range requests {
		if e := <-ends; e.broken == nil && (!e.stream || e.status != http.StatusOK || e.ended) {
			t.Errorf("%s: %d %q came to an end", e.proto.name(), e.status, e.text)
		}
	}
	if code := s.ended(patience); code != -1 {
		t.Errorf("it ended with %d", code)
	}
	s.alone()
}
