package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// copilotMCP starts the MCP server of the home's directory. Every progress message
// goes to said.
func (k *testHome) copilotMCP(said func(string), flags ...string) *mcp.ClientSession {
	k.t.Helper()
	cmd, stderr := k.command(append([]string{"mcp", "copilot", "--demo"}, flags...)...), &output{}
	cmd.Stderr = stderr
	o := allowEverything()
	o.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { said(r.Params.Message) }
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(k.t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		k.t.Fatalf("%v\n%s", err, stderr)
	}
	k.t.Cleanup(func() {
		_ = c.Close() // closes standard input and waits
		if k.t.Failed() {
			k.t.Logf("the MCP server:\n%s", stderr)
		}
	})
	return c
}

// chat sends one message to a model, and returns the answer's text or error.
func (k *testHome) chat(url, model, prompt string, stream bool) (status int, text string) {
	k.t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "stream": stream, "messages": []map[string]string{{"role": "user", "content": prompt}}})
	if err != nil {
		k.t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: 2 * time.Minute}).Post(url+"/v1/chat/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		k.t.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		k.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// writing is a task that writes a file and says something.
func writing(name, text, answer string) string {
	return tool("create", map[string]string{"path": name, "file_text": text}) + "\nrehearsal: next\nrehearsal: text " + answer
}

// A single task is done by a worker where the client asks for one: through MCP, and
// over HTTP by the name of the model.
//
// It runs alone: this program serves the models of all tests, so sessions of others
// would look like callers of its MCP server.
func TestFleetSingleTask(t *testing.T) {
	h := newFleetHub(t)
	_, one := h.worker("--name", "one", "--label", "gpu=yes")

	t.Run("MCP", func(t *testing.T) {
		h.t = t
		var mu sync.Mutex
		var progress strings.Builder
		c := h.copilotMCP(func(said string) { mu.Lock(); defer mu.Unlock(); progress.WriteString(said + "\n") })
		p := &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": writing("mcp.txt", "by a worker\n", "it is written"), "worker": "gpu=yes"}}
		p.SetProgressToken("p")
		r, err := c.CallTool(t.Context(), p)
		if err != nil || r.IsError {
			t.Fatalf("%v %s\n%s", err, mcpText(r), one)
		}
		var out struct {
			Text, Notice, SessionID string
			FilesChanged            []string
			Usage                   struct{ InputTokens int }
			AnsweredBy              struct{ Kind, Detail string }
		}
		if err := json.Unmarshal([]byte(toJSON(r.StructuredContent)), &out); err != nil {
			t.Fatal(err)
		}
		if out.Text != "it is written" || strings.Join(out.FilesChanged, " ") != "mcp.txt" || out.SessionID == "" || out.Usage.InputTokens == 0 ||
			!strings.Contains(out.Notice, "done by one, a worker of the fleet") || out.AnsweredBy.Kind != "demo" || !strings.Contains(out.AnsweredBy.Detail, "the worker one") {
			t.Errorf("%+v", out)
		}
		if got := h.read("mcp.txt"); got != "by a worker\n" {
			t.Errorf("here: %q", got)
		}
		mu.Lock()
		if !strings.Contains(progress.String(), "one: ") {
			t.Errorf("progress: %s", progress.String())
		}
		mu.Unlock()
		mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": tool("bash", map[string]string{"command": "touch asked", "description": "ask"}), "worker": "any"}, &out)
		if strings.Join(out.FilesChanged, " ") != "asked" { // the client was asked and said yes
			t.Errorf("%+v", out)
		}
		nested := map[string]any{"prompt": "x", "worker": "any", "_depth": 1}
		if r := mcpCall(t, c, "copilot_code_task", nested, nil); !r.IsError || !strings.HasPrefix(mcpText(r), "[denied]") {
			t.Errorf("%s", mcpText(r))
		}
		for worker, want := range map[string]string{"cuda": "no worker with cuda and --demo is ready", "a b": "no label"} {
			if r := mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "x", "worker": worker}, nil); !r.IsError || !strings.Contains(mcpText(r), want) {
				t.Errorf("%s: %s", worker, mcpText(r))
			}
		}
		var large largeResult
		mcpCall(t, c, "copilot_orchestrate", map[string]any{"task": "create left.txt saying l and create right.txt saying r", "worker": "any"}, &large)
		if !large.Success || len(large.Tasks) != 2 || h.read("left.txt") != "l\n" || strings.Count(one.String(), "right") == 0 {
			t.Errorf("%+v\n%s", large, one)
		}
		slow := map[string]any{"prompt": "rehearsal: delay 60s\n" + writing("slow.txt", "late\n", "late"), "worker": "any", "timeout": 4000}
		if r := mcpCall(t, c, "copilot_code_task", slow, nil); !r.IsError || !strings.HasPrefix(mcpText(r), "[timeout] the task took longer than 4s") {
			t.Errorf("%s", mcpText(r))
		}
		waitUntil(t, "the worker has ended the task", func() bool { return strings.Contains(one.String(), "canceled after") })
		before := len(one.String())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // ends with ctx
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": "rehearsal: delay 60s", "worker": "any"}})
			ended <- err
		}()
		waitUntil(t, "the worker has begun", func() bool { return strings.Contains(one.String()[before:], "of run") })
		begun := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		waitUntil(t, "the worker has ended the task", func() bool { return strings.Contains(one.String()[before:], "canceled after") })
		t.Logf("the session on the worker ends %s after it was canceled", time.Since(begun).Round(time.Millisecond))
	})
	t.Run("HTTP", func(t *testing.T) {
		h.t = t
		_, url := h.serve("--read-write")
		status, text := h.chat(url, "agent/rehearsal-1@gpu=yes", writing("http.txt", "over http\n", "said by the worker"), false)
		if status != http.StatusOK || !strings.Contains(text, `"content":"said by the worker"`) || !strings.Contains(text, `"model":"agent/rehearsal-1@gpu=yes"`) {
			t.Errorf("%d %s\n%s", status, text, one)
		}
		if got := h.read("http.txt"); got != "over http\n" {
			t.Errorf("here: %q", got)
		}
		if status, text := h.chat(url, "agent/rehearsal-1@cuda", "x", false); status < 500 || !strings.Contains(text, `"message":"no worker with cuda and --demo is ready`) || !strings.Contains(text, `"code":"copilot_unavailable"`) {
			t.Errorf("%d %s", status, text)
		}
		if _, text := h.chat(url, "agent/rehearsal-1@any", writing("stream.txt", "s\n", "streamed"), true); !strings.Contains(text, `"reasoning_content":"one: `) || !strings.Contains(text, `"content":"streamed"`) {
			t.Errorf("%s", text)
		}
		list, err := http.Get(url + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(list.Body)
		if err = errors.Join(err, list.Body.Close()); err != nil || strings.Contains(string(data), "@") {
			t.Errorf("%v %s", err, data)
		}
	})
	t.Run("nothing is written where that is not served", func(t *testing.T) {
		h.t = t
		_, url := h.serve()
		if status, text := h.chat(url, "agent/rehearsal-1@any", writing("no.txt", "no\n", "no"), false); status != http.StatusForbidden || !strings.Contains(text, "read-only") {
			t.Errorf("%d %s", status, text)
		}
	})
	t.Run("no fleet", func(t *testing.T) {
		k := newTestHome(t)
		if out, err := exec.Command("git", "init", "-q", k.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		c := k.copilotMCP(func(string) {})
		if r := mcpCall(t, c, "copilot_code_task", map[string]any{"prompt": "x", "worker": "any"}, nil); !r.IsError || !strings.Contains(mcpText(r), "this machine is in no fleet") {
			t.Errorf("%s", mcpText(r))
		}
	})
}
