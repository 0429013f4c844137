package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// mcpBench is a home, a workspace and a model.
type mcpBench struct {
	home, dir string
	model     *demomodel.Server
	env       []string
}

// newMCPBench writes files. Names that begin with ~/ are relative to the home
// directory.
func newMCPBench(t *testing.T, files map[string]string) *mcpBench {
	t.Helper()
	b := &mcpBench{model: provider(t)}
	for _, dir := range []*string{&b.home, &b.dir} {
		resolved, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		*dir = resolved
	}
	for name, text := range files {
		path := filepath.Join(b.dir, name)
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			path = filepath.Join(b.home, rest)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.env = []string{"HOME=" + b.home, "TERM=xterm", "PATH=" + filepath.Dir(binary) + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"COPILOT_CLI_PATH=" + runtimetest.Path(t), "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + b.model.URL(),
		"COPILOT_BYOK_API_KEY=" + b.model.Key(), "COPILOT_BYOK_MODEL=" + b.model.Model(),
		"OPENCLAW_PORT=1"} // no server listens there
	return b
}

func (b *mcpBench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Env = b.dir, b.env
	return cmd
}

// connect starts a server and opens a session with it. At the end of the test
// the server must exit by itself and leave no processes.
func (b *mcpBench) connect(t *testing.T, o *mcp.ClientOptions, args ...string) *mcp.ClientSession {
	t.Helper()
	cmd := b.command(args...)
	stderr := &output{}
	cmd.Stderr = stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	t.Cleanup(func() {
		_ = c.Close() // closes standard input and waits
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("the server exited with %v\n%s", cmd.ProcessState, stderr)
		}
		programtest.NoneLeft(t, b.home)
		if t.Failed() {
			t.Logf("stderr of the server:\n%s", stderr)
		}
	})
	return c
}

// processesWith returns the command lines of processes with this home that
// contain the text.
func (b *mcpBench) processesWith(text string) (found []string) {
	for _, line := range programtest.Processes(b.home) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// waitGone waits until there is no such process.
func (b *mcpBench) waitGone(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		left := b.processesWith(text)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are left: %q", left)
			return
		}
	}
}

type taskResult struct {
	Text      string
	ToolCalls []struct {
		Name, Error string
		OK          bool
	}
	FilesChanged []string
	Usage        struct{ InputTokens, OutputTokens int }
	SessionID    string
}

func mcpCall(t *testing.T, c *mcp.ClientSession, tool string, args map[string]any, into any) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if into == nil {
		return r
	}
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil || r.IsError {
		t.Fatalf("%s: %v: %s", tool, err, mcpText(r))
	}
	return r
}

func mcpText(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// allowEverything is a client that allows every request.
func allowEverything() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "once"}}, nil
	}}
}
