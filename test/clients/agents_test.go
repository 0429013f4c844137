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

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// agentBench is the environment of a coding agent: a repository and a home
// directory.
type agentBench struct {
	repository, home string
	path             string // searched first for programs
	env              []string
}

func newAgentBench(t *testing.T, env ...string) *agentBench {
	t.Helper()
	d := &agentBench{repository: t.TempDir(), home: t.TempDir(), env: env}
	if out, err := exec.Command("git", "init", "-q", d.repository).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return d
}

// run runs a command in the repository and returns its standard output.
func (d *agentBench) run(t *testing.T, name string, args ...string) string {
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
	programtest.NoneLeft(t, d.home)
	return stdout.String()
}

// checkFile checks a file that an agent should have written.
func (d *agentBench) checkFile(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(d.repository, name))
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

// call is a rehearsal directive that calls a tool.
func call(t *testing.T, tool string, args map[string]string) string {
	t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return "rehearsal: tool " + tool + " " + string(data) + "\n"
}

// script is a prompt with tool calls, step by step, and a final word.
func script(steps ...string) string {
	return "Please do it.\nrehearsal: text I set to work.\n" + strings.Join(steps, "rehearsal: next\n") + "rehearsal: next\nrehearsal: text It is written."
}

// checkLastLine checks the last line of an agent's output.
func checkLastLine(t *testing.T, out, want string) {
	t.Helper()
	if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != want {
		t.Errorf("the agent wrote %q, want %q at the end", out, want)
	}
}

// checkHistory checks that the model's last request holds the conversation as
// separate messages, not only the last prompt.
func checkHistory(t *testing.T, m *demomodel.Server) {
	t.Helper()
	all := m.Requests()
	last := all[len(all)-1]
	if !slices.ContainsFunc(last.Messages, func(m demomodel.Message) bool { return m.Role == "assistant" && m.Content == "It is written." }) {
		t.Errorf("the model's last request lacks its earlier answer, in %d messages", len(last.Messages))
	}
}

// codexProgram is the path of the script that node runs.
func codexProgram(t *testing.T) string {
	t.Helper()
	return filepath.Join(modules(t, "agents"), "@openai", "codex", "bin", "codex.js")
}

const codexConfig = `%smodel_provider = "copilot-bridge"

[model_providers.copilot-bridge]
name = "Copilot Bridge"
base_url = %q
wire_api = "responses"
env_key = "COPILOT_BRIDGE_TOKEN"
`

// TestCodex has Codex write a file with each of its tool sets. Codex selects
// the set by the model name: a simple set for unknown names, a set with text
// patches and a tool search, and a set that takes JavaScript.
func TestCodex(t *testing.T) {
	program := codexProgram(t)
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token) // knows none of Codex's model names
	const shell = "echo hello from codex > hello.txt"
	for _, tt := range []struct{ name, model, steps string }{
		{"shell", s.model.Model(), call(t, "exec_command", map[string]string{"cmd": shell})},
		{"patch", "gpt-5.5", call(t, "apply_patch", map[string]string{"input": "*** Begin Patch\n*** Add File: hello.txt\n+hello from codex\n*** End Patch\n"})},
		{"javascript", "gpt-5.6-sol", call(t, "exec", map[string]string{"input": fmt.Sprintf("text(await tools.exec_command({cmd: %q}))", shell)})},
		{"no model", "", call(t, "exec", map[string]string{"input": fmt.Sprintf("text(await tools.exec_command({cmd: %q}))", shell)})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newAgentBench(t, "COPILOT_BRIDGE_TOKEN="+token)
			model := ""
			if tt.model != "" {
				model = fmt.Sprintf("model = %q\n", tt.model)
			}
			d.writeFiles(t, map[string]string{".codex/config.toml": fmt.Sprintf(codexConfig, model, s.url+"/v1")})
			// Codex's sandbox does not work on every machine.
			codex := []string{program, "exec", "--dangerously-bypass-approvals-and-sandbox"}
			checkLastLine(t, d.run(t, "node", append(codex, script(tt.steps))...), "It is written.")
			d.checkFile(t, "hello.txt", "hello from codex\n")
			checkLastLine(t, d.run(t, "node", append(codex, "resume", "--last", "rehearsal: text Good-bye.")...), "Good-bye.")
			checkHistory(t, s.model)
		})
	}
}

// claudeCode is the path of the executable. The install script of its package
// would copy it elsewhere.
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

// TestClaudeCode has Claude Code write files: with a configured model name, and
// with its default names, which the bridge does not know.
func TestClaudeCode(t *testing.T) {
	program := claudeCode(t)
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	for name, models := range map[string][]string{
		"named": {"ANTHROPIC_MODEL=" + s.model.Model(), "ANTHROPIC_DEFAULT_HAIKU_MODEL=" + s.model.Model()}, "its own": nil, "large": {"ANTHROPIC_MODEL=claude-opus-4-1[1m]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newAgentBench(t, append(models, "ANTHROPIC_BASE_URL="+s.url, "ANTHROPIC_AUTH_TOKEN="+token, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")...)
			hello := filepath.Join(d.repository, "hello.txt")
			steps := script(
				call(t, "Write", map[string]string{"file_path": hello, "content": "hello from nobody\n"})+
					call(t, "Write", map[string]string{"file_path": filepath.Join(d.repository, "more.txt"), "content": "more\n"}),
				call(t, "Edit", map[string]string{"file_path": hello, "old_string": "nobody", "new_string": "Claude Code"}),
			)
			checkLastLine(t, d.run(t, program, "-p", steps, "--permission-mode", "acceptEdits", "--max-turns", "6"), "It is written.")
			d.checkFile(t, "hello.txt", "hello from Claude Code\n")
			d.checkFile(t, "more.txt", "more\n")
			checkLastLine(t, d.run(t, program, "--continue", "-p", "rehearsal: text Good-bye."), "Good-bye.")
			checkHistory(t, s.model)
		})
	}
}

// TestClaudeCodeReadsALongFile has Claude Code read 100 kB. The model must get
// every line.
func TestClaudeCodeReadsALongFile(t *testing.T) {
	program := claudeCode(t)
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	d := newAgentBench(t, "ANTHROPIC_BASE_URL="+s.url, "ANTHROPIC_AUTH_TOKEN="+token, "ANTHROPIC_MODEL="+s.model.Model(),
		"ANTHROPIC_DEFAULT_HAIKU_MODEL="+s.model.Model(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS=200000")
	var lines []string
	for i := range 1700 { // Claude Code reads 2,000 lines at a time
		lines = append(lines, fmt.Sprintf("line %04d of a file that is too long for one screen, and more", i))
	}
	file := filepath.Join(d.repository, "long.txt")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	checkLastLine(t, d.run(t, program, "-p", script(call(t, "Read", map[string]string{"file_path": file})), "--max-turns", "4"), "It is written.")
	all := s.model.Requests()
	got := all[len(all)-1].ToolResults()
	if len(got) != 1 {
		t.Fatalf("the model got %d results", len(got))
	}
	rest := got[0]
	for _, line := range lines {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("of %d bytes the model got %d, without %q", len(lines)*(len(lines[0])+1), len(got[0]), line)
		}
		rest = after
	}
}
