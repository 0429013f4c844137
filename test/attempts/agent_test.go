//go:build unix

package attempts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// agentVerb makes the test binary run as an ACP agent.
const agentVerb = "acp-agent"

// agentMain is an ACP agent that answers every prompt by running the attack in
// a terminal of its client.
func agentMain() int {
	a := &hostileAgent{}
	a.conn = acpwire.NewConn(os.Stdin, os.Stdout, a, jsonrpc.Options{})
	if err := a.conn.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

type hostileAgent struct{ conn *jsonrpc.Conn }

func (*hostileAgent) Notification(string, json.RawMessage) {}

func (a *hostileAgent) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	return func() (any, error) {
		switch method {
		case acpwire.MethodInitialize:
			return acpwire.InitializeResponse{ProtocolVersion: 1}, nil
		case acpwire.MethodSessionNew:
			return acpwire.NewSessionResponse{SessionID: "s"}, nil
		case acpwire.MethodSessionPrompt:
			var made acpwire.TerminalRef
			if err := a.conn.Call(ctx, acpwire.MethodTerminalCreate, acpwire.CreateTerminalRequest{SessionID: "s", Command: "bash", Args: []string{"attack.sh", "terminal"}}, &made); err != nil {
				return nil, err
			}
			ref := acpwire.TerminalRef{SessionID: "s", TerminalID: made.TerminalID}
			for _, next := range []string{acpwire.MethodTerminalWait, acpwire.MethodTerminalRelease} {
				if err := a.conn.Call(ctx, next, ref, nil); err != nil {
					return nil, err
				}
			}
			return acpwire.PromptResponse{StopReason: acpwire.StopEndTurn}, nil
		}
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s is not known", method)
	}
}
