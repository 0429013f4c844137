package guard

import (
	"context"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

// This file is all that says no to a call. test/attempts builds a program with
// another file in its place, to see what holds if the guard is wrong.

// decide evaluates the policy and asks a person where it says so, unless one
// has agreed to the same call before.
func (g *Guard) decide(ctx context.Context, a policy.Action, r bridge.PermissionRequest, agreed bool) (d bridge.Decision, asked bool) {
	out := g.policy().Evaluate(a)
	traces.SetRule(ctx, out.Rule)
	if out.Verdict == policy.Ask && agreed {
		d = allow("allowed when it was called")
		d.Basis = basisCall
		return d, false
	}
	defer func() {
		d.Rule = out.Rule.String()
		if d.Basis == "" {
			d.Basis = bridge.BasisPolicy
			if out.Rule.Source.Name == grantSource {
				d.Basis = bridge.BasisSession
			}
		}
		if d.Verdict == bridge.Allow {
			d.Grant = g.granted(a, out.Grant)
		}
	}()
	switch out.Verdict {
	case policy.Allow:
		return allow(out.Reason), false
	case policy.Ask:
		if g.configured(a, out) {
			d = allow(alwaysAllowed)
			d.Basis = bridge.BasisConfiguration
			return d, false
		}
		d = g.ask(ctx, r, out, a.Wall)
		return g.stillAllowed(ctx, a, d), true
	case policy.Deny:
	}
	if g.opts.Reason != nil {
		if words := g.opts.Reason(a.Called(), out); words != "" {
			return deny(words), false
		}
	}
	return deny(out.Reason), false
}

// stillAllowed is the answer to a question under the policy of now: a file may
// have changed while a person was asked.
func (g *Guard) stillAllowed(ctx context.Context, a policy.Action, d bridge.Decision) bridge.Decision {
	if d.Verdict != bridge.Allow {
		return d
	}
	if err := g.refresh(ctx); err != nil {
		return unwritten(err)
	}
	if out := g.policy().Evaluate(a); out.Verdict == policy.Deny {
		return deny(out.Reason + ", which holds since the question was put")
	}
	return d
}

// strayed says why a result must not be seen: what the tool has read was
// inside the workspace when it was allowed, and is not now.
func (g *Guard) strayed(call bridge.ToolCall) string {
	if known[call.Name] != policy.KindRead {
		return ""
	}
	for _, p := range g.action(call).Paths {
		if p.Outside || p.Problem != "" {
			return fmt.Sprintf("%s led outside the workspace when %s had read it", p.Name, call.Name)
		}
	}
	return ""
}
