package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// Ask implements approval.Asker with a permission request about the tool call.
// Only the consents that were offered count; any other answer is a refusal.
func (s *session) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	lead, body, err := q.Whole(approval.MaxShown)
	if err != nil {
		return approval.Answer{}, err
	}
	t := s.running()
	if t == nil {
		return approval.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval, and no turn is running in which to ask"}
	}
	r := acpwire.PermissionRequest{SessionID: s.live.ID(), ToolCall: *s.asking(ctx, t, q, strings.TrimSuffix(lead+"\n"+body, "\n")), Options: acpwire.List[acpwire.PermissionOption]{
		{OptionID: acpwire.AllowOnce, Kind: acpwire.AllowOnce, Name: "Allow once"},
		{OptionID: acpwire.AllowAlways, Kind: acpwire.AllowAlways, Name: "Allow this for the session"},
		{OptionID: acpwire.RejectOnce, Kind: acpwire.RejectOnce, Name: "Reject"},
	}}
	if len(q.Rules) > 0 {
		r.Options = slices.Insert(r.Options, 2, acpwire.PermissionOption{OptionID: allowByRule, Kind: acpwire.AllowAlways, Name: "Always allow, by the rule shown"})
	}
	var answer acpwire.PermissionResponse
	switch err := s.door.conn.Call(ctx, acpwire.MethodRequestPermission, r, &answer); {
	case err == nil:
	case ctx.Err() != nil:
		return approval.Answer{}, err
	case errors.Is(err, jsonrpc.ErrClosed):
		return approval.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval and the client has left"}
	default:
		return approval.Answer{}, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval and the client could not be asked", Cause: err}
	}
	if answer.Outcome.Outcome != "selected" {
		return said(approval.No), nil
	}
	switch answer.Outcome.OptionID {
	case acpwire.AllowOnce:
		return said(approval.Once), nil
	case acpwire.AllowAlways:
		return said(approval.Session), nil
	case allowByRule:
		if len(q.Rules) > 0 {
			return said(approval.Always), nil
		}
	}
	return said(approval.No), nil
}

func said(c approval.Consent) approval.Answer { return approval.Answer{Consent: c, By: "ACP client"} }

// allowByRule is the option that writes the rule which the question shows.
const allowByRule = "allow_by_rule"

// asking is the tool call of a permission request. It has the id that the client
// knows and the text of the question: the call may have changed since.
func (s *session) asking(ctx context.Context, t *turn, q approval.Question, text string) *acpwire.ToolCall {
	out := s.describe(bridge.ToolCall{ID: q.Request.CallID, Name: q.Request.Tool, Server: q.Request.Server, Args: q.Request.Args})
	if c := t.subject(ctx, q.Request); c != nil {
		out.ToolCallID = c.ID
	}
	if out.ToolCallID == "" {
		out.ToolCallID = "question-" + q.Request.ID
	}
	if out.ToolKind == acpwire.KindOther {
		out.ToolKind = cmp.Or(permissionKinds[q.Request.Kind], acpwire.KindOther)
	}
	out.Title, out.Status = oneLine(strings.TrimPrefix(q.Summary, "run: ")), acpwire.StatusPending
	// Clients show text as Markdown, which could hide parts of it, and diffs
	// with invisible characters.
	out.Content = append([]acpwire.ToolContent{textContent(approval.Fenced(text))}, out.Content...)
	return out
}

// permissionKinds are the kinds of tool calls, by the kind of question.
var permissionKinds = map[bridge.PermissionKind]string{
	bridge.PermissionShell: acpwire.KindExecute, bridge.PermissionWrite: acpwire.KindEdit, bridge.PermissionRead: acpwire.KindRead, bridge.PermissionURL: acpwire.KindFetch,
}

// person is the client's user as one who answers Copilot's questions.
type person struct{ *session }

// Ask implements bridge.Person.
func (p person) Ask(ctx context.Context, q bridge.Question) (bridge.Answer, error) {
	return approval.ByForm(ctx, q, p.Elicit)
}

// Elicit implements bridge.Person. What the client cannot show is declined.
func (p person) Elicit(ctx context.Context, e bridge.Elicitation) (bridge.ElicitationAnswer, error) {
	if e.URL != "" {
		return bridge.ElicitationAnswer{Action: "decline"}, nil
	}
	r := acpwire.ElicitRequest{Message: e.Message, Mode: "form", SessionID: p.live.ID(), RequestedSchema: e.Schema}
	if len(r.RequestedSchema) == 0 {
		r.RequestedSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	var a acpwire.ElicitResponse
	if err := p.door.conn.Call(ctx, acpwire.MethodElicit, r, &a); err != nil {
		return bridge.ElicitationAnswer{}, err
	}
	switch a.Action {
	case "accept", "decline", "cancel":
		return bridge.ElicitationAnswer{Action: a.Action, Content: a.Content}, nil
	}
	return bridge.ElicitationAnswer{Action: "cancel"}, nil
}
