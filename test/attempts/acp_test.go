//go:build unix

package attempts

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// acp is `copilot-bridge acp`. The client says no to all that it is asked.
func acp(t *testing.T, y *yard, env []string) caller {
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
	conn := acpwire.NewConn(io.TeeReader(out, y.said), in, naysayer{}, acpwire.Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Run(context.Background()) // it ends with the program's output
	}()
	t.Cleanup(func() {
		_ = in.Close() // which ends the program
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("acp: %v\n%s", err, y.said)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var s acpwire.NewSessionResponse
	if err := conn.Call(ctx, acpwire.MethodInitialize, acpwire.InitializeRequest{ProtocolVersion: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Call(ctx, acpwire.MethodSessionNew, acpwire.NewSessionRequest{Cwd: y.Workspace}, &s); err != nil {
		t.Fatal(err)
	}
	return &session{y: y, say: func(t *testing.T, prompt string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := conn.Call(ctx, acpwire.MethodSessionPrompt, acpwire.PromptRequest{SessionID: s.SessionID, Prompt: acpwire.List[acpwire.ContentBlock]{acpwire.Text(prompt)}}, nil); err != nil {
			t.Errorf("acp: %v\n%s", err, y.said)
		}
	}}
}

// naysayer is a client whose person consents to nothing.
type naysayer struct{}

func (naysayer) Notification(string, json.RawMessage) {}

func (naysayer) Request(_ context.Context, method string, params json.RawMessage) func() (any, error) {
	return func() (any, error) {
		var r acpwire.PermissionRequest
		if method != acpwire.MethodRequestPermission {
			return nil, acpwire.Errorf(-32601, "%s is not known", method)
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
