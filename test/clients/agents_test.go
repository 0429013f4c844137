package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// desk is where a coding agent works: a scratch repository, and a home of its
// own.
type desk struct {
	repository, home string
	path             string // looked into for programs first
	env              []string
}

func newDesk(t *testing.T, env ...string) *desk {
	t.Helper()
	d := &desk{repository: t.TempDir(), home: t.TempDir(), env: env}
	if out, err := exec.Command("git", "init", "-q", d.repository).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return d
}

// run runs a command in the repository and returns what it wrote to standard
// output.
func (d *desk) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = d.repository
	cmd.Env = append([]string{"PATH=" + d.path + string(filepath.ListSeparator) + os.Getenv("PATH"), "HOME=" + d.home, "USERPROFILE=" + d.home, "TMPDIR=" + t.TempDir()}, d.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 10*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, &stdout, &stderr)
	}
	noLeftovers(t, d.home)
	return stdout.String()
}

// holds checks a file that an agent should have written.
func (d *desk) holds(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(d.repository, name))
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

// call is a directive that calls a tool.
func call(t *testing.T, tool string, args map[string]string) string {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return "rehearsal: tool " + tool + " " + string(data) + "\n"
}

// script asks for tool calls, step by step, and for a word at the end.
func script(steps ...string) string {
	return "Please do it.\nrehearsal: text I set to work.\n" + strings.Join(steps, "rehearsal: next\n") + "rehearsal: next\nrehearsal: text It is written."
}

// said checks the last line that an agent wrote.
func said(t *testing.T, out, want string) {
	t.Helper()
	if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != want {
		t.Errorf("the agent wrote %q, want %q at the end", out, want)
	}
}

// remembers checks that the model's last request held a conversation, as
// messages, and not only a last prompt.
func remembers(t *testing.T, m *rehearsal.Server) {
	t.Helper()
	all := m.Requests()
	last := all[len(all)-1]
	if !slices.ContainsFunc(last.Messages, func(m rehearsal.Message) bool { return m.Role == "assistant" && m.Content == "It is written." }) {
		t.Errorf("the model was not told what it had said, in %d messages", len(last.Messages))
	}
}

// codexProgram is for node.
func codexProgram(t *testing.T) string {
	t.Helper()
	return filepath.Join(modules(t, "agents"), "@openai", "codex", "bin", "codex.js")
}

const codexConfig = `model = %q
model_provider = "copilot-bridge"

[model_providers.copilot-bridge]
name = "Copilot Bridge"
base_url = %q
wire_api = "responses"
env_key = "COPILOT_BRIDGE_TOKEN"
`

// TestCodex lets Codex write a file with each of the sets of tools that it has
// for models: a simple one for names that it does not know, patches as text
// and a search for tools, and one that takes JavaScript.
func TestCodex(t *testing.T) {
	program := codexProgram(t)
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token, "COPILOT_BRIDGE_ALIASES=gpt-5.5="+rehearsal.ModelID+",gpt-5.6-sol="+rehearsal.ModelID)
	const shell = "echo hello from codex > hello.txt"
	for _, tt := range []struct{ name, model, steps string }{
		{"shell", s.model.Model(), call(t, "exec_command", map[string]string{"cmd": shell})},
		{"patch", "gpt-5.5", call(t, "apply_patch", map[string]string{"input": "*** Begin Patch\n*** Add File: hello.txt\n+hello from codex\n*** End Patch\n"})},
		{"javascript", "gpt-5.6-sol", call(t, "exec", map[string]string{"input": fmt.Sprintf("text(await tools.exec_command({cmd: %q}))", shell)})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, "COPILOT_BRIDGE_TOKEN="+token)
			d.put(t, map[string]string{".codex/config.toml": fmt.Sprintf(codexConfig, tt.model, s.url+"/v1")})
			// Its own sandbox needs more than every machine allows.
			codex := []string{program, "exec", "--dangerously-bypass-approvals-and-sandbox"}
			said(t, d.run(t, "node", append(codex, script(tt.steps))...), "It is written.")
			d.holds(t, "hello.txt", "hello from codex\n")
			said(t, d.run(t, "node", append(codex, "resume", "--last", "rehearsal: text Good-bye.")...), "Good-bye.")
			remembers(t, s.model)
		})
	}
}

// claudeCode is the program itself, which a script of its package would put
// elsewhere.
func claudeCode(t *testing.T) string {
	t.Helper()
	system, arch := runtime.GOOS, runtime.GOARCH
	if system == "windows" {
		system = "win32"
	}
	if arch == "amd64" {
		arch = "x64"
	}
	found, err := filepath.Glob(filepath.Join(modules(t, "agents"), "@anthropic-ai", "claude-code-"+system+"-"+arch+"*", "claude*"))
	if err != nil || len(found) == 0 {
		t.Fatal("Claude Code is not installed", err)
	}
	return found[0]
}

func TestClaudeCode(t *testing.T) {
	program := claudeCode(t)
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	d := newDesk(t, "ANTHROPIC_BASE_URL="+s.url, "ANTHROPIC_AUTH_TOKEN="+token, "ANTHROPIC_MODEL="+s.model.Model(),
		"ANTHROPIC_DEFAULT_HAIKU_MODEL="+s.model.Model(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	hello := filepath.Join(d.repository, "hello.txt")
	steps := script(
		call(t, "Write", map[string]string{"file_path": hello, "content": "hello from nobody\n"})+
			call(t, "Write", map[string]string{"file_path": filepath.Join(d.repository, "more.txt"), "content": "more\n"}),
		call(t, "Edit", map[string]string{"file_path": hello, "old_string": "nobody", "new_string": "Claude Code"}),
	)
	said(t, d.run(t, program, "-p", steps, "--permission-mode", "acceptEdits", "--max-turns", "6"), "It is written.")
	d.holds(t, "hello.txt", "hello from Claude Code\n")
	d.holds(t, "more.txt", "more\n")
	said(t, d.run(t, program, "--continue", "-p", "rehearsal: text Good-bye."), "Good-bye.")
	remembers(t, s.model)
}
