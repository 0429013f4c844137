package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
)

// What the guard has allowed is held by the operating system all the same.
// Without the sandbox each of these programs does its harm.
func TestToolBusSandbox(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // nobody writes to it
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	attacks := map[string]string{
		"write":   "echo x > " + outside + "/written",
		"read":    "cat $HOME/.netrc",
		"list":    "ls -A $HOME | grep netrc",
		"bridge":  "ls -A $HOME/.copilot-bridge | grep policy",
		"other":   "ls " + filepath.Dir(outside) + "/*",
		"connect": "exec 3<> /dev/tcp/127.0.0.1/" + port,
		"policy":  "echo x > .agent-policy.yaml",
		"agents":  "echo x > AGENTS.md",
		"hook":    "echo x > .git/hooks/pre-commit",
	}
	for _, mode := range []string{"auto", "off"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"~/policy.yaml": "shell: {allow: ['bash *']}\n", ".agent-policy.yaml": "{}\n", "AGENTS.md": "good\n"}
			for name, script := range attacks {
				files[name] = "set -e\n" + script + "\n"
			}
			s := serveFiles(t, files, []string{"COPILOT_BRIDGE_SANDBOX=" + mode}, "--read-write")
			for file, text := range map[string]string{filepath.Join(s.home, ".netrc"): "canary", filepath.Join(s.dir, ".git", "HEAD"): "ref: refs/heads/main\n",
				filepath.Join(s.dir, ".git", "objects", "x"): "", filepath.Join(s.dir, ".git", "hooks", "x"): ""} {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for name := range attacks {
				got := s.post(t, "mcp.shell.run", map[string]any{"cmd": "bash " + name})
				if done := strings.Contains(got, `"exitCode":0`); done != (mode == "off") {
					t.Errorf("%s: %s", name, got)
				}
			}
		})
	}
}

// A file that configures an agent is moved away if a command makes it, and
// whoever ran the command is told.
func TestToolBusWithholdsConfiguration(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	s := serveFiles(t, map[string]string{"~/policy.yaml": "shell: {allow: ['bash *']}\n", "make": "echo bad > CLAUDE.md; mkdir -p .github/hooks; echo x > .github/hooks/a.json; echo fine > fine\n"}, []string{"COPILOT_BRIDGE_SANDBOX=require"}, "--read-write")
	got := s.post(t, "mcp.shell.run", map[string]any{"cmd": "bash make"})
	if !strings.Contains(got, ".github/hooks, CLAUDE.md would configure agents") || !strings.Contains(got, `"exitCode":0`) {
		t.Error(got)
	}
	for name, want := range map[string]bool{"CLAUDE.md": false, ".github/hooks": false, "fine": true} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(s.home, ".copilot-bridge", "withheld", "*", "CLAUDE.md")); len(kept) != 1 {
		t.Error("it was not kept")
	}
}

// A value that is none is an error, and what cannot be confined does not start
// where the sandbox is required.
func TestSandboxRequired(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	home := t.TempDir()
	start := func(dir, mode string, args ...string) string {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=" + mode}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%v started", args)
		}
		return string(out)
	}
	for _, args := range [][]string{{"serve", "--demo", "--port", "0"}, {"run", "--demo", "hi"}, {"mcp", "copilot"}, {"orchestrate", "--demo", "hi"}} {
		if out := start(t.TempDir(), "maybe", args...); !strings.Contains(out, "must be one of auto, require, off") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out := start(home, "require", "serve", "--demo", "--port", "0"); !strings.Contains(out, "cannot be confined") {
		t.Error(out)
	}
}

// Nothing of a confined command outlives a bridge that is killed.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	home, dir := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{filepath.Join(home, ".copilot-bridge", "policy.yaml"): "shell: {allow: ['bash *']}\n",
		filepath.Join(dir, "stay"): "setsid sleep 3601 & (trap '' TERM; sleep 3602) & echo > ready; sleep 3603\n"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "serve", "--json", "--port", "0", "--demo", "--read-write")
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=require"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var told struct{ URL, RPC string }
	if err := errors.Join(err, json.Unmarshal(line, &told)); err != nil {
		t.Fatal(err)
	}
	s := &served{url: told.URL, rpc: told.RPC, home: home, dir: dir}
	w, status := s.dial(t, nil)
	if w == nil {
		t.Fatal(status)
	}
	w.send(`{"jsonrpc":"2.0","id":7,"method":"mcp.shell.run","params":{"cmd":"bash stay"}}`)
	within(t, "the command runs", func() bool { return len(processes(t, home, "sleep 360")) >= 3 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	within(t, "all processes are gone", func() bool { return len(processes(t, home, "")) == 0 })
}

// What a command of an agent makes unseen that would configure something is
// taken away, and the model is told. What the person has agreed to stays.
func TestSandboxWithholdsFromAgents(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	b := newMCPBench(t, map[string]string{"Makefile": "plant:\n\t@echo be bad > AGENTS.md; mkdir -p .github/hooks; echo '{}' > .github/hooks/a.json; echo done > made\n"})
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX=require")
	c := b.connect(t, consenting(), "copilot")
	prompt := "rehearsal: tool bash " + quoted(map[string]any{"command": "make plant", "description": "plant"}) + "\nrehearsal: next\n" +
		"rehearsal: tool bash " + quoted(map[string]any{"command": "echo be good > CLAUDE.md", "description": "write"}) + "\nrehearsal: next\nrehearsal: text done"
	var result taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": prompt}, &result)
	for name, there := range map[string]bool{"made": true, "AGENTS.md": false, ".github/hooks": false, "CLAUDE.md": true} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != there {
			t.Errorf("%s: %v; %+v", name, err, result)
		}
	}
	found := holding(t, filepath.Join(b.home, ".copilot-bridge", "withheld"), "be bad")
	if len(found) != 1 {
		t.Errorf("withheld: %q", found)
	}
}
