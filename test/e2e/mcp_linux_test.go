package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// Listing the tools and working on files does not start Copilot.
func TestMCPWithoutCopilot(t *testing.T) {
	b := newMCPBench(t, map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n", "secret.txt": "token=ghp_0123456789abcdefghijABCDEFGHIJ012345\n",
		".agent-policy.yaml": "reads: { deny: [private/**] }\nwrites: { deny: [locked.txt] }\n", "private/x.txt": "canary\n"})
	b.env = append(b.env, "COPILOT_CLI_PATH="+filepath.Join(b.home, "none"))
	c := b.connect(t, nil, "copilot")
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	if p := b.processesWith(""); len(p) != 1 {
		t.Errorf("running processes: %q", p)
	}
	var file struct {
		Content  string
		Redacted int
	}
	mcpCall(t, c, "copilot_read_file", map[string]any{"path": "a.txt"}, &file)
	if file.Content != "one\n" {
		t.Errorf("%+v", file)
	}
	mcpCall(t, c, "copilot_read_file", map[string]any{"path": "secret.txt"}, &file)
	if file.Redacted != 1 || strings.Contains(file.Content, "ghp_") {
		t.Errorf("%+v", file)
	}
	var made struct{ Replaced bool }
	mcpCall(t, c, "copilot_create_file", map[string]any{"path": "new/c.txt", "content": "three\n"}, &made)
	if text, err := os.ReadFile(filepath.Join(b.dir, "new", "c.txt")); err != nil || string(text) != "three\n" || made.Replaced {
		t.Errorf("%q, %v, %+v", text, err, made)
	}
	if r := mcpCall(t, c, "copilot_create_file", map[string]any{"path": "new/c.txt", "content": "x"}, nil); !strings.HasPrefix(mcpText(r), "[conflict]") {
		t.Errorf("%s", mcpText(r))
	}
	mcpCall(t, c, "copilot_create_file", map[string]any{"path": "new/c.txt", "content": "four\n", "overwrite": true}, &made)
	if text, err := os.ReadFile(filepath.Join(b.dir, "new", "c.txt")); err != nil || string(text) != "four\n" || !made.Replaced {
		t.Errorf("%q, %v, %+v", text, err, made)
	}
	var files struct{ Files []string }
	mcpCall(t, c, "copilot_list_files", nil, &files)
	if !slices.Equal(files.Files, []string{"a.txt", "new/c.txt", "secret.txt", "sub/b.txt"}) {
		t.Errorf("%q", files.Files)
	}
	mcpCall(t, c, "copilot_list_files", map[string]any{"directory": "sub"}, &files)
	if !slices.Equal(files.Files, []string{"sub/b.txt"}) {
		t.Errorf("%q", files.Files)
	}
	for _, tt := range []struct {
		tool string
		args map[string]any
		code string
	}{
		{"copilot_read_file", map[string]any{"path": "../x"}, "denied"},
		{"copilot_read_file", map[string]any{"path": "/etc/passwd"}, "denied"},
		{"copilot_read_file", map[string]any{"path": "private/x.txt"}, "denied"},
		{"copilot_read_file", map[string]any{"path": "none"}, "not_found"},
		{"copilot_create_file", map[string]any{"path": "../x", "content": ""}, "denied"},
		{"copilot_create_file", map[string]any{"path": "locked.txt", "content": ""}, "denied"},
		{"copilot_create_file", map[string]any{"path": ".git/hooks/pre-commit", "content": ""}, "denied"},
		{"copilot_create_file", map[string]any{"path": ".agent-policy.yaml", "content": "", "overwrite": true}, "denied"},
		{"copilot_list_files", map[string]any{"directory": ".."}, "denied"},
		{"copilot_list_files", map[string]any{"directory": "none"}, "not_found"},
		{"copilot_read_file", map[string]any{"path": "a.txt", "_depth": 3}, "denied"},
		{"copilot_code_task", map[string]any{"prompt": "x", "workingDir": "/"}, "denied"},
		{"copilot_code_task", map[string]any{"prompt": "x", "workingDir": "private"}, "denied"},
		{"copilot_code_task", map[string]any{"prompt": "x", "workingDir": "a.txt"}, "invalid"},
		{"copilot_code_task", map[string]any{"prompt": "x"}, "unavailable"},
	} {
		if r := mcpCall(t, c, tt.tool, tt.args, nil); !r.IsError || !strings.HasPrefix(mcpText(r), "["+tt.code+"]") {
			t.Errorf("%s %v: %s", tt.tool, tt.args, mcpText(r))
		}
	}
}

// The real runtime does a task. The test checks the created file and the
// result.
func TestMCPCodeTask(t *testing.T) {
	b := newMCPBench(t, map[string]string{"sub/keep.txt": "", ".gitignore": "*.log\n"})
	if out, err := exec.Command("git", "init", "-q", b.dir).CombinedOutput(); err != nil { // so that all files are uncommitted
		t.Fatalf("%v: %s", err, out)
	}
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX=off") // so that commands need a permission
	var mu sync.Mutex
	var progress []string
	c := b.connect(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, r.Params.Message)
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			decision := "no"
			if strings.Contains(r.Params.Message, "made/new.txt") {
				decision = "once"
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
		},
	}, "copilot")
	prompt := "rehearsal: tool create " + toJSON(map[string]any{"path": filepath.Join(b.dir, "hello.txt"), "file_text": "hi\n"}) + "\nrehearsal: next\n" +
		"rehearsal: tool bash " + toJSON(map[string]any{"command": "mkdir -p made && echo x > made/new.txt && echo y > made/x.log && echo more >> sub/keep.txt", "description": "x"}) + "\nrehearsal: next\n" +
		"rehearsal: tool bash " + toJSON(map[string]any{"command": "touch refused", "description": "x"}) + "\nrehearsal: next\nrehearsal: text All done."
	p := &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt}}
	p.SetProgressToken("p")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	r, err := c.CallTool(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	var out taskResult
	data, err := json.Marshal(r.StructuredContent)
	if err := errors.Join(err, json.Unmarshal(data, &out)); err != nil || r.IsError {
		t.Fatalf("%v: %s", err, mcpText(r))
	}
	if out.Text != "All done." || len(out.ToolCalls) != 3 || !out.ToolCalls[0].OK || !out.ToolCalls[1].OK || out.ToolCalls[2].OK || out.SessionID == "" || out.Usage.InputTokens == 0 || !slices.Equal(out.FilesChanged, []string{"hello.txt", "made/new.txt", "sub/keep.txt"}) {
		t.Errorf("%s", data)
	}
	for name, want := range map[string]bool{"hello.txt": true, "made": true, "refused": false} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	mu.Lock()
	if all := strings.Join(progress, "\n"); !strings.Contains(all, "session ") || !strings.Contains(all, "tool create: ") || !strings.Contains(all, "tool bash: mkdir -p made") {
		t.Errorf("said %q", progress)
	}
	mu.Unlock()
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "rehearsal: text There.", "workingDir": "sub"}, &out)
	if out.Text != "There." {
		t.Errorf("%+v", out)
	}
	for _, tt := range []struct {
		args map[string]any
		code string
	}{
		{map[string]any{"prompt": "rehearsal: silence", "timeout": 500}, "timeout"},
		{map[string]any{"prompt": "rehearsal: status 401 no"}, "unauthenticated"},
	} {
		if r := mcpCall(t, c, "copilot_code_task", tt.args, nil); !strings.HasPrefix(mcpText(r), "["+tt.code+"]") {
			t.Errorf("%v: %s", tt.args, mcpText(r))
		}
	}
}

// When a client cancels, the turn ends: the model gets no further request, and
// the next task in the directory can run.
func TestMCPCancel(t *testing.T) {
	b := newMCPBench(t, nil)
	asked := make(chan struct{}, 10)
	b.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		if !strings.Contains(r.LastUser(), "for ever") {
			return nil, false
		}
		asked <- struct{}{}
		return demomodel.Reply{demomodel.Text("I begin."), demomodel.Silence()}, true
	})
	c := b.connect(t, nil, "copilot")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": "for ever"}})
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	var out taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "rehearsal: text Next."}, &out)
	if out.Text != "Next." {
		t.Errorf("%+v", out)
	}
}

// When a client disconnects, its tasks and the server end.
func TestMCPHangUp(t *testing.T) {
	b := newMCPBench(t, nil)
	asked := make(chan struct{}, 10)
	b.model.Handle(func(demomodel.Request) (demomodel.Reply, bool) {
		asked <- struct{}{}
		return demomodel.Reply{demomodel.Text("I begin."), demomodel.Silence()}, true
	})
	cmd := b.command("copilot")
	stderr := &output{}
	cmd.Stderr, cmd.Stdout = stderr, io.Discard
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"copilot_code_task","arguments":{"prompt":"for ever"}}}`,
	} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-asked
	began := time.Now()
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, stderr)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the server took %s to exit", took)
	}
	programtest.NoneLeft(t, b.home)
}

// Copilot's session has OpenClaw's memory tools by default, calls them and uses
// the result. The memory server ends with the session.
func TestMCPMemoryInSession(t *testing.T) {
	b := newMCPBench(t, map[string]string{
		"~/.openclaw/workspace/MEMORY.md":     "# Deploy\n\nThe staging password is in the vault. token=ghp_0123456789abcdefghijABCDEFGHIJ012345\n\nStaging lives on otter.example.\n",
		"~/.openclaw/workspace/memory/old.md": "nothing of interest\n",
		"~/.openclaw/workspace/USER.md":       "Tabs, never spaces.\n",
	})
	b.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		if !strings.Contains(r.LastUser(), "Where does staging live?") {
			return nil, false
		}
		results := r.ToolResults()
		switch {
		case !slices.Contains(r.ToolNames(), "openclaw-openclaw_memory_search"):
			return demomodel.Reply{demomodel.Text("I have no memory: " + strings.Join(r.ToolNames(), " "))}, true
		case len(results) == 0:
			return demomodel.Reply{demomodel.ToolCall("openclaw-openclaw_memory_search", map[string]any{"query": "staging", "limit": 3}),
				demomodel.ToolCall("openclaw-openclaw_user_prefs", map[string]any{})}, true
		}
		all := strings.Join(results, "\n")
		if strings.Contains(all, "ghp_") {
			return demomodel.Reply{demomodel.Text("I was told a secret.")}, true
		}
		place, ok := "", false
		if _, rest, found := strings.Cut(all, "Staging lives on "); found {
			place, _, ok = strings.Cut(rest, ".example")
		}
		if !ok {
			return demomodel.Reply{demomodel.Text("I found nothing in " + all)}, true
		}
		return demomodel.Reply{demomodel.Text("On " + place + ", and you like " + map[bool]string{true: "tabs"}[strings.Contains(all, "Tabs, never spaces")] + ".")}, true
	})
	during := make(chan []string, 1)
	c := b.connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		if strings.Contains(r.Params.Message, "openclaw_memory_search") {
			select {
			case during <- b.processesWith("mcp openclaw"):
			default:
			}
		}
	}}, "copilot")
	p := &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": "Where does staging live?"}}
	p.SetProgressToken("p")
	r, err := c.CallTool(t.Context(), p)
	if err != nil || r.IsError || !strings.HasPrefix(mcpText(r), "On otter, and you like tabs.") {
		t.Fatalf("%v: %s", err, mcpText(r))
	}
	if found := <-during; len(found) == 0 {
		t.Error("no memory server was running")
	}
	b.waitGone(t, "mcp openclaw") // ends with the session; the runtime stays
	if len(b.processesWith("copilot-runtime")) == 0 {
		t.Error("the runtime has ended")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	b.env = append(b.env, "COPILOT_BRIDGE_OPENCLAW_MEMORY=off")
	off := b.connect(t, nil, "copilot")
	if r := mcpCall(t, off, "copilot_code_task", map[string]any{"prompt": "Where does staging live?"}, nil); !strings.HasPrefix(mcpText(r), "I have no memory") {
		t.Errorf("%s", mcpText(r))
	}
}

// A loop Copilot → bridge → Copilot → … is refused at the third level.
func TestMCPLoop(t *testing.T) {
	loop := "rehearsal: tool bash " + toJSON(map[string]any{"command": "sh loop.sh", "description": "again", "initial_wait": 120}) + "\nrehearsal: next\nrehearsal: text Enough."
	b := newMCPBench(t, map[string]string{
		"prompt.txt": loop,
		"loop.sh": `echo "depth $COPILOT_BRIDGE_DEPTH" >> depths.txt
export COPILOT_CLI_PATH="` + runtimetest.Path(t) + `"
copilot-bridge run --demo --yes "$(cat prompt.txt)" 2>> errors.txt >> answers.txt
echo "exit $?" >> depths.txt
`,
	})
	b.env = append(b.env, "COPILOT_BRIDGE_SANDBOX=off") // a sandboxed command finds no runtime
	c := b.connect(t, allowEverything(), "copilot")
	var out taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": loop}, &out)
	depths, err := os.ReadFile(filepath.Join(b.dir, "depths.txt"))
	if err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	if want := "depth 1\ndepth 2\ndepth 3\nexit 4\nexit 0\nexit 0\n"; string(depths) != want {
		t.Errorf("%q, want %q", depths, want)
	}
	loopErrors, err := os.ReadFile(filepath.Join(b.dir, "errors.txt"))
	if err != nil || strings.Count(string(loopErrors), "copilot-bridge was called from within itself 3 times; that is a loop") != 1 {
		t.Errorf("%s, %v", loopErrors, err)
	}
	// A depth in the arguments counts like one in the environment.
	if err := os.Remove(filepath.Join(b.dir, "depths.txt")); err != nil {
		t.Fatal(err)
	}
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": loop, "_depth": 2}, &out)
	if depths, err = os.ReadFile(filepath.Join(b.dir, "depths.txt")); err != nil || string(depths) != "depth 3\nexit 4\n" {
		t.Errorf("%q, %v", depths, err)
	}
	if r := mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": loop, "_depth": 3}, nil); !strings.HasPrefix(mcpText(r), "[denied] copilot-bridge was called from within itself 3 times; that is a loop") {
		t.Errorf("%s", mcpText(r))
	}
}
