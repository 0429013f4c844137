//go:build unix

package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// mcpMain is a small MCP server on stdio with three tools: `pid` tells its
// process id, `reach` tries to get at what the environment names, and `form`
// asks the user for a name through elicitation.
func mcpMain(in io.Reader, out io.Writer) int {
	enc := json.NewEncoder(out)
	send := func(v any) { _ = enc.Encode(v) } // a dead peer shows at the next read
	var form json.RawMessage                  // id of the call that waits for the form
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name            string `json:"name"`
				ProtocolVersion string `json:"protocolVersion"`
			} `json:"params"`
			Result struct {
				Action  string         `json:"action"`
				Content map[string]any `json:"content"`
			} `json:"result"`
		}
		if json.Unmarshal(lines.Bytes(), &msg) != nil {
			continue
		}
		reply := func(id json.RawMessage, result any) {
			send(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
		}
		text := func(id json.RawMessage, s string) {
			reply(id, map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}})
		}
		object := map[string]any{"type": "object", "properties": map[string]any{}}
		switch {
		case msg.Method == "initialize":
			reply(msg.ID, map[string]any{"protocolVersion": msg.Params.ProtocolVersion, "serverInfo": map[string]any{"name": "t", "version": "1"},
				"capabilities": map[string]any{"tools": map[string]any{}}})
		case msg.Method == "tools/list":
			reply(msg.ID, map[string]any{"tools": []any{
				map[string]any{"name": "pid", "description": "process id", "inputSchema": object},
				map[string]any{"name": "reach", "description": "reaches out", "inputSchema": object},
				map[string]any{"name": "form", "description": "asks for a name", "inputSchema": object}}})
		case msg.Method == "tools/call" && msg.Params.Name == "pid":
			text(msg.ID, "pid="+strconv.Itoa(os.Getpid()))
		case msg.Method == "tools/call" && msg.Params.Name == "reach":
			text(msg.ID, reach(os.Getenv("SDK_TEST_REACH")))
		case msg.Method == "tools/call":
			form = msg.ID
			send(map[string]any{"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": map[string]any{"message": "Who are you?",
				"requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []any{"name"}}}})
		case msg.Method == "" && string(msg.ID) == `"e1"`:
			text(form, fmt.Sprintf("%s %v", msg.Result.Action, msg.Result.Content["name"]))
		case msg.ID != nil:
			reply(msg.ID, map[string]any{})
		}
	}
	return 0
}

// reach tries for goals and says what it got. It is the MCP server's tool.
func reach(goals string) string {
	g := strings.Split(goals, "|")
	var out []string
	if os.WriteFile(g[0], []byte("x"), 0o600) == nil {
		out = append(out, "wrote")
	}
	if b, err := os.ReadFile(g[1]); err == nil {
		out = append(out, "read "+string(b))
	}
	if list, err := os.ReadDir(g[2]); err == nil {
		out = append(out, fmt.Sprint("listed ", list))
	}
	if c, err := net.DialTimeout("tcp", g[3], time.Second); err == nil {
		out = append(out, "connected")
		_ = c.Close()
	}
	return "reached: " + strings.Join(out, ", ")
}

func mcpServer(t *testing.T) map[string]bridge.MCPServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]bridge.MCPServer{"helper": {Command: self, Env: map[string]string{"SDK_TEST_MCP": "1"}, Timeout: 10 * time.Second}}
}

func TestMCPServerOfASession(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	g := agenttest.AllowAll()
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: g, MCPServers: mcpServer(t)})
	o := agenttest.Collect(ctx, s, agenttest.Script("tool helper-pid {}", "next", "text ok"))
	ended := agenttest.Find[bridge.ToolFinished](o)
	if o.Err != nil || len(ended) != 1 || !ended[0].OK {
		t.Fatalf("%+v, %v", ended, o.Err)
	}
	if began := agenttest.Find[bridge.ToolStarted](o); began[0].Call.Server != "helper" {
		t.Errorf("call %+v", began[0].Call)
	}
	if r := g.Requests(); len(r) != 1 || r[0].Kind != bridge.PermissionMCP || r[0].Server != "helper" || r[0].Tool != "helper-pid" {
		t.Errorf("asked %+v", r)
	}
	_, number, _ := strings.Cut(ended[0].Result, "pid=")
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		t.Fatalf("result %q", ended[0].Result)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for syscall.Kill(pid, 0) == nil {
		if time.Now().After(deadline) {
			t.Fatal("the MCP server outlives its session")
		}
		<-time.After(10 * time.Millisecond)
	}
}

type formFiller struct {
	mu   sync.Mutex
	seen []bridge.Elicitation
}

func (*formFiller) Ask(context.Context, bridge.Question) (bridge.Answer, error) {
	return bridge.Answer{}, nil
}

func (f *formFiller) Elicit(_ context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, e)
	return bridge.ElicitationAnswer{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
}

func TestElicitation(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	p := &formFiller{}
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll(), Person: p, MCPServers: mcpServer(t)})
	o := agenttest.Collect(ctx, s, agenttest.Script("tool helper-form {}", "next", "text ok"))
	ended := agenttest.Find[bridge.ToolFinished](o)
	if o.Err != nil || len(ended) != 1 || !strings.Contains(ended[0].Result, "accept Ada") {
		t.Fatalf("%+v, %v", ended, o.Err)
	}
	if len(p.seen) != 1 || p.seen[0].Message != "Who are you?" || !strings.Contains(string(p.seen[0].Schema), `"name"`) {
		t.Errorf("asked %+v", p.seen)
	}
}
