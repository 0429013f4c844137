package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In plan mode Copilot is told to keep its plan beside the session, and not to
// ask. It may, also where the workspace is read-only, and nothing else there.
func TestCopilotKeepsItsPlan(t *testing.T) {
	t.Parallel()
	b := newAccountBench(t, "", "")
	if err := os.WriteFile(filepath.Join(b.dir, ".agent-policy.yaml"), []byte("readOnly: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(prompt string, more ...string) (out string, code int, session string) {
		t.Helper()
		out, code, _ = b.run("", append([]string{"run", "--demo", "--json", "--mode", "plan", prompt}, more...)...)
		var result struct{ Session string }
		_, last, _ := strings.Cut(out, `{"type":"result"`)
		last, _, _ = strings.Cut(last, "\n")
		if err := json.Unmarshal([]byte(`{"type":"result"`+last), &result); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return out, code, result.Session
	}
	_, _, id := run("a garden")
	_, _, other := run("a house")
	state := filepath.Join(b.home, ".copilot-bridge", "copilot", "session-state")
	for _, tt := range []struct {
		tool  string
		args  map[string]string
		allow bool
	}{
		{"create", map[string]string{"path": filepath.Join(state, id, "plan.md"), "file_text": "# a plan\n"}, true},
		{"edit", map[string]string{"path": filepath.Join(state, id, "plan.md"), "old_str": "a plan", "new_str": "the plan"}, true},
		{"view", map[string]string{"path": filepath.Join(state, id, "plan.md")}, true},
		{"create", map[string]string{"path": filepath.Join(state, id, "events.txt"), "file_text": "x"}, false},
		{"create", map[string]string{"path": filepath.Join(state, other, "plan.md"), "file_text": "x"}, false},
		{"create", map[string]string{"path": filepath.Join(b.dir, "plan.md"), "file_text": "x"}, false},
		{"bash", map[string]string{"command": "echo x >> " + filepath.Join(state, id, "plan.md"), "description": "x"}, false},
	} {
		out, code, _ := run("go on\n"+tool(tt.tool, tt.args)+"\nrehearsal: next\nrehearsal: text done", "--resume", id)
		if (code == 0) != tt.allow {
			t.Errorf("%s %s: exit code %d: %s", tt.tool, tt.args["path"], code, out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(state, id, "plan.md")); err != nil || string(text) != "# the plan\n" {
		t.Errorf("%q, %v", text, err)
	}
	// A link in its place leads elsewhere.
	if err := os.Remove(filepath.Join(state, id, "plan.md")); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(b.home, "secret")
	if err := os.Symlink(secret, filepath.Join(state, id, "plan.md")); err != nil {
		t.Fatal(err)
	}
	if out, code, _ := run("go on\n"+tool("create", map[string]string{"path": filepath.Join(state, id, "plan.md"), "file_text": "x"})+"\nrehearsal: next\nrehearsal: text done", "--resume", id); code == 0 {
		t.Error(out)
	}
	if _, err := os.Lstat(secret); err == nil {
		t.Error("the link was followed")
	}
}
