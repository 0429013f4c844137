package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// The memory server writes only protocol messages to standard output, and exits
// at the end of its input or on a signal.
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
	checkCallers(t, b.dir, b.env, "mcp", "test 1", `^stdio$`, `^call-\d+$`)
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
		t.Errorf("output after the end of the input: %q", lines.Bytes())
	}
	if err := deep.Wait(); err != nil {
		t.Errorf("the end of the input: %v", err)
	}

	stopped := b.command("openclaw")
	held, err := stopped.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := stopped.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(held, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil { // the server has started
		t.Fatal(err)
	}
	if err := errors.Join(stopped.Process.Signal(syscall.SIGTERM), stopped.Wait(), held.Close()); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("a signal: %v", err)
	}
}

// The HTTP server checks the token and the Host header, and its workspace is
// read-only.
func TestMCPHTTP(t *testing.T) {
	b := newMCPBench(t, map[string]string{"a.txt": "one\n"})
	cmd := b.command("copilot", "--http", "127.0.0.1:0", "--json")
	const token = "a-token-of-this-test"
	cmd.Env = append(cmd.Env, "COPILOT_BRIDGE_TOKEN="+token)
	t.Cleanup(func() { programtest.NoneLeft(t, b.home) })
	url, _ := startServer(t, cmd)
	dial := func(header string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
		transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: withHeader(header), MaxRetries: -1}
		return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	}
	if _, err := dial("Bearer wrong", nil); err == nil {
		t.Error("a wrong token is accepted")
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
	person, err := dial("Bearer "+token, allowEverything())
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
	entries := checkCallers(t, b.dir, b.env, "mcp", "test 1", `^mcp-[0-9a-f]{12}$`, `^call-\d+$`)
	connections := map[string]bool{}
	for _, e := range entries {
		connections[e.Connection] = true
	}
	if len(connections) != 2 {
		t.Errorf("two clients are %v on record", connections)
	}
}

// withHeader is an HTTP client that sends a token.
func withHeader(value string) *http.Client {
	return &http.Client{Transport: bearer(value)}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", string(b))
	return http.DefaultTransport.RoundTrip(r)
}
