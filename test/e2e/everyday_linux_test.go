package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestEverydayCommands has an agent with the real runtime run sixty ordinary
// commands in five projects. In the sandbox all commands work, and the number
// of permission requests is at least 85 % smaller than without it. Without the
// sandbox every request is denied.
func TestEverydayCommands(t *testing.T) {
	needsSandbox(t)
	lines := everydayLines(t)
	asked, total := map[string]int{}, 0
	for project, commands := range lines {
		if missing := missingPrograms(project); missing != "" {
			if os.Getenv("COPILOT_BRIDGE_TEST_SANDBOX") != "" {
				t.Fatalf("%s is not installed", missing)
			}
			t.Logf("the %s project is skipped: %s is not installed", project, missing)
			continue
		}
		total += len(commands)
		for _, mode := range []string{"off", "require"} {
			t.Run(project+" "+mode, func(t *testing.T) { asked[mode] += runEveryday(t, project, mode, commands) })
		}
	}
	if total == 0 {
		t.Skip("no toolchain is installed")
	}
	t.Logf("%d commands: %d questions without the sandbox, %d with it", total, asked["off"], asked["require"])
	if asked["off"] < total/2 || asked["require"]*100 > asked["off"]*15 {
		t.Errorf("%d questions without the sandbox, %d with it", asked["off"], asked["require"])
	}
}

// runEveryday runs the commands of a project in one turn and returns the number
// of permission requests.
func runEveryday(t *testing.T, project, mode string, commands []string) int {
	b := newMCPBench(t, map[string]string{"~/.gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"})
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX="+mode)
	// Toolchains may be in the home of the user who runs the tests.
	for name, dir := range map[string]string{"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv"} {
		home, err := os.UserHomeDir()
		if at := filepath.Join(home, dir); err == nil && os.Getenv(name) == "" {
			if _, err := os.Stat(at); err == nil {
				b.env = append(b.env, name+"="+at)
			}
		}
	}
	archive, err := txtar.ParseFile("testdata/everyday/" + project + ".txtar")
	if err == nil {
		err = txtar.Write(archive, b.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		git := exec.Command("git", args...)
		git.Dir, git.Env = b.dir, b.env
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, ".git", "info", "exclude"), []byte("log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var questions atomic.Int64
	c := b.connect(t, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		questions.Add(1)
		if mode != "off" {
			t.Logf("asked: %.300s", r.Params.Message)
		}
		decision := "once"
		if mode == "off" {
			decision = "no"
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
	}}, "copilot")
	var prompt strings.Builder
	for i, line := range commands {
		// The exit code goes to a file that the test reads.
		line = fmt.Sprintf("{ %s\n} > log/%d 2>&1; echo $? >> log/%d", line, i, i)
		prompt.WriteString("rehearsal: tool bash " + toJSON(map[string]any{"command": line, "description": "work", "initial_wait": 300}) + "\nrehearsal: next\n")
	}
	prompt.WriteString("rehearsal: text done")
	if err := os.Mkdir(filepath.Join(b.dir, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt.String()}})
	if err != nil || r.IsError {
		t.Fatal(err, mcpText(r))
	}
	for i, line := range commands {
		if mode == "off" {
			break
		}
		out, err := os.ReadFile(filepath.Join(b.dir, "log", fmt.Sprint(i)))
		if err != nil || !strings.HasSuffix("\n"+string(out), "\n0\n") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	return int(questions.Load())
}

// needsSandbox skips the test if bubblewrap is not installed.
func needsSandbox(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("COPILOT_BRIDGE_TEST_SANDBOX") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("bubblewrap is not installed: run `make test-sandbox`, or apt install bubblewrap")
	}
}

func everydayLines(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/everyday/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if project, command, ok := strings.Cut(strings.TrimSpace(line), " "); ok && project != "#" {
			all[project] = append(all[project], command)
		}
	}
	return all
}

// missingPrograms returns the missing programs of a project.
func missingPrograms(project string) string {
	for _, name := range strings.Fields(map[string]string{"node": "npm", "python": "python3", "rust": "cargo rustc", "c": "gcc make ar nm"}[project]) {
		if exec.Command(name, "--version").Run() != nil {
			return name
		}
	}
	return ""
}
