package load

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// On SIGTERM the server finishes its answers, streamed or not, in all APIs.
// Meanwhile a new server can listen on the same port.
func TestDrain(t *testing.T) {
	m := newModel(t)
	s := serve(t, m.URL(), m.Key(), "COPILOT_LOG_LEVEL=info")
	v := newCallerFactory(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	begun := make(chan struct{}, 1)
	var asking sync.WaitGroup
	var callers []*caller
	for _, p := range protocols() {
		for _, stream := range []bool{true, false} {
			c := v.newCaller(p)
			callers = append(callers, c)
			c.addUserMessage("real")
			c.asks.stream = stream
			asking.Go(func() {
				r := c.client.ask(ctx, c.proto, &c.asks, func() bool {
					select {
					case begun <- struct{}{}:
					default:
					}
					return true
				})
				r.text = strings.Join(strings.Fields(r.text), " ")
				c.checkAnswer(r)
			})
		}
	}
	for _, c := range callers {
		eventually(t, "the model is asked", func() bool { return m.hasRequest(c.nonce) })
	}
	<-begun
	s.signal(syscall.SIGTERM)
	addr := strings.TrimPrefix(s.url, "http://")
	eventually(t, "the port is closed", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	next := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_PORT="+port)
	c := newCallerFactory(t, next).newCaller(completions{})
	c.converse(ctx, 1)
	checkCaller(t, c)
	asking.Wait()
	for _, c := range callers {
		checkCaller(t, c)
	}
	if code := s.waitExit(patience); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if log := s.errors.String(); !strings.Contains(log, "server.draining") || !strings.Contains(log, "server.drained") {
		t.Errorf("the log says nothing about it:\n%s", log)
	}
}

// An answer that does not finish before the drain timeout ends with an error in
// the format of its API.
func TestDrainTimeout(t *testing.T) {
	m := newModel(t)
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_DRAIN_TIMEOUT=100ms")
	c := newCallerFactory(t, s).newCaller(completions{})
	c.addUserMessage("hang")
	c.asks.stream = true
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	r := c.client.ask(ctx, c.proto, &c.asks, func() bool { s.signal(syscall.SIGTERM); return true })
	if r.broken != nil || !r.ended || r.fault != faults[c.proto.name()].stopping {
		t.Errorf("%q, ended %v, broken by %v: %s", r.fault, r.ended, r.broken, tail(r.raw))
	}
	if code := s.waitExit(patience); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if log := s.errors.String(); !strings.Contains(log, "server.drain_timeout") || !strings.Contains(log, "requests=1") {
		t.Errorf("the log says nothing about it:\n%s", log)
	}
}

// A second signal ends the server and its child processes at once.
func TestSecondSignal(t *testing.T) {
	m := newModel(t)
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_DRAIN_TIMEOUT=1h", "COPILOT_LOG_LEVEL=info")
	c := newCallerFactory(t, s).newCaller(completions{})
	c.addUserMessage("hang")
	c.asks.stream = true
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	r := c.client.ask(ctx, c.proto, &c.asks, func() bool {
		s.signal(syscall.SIGTERM)
		eventually(t, "it drains", func() bool { return strings.Contains(s.errors.String(), "server.draining") })
		s.signal(syscall.SIGTERM)
		return true
	})
	if r.ended {
		t.Errorf("the answer was completed: %s", tail(r.raw))
	}
	if code := s.waitExit(patience); code != 130 {
		t.Errorf("it ended with %d", code)
	}
	s.waitNoProcesses()
}

// No request fails during restarts if its client retries refused connections
// and status 503: answers in progress are completed.
func TestRestarts(t *testing.T) {
	const restarts = 4
	m := newModel(t)
	s := serve(t, m.URL(), m.Key())
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	v := newCallerFactory(t, s)
	done := make(chan struct{})
	var asking sync.WaitGroup
	var callers []*caller
	answered := make(chan struct{}, 1)
	for i := range 6 {
		c := v.newCaller(protocols()[i%3])
		callers = append(callers, c)
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c.addUserMessage("slow")
				c.asks.stream = i < 3
				r := c.client.ask(ctx, c.proto, &c.asks, nil)
				for r.status == 0 || r.status == 503 { // not started yet, or shutting down
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
						c.failf("the server did not come back")
						return
					}
					r = c.client.ask(ctx, c.proto, &c.asks, nil)
				}
				if !c.checkAnswer(r) {
					return
				}
				select {
				case answered <- struct{}{}:
				default:
				}
				c.asks.messages = append(c.asks.messages, message{role: "assistant", text: r.text})
			}
		})
	}
	for range restarts {
		for range 10 {
			select {
			case <-answered:
			case <-ctx.Done():
				t.Fatal("no more answers arrive")
			}
		}
		s.signal(syscall.SIGTERM)
		if code := s.waitExit(patience); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		s = serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_PORT="+port)
	}
	close(done)
	asking.Wait()
	total := 0
	for _, c := range callers {
		checkCaller(t, c)
		total += c.right
	}
	t.Logf("%d answers over %d restarts", total, restarts)
}
