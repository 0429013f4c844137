package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
)

// faults are the error codes of each API.
var faults = map[string]struct{ crashed, provider, stopping string }{
	"completions": {"runtime_exited", "copilot_unavailable", "copilot_unavailable"},
	"responses":   {"runtime_exited", "copilot_unavailable", "copilot_unavailable"},
	"messages":    {"overloaded_error", "api_error", "overloaded_error"},
}

// callerFactory creates callers for one server.
type callerFactory struct {
	s      *server
	client *client
	number int
}

func newCallerFactory(t *testing.T, s *server) *callerFactory {
	v := &callerFactory{s: s, client: newClient(s.url, 16)}
	t.Cleanup(v.client.close)
	return v
}

func (v *callerFactory) newCaller(p protocol) *caller {
	v.number++
	return &caller{client: v.client, proto: p, rng: rand.New(rand.NewPCG(2, uint64(v.number))), nonce: fmt.Sprintf("nonce-%d-end", v.number)}
}

// checkCaller fails the test if a caller recorded failures.
func checkCaller(t *testing.T, c *caller) {
	t.Helper()
	for _, f := range c.fails {
		t.Error(f)
	}
}

// killRuntime kills the Copilot runtime, which looks like a crash.
func (s *server) killRuntime(t *testing.T) {
	t.Helper()
	pids := s.runtimes()
	if len(pids) == 0 {
		t.Fatalf("no runtime is running: %v", s.tree())
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// waitHealthy waits until the health check is good again. The bridge itself must
// stay healthy all the time.
func (s *server) waitHealthy(t *testing.T) {
	t.Helper()
	eventually(t, "health says that Copilot is there", func() bool {
		status, body, err := s.get("/healthz")
		var h struct {
			OK      bool   `json:"ok"`
			Copilot string `json:"copilot"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(body), &h)
		}
		if err != nil || status != http.StatusOK || !h.OK || h.Copilot != "ok" && h.Copilot != "unavailable" {
			t.Fatalf("health: %d %s, %v", status, body, err)
		}
		return h.Copilot == "ok"
	})
}

// When the runtime dies, only the answers in progress fail, each with an error
// in the format of its API.
func TestCopilotComesBack(t *testing.T) {
	m := newModel(t)
	r := newRelay(t, m.URL())
	s := serve(t, r.url(), m.Key(), "COPILOT_MAX_RETRIES=0")
	v := newCallerFactory(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, p := range protocols() {
		want := faults[p.name()]
		t.Run(p.name()+" in the middle of a stream", func(t *testing.T) {
			c := v.newCaller(p)
			c.addUserMessage("hang")
			got := c.ask(ctx, func() bool { s.killRuntime(t); return true })
			if got.broken != nil || got.status != http.StatusOK || got.text != c.nonce || got.fault != want.crashed || !got.ended {
				t.Errorf("%d %q, then %q, ended %v, broken by %v", got.status, got.text, got.fault, got.ended, got.broken)
			}
			after := v.newCaller(p)
			after.converse(ctx, 2)
			checkCaller(t, after)
			s.waitHealthy(t)
		})
		t.Run(p.name()+" before the first word", func(t *testing.T) {
			c := v.newCaller(p)
			c.addUserMessage("mute")
			done := make(chan *reply, 1)
			go func() { done <- c.ask(ctx, nil) }()
			eventually(t, "the model is asked", func() bool { return m.hasRequest(c.nonce) })
			s.killRuntime(t)
			if got := <-done; got.broken != nil || got.status != http.StatusServiceUnavailable || got.fault != want.crashed {
				t.Errorf("%d %q, broken by %v", got.status, got.fault, got.broken)
			}
			after := v.newCaller(p)
			after.converse(ctx, 1)
			checkCaller(t, after)
		})
		t.Run(p.name()+" between two turns", func(t *testing.T) {
			c := v.newCaller(p)
			c.converse(ctx, 1)
			s.killRuntime(t)
			c.converse(ctx, 2)
			checkCaller(t, c)
		})
		t.Run(p.name()+" while a tool runs", func(t *testing.T) {
			c := v.newCaller(p)
			got := c.call(ctx)
			s.killRuntime(t)
			eventually(t, "the call is let go", func() bool { return s.counts().parked == 0 })
			if got != nil {
				c.addResults(got.calls...)
				c.checkAnswer(c.ask(ctx, nil))
			}
			checkCaller(t, c)
		})
		t.Run(p.name()+" without the model's provider", func(t *testing.T) {
			r.down()
			c := v.newCaller(p)
			c.addUserMessage("echo")
			if got := c.ask(ctx, nil); got.broken != nil || got.status != http.StatusServiceUnavailable || got.fault != want.provider {
				t.Errorf("%d %q, broken by %v: %s", got.status, got.fault, got.broken, got.raw)
			}
			r.up()
			c.checkAnswer(c.ask(ctx, nil))
			checkCaller(t, c)
		})
	}
	s.waitHealthy(t)
}
