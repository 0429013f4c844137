//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// peer is an ACP agent that does as it is told by the prompt, one order a
// line, and answers with what came of it. It does what Copilot never does.
type peer struct {
	role string
	conn *jsonrpc.Conn

	mu     sync.Mutex
	cancel context.CancelFunc // of the running prompt
}

func agentMain(role string) int {
	if role == "dead" {
		fmt.Fprintln(os.Stderr, "I will not start")
		return 3
	}
	p := &peer{role: role}
	p.conn = acpwire.NewConn(os.Stdin, os.Stdout, p, jsonrpc.Options{})
	if err := p.conn.Run(context.Background()); err != nil {
		return 1
	}
	return 0
}

func (p *peer) Notification(method string, _ json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if method == acpwire.NotifyCancel && p.cancel != nil && p.role != "deaf" {
		p.cancel()
	}
}

func (p *peer) Request(ctx context.Context, method string, params json.RawMessage) func() (any, error) {
	if p.role == "old" {
		switch method {
		case "initializeClient":
			method = acpwire.MethodInitialize
		case "session/newClient":
			method = acpwire.MethodSessionNew
		case "session/loadClient":
			method = acpwire.MethodSessionLoad
		case "session/promptClient":
			method = acpwire.MethodSessionPrompt
		case acpwire.MethodInitialize, acpwire.MethodSessionNew, acpwire.MethodSessionLoad, acpwire.MethodSessionPrompt:
			return nil
		}
	}
	switch method {
	case acpwire.MethodInitialize:
		return func() (any, error) { return p.initialize(), nil }
	case acpwire.MethodSessionNew:
		return func() (any, error) { return p.open() }
	case acpwire.MethodSessionLoad:
		return func() (any, error) { return acpwire.NewSessionResponse{}, nil }
	case acpwire.MethodSetConfigOption:
		return func() (any, error) {
			var req acpwire.SetConfigOptionRequest
			if err := json.Unmarshal(params, &req); err != nil || req.ConfigID != "m" || req.Value != "b" {
				return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "there is no such option")
			}
			return acpwire.SetConfigOptionResponse{}, nil
		}
	case acpwire.MethodSetMode:
		return func() (any, error) { return struct{}{}, nil }
	case acpwire.MethodSessionPrompt:
		ctx, cancel := context.WithCancel(ctx)
		p.mu.Lock()
		p.cancel = cancel
		p.mu.Unlock()
		return func() (any, error) {
			defer cancel()
			var req acpwire.PromptRequest
			if err := json.Unmarshal(params, &req); err != nil {
				return nil, err
			}
			return p.prompt(ctx, req)
		}
	}
	return nil
}

func (p *peer) initialize() any {
	r := acpwire.InitializeResponse{ProtocolVersion: 1, AgentInfo: &acpwire.Implementation{Name: "peer", Version: "1"}}
	r.Capabilities.LoadSession = p.role == "old"
	r.Capabilities.Prompt = acpwire.PromptCapabilities{Image: true, EmbeddedContext: p.role != "plain"}
	if p.role == "version" {
		r.ProtocolVersion = 2
	}
	if p.role == "login" {
		r.AuthMethods = []acpwire.AuthMethod{{ID: "x", Name: "X", Type: "terminal", Args: []string{"--login"}},
			{ID: "y", Name: "Y", Meta: json.RawMessage(`{"terminal-auth":{"command":"peer-cli","args":["login","now"]}}`)}}
	}
	return r
}

func (p *peer) open() (any, error) {
	switch p.role {
	case "login":
		return nil, jsonrpc.Errorf(acpwire.CodeAuthRequired, "Authentication required")
	case "free":
		return acpwire.NewSessionResponse{SessionID: "s", ConfigOptions: []acpwire.ConfigOption{{Type: "select", ID: "allow_all", Category: "permissions", Name: "Allow", Current: "on"}}}, nil
	}
	return acpwire.NewSessionResponse{SessionID: "s", Modes: &acpwire.Modes{Current: "urn:modes#ask", Available: []acpwire.Mode{
		{ID: "urn:modes#ask", Name: "Ask"}, {ID: "urn:modes#plan", Name: "Plan"}, {ID: "urn:modes#autopilot", Name: "Autopilot"}}},
		ConfigOptions: []acpwire.ConfigOption{{Type: "select", ID: "m", Category: "model", Name: "Model", Current: "a",
			Options: []acpwire.ConfigChoice{{Group: "g", Name: "G", Options: []acpwire.ConfigChoice{{Value: "a", Name: "A"}, {Value: "b", Name: "B"}}}}}}}, nil
}

func (p *peer) update(ctx context.Context, u acpwire.Update) {
	_ = p.conn.Notify(ctx, acpwire.NotifyUpdate, acpwire.SessionNotification{SessionID: "s", Update: u})
}

func (p *peer) prompt(ctx context.Context, req acpwire.PromptRequest) (any, error) {
	out := acpwire.PromptResponse{StopReason: acpwire.StopEndTurn}
	orders := ""
	for _, b := range req.Prompt {
		orders += b.Text + "\n"
	}
	for order := range strings.Lines(orders) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(order), " ")
		said := p.obey(ctx, verb, rest, req)
		if said != "" {
			p.update(ctx, &acpwire.Chunk{Type: acpwire.UpdateAgentMessage, Content: acpwire.Text(said + "\n")})
		}
	}
	if ctx.Err() != nil {
		out.StopReason = acpwire.StopCancelled
	}
	return out, nil
}

func (p *peer) obey(ctx context.Context, verb, rest string, req acpwire.PromptRequest) string {
	failed := func(err error) string { return "failed: " + err.Error() }
	switch verb {
	case "read":
		var r acpwire.ReadTextFileResponse
		var line, limit int
		var path string
		q := acpwire.ReadTextFileRequest{SessionID: "s"}
		if n, _ := fmt.Sscan(rest, &path, &line, &limit); n == 3 {
			q.Line, q.Limit = &line, &limit
		}
		q.Path = path
		if err := p.conn.Call(ctx, acpwire.MethodReadTextFile, q, &r); err != nil {
			return failed(err)
		}
		return "read: " + r.Content
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		if err := p.conn.Call(ctx, acpwire.MethodWriteTextFile, acpwire.WriteTextFileRequest{SessionID: "s", Path: path, Content: text}, nil); err != nil {
			return failed(err)
		}
		return "written"
	case "run":
		var q acpwire.CreateTerminalRequest
		if err := json.Unmarshal([]byte(rest), &q); err != nil {
			return failed(err)
		}
		return p.terminal(ctx, q)
	case "ask": // the kinds of options to offer
		q := acpwire.PermissionRequest{SessionID: "s", ToolCall: acpwire.ToolCall{ToolCallID: "c", ToolKind: acpwire.KindExecute, Title: "Run", RawInput: json.RawMessage(`{"command":"make it so"}`)}}
		for _, k := range strings.Fields(rest) {
			q.Options = append(q.Options, acpwire.PermissionOption{OptionID: "id-" + k, Name: k, Kind: k})
		}
		var r acpwire.PermissionResponse
		// It waits for the answer also when it was cancelled, as agents may.
		if err := p.conn.Call(context.WithoutCancel(ctx), acpwire.MethodRequestPermission, q, &r); err != nil {
			return failed(err)
		}
		return r.Outcome.Outcome + " " + r.Outcome.OptionID
	case "elicit":
		var r acpwire.ElicitResponse
		if err := p.conn.Call(ctx, acpwire.MethodElicit, acpwire.ElicitRequest{SessionID: "s", Mode: "form", Message: rest, RequestedSchema: json.RawMessage(`{"type":"object"}`)}, &r); err != nil {
			return failed(err)
		}
		b, _ := json.Marshal(r)
		return string(b)
	case "unasked": // uses a tool of some kind without asking
		kind, path, _ := strings.Cut(rest, " ")
		p.update(ctx, &acpwire.ToolCall{Type: acpwire.UpdateToolCall, ToolCallID: "u", Title: "Look", ToolKind: kind, Status: acpwire.StatusPending, RawInput: json.RawMessage(`{"path":"` + path + `"}`)})
		p.update(ctx, &acpwire.ToolCall{Type: acpwire.UpdateToolCallUpdate, ToolCallID: "u", Status: acpwire.StatusCompleted, RawOutput: json.RawMessage(`"seen"`)})
		return ""
	case "wait":
		<-ctx.Done()
	case "hang":
		select {}
	case "mode":
		p.update(ctx, &acpwire.CurrentMode{Type: acpwire.UpdateMode, ModeID: rest})
		<-ctx.Done()
	case "noise":
		fmt.Println("a log line on standard output")
	case "blocks":
		b, _ := json.Marshal(req.Prompt)
		return string(b)
	case "exit":
		fmt.Fprintln(os.Stderr, "I have had enough")
		os.Exit(7)
	case "say":
		return rest
	}
	return ""
}

func (p *peer) terminal(ctx context.Context, q acpwire.CreateTerminalRequest) string {
	q.SessionID = "s"
	var ref acpwire.TerminalRef
	if err := p.conn.Call(ctx, acpwire.MethodTerminalCreate, q, &ref); err != nil {
		return "failed: " + err.Error()
	}
	ref.SessionID = "s"
	if strings.HasSuffix(q.Command, "# leave it") {
		return "left"
	}
	var exit acpwire.TerminalExitStatus
	var out acpwire.TerminalOutputResponse
	for _, c := range []struct {
		method string
		result any
	}{{acpwire.MethodTerminalWait, &exit}, {acpwire.MethodTerminalOutput, &out}, {acpwire.MethodTerminalRelease, nil}} {
		if err := p.conn.Call(ctx, c.method, ref, c.result); err != nil {
			return "failed: " + err.Error()
		}
	}
	code := -1
	if exit.ExitCode != nil {
		code = *exit.ExitCode
	}
	if err := p.conn.Call(ctx, acpwire.MethodTerminalOutput, ref, nil); jsonrpc.CodeOf(err) != acpwire.CodeResourceNotFound {
		return "a released terminal is still there"
	}
	return fmt.Sprintf("exit %d truncated %t: %s", code, out.Truncated, out.Output)
}
