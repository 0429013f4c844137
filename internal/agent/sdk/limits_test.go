//go:build unix

package sdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// limitedEngine opens sessions on the real runtime.
func limitedEngine(t *testing.T, limits engine.Limits, change func(*sdk.Options)) (context.Context, func(engine.Request) *engine.Session) {
	t.Helper()
	opts := options(t, model(t))
	if change != nil {
		change(&opts)
	}
	e := engine.New(engine.Options{Agent: sdk.New(opts), Limits: limits})
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	t.Cleanup(func() {
		cancel()
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return ctx, func(r engine.Request) *engine.Session {
		t.Helper()
		r.Door, r.Spec.WorkingDir = "test", t.TempDir()
		s, err := e.Open(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// The provider's words reach the caller: at once where the caller tries again
// by itself, and where it would take longer than a turn may be silent.
func TestRateLimitsAreTold(t *testing.T) {
	t.Parallel()
	ctx, open := limitedEngine(t, engine.Limits{MaxRetries: 3, IdleTimeout: time.Minute}, nil)
	chat, agent := bridge.SessionSpec{Profile: bridge.ProfileChat}, bridge.SessionSpec{Profile: bridge.ProfileAgent, Gate: agenttest.AllowAll()}
	for name, tc := range map[string]struct {
		request engine.Request
		wait    string
		want    time.Duration
	}{
		"a chat":             {engine.Request{Spec: chat, PassRateLimits: true, Ephemeral: true}, "20s", 20 * time.Second},
		"an agent's first":   {engine.Request{Spec: agent, PassRateLimits: true}, "20s", 20 * time.Second},
		"longer than a turn": {engine.Request{Spec: agent}, "2m", 2 * time.Minute},
	} {
		s := open(tc.request)
		began := time.Now()
		o := agenttest.Collect(ctx, s, agenttest.Script("ratelimit "+tc.wait))
		e := bridge.AsError(o.Err)
		if e == nil || e.Code != bridge.CodeRateLimited || e.Status != 429 || e.RetryAfter != tc.want || time.Since(began) > 19*time.Second {
			t.Errorf("%s: after %s %+v", name, time.Since(began), e)
		}
		// The session can be used again.
		if o := agenttest.Collect(ctx, s, agenttest.Say("again")); o.Err != nil || o.Text() != "again" {
			t.Errorf("%s: then %q, %v", name, o.Text(), o.Err)
		}
	}
	// An agent that has worked is not stopped by a short one.
	o := agenttest.Collect(ctx, open(engine.Request{Spec: agent, PassRateLimits: true}), agenttest.Script(
		agenttest.Tool("bash", map[string]any{"command": "echo worked", "description": "x"}), "next", "ratelimit 1s", "once", "text done"))
	if o.Err != nil || o.Text() != "done" || len(agenttest.Find[bridge.ModelFailed](o)) != 1 {
		t.Errorf("an agent that has worked: %q, %v", o.Text(), o.Err)
	}
}

// Turns that wait for a rate limit hold no places, and others in their runtime
// go on.
func TestRateLimitsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	const most = 4
	ctx, open := limitedEngine(t, engine.Limits{MaxRetries: 3, MaxConcurrent: most, QueueLimit: 100}, nil)
	agent := engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent}}
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	limited, ends := make(chan struct{}, 2*most), make(chan error, 2*most)
	for range 2 * most {
		s := open(agent)
		go func() {
			var end error
			for ev, err := range s.Send(waiting, agenttest.Script("ratelimit 100s")) {
				if _, ok := ev.(bridge.ModelFailed); ok {
					limited <- struct{}{}
				}
				end = err
			}
			ends <- end
		}()
	}
	for range 2 * most { // more of them than there are places
		select {
		case <-limited:
		case <-ctx.Done():
			t.Fatal("turns that wait for a rate limit keep others from the model")
		}
	}
	if o := agenttest.Collect(ctx, open(agent), agenttest.Say("healthy")); o.Err != nil || o.Text() != "healthy" || len(ends) > 0 {
		t.Errorf("another turn: %q, %v; %d have ended", o.Text(), o.Err, len(ends))
	}
	leave()
	for range 2 * most {
		if err := <-ends; bridge.CodeOf(err) != bridge.CodeCanceled {
			t.Errorf("a turn that waited ended with %v", err)
		}
	}
}

// A provider that says how long to wait in a header alone is obeyed by the
// runtime, which reports nothing. It is a rate limit all the same when the turn has
// been silent for too long, or the runtime has waited often enough.
func TestRateLimitsWithoutWords(t *testing.T) {
	t.Parallel()
	var asked, after atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", strconv.Itoa(int(after.Load())))
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"message":"slow down","type":"requests"}}`)) // a client that left shows otherwise
	}))
	defer provider.Close()
	there := func(o *sdk.Options) {
		o.Provider = &bridge.Provider{Kind: "openai", BaseURL: provider.URL, APIKey: "k"}
	}
	for name, tc := range map[string]struct {
		limits       engine.Limits
		after, asked int32
		least        time.Duration
	}{
		"silent for too long": {engine.Limits{MaxRetries: 3, IdleTimeout: 8 * time.Second}, 100, 1, 8 * time.Second},
		"often enough":        {engine.Limits{MaxRetries: 1}, 2, 2, 2 * time.Second},
	} {
		asked.Store(0)
		after.Store(tc.after)
		ctx, open := limitedEngine(t, tc.limits, there)
		o := agenttest.Collect(ctx, open(engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileChat}, PassRateLimits: true}), bridge.Prompt{Text: "hi"})
		if e := bridge.AsError(o.Err); e == nil || e.Code != bridge.CodeRateLimited || e.Status != 429 || e.RetryAfter < tc.least || asked.Load() != tc.asked {
			t.Errorf("%s: asked %d times, %+v", name, asked.Load(), e)
		}
	}
}
