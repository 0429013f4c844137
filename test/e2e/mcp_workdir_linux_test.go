package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// workBench is a repository with a policy and with directories in which tasks
// must not work.
func workBench(t *testing.T, prefix string) *mcpBench {
	t.Helper()
	files := map[string]string{}
	for name, text := range map[string]string{
		".agent-policy.yaml": "reads: { deny: [private/**] }\nwrites: { deny: [sub/locked.txt] }\n", "private/x.txt": "CANARY-41\n", "sub/a.txt": "plain\n",
		"nested/.agent-policy.yaml": "readOnly: true\n", "nested/deep/x.txt": "", "sub/b.txt": "",
	} {
		files[prefix+name] = text
	}
	b := newMCPBench(t, files)
	root := b.root(prefix)
	cmd := exec.Command("git", "init", "-q")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for link, to := range map[string]string{"linked": t.TempDir(), "hidden": "private", "store": ".git"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *mcpBench) root(prefix string) string {
	if rest, ok := strings.CutPrefix(prefix, "~/"); ok {
		return filepath.Join(b.home, rest)
	}
	return b.dir
}

// tryWorkingDirs tries to access forbidden files by choosing the working
// directory of a task.
func (b *mcpBench) tryWorkingDirs(t *testing.T, c *mcp.ClientSession, root, tool, key string, writes bool) {
	t.Helper()
	for dir, code := range map[string]string{
		".git": "denied", ".git/hooks": "denied", "sub/../.git": "denied", "store": "denied", "private": "denied", "hidden": "denied", root + "/private": "denied",
		"linked": "denied", "..": "denied", "/": "denied", "nested": "denied", "nested/deep": "denied", "sub/a.txt": "invalid", "none": "invalid",
	} {
		if r := mcpCall(t, c, tool, map[string]any{key: "rehearsal: text Moved.", "workingDir": dir}, nil); !r.IsError || !strings.Contains(mcpText(r), code) {
			t.Errorf("%s: %s", dir, mcpText(r))
		}
	}
	before, err := os.ReadFile(filepath.Join(root, ".git", "config"))
	if err != nil {
		t.Fatal(err)
	}
	calls := []struct {
		tool string
		args map[string]any
		ok   bool
	}{
		{"bash", map[string]any{"command": "cat a.txt", "description": "x"}, true},
		{"view", map[string]any{"path": filepath.Join(root, "sub", "a.txt")}, true},
		{"view", map[string]any{"path": filepath.Join(root, "private", "x.txt")}, false},
		{"bash", map[string]any{"command": "cat ../private/x.txt", "description": "x"}, false},
		{"bash", map[string]any{"command": "cat ../hidden/x.txt", "description": "x"}, false},
		{"bash", map[string]any{"command": "echo '[core]' > ../.git/config", "description": "x"}, false},
		{"create", map[string]any{"path": filepath.Join(root, ".git", "hooks", "pre-commit"), "file_text": "x"}, false},
		{"create", map[string]any{"path": filepath.Join(root, "sub", "locked.txt"), "file_text": "x"}, false},
		{"bash", map[string]any{"command": "echo x > locked.txt", "description": "x"}, false},
		{"edit", map[string]any{"path": filepath.Join(root, ".git", "config"), "old_str": "[core]", "new_str": "[core]\n\tfsmonitor = x"}, false},
		{"create", map[string]any{"path": filepath.Join(root, "sub", "new.txt"), "file_text": "x"}, writes},
	}
	var prompt strings.Builder
	for _, call := range calls {
		prompt.WriteString("rehearsal: tool " + call.tool + " " + toJSON(call.args) + "\nrehearsal: next\n")
	}
	r := mcpCall(t, c, tool, map[string]any{key: prompt.String() + "rehearsal: text Done.", "workingDir": "sub"}, nil)
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if out := results(t, data); len(out) != len(calls) {
		t.Errorf("%s", data)
	} else {
		for i, call := range calls {
			if out[i].OK != call.ok {
				t.Errorf("%s %v: %+v", call.tool, call.args, out[i])
			}
		}
	}
	if after, err := os.ReadFile(filepath.Join(root, ".git", "config")); err != nil || string(after) != string(before) {
		t.Errorf("the repository was changed: %v", err)
	}
	for _, r := range b.model.Requests() {
		if strings.Contains(string(r.Raw), "CANARY-41") {
			t.Error("a denied file reached the model")
			break
		}
	}
}

type toolResult struct {
	Name, Error string
	OK          bool
}

// results returns the tool calls in a task's result, wherever the interface
// puts them.
func results(t *testing.T, data []byte) []toolResult {
	t.Helper()
	var out struct {
		ToolCalls []toolResult
		Result    struct{ ToolCalls []toolResult }
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return append(out.ToolCalls, out.Result.ToolCalls...)
}

// The working directory of a task does not extend what the task may access.
func TestMCPWorkingDirMovesNoBorder(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		b := workBench(t, "")
		b.tryWorkingDirs(t, b.connect(t, nil, "copilot"), b.dir, "copilot_code_task", "prompt", true)
	})
	t.Run("plugin", func(t *testing.T) {
		const prefix = "~/.openclaw/workspace/"
		b := workBench(t, prefix)
		b.tryWorkingDirs(t, b.connect(t, nil, "plugin"), b.root(prefix), "copilot_code", "task", true)
	})
	t.Run("read-only HTTP", func(t *testing.T) {
		b := workBench(t, "")
		cmd := b.command("copilot", "--http", "127.0.0.1:0", "--json")
		const token = "a-token-of-this-test"
		cmd.Env = append(cmd.Env, "COPILOT_BRIDGE_TOKEN="+token)
		url, _ := startServer(t, cmd)
		transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: withHeader("Bearer " + token), MaxRetries: -1}
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.tryWorkingDirs(t, c, b.dir, "copilot_code_task", "prompt", false)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
