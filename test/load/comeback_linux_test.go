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

// faults are the names that the APIs have for what can happen here.
var faults = map[string]struct{ crashed, provider, stopping string }{
	"completions": {"runtime_exited", "provider_error", "copilot_unavailable"},
	"responses":   {"runtime_exited", "provider_error", "copilot_unavailable"},
	"messages":    {"overloaded_error", "api_error", "overloaded_error"},
}

// visitors come one after another, to one server.
type visitors struct {
	s      *server
	client *client
	number int
}

func newVisitors(t *testing.T, s *server) *visitors {
	v := &visitors{s: s, client: newClient(s.url, 16)}
	t.Cleanup(v.client.close)
	return v
}

func (v *visitors) next(p protocol) *caller {
	v.number++
	return &caller{client: v.client, proto: p, rng: rand.New(rand.NewPCG(2, uint64(v.number))), nonce: fmt.Sprintf("nonce-%d-end", v.number)}
}

// told fails the test with what a caller has to complain about.
func told(t *testing.T, c *caller) {
	t.Helper()
	for _, f := range c.fails {
		t.Error(f)
	}
}

// killRuntime kills what Copilot runs in, as if it had crashed.
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

// recovered waits until health says that all is well; it never says that the
// bridge itself is not.
func (s *server) recovered(t *testing.T) {
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

// A runtime that dies takes down the answers that are under way, each with an
// error in the API's own form, and nothing else.
func TestCopilotComesBack(t *testing.T) {
	m := newModel(t)
	r := newRelay(t, m.URL())
	s := serve(t, r.url(), m.Key(), "COPILOT_MAX_RETRIES=0")
	v := newVisitors(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, p := range protocols() {
		want := faults[p.name()]
		t.Run(p.name()+" in the middle of a stream", func(t *testing.T) {
			c := v.next(p)
			c.says("hang")
			got := c.ask(ctx, func() bool { s.killRuntime(t); return true })
			if got.broken != nil || got.status != http.StatusOK || got.text != c.nonce || got.fault != want.crashed || !got.ended {
				t.Errorf("%d %q, then %q, ended %v, broken by %v", got.status, got.text, got.fault, got.ended, got.broken)
			}
			after := v.next(p)
			after.talk(ctx, 2)
			told(t, after)
			s.recovered(t)
		})
		t.Run(p.name()+" before the first word", func(t *testing.T) {
			c := v.next(p)
			c.says("mute")
			done := make(chan *reply, 1)
			go func() { done <- c.ask(ctx, nil) }()
			eventually(t, "the model is asked", func() bool { return m.heard(c.nonce) })
			s.killRuntime(t)
			if got := <-done; got.broken != nil || got.status != http.StatusServiceUnavailable || got.fault != want.crashed {
				t.Errorf("%d %q, broken by %v", got.status, got.fault, got.broken)
			}
			after := v.next(p)
			after.talk(ctx, 1)
			told(t, after)
		})
		t.Run(p.name()+" between two turns", func(t *testing.T) {
			c := v.next(p)
			c.talk(ctx, 1)
			s.killRuntime(t)
			c.talk(ctx, 2)
			told(t, c)
		})
		t.Run(p.name()+" while a tool runs", func(t *testing.T) {
			c := v.next(p)
			got := c.call(ctx)
			s.killRuntime(t)
			eventually(t, "the call is let go", func() bool { return s.counts().parked == 0 })
			if got != nil {
				c.results(got.calls...)
				c.answered(c.ask(ctx, nil))
			}
			told(t, c)
		})
		t.Run(p.name()+" without the model's provider", func(t *testing.T) {
			r.down()
			c := v.next(p)
			c.says("echo")
			if got := c.ask(ctx, nil); got.broken != nil || got.status != http.StatusBadGateway || got.fault != want.provider {
				t.Errorf("%d %q, broken by %v: %s", got.status, got.fault, got.broken, got.raw)
			}
			r.up()
			c.answered(c.ask(ctx, nil))
			told(t, c)
		})
	}
	s.recovered(t)
}
