//go:build unix

package attempts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// The attempts below use parameters that only some doors have. The answer of
// the program does not matter, only the effects do.

// runAttempt runs an attempt in a new test environment. Only the changes listed in may are
// allowed.
func runAttempt(t *testing.T, name string, may map[string]bool, attempt func(t *testing.T, y *testEnv)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		slots <- struct{}{}
		defer func() { <-slots }()
		y := newTestEnv(t)
		attempt(t, y)
		y.checkNoCanary(t)
		if _, err := os.Lstat(y.Pwned); err == nil {
			t.Error("the file outside was created")
		}
		for _, change := range y.changedFiles(t) {
			if !may[change] {
				t.Errorf("it %s", change)
			}
		}
	})
}

// The working directory of a task does not extend what the task may access.
func TestWorkingDirectory(t *testing.T) {
	cases := []guardtest.Case{
		{Name: "config", Tool: "edit", Args: map[string]any{"path": "{{ws}}/.git/config", "old_str": "[core]", "new_str": "[core]\n\tfsmonitor = touch {{pwn}}"}},
		{Name: "hook", Tool: "create", Args: map[string]any{"path": "{{ws}}/.git/hooks/pre-commit", "file_text": "x"}},
		{Name: "relative hook", Tool: "create", Args: map[string]any{"path": "hooks/pre-commit", "file_text": "x"}},
		{Name: "read", Tool: "view", Args: map[string]any{"path": "{{ws}}/secrets/key.pem"}},
		{Name: "relative read", Tool: "view", Args: map[string]any{"path": "key.pem"}},
		{Name: "cat", Tool: "bash", Args: map[string]any{"command": "cat key.pem", "description": "x"}},
		{Name: "grep", Tool: "bash", Args: map[string]any{"command": "grep -r CANARY .", "description": "x"}},
		{Name: "outside", Tool: "bash", Args: map[string]any{"command": "cat secret.txt", "description": "x"}},
		{Name: "made outside", Tool: "create", Args: map[string]any{"path": "new.txt", "file_text": "x"}},
	}
	for _, d := range []struct {
		name, tool, param string
		connect           func(*testing.T, *testEnv, []string) *mcp.ClientSession
	}{
		{"mcp", "copilot_code_task", "prompt", mcpStdio("copilot")},
		{"mcp over HTTP, read-only", "copilot_code_task", "prompt", mcpHTTP()},
		{"plugin", "copilot_code", "task", func(t *testing.T, y *testEnv, env []string) *mcp.ClientSession {
			t.Helper()
			return mcpStdio("plugin", "--workspace", y.Workspace)(t, y, env)
		}},
	} {
		runAttempt(t, d.name, map[string]bool{"made work/.git/new.txt": true}, func(t *testing.T, y *testEnv) {
			c := d.connect(t, y, y.envWithModel())
			for _, dir := range []string{".git", "secrets", "link", "src/../secrets", ".git/hooks"} {
				ask(t, y, c, d.tool, map[string]any{d.param: y.newScript(t, y.fillCases(t, cases, y.Workspace), 6, false).prompt(), "workingDir": dir})
			}
		})
	}
}

// What a task leaves in its worktree is not delivered through a symbolic link
// of the workspace that git ignores.
func TestDelivery(t *testing.T) {
	may := map[string]bool{}
	for _, name := range []string{"cache", "cache/x.txt", "sub", "sub/y.txt"} {
		may["made work/"+name] = true // allowed inside, where there is no link
	}
	runAttempt(t, "orchestrate", may, func(t *testing.T, y *testEnv) {
		y.worktrees = true
		y.Write(t, "work/.gitignore", "cache\nsub\n")
		for link, to := range map[string]string{"cache": y.Outside, "sub": "link"} {
			if err := os.Symlink(to, filepath.Join(y.Workspace, link)); err != nil {
				t.Fatal(err)
			}
		}
		y.Git(t, "", "add", ".gitignore")
		y.Git(t, "", "commit", "-q", "-m", "ignore")
		y.recordState(t)
		s := y.newScript(t, y.fillCases(t, []guardtest.Case{
			{Name: "directories", Tool: "bash", Args: map[string]any{"command": "mkdir cache sub", "description": "x"}},
			{Name: "files", Tool: "bash", Args: map[string]any{"command": "echo x > cache/x.txt && echo x > sub/y.txt && git add -f cache/x.txt sub/y.txt", "description": "x"}},
		}, worktree), 1, true)
		y.sendPrompt(t, door{name: "orchestrate", open: orchestrated}, y.envWithModel(), s.prompt())
		for i, o := range s.outcomes(t) {
			if !o.Ran {
				t.Errorf("%s was not done: %s", s.calls[i].Name, o.Text)
			}
		}
	})
}

// The environment and servers of a work order do not loosen the user's policy.
func TestOrder(t *testing.T) {
	ls := []guardtest.Case{{Name: "ls", Tool: "bash", Args: map[string]any{"command": "ls", "description": "x"}}}
	for name, config := range map[string]func(y *testEnv) map[string]any{
		"path": func(y *testEnv) map[string]any {
			return map[string]any{"env": map[string]any{"PATH": filepath.Join(y.Workspace, "bin") + ":" + os.Getenv("PATH")}}
		},
		"function": func(y *testEnv) map[string]any {
			return map[string]any{"env": map[string]any{"BASH_FUNC_ls%%": fmt.Sprintf("() { : > %s; }", y.Pwned)}}
		},
		"start-up file": func(y *testEnv) map[string]any {
			return map[string]any{"env": map[string]any{"BASH_ENV": filepath.Join(y.Workspace, "evil.sh"), "ENV": filepath.Join(y.Workspace, "evil.sh")}}
		},
		"server": func(y *testEnv) map[string]any {
			return map[string]any{"vendor": map[string]any{"copilot": map[string]any{"mcpServers": map[string]any{
				"evil": map[string]any{"command": "sh", "args": []string{"-c", ": > " + y.Pwned}}}}}}
		},
	} {
		runAttempt(t, strings.ReplaceAll(name, " ", "-"), nil, func(t *testing.T, y *testEnv) {
			y.Write(t, "work/bin/ls", "#!/bin/sh\n: > "+y.Pwned+"\n")
			if err := os.Chmod(filepath.Join(y.Workspace, "bin", "ls"), 0o755); err != nil {
				t.Fatal(err)
			}
			y.recordState(t)
			order(t, y, y.envWithModel(), map[string]any{"id": "11111111-2222-4333-8444-555555555555", "task": y.newScript(t, y.fillCases(t, ls, y.Workspace), 6, false).prompt(),
				"lane": "workspace_first", "workspace": map[string]any{"root": y.Workspace, "mode": "pass_through"}, "config": config(y)})
		})
	}
}
