package guard

import (
	"context"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
)

// A command is analysed once, from its judgement to the end of its output.
func TestCommandsAreAnalysedOnce(t *testing.T) {
	ws, err := paths.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	g := New(Options{Workspace: ws, Policy: policy.Combine(policy.DefaultsRun())})
	analyses := 0
	g.analyse = func(script string) (shell.Analysis, error) {
		analyses++
		return shell.Analyse(script)
	}
	ctx := context.Background()
	call := bridge.ToolCall{ID: "1", Name: "bash", Args: map[string]any{"command": "cat README.md | head"}}
	if d := g.Before(ctx, call); d.Verdict != bridge.Allow {
		t.Fatal(d.Reason)
	}
	if d := g.Permit(ctx, bridge.PermissionRequest{Kind: bridge.PermissionShell, CallID: "1", Tool: "bash", Command: "cat README.md | head"}); d.Verdict != bridge.Allow {
		t.Fatal(d.Reason)
	}
	mask, emit := g.Mask(), func(bridge.Event) bool { return true }
	mask(bridge.ToolStarted{Call: call}, emit)
	mask(bridge.ToolProgress{CallID: "1", Text: "x\n"}, emit)
	mask(bridge.ToolFinished{CallID: "1", Result: "x\n"}, emit)
	if _, err := g.After(ctx, call, map[string]any{"textResultForLlm": "x\n"}); err != nil {
		t.Fatal(err)
	}
	if analyses != 1 {
		t.Errorf("%d analyses", analyses)
	}
}
