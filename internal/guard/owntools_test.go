package guard_test

import (
	"context"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// The bridge's own tools are not asked about, whatever their arguments say;
// those of another server that begin alike are.
func TestOwnTools(t *testing.T) {
	asked := 0
	g := newGuard(t, guard.Options{OwnTools: []string{"openclaw-openclaw_memory_read"}, Asker: askerFunc(func(context.Context, approval.Question) (approval.Answer, error) {
		asked++
		return approval.Answer{Consent: approval.No}, nil
	})})
	args := map[string]any{"file": "../../MEMORY.md"}
	for name, want := range map[string]bridge.Verdict{"openclaw-openclaw_memory_read": bridge.Allow, "openclaw-openclaw_memory_reader": bridge.Deny, "openclaw-x": bridge.Deny} {
		before := g.Before(t.Context(), bridge.ToolCall{Name: name, Args: args, Server: "openclaw"})
		permit := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionMCP, Tool: name, Server: "openclaw", Args: args})
		if before.Verdict != want || permit.Verdict != want {
			t.Errorf("%s: %+v, %+v", name, before, permit)
		}
	}
	deep := map[string]any{guard.DepthArgument: 3.0}
	if d := g.Before(t.Context(), bridge.ToolCall{Name: "openclaw-openclaw_memory_read", Args: deep}); d.Verdict == bridge.Allow {
		t.Error("too deep, and allowed")
	}
}
