package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// The sandbox limits programs that the guard has allowed. Without the sandbox
// each of these programs does its harm.
func TestToolBusSandbox(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // nothing writes to it
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
		"key":     "cat $HOME/.copilot-bridge/dashboard.key",
		"answer":  "for d in $HOME/.copilot-bridge/live/*/; do echo '{\"answer\":\"once\"}' > $d/x.answer; done",
		"other":   "ls " + filepath.Dir(outside) + "/*",
		"connect": "exec 3<> /dev/tcp/127.0.0.1/" + port,
		"policy":  "echo {} > .agent-policy.yaml",
		"agents":  "echo x > AGENTS.md",
		"hook":    "echo x > .git/hooks/pre-commit",
	}
	for _, mode := range []string{"auto", "off"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"~/policy.yaml": "shell: {allow: ['bash *']}\n", "~/dashboard.key": strings.Repeat("0a", 32) + "\n", ".agent-policy.yaml": "{}\n", "AGENTS.md": "good\n"}
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

// If a command creates a file that configures an agent, the file is moved away
// and the result says so.
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
		t.Error("the file was not kept")
	}
}

// replaceBubblewrap is a command prefix that replaces bubblewrap by another
// file, only for the started program.
func replaceBubblewrap(t *testing.T, file string) []string {
	t.Helper()
	at, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	if at, err = filepath.EvalSymlinks(at); err != nil {
		t.Fatal(err)
	}
	as := "-m"
	if os.Geteuid() != 0 {
		as = "-Urm"
	}
	return []string{"unshare", as, "sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", file, at}
}

// emptyOrder is a work order that does nothing.
func emptyOrder(dir string) string {
	return `{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"rehearsal: text done","lane":"workspace_first","workspace":{"root":` + toJSON(dir) + `,"mode":"pass_through"}}}` + "\n"
}

// mustFail runs the program to its end. It must fail.
func mustFail(t *testing.T, home, dir, mode string, by []string, args ...string) string {
	t.Helper()
	line := slices.Concat([]string{"env"}, by, []string{binary}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=" + mode}
	cmd.Stdin = strings.NewReader(emptyOrder(dir)) // only read by abp
	out, err := cmd.CombinedOutput()
	if err == nil && args[0] != "abp" { // abp reports the error to its host
		t.Errorf("%v started", args)
	}
	if args[0] == "abp" && (!strings.Contains(string(out), `{"t":"fatal"`) || strings.Contains(string(out), `{"t":"final"`)) {
		t.Errorf("%v did the work", args)
	}
	return string(out)
}

// sandboxedCommands lists commands that refuse to start if a sandbox is
// required but missing.
var sandboxedCommands = [][]string{{"serve", "--demo", "--port", "0"}, {"run", "--demo", "hi"}, {"mcp", "copilot"}, {"mcp", "plugin", "--workspace", "."}, {"acp", "--demo"}, {"abp", "--demo"}, {"orchestrate", "--demo", "hi"}}

// If the sandbox is required and bubblewrap is missing, no command starts, and
// each says how to install it.
func TestSandboxMissing(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	home := t.TempDir()
	for _, args := range sandboxedCommands {
		out := mustFail(t, home, t.TempDir(), "require", replaceBubblewrap(t, "/dev/null"), args...)
		for _, words := range []string{"the sandbox is required (COPILOT_BRIDGE_SANDBOX): bubblewrap (bwrap) is not installed", "apt install bubblewrap"} {
			if !strings.Contains(out, words) {
				t.Errorf("%v: %q is missing in %s", args, words, out)
			}
		}
	}
}

// An invalid sandbox setting is an error. If the sandbox is required, so is
// everything it cannot confine: a workspace that is the home directory, a rule
// about hosts, and an agent that runs its own programs.
func TestSandboxRequired(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	home := t.TempDir()
	for _, args := range sandboxedCommands {
		if out := mustFail(t, home, t.TempDir(), "maybe", nil, args...); !strings.Contains(out, "must be one of auto, require, off") {
			t.Errorf("%v: %s", args, out)
		}
	}
	for _, args := range sandboxedCommands {
		if args[0] == "acp" { // acp gets the workspace later
			continue
		}
		if out := mustFail(t, home, home, "require", nil, args...); !strings.Contains(out, "cannot be confined: it is a directory of the system, or holds your home directory") {
			t.Errorf("%v: %s", args, out)
		}
	}
	// The default transport does not fall back to such an agent either.
	for _, way := range []string{"ABP_COPILOT_TRANSPORT=acp", "ABP_COPILOT_TRANSPORT=legacy", "COPILOT_CLI_PATH=/none"} {
		out := mustFail(t, home, t.TempDir(), "require", []string{"ABP_COPILOT_CMD=/bin/cat", "ABP_COPILOT_RUNNER=/bin/cat", way}, "run", "hi")
		if !strings.Contains(out, "runs programs of its own, which cannot be confined") {
			t.Errorf("%s: %s", way, out)
		}
	}
	policy := filepath.Join(home, ".copilot-bridge", "policy.yaml")
	for rule, words := range map[string]string{
		"sandbox: {network: [10.0.0.0/8]}\n":          "the sandbox cannot hold ranges and wildcards within a name",
		"sandbox: {network: ['api-*.example.com']}\n": "the sandbox cannot hold ranges and wildcards within a name",
		"sandbox: {read: [data]}\n":                   "write an absolute path",
	} {
		if err := os.WriteFile(policy, []byte(rule), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := mustFail(t, home, t.TempDir(), "require", nil, "run", "--demo", "hi"); !strings.Contains(out, words) {
			t.Errorf("%s: %s", rule, out)
		}
	}
}

// If the sandbox breaks while the server runs, everything that needs it fails
// with the reason. Nothing runs without it.
func TestSandboxBreaks(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	at, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(at)
	bwrap := filepath.Join(t.TempDir(), "bwrap")
	if err := errors.Join(err, os.WriteFile(bwrap, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	s := serveBy(t, replaceBubblewrap(t, bwrap), map[string]string{
		"~/policy.yaml": "shell: {allow: ['touch *', 'tr *', 'cat *', 'make *', 'builtin:read-only']}\n",
		"~/config.yaml": `{"languages":{"note":{"extensions":[".note"],"formatter":["tr","a-z","A-Z"]},"memo":{"extensions":[".memo"],"command":["cat"]}}}`,
		"Makefile":      "attack:\n\ttouch ran\n", "a.note": "x\n", "b.memo": "x\n",
	}, []string{"COPILOT_BRIDGE_SANDBOX=require"}, "--read-write")
	if got := s.post(t, "mcp.shell.run", map[string]any{"cmd": "touch works"}); !strings.Contains(got, `"exitCode":0`) {
		t.Fatal(got)
	}
	agent := func() string {
		prompt := "rehearsal: tool bash " + toJSON(map[string]any{"command": "touch ran", "description": "x"}) + "\nrehearsal: next\nrehearsal: text done"
		resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"agent/rehearsal-1","messages":[{"role":"user","content":`+toJSON(prompt)+`}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, broken := range []func() error{
		func() error { return os.Chmod(bwrap, 0o644) },
		func() error {
			return errors.Join(os.WriteFile(bwrap, []byte("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"), 0o755), os.Chmod(bwrap, 0o755))
		},
	} {
		if err := broken(); err != nil {
			t.Fatal(err)
		}
		for method, params := range map[string]map[string]any{"mcp.shell.run": {"cmd": "touch ran"}, "mcp.task.run": {"name": "attack"}, "mcp.format.apply": {"path": "a.note"}, "mcp.symbols.list": {"path": "b.memo"}} {
			if got := s.post(t, method, params); !strings.Contains(got, "permission denied") && !strings.Contains(got, "No permissions to create") {
				t.Errorf("%s: %s", method, got)
			}
		}
		if got := agent(); !strings.Contains(got, "the session cannot be confined") && !strings.Contains(got, "Nothing was run, because the sandbox failed") {
			t.Errorf("an agent: %s", got)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
			t.Fatal("it ran without a sandbox")
		}
		if text, err := os.ReadFile(filepath.Join(s.dir, "a.note")); err != nil || string(text) != "x\n" {
			t.Errorf("the formatter ran: %q, %v", text, err)
		}
	}
}

// When a bridge, a supervisor or a runtime is killed, nothing of a confined
// command remains: no process, directory, mount or namespace.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	const stay = "setsid sleep 3601 & (trap '' TERM; sleep 3602) & sleep 3603"
	line := func(t *testing.T, s *served) {
		t.Helper()
		w, status := s.dial(t, nil)
		if w == nil {
			t.Fatal(status)
		}
		w.send(`{"jsonrpc":"2.0","id":7,"method":"mcp.shell.run","params":{"cmd":"bash stay"}}`)
	}
	agent := func(t *testing.T, s *served) {
		t.Helper()
		w, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() }) // the other end is closed
		prompt := "rehearsal: tool bash " + toJSON(map[string]any{"command": "bash stay", "description": "x"}) + "\nrehearsal: next\nrehearsal: text done"
		body := `{"model":"agent/rehearsal-1","messages":[{"role":"user","content":` + toJSON(prompt) + `}]}`
		if _, err := fmt.Fprintf(w, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", strings.TrimPrefix(s.url, "http://"), len(body), body); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, victim string
		begin        func(t *testing.T, s *served)
	}{
		{"a line, the bridge", "serve", line},
		{"an agent, the bridge", "serve", agent},
		{"an agent, its supervisor", supervise.Verb, agent},
		{"an agent, its runtime", runtimetest.Path(t), agent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			s, kill := serveToKill(t, temp, stay)
			c.begin(t, s)
			waitUntil(t, "the command runs", func() bool { return len(processes(t, s.home, "sleep 360")) >= 3 })
			spaces := namespaces(t, "sleep 360", s.home)
			kill(c.victim)
			waitUntil(t, "the sandbox is gone", func() bool { return len(processes(t, s.home, "sleep 360")) == 0 })
			if c.victim == "serve" {
				waitUntil(t, "all processes are gone", func() bool { return len(processes(t, s.home, "")) == 0 })
			}
			waitUntil(t, "its directories are gone", func() bool {
				found, err := filepath.Glob(filepath.Join(temp, "*", "session-*"))
				if c.victim == "serve" {
					found, err = filepath.Glob(filepath.Join(temp, "*"))
				}
				return err == nil && len(found) == 0
			})
			waitUntil(t, "its namespaces are gone", func() bool { return len(namespacesInUse(t, spaces)) == 0 })
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), s.dir) || strings.Contains(string(mounts), temp) {
				t.Errorf("mounts are left: %v\n%s", err, mounts)
			}
		})
	}
}

// serveToKill serves a workspace with a script and its own temporary directory.
// kill kills the server (serve), or the child processes whose command line
// begins with the victim or whose verb it is.
func serveToKill(t *testing.T, temp, script string) (s *served, kill func(victim string)) {
	t.Helper()
	s = &served{home: t.TempDir(), dir: t.TempDir()}
	for file, text := range map[string]string{filepath.Join(s.home, ".copilot-bridge", "policy.yaml"): "shell: {allow: ['bash *']}\n", filepath.Join(s.dir, "stay"): script + "\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, "serve", "--json", "--port", "0", "--demo", "--read-write")
	cmd.Dir, cmd.Env = s.dir, []string{"HOME=" + s.home, "TMPDIR=" + temp, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BRIDGE_SANDBOX=require"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // may already be killed
		_ = cmd.Wait()
		waitUntil(t, "all processes are gone", func() bool { return len(processes(t, s.home, "")) == 0 })
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var address struct{ URL, RPC string }
	if err := errors.Join(err, json.Unmarshal(line, &address)); err != nil {
		t.Fatal(err)
	}
	s.url, s.rpc = address.URL, address.RPC
	return s, func(victim string) {
		t.Helper()
		if victim == "serve" {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			return
		}
		killed := 0
		for _, at := range processes(t, s.home, victim) {
			line, err := os.ReadFile(at + "/cmdline")
			words := strings.Split(string(line), "\x00")
			pid, wrong := strconv.Atoi(filepath.Base(at))
			if err == nil && wrong == nil && (words[0] == victim || len(words) > 1 && words[1] == victim) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		if killed == 0 {
			t.Fatalf("found no process %s", victim)
		}
	}
}

// namespaces returns the private namespaces of the processes whose command line
// contains the text.
func namespaces(t *testing.T, text, home string) []string {
	t.Helper()
	var out []string
	for _, at := range processes(t, home, text) {
		for _, kind := range []string{"net", "mnt", "pid"} {
			its, err := os.Readlink(filepath.Join(at, "ns", kind))
			ours, err2 := os.Readlink("/proc/self/ns/" + kind)
			if err == nil && err2 == nil && its != ours && !slices.Contains(out, its) {
				out = append(out, its)
			}
		}
	}
	if len(out) < 3 {
		t.Errorf("the command is not confined: %q", out)
	}
	return out
}

// namespacesInUse returns the namespaces that a process or a mount still uses.
func namespacesInUse(t *testing.T, spaces []string) (out []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && slices.Contains(spaces, to) {
			out = append(out, l)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range spaces {
		if strings.Contains(string(mounts), s) {
			out = append(out, s)
		}
	}
	return out
}

// If an agent's command secretly creates a file that would configure something,
// the file is moved away and the model gets a message. A file that the user has
// allowed stays.
func TestSandboxWithholdsFromAgents(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	b := newMCPBench(t, map[string]string{"Makefile": "plant:\n\t@echo be bad > AGENTS.md; mkdir -p .github/hooks; echo '{}' > .github/hooks/a.json; echo done > made\n"})
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX=require")
	c := b.connect(t, allowEverything(), "copilot")
	prompt := "rehearsal: tool bash " + toJSON(map[string]any{"command": "make plant", "description": "plant"}) + "\nrehearsal: next\n" +
		"rehearsal: tool bash " + toJSON(map[string]any{"command": "echo be good > CLAUDE.md", "description": "write"}) + "\nrehearsal: next\nrehearsal: text done"
	var result taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": prompt}, &result)
	for name, there := range map[string]bool{"made": true, "AGENTS.md": false, ".github/hooks": false, "CLAUDE.md": true} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != there {
			t.Errorf("%s: %v; %+v", name, err, result)
		}
	}
	found := filesContaining(t, filepath.Join(b.home, ".copilot-bridge", "withheld"), "be bad")
	if len(found) != 1 {
		t.Errorf("withheld: %q", found)
	}
}

// Files of a background command are checked as well, at the end of later calls.
func TestSandboxWithholdsFromTheBackground(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	b := newMCPBench(t, map[string]string{"Makefile": "plant:\n\t@sleep 0.5; echo be bad > AGENTS.md; touch planted; while [ -e AGENTS.md ]; do sleep 0.05; done; echo be worse > CLAUDE.md; touch again; sleep 3600\n"})
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX=require")
	c := b.connect(t, allowEverything(), "copilot")
	call := func(tool string, args map[string]any) string {
		return "rehearsal: tool " + tool + " " + toJSON(args) + "\nrehearsal: next\n"
	}
	prompt := call("bash", map[string]any{"command": "make plant", "description": "x", "mode": "async", "shellId": "a1"}) +
		call("bash", map[string]any{"command": "while [ ! -e planted ]; do sleep 0.05; done", "description": "x"}) +
		call("bash", map[string]any{"command": "while [ ! -e again ]; do sleep 0.05; done", "description": "x"}) + "rehearsal: text done"
	var result taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": prompt}, &result)
	for name, there := range map[string]bool{"planted": true, "again": true, "AGENTS.md": false, "CLAUDE.md": false} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != there {
			t.Errorf("%s: %v; %+v", name, err, result)
		}
	}
}
