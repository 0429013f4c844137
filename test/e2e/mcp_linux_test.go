package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// mcpBench is a home, a workspace, and a model.
type mcpBench struct {
	home, dir string
	model     *rehearsal.Server
	env       []string
}

// newMCPBench writes files: those that begin with ~/ into the home directory.
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
		"OPENCLAW_PORT=1"} // where nobody listens
	return b
}

func (b *mcpBench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Env = b.dir, b.env
	return cmd
}

// connect starts a server and speaks to it. When the test ends it must end by
// itself, and leave nothing.
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
		_ = c.Close() // closes standard input, and waits
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("the server ended with %v\n%s", cmd.ProcessState, stderr)
		}
		b.alone(t)
		if t.Failed() {
			t.Logf("the server wrote:\n%s", stderr)
		}
	})
	return c
}

// with returns the command lines of processes that have this home and hold a
// text.
func (b *mcpBench) with(t *testing.T, text string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00HOME="+b.home+"\x00")) {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if words := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")); err == nil && words != "" && strings.Contains(words, text) {
			found = append(found, words)
		}
	}
	return found
}

// gone waits until there is no such process.
func (b *mcpBench) gone(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		left := b.with(t, text)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are left: %q", left)
			return
		}
	}
}

func (b *mcpBench) alone(t *testing.T) { t.Helper(); b.gone(t, "") }

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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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

// To list the tools, and to work on files, takes no Copilot.
func TestMCPWithoutCopilot(t *testing.T) {
	b := newMCPBench(t, map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n", "secret.txt": "token=ghp_0123456789abcdefghijABCDEFGHIJ012345\n",
		".agent-policy.yaml": "reads: { deny: [private/**] }\nwrites: { deny: [locked.txt] }\n", "private/x.txt": "canary\n"})
	b.env = append(b.env, "COPILOT_CLI_PATH="+filepath.Join(b.home, "none"))
	c := b.connect(t, nil, "copilot")
	list, err := c.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	if p := b.with(t, ""); len(p) != 1 {
		t.Errorf("%q run", p)
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
		{"copilot_code_task", map[string]any{"prompt": "x", "workingDir": "sub"}, "denied"}, // the policy above it
		{"copilot_code_task", map[string]any{"prompt": "x"}, "unavailable"},
	} {
		if r := mcpCall(t, c, tt.tool, tt.args, nil); !r.IsError || !strings.HasPrefix(mcpText(r), "["+tt.code+"]") {
			t.Errorf("%s %v: %s", tt.tool, tt.args, mcpText(r))
		}
	}
}

// A task is done by the real runtime: a file is there, and the result says so.
func TestMCPCodeTask(t *testing.T) {
	b := newMCPBench(t, map[string]string{"sub/keep.txt": ""})
	var mu sync.Mutex
	var said []string
	c := b.connect(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, r.Params.Message)
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			decision := "no"
			if strings.Contains(r.Params.Message, "touch made") {
				decision = "once"
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
		},
	}, "copilot")
	prompt := "rehearsal: tool create " + quoted(map[string]any{"path": filepath.Join(b.dir, "hello.txt"), "file_text": "hi\n"}) + "\nrehearsal: next\n" +
		"rehearsal: tool bash " + quoted(map[string]any{"command": "touch made", "description": "x"}) + "\nrehearsal: next\n" +
		"rehearsal: tool bash " + quoted(map[string]any{"command": "touch refused", "description": "x"}) + "\nrehearsal: next\nrehearsal: text All done."
	p := &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt}}
	p.SetProgressToken("p")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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
	if out.Text != "All done." || len(out.ToolCalls) != 3 || !out.ToolCalls[0].OK || !out.ToolCalls[1].OK || out.ToolCalls[2].OK || out.SessionID == "" || out.Usage.InputTokens == 0 || len(out.FilesChanged) != 1 {
		t.Errorf("%s", data)
	}
	for name, want := range map[string]bool{"hello.txt": true, "made": true, "refused": false} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	mu.Lock()
	if all := strings.Join(said, "\n"); !strings.Contains(all, "session ") || !strings.Contains(all, "tool create: ") || !strings.Contains(all, "tool bash: touch made") {
		t.Errorf("said %q", said)
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

// A client's cancel ends the turn: the model is not asked again, and the next
// task of the directory gets its turn.
func TestMCPCancel(t *testing.T) {
	b := newMCPBench(t, nil)
	asked := make(chan struct{}, 10)
	b.model.Handle(func(r rehearsal.Request) (rehearsal.Reply, bool) {
		if !strings.Contains(r.LastUser(), "for ever") {
			return nil, false
		}
		asked <- struct{}{}
		return rehearsal.Reply{rehearsal.Text("I begin."), rehearsal.Silence()}, true
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

// A client that hangs up ends what runs for it, and the server with it.
func TestMCPHangUp(t *testing.T) {
	b := newMCPBench(t, nil)
	asked := make(chan struct{}, 10)
	b.model.Handle(func(rehearsal.Request) (rehearsal.Reply, bool) {
		asked <- struct{}{}
		return rehearsal.Reply{rehearsal.Text("I begin."), rehearsal.Silence()}, true
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
		t.Errorf("it took %s", took)
	}
	b.alone(t)
}

// Copilot's own session calls OpenClaw's memory, which it was given without
// asking, and uses what it finds. The server goes with the session.
func TestMCPMemoryInSession(t *testing.T) {
	b := newMCPBench(t, map[string]string{
		"~/.openclaw/workspace/MEMORY.md":     "# Deploy\n\nThe staging password is in the vault. token=ghp_0123456789abcdefghijABCDEFGHIJ012345\n\nStaging lives on otter.example.\n",
		"~/.openclaw/workspace/memory/old.md": "nothing of interest\n",
		"~/.openclaw/workspace/USER.md":       "Tabs, never spaces.\n",
	})
	b.model.Handle(func(r rehearsal.Request) (rehearsal.Reply, bool) {
		if !strings.Contains(r.LastUser(), "Where does staging live?") {
			return nil, false
		}
		results := r.ToolResults()
		switch {
		case !slices.Contains(r.ToolNames(), "openclaw-openclaw_memory_search"):
			return rehearsal.Reply{rehearsal.Text("I have no memory: " + strings.Join(r.ToolNames(), " "))}, true
		case len(results) == 0:
			return rehearsal.Reply{rehearsal.ToolCall("openclaw-openclaw_memory_search", map[string]any{"query": "staging", "limit": 3}),
				rehearsal.ToolCall("openclaw-openclaw_user_prefs", map[string]any{})}, true
		}
		all := strings.Join(results, "\n")
		if strings.Contains(all, "ghp_") {
			return rehearsal.Reply{rehearsal.Text("I was told a secret.")}, true
		}
		place, ok := "", false
		if _, rest, found := strings.Cut(all, "Staging lives on "); found {
			place, _, ok = strings.Cut(rest, ".example")
		}
		if !ok {
			return rehearsal.Reply{rehearsal.Text("I found nothing in " + all)}, true
		}
		return rehearsal.Reply{rehearsal.Text("On " + place + ", and you like " + map[bool]string{true: "tabs"}[strings.Contains(all, "Tabs, never spaces")] + ".")}, true
	})
	during := make(chan []string, 1)
	c := b.connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		if strings.Contains(r.Params.Message, "openclaw_memory_search") {
			select {
			case during <- b.with(t, "mcp openclaw"):
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
		t.Error("no server ran")
	}
	b.gone(t, "mcp openclaw") // with the session; the runtime is still there
	if len(b.with(t, "copilot-runtime")) == 0 {
		t.Error("the runtime is not there any more")
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

// Copilot → bridge → Copilot → … ends at the third.
func TestMCPLoop(t *testing.T) {
	loop := "rehearsal: tool bash " + quoted(map[string]any{"command": "sh loop.sh", "description": "again", "initial_wait": 120}) + "\nrehearsal: next\nrehearsal: text Enough."
	b := newMCPBench(t, map[string]string{
		"prompt.txt": loop,
		"loop.sh": `echo "depth $COPILOT_BRIDGE_DEPTH" >> depths.txt
export COPILOT_CLI_PATH="` + runtimetest.Path(t) + `"
copilot-bridge run --demo --yes "$(cat prompt.txt)" 2>> errors.txt >> answers.txt
echo "exit $?" >> depths.txt
`,
	})
	c := b.connect(t, consenting(), "copilot")
	var out taskResult
	mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": loop}, &out)
	depths, err := os.ReadFile(filepath.Join(b.dir, "depths.txt"))
	if err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	if want := "depth 1\ndepth 2\ndepth 3\nexit 4\nexit 0\nexit 0\n"; string(depths) != want {
		t.Errorf("%q, want %q", depths, want)
	}
	said, err := os.ReadFile(filepath.Join(b.dir, "errors.txt"))
	if err != nil || strings.Count(string(said), "copilot-bridge was called from within itself 3 times; that is a loop") != 1 {
		t.Errorf("%s, %v", said, err)
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

// The memory server by itself: nothing but the protocol on standard output,
// and an end when the input ends or a signal comes.
func TestMCPOpenClaw(t *testing.T) {
	b := newMCPBench(t, map[string]string{"~/.openclaw/workspace/MEMORY.md": "# Plans\nThe canary moves in May.\n", "~/.openclaw/openclaw.json": "{ // mine\n}"})
	c := b.connect(t, nil, "openclaw")
	var hits struct {
		Hits   []struct{ File, Heading, Snippet string }
		Source string
	}
	mcpCall(t, c, "openclaw_memory_search", map[string]any{"query": "canary"}, &hits)
	if len(hits.Hits) != 1 || hits.Hits[0].File != "MEMORY.md" || hits.Hits[0].Heading != "Plans" || hits.Source != "files" {
		t.Errorf("%+v", hits)
	}
	if r := mcpCall(t, c, "openclaw_user_prefs", nil, nil); !strings.HasPrefix(mcpText(r), "[not_found]") {
		t.Errorf("%s", mcpText(r))
	}
	if r := mcpCall(t, c, "openclaw_memory_read", map[string]any{"file": "../openclaw.json"}, nil); !strings.HasPrefix(mcpText(r), "[invalid]") {
		t.Errorf("%s", mcpText(r))
	}
	deep := b.command("openclaw")
	deep.Env = append(deep.Env, "COPILOT_BRIDGE_DEPTH=3", "COPILOT_LOG_LEVEL=all")
	in, err := deep.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := deep.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := deep.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	ask := func(text string) map[string]any {
		t.Helper()
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			t.Fatal(err)
		}
		var answer map[string]any
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &answer) != nil || answer["jsonrpc"] != "2.0" {
			t.Fatalf("%q on standard output", lines.Bytes())
		}
		return answer
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	answer := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"openclaw_memory_search","arguments":{"query":"canary"}}}`)
	if text := fmt.Sprint(answer["result"]); !strings.Contains(text, "that is a loop") {
		t.Errorf("%s", text)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("%q after the end", lines.Bytes())
	}
	if err := deep.Wait(); err != nil {
		t.Errorf("the end of the input: %v", err)
	}

	stopped := b.command("openclaw")
	held, err := stopped.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	told, err := stopped.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(held, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil { // it is up
		t.Fatal(err)
	}
	if err := errors.Join(stopped.Process.Signal(syscall.SIGTERM), stopped.Wait(), held.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("a signal: %v", err)
	}
}

// Over HTTP: the token, the Host header, and a workspace that is read-only.
func TestMCPHTTP(t *testing.T) {
	b := newMCPBench(t, map[string]string{"a.txt": "one\n"})
	cmd := b.command("copilot", "--http", "127.0.0.1:0", "--json")
	const token = "a-token-of-this-test"
	cmd.Env = append(cmd.Env, "COPILOT_BRIDGE_TOKEN="+token)
	stderr := &output{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("%v\n%s", err, stderr)
		}
		b.alone(t)
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ URL string }
	if err := errors.Join(err, json.Unmarshal(line, &ready)); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	dial := func(header string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
		transport := &mcp.StreamableClientTransport{Endpoint: ready.URL, HTTPClient: withHeader(header), MaxRetries: -1}
		return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	}
	if _, err := dial("Bearer wrong", nil); err == nil {
		t.Error("a wrong token is taken")
	}
	c, err := dial("Bearer "+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Content string }
	mcpCall(t, c, "copilot_read_file", map[string]any{"path": "a.txt"}, &file)
	if file.Content != "one\n" {
		t.Errorf("%+v", file)
	}
	if r := mcpCall(t, c, "copilot_create_file", map[string]any{"path": "b.txt", "content": "x"}, nil); !strings.HasPrefix(mcpText(r), "[denied]") {
		t.Errorf("%s", mcpText(r))
	}
	person, err := dial("Bearer "+token, consenting())
	if err != nil {
		t.Fatal(err)
	}
	mcpCall(t, person, "copilot_create_file", map[string]any{"path": "b.txt", "content": "x"}, &file)
	var task taskResult
	mcpCall(t, person, "copilot_code_task", map[string]any{"prompt": "rehearsal: text Over HTTP."}, &task)
	if task.Text != "Over HTTP." {
		t.Errorf("%+v", task)
	}
	for who, want := range map[*mcp.ClientSession]bool{c: false, person: true} {
		var large largeResult
		mcpCall(t, who, "copilot_orchestrate", map[string]any{"task": "create large.txt saying yes"}, &large)
		if _, err := os.Stat(filepath.Join(b.dir, "large.txt")); large.Success != want || (err == nil) != want || want && len(large.Tasks) != 1 {
			t.Errorf("%v: %+v", err, large)
		}
		if err := os.RemoveAll(filepath.Join(b.dir, "large.txt")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Close(), person.Close()); err != nil {
		t.Error(err)
	}
}

// withHeader is a client that shows a token.
func withHeader(value string) *http.Client {
	return &http.Client{Transport: bearer(value)}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func quoted(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// consenting is a client whose person agrees to everything.
func consenting() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "once"}}, nil
	}}
}
