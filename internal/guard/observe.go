package guard

import (
	"cmp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// Observer is told what guards do. Its methods are called concurrently and must
// not wait.
type Observer interface {
	Decided(v Verdict)
	// Asked is called when a person is asked, and answered with what comes of it.
	Asked(session string, q approval.Question) (answered func(bridge.Decision))
}

// Verdict is a decision about a call, for those who watch the session. It has no
// secrets.
type Verdict struct {
	Session string
	// Call has the runtime's id of the call, or none where the runtime did not
	// tell it.
	Call     bridge.ToolCall
	Decision bridge.Decision
	// Confined says that the sandbox holds the call, and Grant what it gets
	// beyond it.
	Confined bool
	Grant    string
	// Repeated: the call was judged before, when it was made.
	Repeated bool
	// Change is the request to write files, if it is one.
	Change *bridge.PermissionRequest
}

// basisCall is the basis of a decision that was made when the call was.
const basisCall = "call"

// observe tells of a decision.
func (g *Guard) observe(call bridge.ToolCall, d bridge.Decision, a policy.Action, r *bridge.PermissionRequest) {
	if g.opts.Observer == nil {
		return
	}
	m := &mask{redactor: g.opts.Redactor}
	v := Verdict{Session: g.Session(), Call: m.call(call), Decision: d, Confined: a.Wall != policy.NoWall, Repeated: d.Basis == basisCall}
	v.Decision.Reason, v.Decision.Rule, v.Decision.Basis = m.text(d.Reason), m.text(d.Rule), cmp.Or(d.Basis, "guard")
	if d.Grant != nil {
		v.Grant = m.text(strings.Join(wants(policy.Grant{Read: d.Grant.Read, Write: d.Grant.Write, Network: d.Grant.Network}), "; "))
	}
	if r != nil && r.Kind == bridge.PermissionWrite {
		clean := m.request(*r)
		v.Change = &clean
	}
	g.opts.Observer.Decided(v)
}

// Masking is the Mask of sessions that have no guard.
func Masking(r *redact.Redactor) bridge.Mask {
	return (&Guard{opts: Options{Redactor: r}, results: r.Results()}).Mask()
}
