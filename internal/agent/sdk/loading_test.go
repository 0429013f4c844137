//go:build unix

package sdk_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// In a workspace full of files that configure agents nothing is loaded or
// started, whatever the environment and Copilot's home say: not by a new
// session, not by one that is resumed in the same runtime or in another, and
// not by a sub-agent. The user's own hooks and MCP servers stay.
func TestNothingIsLoadedFromAWorkspace(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ws, home, marks := filepath.Join(base, "above", "ws"), filepath.Join(base, "home"), filepath.Join(base, "marks")
	if err := runtimetest.Plant(ws, home, marks); err != nil {
		t.Fatal(err)
	}
	trusted := `{"trustedFolders":["` + ws + `"],"trusted_folders":["` + ws + `"],"experimental":true}`
	for _, f := range []string{"config.json", "settings.json"} {
		if err := os.WriteFile(filepath.Join(home, f), []byte(trusted), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change := func(o *sdk.Options) {
		o.Home = home
		o.Env = append(o.Env, "COPILOT_ALLOW_ALL=true", "COPILOT_SKILLS_DIRS="+filepath.Join(ws, ".github", "skills"),
			"COPILOT_CUSTOM_INSTRUCTIONS_DIRS="+filepath.Join(base, "above", "extra"))
	}
	spec := bridge.SessionSpec{Profile: bridge.ProfileAgent, Gate: agenttest.AllowAll(), WorkingDir: ws, Instructions: "THE-INSTRUCTIONS", System: bridge.SystemText{Text: "THE-SYSTEM-TEXT"}}
	ctx, a, m := start(t, change)
	s := openSession(t, ctx, a, spec)
	loadsNothing(t, ctx, "new", s, m, ws, marks)
	id := s.ID()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	hot, err := a.Resume(ctx, id, spec)
	if err != nil {
		t.Fatal(err)
	}
	loadsNothing(t, ctx, "resumed in the same runtime", hot, m, ws, marks)
	if err := hot.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, a, m = start(t, change)
	cold, err := a.Resume(ctx, id, spec)
	if err != nil {
		t.Fatal(err)
	}
	loadsNothing(t, ctx, "resumed in another runtime", cold, m, ws, marks)
	if err := a.Close(ctx); err != nil { // hooks for the end of a session run by then
		t.Fatal(err)
	}
	started, err := runtimetest.Ran(marks)
	if err != nil || !slices.Equal(started, []string{"~/hooks/h.json", "~/mcp-config.json"}) {
		t.Errorf("started %q, %v", started, err)
	}
}

// loadsNothing runs a turn that gives every loader its chance.
func loadsNothing(t *testing.T, ctx context.Context, when string, s bridge.Session, m *demomodel.Server, ws, marks string) {
	t.Helper()
	began := len(m.Requests())
	file := filepath.Join(ws, "sub", "file.txt")
	view, lsp := agenttest.Tool("view", map[string]any{"path": file}), agenttest.Tool("lsp", map[string]any{"operation": "documentSymbol", "file": file})
	below := agenttest.Script(view, lsp, "next", "text BELOW-DONE").Text
	o := agenttest.Collect(ctx, s, agenttest.Script(view, lsp, agenttest.Tool("skill", map[string]any{"skill": "one"}),
		agenttest.Tool("bash", map[string]any{"command": "true", "description": "x"}),
		"next", agenttest.Tool("task", map[string]any{"description": "look", "name": "looker", "agent_type": "general-purpose", "mode": "sync", "prompt": below}),
		"next", agenttest.Tool("task", map[string]any{"description": "look", "name": "explorer", "agent_type": "explore", "mode": "sync", "prompt": below}),
		"next", "text ok"))
	if o.Err != nil {
		t.Fatalf("%s: %v", when, o.Err)
	}
	subAgents := 0
	for _, q := range m.Requests()[began:] {
		if told := runtimetest.Told(string(q.Raw)); len(told) > 0 {
			t.Errorf("%s: the model was told %q", when, told)
		}
		system := q.Messages[0].Content
		switch main := strings.Contains(string(q.Raw), "looker"); {
		case strings.Contains(system, "sub-agent of GitHub Copilot"):
			subAgents++
			if !strings.Contains(system, "THE-INSTRUCTIONS") {
				t.Errorf("%s: the sub-agent does not know the instructions", when)
			}
		case main && (!strings.Contains(system, "THE-INSTRUCTIONS") || !strings.Contains(system, "THE-SYSTEM-TEXT")):
			t.Errorf("%s: the agent does not know its instructions", when)
		}
	}
	if subAgents == 0 {
		t.Errorf("%s: no sub-agent was asked", when)
	}
	started, err := runtimetest.Ran(marks)
	if started = slices.DeleteFunc(started, func(f string) bool { return strings.HasPrefix(f, "~/") }); err != nil || len(started) > 0 {
		t.Errorf("%s: started %q, %v", when, started, err)
	}
}

// A hook that the agent writes runs in no later session.
func TestPlantedHooksDoNotRun(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	ws, marks := t.TempDir(), t.TempDir()
	hook := `{"version":1,"hooks":{"sessionStart":[{"type":"command","bash":"touch ` + marks + `/ran"}],"userPromptSubmitted":[{"type":"command","bash":"touch ` + marks + `/ran"}]}}`
	for range 2 {
		s := openSession(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll(), WorkingDir: ws})
		path := filepath.Join(ws, ".github", "hooks", s.ID()+".json")
		o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "mkdir -p " + filepath.Dir(path), "description": "x"}),
			"next", agenttest.Tool("create", map[string]any{"path": path, "file_text": hook}), "next", "text ok"))
		if _, err := os.Stat(path); o.Err != nil || err != nil {
			t.Fatalf("%v, %v", o.Err, err)
		}
		if o := agenttest.Collect(ctx, s, agenttest.Say("again")); o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	if left, err := os.ReadDir(marks); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
