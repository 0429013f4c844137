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
				if !slices.ContainsFunc(g.Befores(), func(c bridge.ToolCall) bool {
					return c.Name == "create" && slices.Equal(c.Agents, []string{"maker"})
				}) {
					t.Errorf("the gate saw only %+v", g.Befores())
				}
				if _, err := os.Stat(file); (err == nil) == deny {
					t.Errorf("the file: %v", err)
				}
			})
		}
	}
}

// A sub-agent's sub-agent is known by both names.
func TestSubagentsHaveAPath(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	dir := t.TempDir()
	g := &agenttest.Gate{BeforeFunc: func(bridge.ToolCall) bridge.Decision { return bridge.Decision{Verdict: bridge.Allow} }}
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: g, WorkingDir: dir})
	task := func(name, prompt string) string {
		return agenttest.Tool("task", map[string]any{"description": "do it", "name": name, "agent_type": "general-purpose", "prompt": prompt})
	}
	inmost := agenttest.Script(agenttest.Tool("create", map[string]any{"path": filepath.Join(dir, "deep.txt"), "file_text": "x"}), "next", "text done").Text
	outer := agenttest.Script(task("inner", inmost), "next", "text done").Text
	if o := agenttest.Collect(ctx, s, agenttest.Script(task("outer", outer), "next", "text done")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if !slices.ContainsFunc(g.Befores(), func(c bridge.ToolCall) bool {
		return c.Name == "create" && slices.Equal(c.Agents, []string{"outer", "inner"})
	}) {
		t.Errorf("the gate saw only %+v", g.Befores())
	}
}
