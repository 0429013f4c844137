//go:build unix

package acp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// Copilot's CLI loads hooks and instructions over ACP whatever its arguments
// say. So it does not work in a workspace that has such files, neither from
// the beginning nor once a turn has made one, unless the user trusts it.
func TestCopilotDoesNotWorkWhereItWouldLoadFiles(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ws, marks := filepath.Join(base, "ws"), filepath.Join(base, "marks")
	if err := runtimetest.Plant(ws, filepath.Join(base, "home"), marks); err != nil {
		t.Fatal(err)
	}
	ctx, a, m := started(t, nil)
	for _, dir := range []string{ws, filepath.Join(ws, "sub")} {
		_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, Gate: agenttest.AllowAll()})
		if bridge.CodeOf(err) != bridge.CodeDenied || bridge.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if ran, err := runtimetest.Ran(marks); err != nil || len(ran) > 0 || len(m.Requests()) > 0 {
		t.Errorf("started %q, %v", ran, err)
	}

	plain := t.TempDir()
	s := open(t, ctx, a, bridge.SessionSpec{WorkingDir: plain, Gate: agenttest.AllowAll()})
	file := filepath.Join(plain, "AGENTS.md")
	if o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool("create", map[string]any{"path": file, "file_text": "x"}), "next", "text ok")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	for _, tool := range m.Requests()[0].Tools {
		if tool.Name == "lsp" {
			t.Error("the tool lsp is offered")
		}
	}
	if o := agenttest.Collect(ctx, s, agenttest.Say("more")); bridge.CodeOf(o.Err) != bridge.CodeDenied {
		t.Errorf("with the file: %v", o.Err)
	}
	if _, err := a.Resume(ctx, s.ID(), bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: plain}); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Errorf("resumed with the file: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, s, agenttest.Say("more")); o.Err != nil || o.Text() != "more" {
		t.Errorf("without the file: %q, %v", o.Text(), o.Err)
	}
}

func TestCopilotWorksInATrustedWorkspace(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	if err := os.WriteFile(filepath.Join(ws, "AGENTS.md"), []byte("TRUSTED-TEXT"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, a, m := started(t, func(o *acp.Options) { o.Trusted = func(dir string) bool { return dir == ws } })
	s := open(t, ctx, a, bridge.SessionSpec{WorkingDir: ws, Gate: agenttest.AllowAll()})
	if o := agenttest.Collect(ctx, s, agenttest.Say("hello")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if !strings.Contains(string(m.Requests()[0].Raw), "TRUSTED-TEXT") {
		t.Error("the instructions are missing")
	}
}
