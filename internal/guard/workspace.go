package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// What follows is for the bridge's own operations on a workspace, which hand
// whole files to programs: their results are masked, not shortened, and the
// record has their size.

// Reveal hides secrets in texts before somebody sees them, records that, and
// returns how many there were.
func (g *Guard) Reveal(ctx context.Context, call bridge.ToolCall, texts ...*string) (int, error) {
	began := time.Now()
	hidden, size := 0, 0
	for _, t := range texts {
		clean, n := g.opts.Redactor.String(*t)
		hidden, size = hidden+n, size+len(clean)
		*t = clean
	}
	e := audit.Entry{Hook: audit.HookPostTool, Tool: call.Name, Call: call.ID, Output: map[string]any{"bytes": size}, Decision: "allow"}
	if hidden > 0 {
		e.Reason = fmt.Sprintf("%d secrets hidden", hidden)
	}
	return hidden, g.record(ctx, e, began)
}

// MayRead says whether a file, named relative to the workspace, may be seen in
// lists and among the hits of a search. It asks nobody and records nothing.
func (g *Guard) MayRead(path string) bool {
	res, err := g.opts.Workspace.Resolve(path)
	if err != nil || !res.Inside {
		return false
	}
	out := g.opts.Policy.Evaluate(policy.Action{Tool: "mcp.fs.read", Kind: policy.KindRead, Paths: []policy.Path{{Rel: res.Rel, Name: path}}})
	return out.Verdict == policy.Allow
}

// Stream hides secrets in a text that comes in pieces.
func (g *Guard) Stream() bridge.TextMask { return g.opts.Redactor.NewStream() }
