//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/acp"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// toolServer is an MCP server on standard streams with one tool, which says
// where and with what it was started.
type toolServer struct{ secret string }

func (toolServer) Notification(string, json.RawMessage) {}

func (s toolServer) Request(_ context.Context, method string, params json.RawMessage) func() (any, error) {
	switch method {
	case "initialize":
		var p struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		err := json.Unmarshal(params, &p)
		return func() (any, error) {
			return map[string]any{"protocolVersion": p.ProtocolVersion, "serverInfo": map[string]any{"name": "t", "version": "1"},
				"capabilities": map[string]any{"tools": map[string]any{}}}, err
		}
	case "tools/list":
		return func() (any, error) {
			return map[string]any{"tools": []any{map[string]any{"name": "facts", "description": "says where it is",
				"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}}}}, nil
		}
	case "tools/call":
		return func() (any, error) {
			dir, err := os.Getwd()
			return map[string]any{"content": []any{map[string]any{"type": "text", "text": "in " + dir + " with " + s.secret}}}, err
		}
	}
	return nil
}

func toolServerMain(secret string) int {
	if err := jsonrpc.New(jsonrpc.NewLines(os.Stdin, os.Stdout, 1<<20), toolServer{secret}, jsonrpc.Options{}).Run(context.Background()); err != nil {
		return 1
	}
	return 0
}

// Copilot's CLI starts the MCP servers of a session, under the gate.
func TestCopilotServers(t *testing.T) {
	t.Parallel()
	var records string
	ctx, a, m := started(t, func(o *acp.Options) { records = o.Records })
	server := func(secret string) map[string]bridge.MCPServer {
		return map[string]bridge.MCPServer{"helper": {Command: self(t), Env: map[string]string{"ACP_TEST_MCP": secret}}}
	}
	facts := agenttest.Script(agenttest.Tool("helper-facts", map[string]any{}), "next", "text ok")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	use := func(s bridge.Session, want string) {
		t.Helper()
		o := agenttest.Collect(ctx, s, facts)
		ended := agenttest.Find[bridge.ToolFinished](o)
		if o.Err != nil || len(ended) != 1 || ended[0].Name != "helper-facts" || ended[0].OK != (want != "") || !strings.Contains(ended[0].Result, want) {
			t.Errorf("want %q: %+v, %v", want, ended, o.Err)
		}
	}
	g := agenttest.AllowAll()
	first := open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, MCPServers: server("s3cret-1"), Gate: g})
	use(first, "in "+dir+" with s3cret-1")
	if r := g.Requests(); len(r) != 1 || r[0].Kind != bridge.PermissionMCP || r[0].Server != "helper" || r[0].Tool != "helper-facts" {
		t.Errorf("asked %+v", r)
	}
	use(open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, MCPServers: server("s3cret-1"), Gate: agenttest.AllowAll()}), "with s3cret-1")
	use(open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, MCPServers: server("s3cret-2"), Gate: agenttest.AllowAll()}), "with s3cret-2")
	no := &agenttest.Gate{PermitFunc: func(bridge.PermissionRequest) bridge.Decision { return bridge.Decision{Reason: "house rules"} }}
	use(open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, MCPServers: server("s3cret-1"), Gate: no}), "")

	if o := agenttest.Collect(ctx, open(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: agenttest.AllowAll()}), agenttest.Say("no servers")); o.Err != nil {
		t.Error(o.Err)
	}
	all := m.Requests()
	for _, tool := range all[len(all)-1].Tools {
		if tool.Name == "helper-facts" {
			t.Error("a session without servers has their tools")
		}
	}

	if left, err := filepath.Glob(filepath.Join(records, "tmp", "mcp-*")); err != nil || len(left) > 0 {
		t.Errorf("the servers' secrets are on disk: %q, %v", left, err)
	}
	if running, err := os.ReadDir("/proc"); err == nil {
		for _, p := range running {
			if line, err := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline")); err == nil && strings.Contains(string(line), "s3cret-") {
				t.Errorf("a secret is in the arguments of process %s", p.Name())
			}
		}
	}

	id := first.ID()
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	again, err := a.Resume(ctx, id, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, MCPServers: server("s3cret-3"), Gate: agenttest.AllowAll()})
	if err != nil {
		t.Fatal(err)
	}
	use(again, "with s3cret-3")
	if past, err := again.History(ctx); err != nil || !slices.ContainsFunc(past, func(ev bridge.Event) bool { u, ok := ev.(bridge.UserSaid); return ok && u.Text == facts.Text }) {
		t.Errorf("the history is not there: %v", err)
	}
}

// Reached over TCP the CLI cannot be given servers, which is said.
func TestCopilotServersOverTCP(t *testing.T) {
	t.Parallel()
	ctx, a, _ := started(t, func(o *acp.Options) { *o = overTCP(t, *o) })
	servers := map[string]bridge.MCPServer{"helper": {Command: self(t)}}
	if _, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir(), MCPServers: servers}); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("%v", err)
	}
	if _, ok := a.Capabilities()[bridge.CapMCPClient]; ok {
		t.Error("it says that it can")
	}
	own := map[string]bridge.MCPServer{"memory": {Command: self(t), Own: true}}
	open(t, ctx, a, bridge.SessionSpec{MCPServers: own})
}
