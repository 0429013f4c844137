//go:build unix

package sdk_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// What a sub-agent does passes the same gate as what its parent does.
func TestSubagentsPassTheGate(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"sync", "background"} {
		for name, deny := range map[string]bool{"allowed": false, "denied": true} {
			t.Run(mode+" "+name, func(t *testing.T) {
				ctx, a, _ := start(t, nil)
				dir := t.TempDir()
				file := filepath.Join(dir, "from-below.txt")
				g := &agenttest.Gate{BeforeFunc: func(c bridge.ToolCall) bridge.Decision {
					if deny && c.Name == "create" {
						return bridge.Decision{Reason: "not below either"}
					}
					return bridge.Decision{Verdict: bridge.Allow}
				}}
				s := openSession(t, ctx, a, bridge.SessionSpec{Gate: g, WorkingDir: dir})
				inner := agenttest.Script(agenttest.Tool("create", map[string]any{"path": file, "file_text": "x"}), "next", "text below done").Text
				o := agenttest.Collect(ctx, s, agenttest.Script(
					agenttest.Tool("task", map[string]any{"description": "make a file", "name": "maker", "agent_type": "general-purpose", "mode": mode, "prompt": inner}),
					"next", `tool read_agent {"agent_id":"maker","wait":true,"timeout":20}`, "next", "text above done"))
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				if !slices.ContainsFunc(g.Befores(), func(c bridge.ToolCall) bool { return c.Name == "create" }) {
					t.Errorf("the gate saw only %+v", g.Befores())
				}
				if _, err := os.Stat(file); (err == nil) == deny {
					t.Errorf("the file: %v", err)
				}
			})
		}
	}
}
