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

// busy starts a server with a request of each kind in progress, clients that
// never finish their request, pending tool calls and stored conversations. The
// results of the requests are sent to the channel.
func busy(t *testing.T) (s *server, requests int, ends <-chan ending) {
	t.Helper()
	m := newModel(t)
	s = serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=6", "COPILOT_BRIDGE_DRAIN_TIMEOUT=0")
	v := newCallerFactory(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	for range 3 {
		for _, p := range protocols() {
			c := v.newCaller(p)
			c.converse(ctx, 1)
			c.call(ctx)
			checkCaller(t, c)
		}
	}
	out := make(chan ending)
	begun := make(chan struct{})
	for _, p := range protocols() {
		for _, stream := range []bool{true, false} {
			c := v.newCaller(p)
			c.addUserMessage("hang")
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
			eventually(t, "the model is asked", func() bool { return m.hasRequest(c.nonce) })
		}
	}
	for _, data := range []string{"", "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"} {
		sendPartial(t, s, data)
	}
	// All places are taken, so this request waits in the queue.
	c := v.newCaller(completions{})
	c.addUserMessage("echo")
	before := s.inFlight()
	go func() { out <- ending{c.proto, false, c.client.ask(ctx, c.proto, &c.asks, nil)} }()
	eventually(t, "one more request is there", func() bool { return s.inFlight() > before })
	return s, 7, out
}

// sendPartial sends an incomplete request and keeps the connection open.
func sendPartial(t *testing.T, s *server, data string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
}

type ending struct {
	proto  protocol
	stream bool
	*reply
}

// On SIGTERM without a drain timeout, requests in progress end with an error in
// the format of their API, and nothing is left behind.
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
	if code := s.waitExit(patience); code != 0 {
		t.Errorf("it exited with %d", code)
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("the server ended after %s", took)
	if took > shutdownWithin {
		t.Errorf("it took %s to exit", took)
	}
	if conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), time.Second); err == nil {
		_ = conn.Close()
		t.Error("the port still accepts connections")
	}
	s.waitNoProcesses()
}

// When the server is killed, all its child processes end too.
func TestKilled(t *testing.T) {
	s, requests, ends := busy(t)
	if len(s.tree()) == 0 {
		t.Fatal("nothing runs below the server")
	}
	s.signal(syscall.SIGKILL)
	for range requests {
		if e := <-ends; e.broken == nil && (!e.stream || e.status != http.StatusOK || e.ended) {
			t.Errorf("%s: %d %q was completed", e.proto.name(), e.status, e.text)
		}
	}
	if code := s.waitExit(patience); code != -1 {
		t.Errorf("it exited with %d", code)
	}
	s.waitNoProcesses()
}
