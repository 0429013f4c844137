//go:build unix

package attempts

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// acp is `copilot-bridge acp`. The client denies every permission request.
func acp(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	return acpSession(t, y, env)
}

// acpSession opens a session with MCP servers of the client.
func acpSession(t *testing.T, y *testEnv, env []string, servers ...acpwire.MCPServer) *session {
	t.Helper()
	cmd := y.program(env, "acp")
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
	conn := acpwire.NewConn(io.TeeReader(out, y.output), in, denyingClient{}, jsonrpc.Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Run(context.Background()) // ends when the program closes its output
	}()
	t.Cleanup(func() {
		_ = in.Close() // makes the program exit
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("acp: %v\n%s", err, y.output)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var s acpwire.NewSessionResponse
	if err := conn.Call(ctx, acpwire.MethodInitialize, acpwire.InitializeRequest{ProtocolVersion: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Call(ctx, acpwire.MethodSessionNew, acpwire.NewSessionRequest{Cwd: y.Workspace, MCPServers: servers}, &s); err != nil {
		t.Fatal(err)
	}
	return &session{y: y, say: func(t *testing.T, prompt string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := conn.Call(ctx, acpwire.MethodSessionPrompt, acpwire.PromptRequest{SessionID: s.SessionID, Prompt: acpwire.List[acpwire.ContentBlock]{acpwire.Text(prompt)}}, nil); err != nil {
			t.Errorf("acp: %v\n%s", err, y.output)
		}
	}}
}

// denyingClient is a client that denies every permission request.
type denyingClient struct{}

func (denyingClient) Notification(string, json.RawMessage) {}

func (denyingClient) Request(_ context.Context, method string, params json.RawMessage) func() (any, error) {
	return func() (any, error) {
		var r acpwire.PermissionRequest
		if method != acpwire.MethodRequestPermission {
			return nil, jsonrpc.Errorf(-32601, "%s is not known", method)
		}
		if err := json.Unmarshal(params, &r); err != nil {
			return nil, err
		}
		for _, o := range r.Options {
			if strings.HasPrefix(o.Kind, "reject") {
				return acpwire.Selected(o.OptionID), nil
			}
		}
		return acpwire.Cancelled(), nil
	}
}
