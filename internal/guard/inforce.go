package guard

import (
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// looksLast is for how long MayRead, which is asked about file after file, goes
// by the last look at the policy files.
const looksLast = 100 * time.Millisecond

// policy is the one in force as of the last look at its files.
func (g *Guard) policy() *policy.Policy { return g.inForce.Load() }

// refresh looks at the policy files. A change is put on record. If that fails
// the policy has changed all the same, and the next call tries again.
func (g *Guard) refresh(ctx context.Context) error {
	if g.opts.Live == nil {
		return nil
	}
	g.looking.Lock()
	defer g.looking.Unlock()
	now := g.opts.Live.Now()
	g.lookedAt.Store(time.Now().UnixNano())
	if now != g.version.Load() {
		g.mu.Lock()
		g.version.Store(now)
		g.inForce.Store(now.Policy.Lift(grantSource, g.lifted...))
		if now.Err == nil {
			g.plan = nil // commands that run keep their sandbox while nothing else may run
		}
		g.mu.Unlock()
	}
	if now == g.recorded {
		return nil
	}
	e := audit.Entry{Hook: audit.HookPolicy, Reason: now.Change,
		Input: map[string]any{"before": g.recorded.SHA256, "sha256": now.SHA256, "policy": now.Sources}}
	if now.Err != nil {
		e.Decision = "deny"
	}
	if err := g.record(ctx, e, time.Now()); err != nil {
		return err
	}
	g.recorded = now
	return nil
}

// looked returns the policy in force, for callers that only ask what it says. If a
// change cannot be recorded, that fails the next call and not the question.
func (g *Guard) looked() *policy.Policy {
	_ = g.refresh(context.Background()) // the next call tries again, and is denied if it fails
	return g.policy()
}

// Rules tells one policy from another: it is the hash of the files in force.
func (g *Guard) Rules() string {
	g.looked()
	if v := g.version.Load(); v != nil {
		return v.SHA256
	}
	return ""
}

// Usable says why the policy cannot be used, if it cannot: a file of it is
// broken. Everything is denied then.
func (g *Guard) Usable() error {
	g.looked()
	v := g.version.Load()
	if v == nil || v.Err == nil {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeDenied, Message: "the policy cannot be used", Cause: v.Err, Remedy: bridge.AsError(v.Err).Remedy}
}
