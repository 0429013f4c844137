package load

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// limit is the wait that the fake provider demands when it is rate limited. It
// is so long that the test notices if a request really waits.
const limit = 200 * time.Second

// limitedModel answers "limit me" with status 429, and also the first of two
// requests with a tool result.
func limitedModel(t *testing.T) *demomodel.Server {
	t.Helper()
	m := demomodel.New(demomodel.WithJournal(0))
	var results atomic.Int32
	m.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		raw := string(r.Raw)
		switch {
		case strings.Contains(raw, "limit me"):
			return demomodel.Reply{demomodel.RateLimit(limit)}, true
		case strings.Contains(raw, "what it saw") && results.Add(1) == 1:
			return demomodel.Reply{demomodel.RateLimit(limit)}, true
		case strings.Contains(raw, "what it saw"):
			results.Store(0)
			return demomodel.Reply{demomodel.Text("seen")}, true
		case strings.Contains(raw, "use the tool"):
			return demomodel.Reply{demomodel.ToolCall("look", map[string]any{"x": "y"})}, true
		}
		return demomodel.Reply{demomodel.Text("hello")}, true
	})
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("closing the model: %v", err)
		}
	})
	return m
}

// A rate limit of the provider is passed on at once, with the provider's own
// waiting time: clients retry by themselves. Other requests do not wait for it,
// although only one turn runs at a time.
func TestRateLimit(t *testing.T) {
	m := limitedModel(t)
	s := serve(t, m.URL(), m.Key(), "COPILOT_BRIDGE_MAX_CONCURRENT=1", "COPILOT_BRIDGE_IDLE_TIMEOUT=100s")
	c := newClient(s.url, 4)
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	refused := func(p protocol, q *question, what string) {
		t.Helper()
		began := time.Now()
		r := c.ask(ctx, p, q, nil)
		if r.status != http.StatusTooManyRequests || r.retry != "200" || r.broken != nil || time.Since(began) > limit/10 {
			t.Errorf("%s, %s, stream %v: %d, Retry-After %q, %v after %s\n%s", p.name(), what, q.stream, r.status, r.retry, r.broken, time.Since(began), r.raw)
		}
	}
	for _, p := range protocols() {
		for _, stream := range []bool{false, true} {
			refused(p, &question{stream: stream, messages: []message{{role: "user", text: "limit me"}}}, "at first")
			if r := c.ask(ctx, p, &question{stream: stream, messages: []message{{role: "user", text: "hi"}}}, nil); !r.good() || r.text != "hello" {
				t.Errorf("%s: the next got %d %q\n%s", p.name(), r.status, r.text, r.raw)
			}
			q := &question{stream: stream, messages: []message{{role: "user", text: "use the tool"}}, tools: []tool{{"look", "looks"}}}
			r := c.ask(ctx, p, q, nil)
			if !r.good() || len(r.calls) != 1 {
				t.Fatalf("%s: no call: %d\n%s", p.name(), r.status, r.raw)
			}
			q.messages = append(q.messages, message{role: "assistant", calls: r.calls}, message{role: "tool", id: r.calls[0].id, text: "what it saw"})
			refused(p, q, "with a result")
			if r := c.ask(ctx, p, q, nil); !r.good() || r.text != "seen" {
				t.Errorf("%s: then it got %d %q\n%s", p.name(), r.status, r.text, r.raw)
			}
		}
	}
}

// A task of the MCP server reports the waiting time in its own format, if it is
// longer than a turn may be silent.
func TestRateLimitOfATask(t *testing.T) {
	m, home := limitedModel(t), t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "mcp", "copilot")
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "COPILOT_BRIDGE_HOME=" + filepath.Join(home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(t),
		"COPILOT_LOG_LEVEL=warning", "COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_BASE_URL=" + m.URL(), "COPILOT_BYOK_API_KEY=" + m.Key(), "COPILOT_BYOK_MODEL=" + modelName,
		"COPILOT_BRIDGE_IDLE_TIMEOUT=100s"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"copilot_code_task","arguments":{"prompt":"limit me"}}}`,
	} {
		if _, err := in.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	var answer struct {
		ID     int
		Result struct {
			IsError bool
			Meta    map[string]struct {
				Code         string
				RetryAfterMs int64
			} `json:"_meta"`
		}
	}
	for lines := bufio.NewScanner(out); answer.ID != 2 && lines.Scan(); {
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
	}
	if e := answer.Result.Meta["copilot-bridge/error"]; !answer.Result.IsError || e.Code != "rate_limited" || e.RetryAfterMs != limit.Milliseconds() {
		t.Errorf("%+v", answer)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
