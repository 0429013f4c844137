//go:build unix

package guard_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// A tool that opens a FIFO waits until a program writes to it. Commands may use
// one: they can be ended.
func TestNoFIFO(t *testing.T) {
	dir := t.TempDir()
	ws, err := paths.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	defaults := policy.DefaultsRun()
	defaults.Root = ws.Root()
	g := guard.New(guard.Options{Workspace: ws, Policy: policy.Combine(defaults)})
	for _, call := range []bridge.ToolCall{
		{Name: "view", Args: map[string]any{"path": filepath.Join(dir, "pipe")}},
		{Name: "mcp.fs.read", Args: map[string]any{"path": "pipe"}},
	} {
		if d := g.Before(t.Context(), call); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "FIFO") {
			t.Errorf("%s: %+v", call.Name, d)
		}
	}
	for _, call := range []bridge.ToolCall{{Name: "view", Args: map[string]any{"path": dir}}, shell("ls")} {
		if d := g.Before(t.Context(), call); d.Verdict != bridge.Allow {
			t.Errorf("%s: %+v", call.Name, d)
		}
	}
}
