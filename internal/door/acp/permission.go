package acp

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Ask implements approval.Asker: the question goes to the client as a
// permission request about the tool call that it belongs to. Whatever is not
// one of the consents that were offered is a refusal.
func (s *session) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	lead, body, err := q.Whole(approval.MaxShown)
	if err != nil {
		return approval.No, err
	}
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return approval.No, &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval, and no turn is running in which to ask"}
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
	if err := s.door.conn.Call(ctx, acpwire.MethodRequestPermission, r, &answer); err != nil {
		if ctx.Err() != nil {
			return approval.No, err
		}
		return approval.No, unasked(err)
	}
	if answer.Outcome.Outcome != "selected" {
		return approval.No, nil
	}
	switch answer.Outcome.OptionID {
	case acpwire.AllowOnce:
		return approval.Once, nil
	case acpwire.AllowAlways:
		return approval.Session, nil
	case allowByRule:
		if len(q.Rules) > 0 {
			return approval.Always, nil
		}
	}
	return approval.No, nil
}

// allowByRule is the option that writes the rule which the question shows.
const allowByRule = "allow_by_rule"

// unasked is why a client could not be asked.
func unasked(err error) error {
	e := &bridge.Error{Code: bridge.CodeDenied, Message: "it needs approval and the client could not be asked", Cause: err}
	if errors.Is(err, acpwire.ErrClosed) {
		e.Message, e.Cause = "it needs approval and the client has gone", nil
	}
	return e
}

// asking is the tool call of a permission request. It has the id of the one
// that the client was told of, if there is one, and says what the question
// says: the call may have been changed since.
func (s *session) asking(ctx context.Context, t *turn, q approval.Question, text string) *acpwire.ToolCall {
	out := s.describe(bridge.ToolCall{ID: q.Request.CallID, Name: q.Request.Tool, Server: q.Request.Server, Args: q.Request.Args})
	if c := t.subject(ctx, q.Request); c != nil {
		out.ToolCallID = c.ID
	}
	if out.ToolCallID == "" {
		out.ToolCallID = "question-" + q.Request.ID
	}
	if out.ToolKind == acpwire.KindOther {
		out.ToolKind = kindOf(q.Request.Kind)
	}
	out.Title, out.Status = oneLine(strings.TrimPrefix(q.Summary, "run: ")), acpwire.StatusPending
	// Clients show text as Markdown, in which parts could vanish, and a diff
	// without making every character visible.
	out.Content = append([]acpwire.ToolContent{textContent(approval.Fenced(text))}, out.Content...)
	return out
}

func kindOf(k bridge.PermissionKind) string {
	switch k {
	case bridge.PermissionShell:
		return acpwire.KindExecute
	case bridge.PermissionWrite:
		return acpwire.KindEdit
	case bridge.PermissionRead:
		return acpwire.KindRead
	case bridge.PermissionURL:
		return acpwire.KindFetch
	case bridge.PermissionMCP, bridge.PermissionMemory, bridge.PermissionCustom, bridge.PermissionHook, bridge.PermissionUnknown:
	}
	return acpwire.KindOther
}
