//go:build unix

package guard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// gateAt is a guard for a session that works in dir, with a policy and no
// person to ask.
func gateAt(t *testing.T, root, dir, yaml string, change func(*guard.Options)) *guard.Guard {
	t.Helper()
	ws, err := paths.New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	})
	rules, err := policy.ParseYAML("policy.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	d := policy.DefaultsRun()
	d.Root = ws.Root()
	o := guard.Options{Workspace: ws, Dir: dir, Policy: policy.Combine(d, policy.Layer{Rules: rules, Trusted: true})}
	if change != nil {
		change(&o)
	}
	return guard.New(o)
}

func callWith(name, key, value string) bridge.ToolCall {
	return bridge.ToolCall{Name: name, Args: map[string]any{key: value, "file_text": "x"}}
}

// Settings of the workspace's own repository that name programs make every git
// command a question, those that only read included. That the settings do run
// something is shown with the real git.
func TestGitSettingsRunPrograms(t *testing.T) {
	for setting, command := range map[string]string{
		"core.fsmonitor": "git status", "diff.external": "git diff", "diff.x.textconv": "git log -p", "diff.x.command": "git diff", "filter.x.clean": "git diff",
	} {
		t.Run(setting, func(t *testing.T) {
			y := layYard(t)
			put(t, y.ws, "README.md", "changed\n")
			put(t, y.ws, ".gitattributes", "* diff=x filter=x\n")
			g := gateAt(t, y.ws, "", "{}", nil)
			for _, c := range []string{"git status", "git diff", "git log --oneline"} {
				if d := g.Before(t.Context(), callWith("bash", "command", c)); d.Verdict != bridge.Allow {
					t.Errorf("%s in a plain repository: %s", c, d.Reason)
				}
			}
			cmd := exec.Command("git", "config", setting, "touch "+y.pwn+"; cat #")
			cmd.Dir = y.ws
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, c := range []string{"git status", "git diff", "git log --oneline", "git log -p", "git blame README.md", "git show", "cd src && git status", "git -C src diff", "timeout 9 git status"} {
				if d := g.Before(t.Context(), callWith("bash", "command", c)); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "needs consent: the repository") {
					t.Errorf("%s: %s", c, d.Reason)
				}
			}
			run := exec.Command("sh", "-c", command+" >/dev/null 2>&1")
			run.Dir = y.ws
			_ = run.Run() // what git makes of the program's answer does not matter
			if _, err := os.Stat(y.pwn); err != nil {
				t.Errorf("%s does not run %s, so this shows nothing", command, setting)
			}
		})
	}
}

// A repository that begins above the workspace shows nothing from there.
func TestRepositoryAboveTheWorkspace(t *testing.T) {
	y := layYard(t)
	g := gateAt(t, filepath.Join(y.ws, "src"), "", "shell: {allow: ['git *', 'builtin:read-only']}", nil)
	for command, why := range map[string]string{
		"git show HEAD:README.md": "outside the workspace", "git show HEAD:../README.md": "outside the workspace", "git show HEAD~1": "outside the workspace",
		"git log -p": "outside the workspace", "git diff": "outside the workspace", "git -C .. log": "outside the workspace", "git diff -- :/": "outside the workspace",
		"git blame ../README.md": "outside the workspace", "git grep hello": "outside the workspace", "git cat-file -p HEAD:README.md": "outside the workspace",
		"git checkout HEAD~1": "files outside the workspace", "git stash": "files outside the workspace",
	} {
		if d := g.Before(t.Context(), callWith("bash", "command", command)); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, why) {
			t.Errorf("%s: %s", command, d.Reason)
		}
	}
	plain := gateAt(t, filepath.Join(y.ws, "src"), "", "{}", nil)
	for _, command := range []string{"git log --oneline", "git diff -- .", "git log -p -- main.go", "git show HEAD:src/main.go", "git show HEAD:./main.go", "git status .", "git branch", "git ls-files"} {
		if d := plain.Before(t.Context(), callWith("bash", "command", command)); d.Verdict != bridge.Allow {
			t.Errorf("%s: %s", command, d.Reason)
		}
	}
	if d := plain.Before(t.Context(), callWith("bash", "command", "git status")); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "begins above the workspace") {
		t.Errorf("git status: %s", d.Reason)
	}
}

// What a git command may show of the history is judged, however it is written.
func TestGitHistoryIsNotShown(t *testing.T) {
	y := layYard(t)
	g := gateAt(t, y.ws, "", "reads: {deny: ['**/.env', 'private/**']}", nil)
	for _, c := range hiddenHistory {
		if d := g.Before(t.Context(), callWith("bash", "command", c)); d.Verdict == bridge.Allow {
			t.Errorf("%s: allowed", c)
		}
	}
	for _, c := range []string{"git log --oneline -5", "git log -n 3 --stat", "git log -n3", "git show -s HEAD~1", "git show --stat main", "git diff --stat HEAD~1", "git log --follow --oneline -- README.md",
		"git show HEAD~1 -- README.md", "git diff HEAD~1..HEAD -- README.md", "git diff HEAD:README.md HEAD~1:README.md", "git show HEAD:./README.md", "git log -p -- README.md", "git diff -w -- README.md"} {
		if d := g.Before(t.Context(), callWith("bash", "command", c)); d.Verdict != bridge.Allow {
			t.Errorf("%s: %s", c, d.Reason)
		}
	}
}

var hiddenHistory = []string{
	"git log -wp", "git log -zwp -1", "git log -bu", "git diff --stat -wp HEAD~1", "git show --stat -ap HEAD~1", "git diff HEAD~1 --stat --patc",
	"git show --grep --stat HEAD~1", "git diff HEAD~1 -- --stat private", "git diff HEAD~1: HEAD:", "git diff HEAD:src HEAD~1:private", "git diff HEAD:README.md..HEAD~1:.env",
	"git diff HEAD:README.md...HEAD~1:.env", "git diff :/first", "git diff :/first README.md", "git show -s :/first", "git show -s 'abcd1234^{blob}'", "git show -s x-0-gabcd1234", "git show -s abcd1234",
	"git show -s 'HEAD^{tree}'", "git show abcd1234 -- README.md", "git diff abcd1234 README.md", "git diff x-0-gabcd -- README.md", "git show abcd..abcd -- README.md",
	"git log --follow -p -- README.md", "git log --foll -p -- README.md", "git log -p -M -- README.md", "git show -C HEAD -- README.md", "git diff --find-copies HEAD~1 -- README.md", "git status -v README.md",
}

// A tag may point at a file, and a file of today may have been a directory with
// files that are denied. The real git proves that it shows them.
func TestGitHistoryInDisguise(t *testing.T) {
	y := layYard(t)
	git := func(line string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = y.ws
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	git("mkdir was && echo canary > was/secret.txt && git add -f was && git commit -qm dir && echo canary > was/b.key && git add -f was && git commit -qm more")
	git("git tag blob HEAD:was/secret.txt && git tag packed HEAD:was/secret.txt && git pack-refs --all && git tag -d blob && git tag blob HEAD:was/secret.txt && git tag good && git branch side")
	git("git rm -rq was && echo x > was && git add -f was && git commit -qm file && git branch blob")
	g := gateAt(t, y.ws, "", "reads: {deny: ['was/secret.txt', 'was/*.key']}", nil)
	for _, c := range []string{"git show blob -- README.md", "git show packed -- README.md", "git show --stat tags/blob", "git show -s refs/tags/packed", "git diff packed README.md",
		"git log -p -- was", "git diff HEAD~1 -- was", "git show HEAD~1 -- was", "git diff HEAD~2:was HEAD~1:was"} {
		if out := git(c); !strings.Contains(out, "canary") {
			t.Errorf("%s shows %q, so this shows nothing", c, out)
		}
		if d := g.Before(t.Context(), callWith("bash", "command", c)); d.Verdict == bridge.Allow {
			t.Errorf("%s: allowed", c)
		}
	}
	for _, c := range []string{"git show side -- README.md", "git show HEAD -- README.md", "git show good~0 -- README.md", "git show --stat side -- was", "git log -p -- README.md", "git log --oneline blob", "git diff side -- README.md"} {
		if d := g.Before(t.Context(), callWith("bash", "command", c)); d.Verdict != bridge.Allow {
			t.Errorf("%s: %s", c, d.Reason)
		}
	}
}

// Where a session works is where its relative paths start, and moves nothing
// else: rules are about the workspace.
func TestWorkingDirMovesNoBorder(t *testing.T) {
	y := layYard(t)
	const rules = "reads: {deny: ['private/**', src/main.go]}\nwrites: {deny: ['src/deep/**']}"
	g := gateAt(t, y.ws, filepath.Join(y.ws, "src"), rules, nil)
	for _, tt := range []struct {
		call  bridge.ToolCall
		allow bool
	}{
		{callWith("view", "path", "inner/y.txt"), true},
		{callWith("view", "path", "main.go"), false},
		{callWith("view", "path", "../README.md"), true},
		{callWith("view", "path", "../private/old.key"), false},
		{callWith("view", "path", "../../outside/secret.txt"), false},
		{callWith("create", "path", "inner/new.txt"), true},
		{callWith("create", "path", "deep/new.txt"), false},
		{callWith("create", "path", "../.git/config"), false},
		{callWith("create", "path", "../.agent-policy.yaml"), false},
		{callWith("bash", "command", "cat inner/y.txt"), true},
		{callWith("bash", "command", "cat main.go"), false},
		{callWith("bash", "command", "cat ../README.md"), true},
		{callWith("bash", "command", "cat ../private/old.key"), false},
		{callWith("bash", "command", "cat m*"), false},
		{callWith("bash", "command", "cat ../../outside/secret.txt"), false},
		{callWith("bash", "command", "echo x > deep/new.txt"), false},
		{callWith("bash", "command", "git status"), true},
		{callWith("bash", "command", "git show HEAD:src/main.go"), false},
		{callWith("bash", "command", "git show HEAD:./main.go"), false},
		{callWith("bash", "command", "git -C ../evil status"), false},
		{callWith("grep", "pattern", "x"), false}, // main.go is below
	} {
		d := g.Before(t.Context(), tt.call)
		if (d.Verdict == bridge.Allow) != tt.allow {
			t.Errorf("%s %v: %s %s", tt.call.Name, tt.call.Args, d.Verdict, d.Reason)
		}
	}
	for dir, why := range map[string]string{
		"private": "reading it is denied", ".git": "protected", ".git/hooks": "protected", "link": "outside the workspace", "..": "outside the workspace", "/etc": "outside the workspace",
		"none": "no directory", "README.md": "not a directory", "src/deep/up": "outside the workspace", "evil/.git": "protected", "sr\x00c": "NUL",
	} {
		if at, err := g.WorkingDir(dir); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %s, %v", dir, at, err)
		}
	}
	for dir, want := range map[string]string{"": "", "src": "src", "inside": "src", ".": "", "evil": "evil"} {
		if at, err := g.WorkingDir(dir); err != nil || at != filepath.Join(y.ws, want) {
			t.Errorf("%s: %s, %v", dir, at, err)
		}
	}
}

// That a tool is always allowed does not replace consent to write what
// configures agents.
func TestAlwaysAllowedToolsNeedConsentForConfiguration(t *testing.T) {
	y := layYard(t)
	g := gateAt(t, y.ws, "", "tools: {ask: [create, bash]}", func(o *guard.Options) { o.AllowTools = []string{"bash", "create", "Edit"} })
	for _, tt := range []struct {
		call  bridge.ToolCall
		allow bool
	}{
		{callWith("create", "path", filepath.Join(y.ws, "x.txt")), true},
		{callWith("create", "path", filepath.Join(y.ws, ".github/hooks/x.json")), false},
		{callWith("create", "path", filepath.Join(y.ws, "AGENTS.md")), false},
		{callWith("bash", "command", "make"), true},
		{callWith("bash", "command", "make > .mcp.json"), false},
		{callWith("bash", "command", "mv plant .github"), false},
		{callWith("bash", "command", "rm -rf plant"), false},
		{callWith("bash", "command", "rm -rf src"), true},
		{callWith("bash", "command", "mv src lib"), true},
		{callWith("bash", "command", "git checkout main"), false},
	} {
		d := g.Before(t.Context(), tt.call)
		if (d.Verdict == bridge.Allow) != tt.allow {
			t.Errorf("%s %v: %s %s", tt.call.Name, tt.call.Args, d.Verdict, d.Reason)
		}
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
