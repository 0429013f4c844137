package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
)

type largeResult struct {
	Success bool
	Summary string
	Plan    []struct {
		ID        string
		DependsOn []string
	}
	Tasks []struct {
		ID, State, Error string
		FilesChanged     []string
		ToolCalls        int
	}
	FilesChanged []string
	Usage        struct{ InputTokens int }
	Speedup      float64
	CriticalPath []string
	RunID        string
}

// git runs git in the bench's directory.
func (b *mcpBench) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository turns the bench's directory into a git repository.
func (b *mcpBench) repository(t *testing.T) {
	t.Helper()
	b.git(t, "init", "-q")
	b.git(t, "add", ".")
	b.git(t, "commit", "-qm", "first")
}

const threeParts = "create a.txt saying hi and create b.txt saying ho, then create c.txt saying end"

// The server plans a large MCP task, has the real runtime do the parts, and
// merges them. The client gets progress notifications and a structured result.
func TestMCPOrchestrate(t *testing.T) {
	b := newMCPBench(t, map[string]string{"keep.txt": "", ".agent-policy.yaml": "writes: { deny: [locked/**] }\n"})
	b.repository(t)
	var mu sync.Mutex
	var progress []string
	c := b.connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		progress = append(progress, r.Params.Message)
	}}, "copilot")
	p := &mcp.CallToolParams{Name: "copilot_orchestrate", Arguments: map[string]any{"task": threeParts, "maxConcurrency": 2}}
	p.SetProgressToken("p")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	r, err := c.CallTool(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	var out largeResult
	data, err := json.Marshal(r.StructuredContent)
	if err := errors.Join(err, json.Unmarshal(data, &out)); err != nil || r.IsError {
		t.Fatalf("%v: %s", err, mcpText(r))
	}
	slices.Sort(out.FilesChanged)
	if !out.Success || len(out.Plan) != 3 || len(out.Plan[2].DependsOn) != 2 || len(out.Tasks) != 3 || !slices.Equal(out.FilesChanged, []string{"a.txt", "b.txt", "c.txt"}) ||
		out.Usage.InputTokens == 0 || out.Speedup == 0 || len(out.CriticalPath) != 2 || out.RunID == "" {
		t.Errorf("%s", data)
	}
	for _, task := range out.Tasks {
		if task.State != "done" || len(task.FilesChanged) != 1 || task.ToolCalls == 0 {
			t.Errorf("%+v", task)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.dir, "c.txt")); err != nil || string(text) != "end\n" {
		t.Errorf("%q, %v", text, err)
	}
	mu.Lock()
	if all := strings.Join(progress, "\n"); !strings.Contains(all, "plan of 3 parts: ") || !strings.Contains(all, " started") || !strings.Contains(all, " done: 1 file\n") || !strings.Contains(all, "putting the work together") {
		t.Errorf("said %q", progress)
	}
	mu.Unlock()

	// The policy of the workspace applies in the worktrees of its parts.
	mcpCall(t, c, "copilot_orchestrate", map[string]any{"task": "create d.txt saying yes and create locked/e.txt saying no"}, &out)
	states := map[string]int{}
	for _, task := range out.Tasks {
		states[task.State]++
		if task.State == "failed" && !strings.Contains(task.Error, "denied") {
			t.Errorf("%+v", task)
		}
	}
	if out.Success || states["done"] != 1 || states["failed"] != 1 || !strings.Contains(out.Summary, "1 of 2 tasks done") {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "locked")); err == nil {
		t.Error("a denied file was written")
	}
	for _, tt := range []struct {
		args map[string]any
		code string
	}{
		{map[string]any{}, "invalid"},
		{map[string]any{"task": ""}, "invalid"},
		{map[string]any{"task": "x", "maxConcurrency": 17}, "invalid"},
		{map[string]any{"task": "x", "workingDir": "sub"}, "invalid"},
		{map[string]any{"task": "x", "_depth": 3}, "denied"},
	} {
		if r := mcpCall(t, c, "copilot_orchestrate", tt.args, nil); !r.IsError || !strings.HasPrefix(mcpText(r), "["+tt.code+"]") {
			t.Errorf("%v: %s", tt.args, mcpText(r))
		}
	}
}

// When a client cancels a large task, all parts end and the repository is
// unchanged. The next task in the directory can run.
func TestMCPOrchestrateCancel(t *testing.T) {
	b := newMCPBench(t, map[string]string{"keep.txt": ""})
	b.repository(t)
	asked := make(chan struct{}, 10)
	b.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		switch {
		case strings.Contains(r.LastUser(), "Your part, "):
			asked <- struct{}{}
			return demomodel.Reply{demomodel.Silence()}, true
		case strings.Contains(r.LastUser(), "for ever"):
			return demomodel.Reply{demomodel.Text(`{"tasks":[{"id":"x","description":"for ever"},{"id":"y","description":"for ever"}],"dependencies":{}}`)}, true
		}
		return nil, false
	})
	c := b.connect(t, nil, "copilot")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_orchestrate", Arguments: map[string]any{"task": "wait for ever"}})
		ended <- err
	}()
	for range 2 { // both parts are running
		select {
		case <-asked:
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	var out taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "rehearsal: text Next."}, &out)
	if out.Text != "Next." {
		t.Errorf("%+v", out)
	}
	if list := b.git(t, "worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("worktrees are left:\n%s", list)
	}
	if changed := b.git(t, "status", "--porcelain"); changed != "" {
		t.Errorf("the tree was changed: %s", changed)
	}
}

// The server for OpenClaw's plugin works in the workspace of OpenClaw's agent
// by default, and exits when its standard input is closed.
func TestMCPPluginWorkspace(t *testing.T) {
	b := newMCPBench(t, map[string]string{"~/.openclaw/workspace/AGENTS.md": "# Agent\n"})
	c := b.connect(t, nil, "plugin")
	mcpCall(t, c, "copilot_code", map[string]any{"task": "create hello.txt saying hi"}, nil)
	if text, err := os.ReadFile(filepath.Join(b.home, ".openclaw", "workspace", "hello.txt")); err != nil || string(text) != "hi\n" {
		t.Errorf("%q, %v", text, err)
	}
	none := newMCPBench(t, nil)
	cmd := none.command("plugin")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the workspace cannot be used") {
		t.Errorf("%v: %s", err, out)
	}
}
