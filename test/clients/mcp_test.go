package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
)

// inspector runs the official MCP inspector in command-line mode on a server
// of the binary, and returns what it printed.
func inspector(t *testing.T, env []string, dir string, server []string, args ...string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	program := filepath.Join(modules(t, "mcp"), "@modelcontextprotocol", "inspector", "cli", "build", "cli.js")
	cmd := exec.CommandContext(ctx, "node", append(append([]string{program, "--cli"}, server...), args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, env, &stdout, &stderr, 10*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, &stdout, &stderr)
	}
	var out map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	return out
}

func TestMCPInspector(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	model := provider(t)
	memory := filepath.Join(home, ".openclaw", "workspace")
	if err := os.MkdirAll(memory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(memory, "MEMORY.md"), []byte("# Birds\nThe canary sings.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USERPROFILE=" + home, "TMPDIR=" + os.TempDir(), "OPENCLAW_PORT=1",
		"COPILOT_BRIDGE_HOME=" + filepath.Join(home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + model.URL(), "COPILOT_BYOK_API_KEY=" + model.Key(), "COPILOT_BYOK_MODEL=" + model.Model()}
	pass := []string{} // the inspector gives a server little of its own environment
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); name != "PATH" && name != "HOME" {
			pass = append(pass, "-e", kv)
		}
	}
	for name, want := range map[string][]string{
		"copilot":  {"copilot_code_task", "copilot_create_file", "copilot_list_files", "copilot_orchestrate", "copilot_read_file"},
		"openclaw": {"openclaw_memory_read", "openclaw_memory_search", "openclaw_user_prefs"},
	} {
		server := append(slices.Clone(pass), binary, "mcp", name)
		var got []string
		tools, _ := inspector(t, env, dir, server, "--method", "tools/list")["tools"].([]any)
		for _, tool := range tools {
			m, _ := tool.(map[string]any)
			n, _ := m["name"].(string)
			if m["outputSchema"] == nil || m["annotations"] == nil {
				t.Errorf("%v", m)
			}
			got = append(got, n)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	call := func(server, tool string, args ...string) map[string]any {
		t.Helper()
		line := []string{"--method", "tools/call", "--tool-name", tool}
		for _, a := range args {
			line = append(line, "--tool-arg", a)
		}
		out := inspector(t, env, dir, append(slices.Clone(pass), binary, "mcp", server), line...)
		if out["isError"] == true {
			t.Errorf("%s: %v", tool, out)
		}
		result, _ := out["structuredContent"].(map[string]any)
		return result
	}
	if out := call("copilot", "copilot_create_file", "path=hello.txt", "content=hi"); out["path"] != "hello.txt" {
		t.Errorf("%v", out)
	}
	if out := call("copilot", "copilot_read_file", "path=hello.txt"); out["content"] != "hi" {
		t.Errorf("%v", out)
	}
	if out := call("copilot", "copilot_code_task", "prompt=rehearsal: text From the inspector."); out["text"] != "From the inspector." {
		t.Errorf("%v", out)
	}
	hits, _ := call("openclaw", "openclaw_memory_search", "query=canary")["hits"].([]any)
	if len(hits) != 1 {
		t.Errorf("%v", hits)
	}
	noLeftovers(t, home)
}
