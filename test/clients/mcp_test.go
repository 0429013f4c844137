package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// mcpBench is the environment of an MCP server: a home with some OpenClaw
// memory, a workspace and a model.
type mcpBench struct {
	home, dir string
	env       []string
}

func newMCPBench(t *testing.T) *mcpBench {
	t.Helper()
	b := &mcpBench{home: t.TempDir(), dir: t.TempDir()}
	model := provider(t)
	memory := filepath.Join(b.home, ".openclaw", "workspace")
	if err := os.MkdirAll(memory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(memory, "MEMORY.md"), []byte("# Birds\nThe canary sings.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "USERPROFILE=" + b.home, "TMPDIR=" + os.TempDir(), "OPENCLAW_PORT=1",
		"COPILOT_BRIDGE_HOME=" + filepath.Join(b.home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t),
		"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + model.URL(), "COPILOT_BYOK_API_KEY=" + model.Key(), "COPILOT_BYOK_MODEL=" + model.Model()}
	t.Cleanup(func() { programtest.NoneLeft(t, b.home) })
	return b
}

// stdio returns the command of a server for the inspector, which passes on
// only a small part of its environment.
func (b *mcpBench) stdio(name string) []string {
	var out []string
	for _, kv := range b.env {
		if name, _, _ := strings.Cut(kv, "="); name != "PATH" && name != "HOME" {
			out = append(out, "-e", kv)
		}
	}
	return append(out, binary, "mcp", name)
}

// http starts a server and returns its URL. At the end of the test the server
// must exit cleanly.
func (b *mcpBench) http(t *testing.T, name string, flags []string, settings ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"mcp", name, "--http", "127.0.0.1:0", "--json"}, flags...)...)
	stderr := &output{}
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = b.dir, append(slices.Clone(b.env), settings...), stderr, patience
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop(t, cmd, stdout)
		if t.Failed() {
			t.Logf("stderr of the server:\n%s", stderr)
		}
	})
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var ready struct{ URL string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || ready.URL == "" {
		t.Fatalf("the ready line is %q, %v; stderr:\n%s", line, err, stderr)
	}
	return ready.URL
}

// inspector runs the official MCP inspector in command-line mode on a server
// and returns its output. (mcp/package.json replaces vite with a small
// package: only the inspector's web pages need it, and it has a package per
// platform.)
func (b *mcpBench) inspector(t *testing.T, server []string, args ...string) (stdout, stderr []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	node, installed := newerNode(t)
	program := filepath.Join(installed, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	cmd := exec.CommandContext(ctx, node, append(append([]string{program, "--cli"}, server...), args...)...)
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = b.dir, b.env, &out, &errOut, 10*time.Second
	err = cmd.Run()
	return out.Bytes(), errOut.Bytes(), err
}

// mustInspect runs the inspector, which must succeed.
func (b *mcpBench) mustInspect(t *testing.T, server []string, args ...string) map[string]any {
	t.Helper()
	stdout, stderr, err := b.inspector(t, server, args...)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(stdout, &out)
	}
	if err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, stdout, stderr)
	}
	return out
}

func calling(tool string, args []string) []string {
	line := []string{"--method", "tools/call", "--tool-name", tool}
	for _, a := range args {
		line = append(line, "--tool-arg", a)
	}
	return line
}

// call calls a tool with arguments NAME=VALUE and returns its result.
func (b *mcpBench) call(t *testing.T, server []string, tool string, args ...string) map[string]any {
	t.Helper()
	r, _ := b.mustInspect(t, server, calling(tool, args)...)["structuredContent"].(map[string]any)
	return r
}

// callError calls a tool that must fail and returns the error code, with which
// the text must begin. The inspector prints the result and exits with 5.
func (b *mcpBench) callError(t *testing.T, server []string, tool string, args ...string) string {
	t.Helper()
	stdout, stderr, err := b.inspector(t, server, calling(tool, args)...)
	var exit *exec.ExitError
	var out map[string]any
	if !errors.As(err, &exit) || exit.ExitCode() != 5 || json.Unmarshal(stdout, &out) != nil {
		t.Errorf("%v\n%s\n%s", err, stdout, stderr)
		return ""
	}
	meta, _ := out["_meta"].(map[string]any)
	detail, _ := meta["copilot-bridge/error"].(map[string]any)
	code, _ := detail["code"].(string)
	content, _ := out["content"].([]any)
	if out["isError"] != true || code == "" || len(content) != 1 {
		t.Errorf("%v", out)
		return ""
	}
	first, _ := content[0].(map[string]any)
	if text, _ := first["text"].(string); !strings.HasPrefix(text, "["+code+"] ") {
		t.Errorf("%q", text)
	}
	return code
}

// TestMCPInspector runs the inspector on both servers, over both transports.
func TestMCPInspector(t *testing.T) {
	const secret = "a-token-of-this-test"
	b := newMCPBench(t)
	header := []string{"--transport", "http", "--header", "Authorization: Bearer " + secret}
	for _, tt := range []struct {
		name   string
		server func(name string) []string
	}{
		{"stdio", b.stdio},
		{"http", func(name string) []string {
			flags := []string{}
			if name == "copilot" {
				flags = append(flags, "--read-write")
			}
			return append([]string{b.http(t, name, flags, "COPILOT_BRIDGE_TOKEN="+secret)}, header...)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			copilot, openclaw := tt.server("copilot"), tt.server("openclaw")
			b.checkTools(t, copilot, "copilot_code_task", "copilot_create_file", "copilot_list_files", "copilot_orchestrate", "copilot_read_file")
			b.checkTools(t, openclaw, "openclaw_memory_read", "openclaw_memory_search", "openclaw_user_prefs")
			name := tt.name + ".txt"
			if out := b.call(t, copilot, "copilot_create_file", "path="+name, "content=hi"); out["path"] != name {
				t.Errorf("%v", out)
			}
			if out := b.call(t, copilot, "copilot_read_file", "path="+name); out["content"] != "hi" {
				t.Errorf("%v", out)
			}
			if out := b.call(t, copilot, "copilot_code_task", "prompt=rehearsal: text From the inspector."); out["text"] != "From the inspector." {
				t.Errorf("%v", out)
			}
			hits := b.call(t, openclaw, "openclaw_memory_search", "query=canary")
			if found, _ := hits["hits"].([]any); len(found) != 1 || hits["source"] != "files" {
				t.Errorf("%v", hits)
			}
			for _, e := range []struct {
				server []string
				tool   string
				args   []string
				code   string
			}{
				{copilot, "copilot_create_file", []string{"path=" + name, "content=again"}, "conflict"},
				{copilot, "copilot_read_file", []string{"path=../outside.txt"}, "denied"},
				{copilot, "copilot_read_file", nil, "invalid"},
				{copilot, "copilot_list_files", []string{"_depth=3"}, "denied"},
				{openclaw, "openclaw_memory_read", []string{"file=../openclaw.json"}, "invalid"},
				{openclaw, "openclaw_user_prefs", nil, "not_found"},
			} {
				if got := b.callError(t, e.server, e.tool, e.args...); got != e.code {
					t.Errorf("%s %q: %s, want %s", e.tool, e.args, got, e.code)
				}
			}
			if stdout, stderr, err := b.inspector(t, copilot, "--method", "tools/call", "--tool-name", "none"); err == nil || !strings.Contains(string(stderr), "tool_not_found") {
				t.Errorf("a tool that does not exist: %v\n%s%s", err, stdout, stderr)
			}
		})
	}
	if stdout, stderr, err := b.inspector(t, []string{b.http(t, "openclaw", nil, "COPILOT_BRIDGE_TOKEN="+secret), "--transport", "http", "--header", "Authorization: Bearer wrong"},
		"--method", "tools/list"); err == nil || !strings.Contains(string(stderr), "auth_required") {
		t.Errorf("a wrong token: %v\n%s%s", err, stdout, stderr)
	}
}

// checkTools checks the names of the tools, that each has all descriptions, and
// that the inspector finds no schema that other clients cannot read.
func (b *mcpBench) checkTools(t *testing.T, server []string, want ...string) {
	t.Helper()
	var got []string
	stdout, stderr, err := b.inspector(t, server, "--method", "tools/list", "--strict")
	var list struct{ Tools []map[string]any }
	if err == nil {
		err = json.Unmarshal(stdout, &list)
	}
	if err != nil || strings.Contains(string(stderr), "Warning: tool") {
		t.Errorf("%v\n%s", err, stderr)
	}
	for _, m := range list.Tools {
		n, _ := m["name"].(string)
		if m["outputSchema"] == nil || m["annotations"] == nil {
			t.Errorf("%v", m)
		}
		got = append(got, n)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
