package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
)

// View is MayRead and Reveal for the results of one call that come in many
// pieces, such as the hits of a search.
func (g *Guard) View(ctx context.Context, call bridge.ToolCall) bridge.View {
	return &view{ctx: ctx, guard: g, call: call, began: time.Now(), places: g.opts.Workspace.Lookup()}
}

type view struct {
	ctx    context.Context // of the call, which the view does not outlive
	guard  *Guard
	call   bridge.ToolCall
	began  time.Time
	places *paths.Lookup

	hidden, size int
	failed       error
}

func (v *view) MayRead(path string) bool {
	rel, inside := v.places.Inside(path)
	return inside && v.guard.policy().MayRead("mcp.fs.read", rel)
}

func (v *view) Hide(text *string) { v.hide(text, v.guard.results.StringContext) }

func (v *view) HideLines(text *string) { v.hide(text, v.guard.results.Lines) }

func (v *view) hide(text *string, mask func(context.Context, string) (string, int, error)) {
	defer func() {
		if p := recover(); p != nil {
			*text, v.failed = "", fmt.Errorf("the result is withheld, because secrets in it could not be looked for: %v", p)
		}
	}()
	clean, n, err := mask(v.ctx, *text)
	if *text = clean; err != nil {
		v.failed = err
	}
	v.hidden, v.size = v.hidden+n, v.size+len(clean)
}

func (v *view) End(ctx context.Context) error {
	e := audit.Entry{Hook: audit.HookPostTool, Tool: v.call.Name, Call: v.call.ID, Output: map[string]any{"bytes": v.size}, Decision: "allow"}
	if v.hidden > 0 {
		e.Reason = fmt.Sprintf("%d secrets hidden", v.hidden)
	}
	if v.failed != nil {
		e.Output, e.Decision, e.Reason = nil, "deny", v.failed.Error()
	}
	return errors.Join(v.failed, v.guard.record(ctx, e, v.began))
}

func (v *view) Close() { v.places.Close() }
