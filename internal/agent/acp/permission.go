package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// permission answers a permission request by the session's gate. Its first
// part runs in the order of arrival, so that a call which asks is never taken
// for one that does not.
func (s *session) permission(ctx context.Context, p acpwire.PermissionRequest) func() (any, error) {
	s.mu.Lock()
	first := s.calls[p.ToolCall.ToolCallID]
	if first == nil {
		first = s.noteCall(&p.ToolCall)
		if s.turn != nil {
			start := p.ToolCall
			start.Type, start.Status = acpwire.UpdateToolCall, acpwire.StatusPending
			s.turn.push(item{update: &start})
		}
	}
	fresh := !first.judged
	first.asked, first.judged = true, true
	s.numbered++
	req := s.requestOf(first, &p.ToolCall)
	req.ID = fmt.Sprintf("acp-%d", s.numbered)
	tool, t := first.tool, s.turn
	if t != nil {
		t.push(item{event: bridge.PermissionAsked{Request: req}})
	}
	s.mu.Unlock()
	return func() (any, error) {
		gateC, cancel := context.WithCancel(s.gateContext())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		d := bridge.Decision{Verdict: bridge.Allow}
		if fresh {
			d = s.before(gateC, tool)
		}
		if d.Verdict == bridge.Allow {
			d = guarded(gateC, func(ctx context.Context) bridge.Decision {
				if s.spec.Gate == nil {
					return bridge.Decision{Reason: "nobody is there to allow it"}
				}
				return s.spec.Gate.Permit(ctx, req)
			})
		}
		answer, d := choose(p.Options, d, gateC.Err() != nil)
		if d.Verdict != bridge.Allow {
			s.mu.Lock()
			first.denied = d.Reason
			s.mu.Unlock()
		}
		if t != nil {
			t.push(item{event: bridge.PermissionDecided{RequestID: req.ID, CallID: req.CallID, Decision: d}})
		}
		return answer, nil
	}
}

// choose finds the option that says what was decided. Nothing is ever allowed
// for good: the agent would not ask again, and the policy may say otherwise
// next time.
func choose(options []acpwire.PermissionOption, d bridge.Decision, over bool) (acpwire.PermissionResponse, bridge.Decision) {
	find := func(kinds ...string) (string, bool) {
		for _, k := range kinds {
			for _, o := range options {
				if o.Kind == k && !ambiguous(options, o.OptionID) {
					return o.OptionID, true
				}
			}
		}
		return "", false
	}
	if over {
		return acpwire.Cancelled(), d
	}
	if d.Verdict == bridge.Allow {
		if id, ok := find(acpwire.AllowOnce); ok {
			return acpwire.Selected(id), d
		}
		d = bridge.Decision{Reason: "the agent offers no way to allow it just once"}
	}
	if id, ok := find(acpwire.RejectOnce, acpwire.RejectAlways); ok {
		return acpwire.Selected(id), d
	}
	return acpwire.Cancelled(), d
}

// ambiguous says that an id stands for more than one option, so that choosing
// it might be taken for the other.
func ambiguous(options []acpwire.PermissionOption, id string) bool {
	n := 0
	for _, o := range options {
		if o.OptionID == id {
			n++
		}
	}
	return n > 1
}

// requestOf words a permission request for the gate, with all that is known of
// the call: what the agent announced and what it asks now must both be
// allowed. mu is held.
func (s *session) requestOf(c *call, u *acpwire.ToolCall) bridge.PermissionRequest {
	var now map[string]any
	_ = json.Unmarshal(u.RawInput, &now) // one that is no object names nothing
	before, _ := c.tool.Args.(map[string]any)
	r := bridge.PermissionRequest{CallID: u.ToolCallID, Tool: c.tool.Name, Server: c.tool.Server, Intention: u.Title, Args: c.tool.Args}
	kind := u.ToolKind
	if kind == "" {
		kind = c.wire.ToolKind
	}
	r.Native = kind
	text := func(names ...string) string {
		for _, m := range []map[string]any{now, before} {
			for _, n := range names {
				switch v := m[n].(type) {
				case string:
					return v
				case []any:
					if n == "command" {
						return shellLine(v)
					}
				}
			}
		}
		return ""
	}
	for _, m := range []map[string]any{now, before} {
		r.Paths = appendPaths(r.Paths, m)
	}
	for _, l := range append(slices.Clone(c.wire.Locations), u.Locations...) {
		r.Paths = appendNew(r.Paths, l.Path)
	}
	var diffs []any
	for _, k := range u.Content {
		if k.Type == acpwire.ToolContentDiff {
			r.Paths = appendNew(r.Paths, k.Path)
			if !announced(before, k) {
				diffs = append(diffs, k)
			}
		}
	}
	edits := kind == acpwire.KindEdit || kind == acpwire.KindDelete || kind == acpwire.KindMove
	switch {
	case !edits && text("command") != "":
		r.Kind, r.Command, r.Paths = bridge.PermissionShell, text("command"), nil
		if was, ok := before["command"].(string); ok && was != r.Command {
			r.Command = was + "\n" + r.Command // both are judged
		}
	case kind == acpwire.KindExecute:
		r.Kind = bridge.PermissionUnknown
	case edits:
		r.Kind, r.Diff = bridge.PermissionWrite, text("diff", "patch")
		if len(r.Paths) == 0 {
			r.Kind = bridge.PermissionUnknown // it writes, and does not say where
		}
	case kind == acpwire.KindFetch || text("url") != "":
		r.Kind, r.URLs, r.Paths = bridge.PermissionURL, []string{text("url")}, nil
	case kind == acpwire.KindRead || kind == acpwire.KindSearch:
		r.Kind, r.ReadOnly = bridge.PermissionRead, true
		if len(r.Paths) == 0 {
			r.Paths = []string{s.spec.WorkingDir}
		}
	default:
		r.Kind = bridge.PermissionMCP
	}
	if r.Kind != bridge.PermissionShell && r.Diff == "" && (diffs != nil || now != nil && !reflect.DeepEqual(now, before)) {
		// The question shows the arguments of the request as well as those announced before.
		r.Args = map[string]any{"announced": c.tool.Args, "asked": now, "changes": diffs}
	}
	return r
}

// announced says whether a change is the one that a call's arguments make.
func announced(args map[string]any, k acpwire.ToolContent) bool {
	if args["path"] != k.Path {
		return false
	}
	return args["file_text"] == k.NewText || args["new_str"] == k.NewText && k.OldText != nil && args["old_str"] == *k.OldText
}

func appendPaths(paths []string, args map[string]any) []string {
	for _, name := range []string{"path", "fileName", "file_name", "file_path", "filePath", "abs_path", "from", "to", "source", "destination", "paths"} {
		switch v := args[name].(type) {
		case string:
			paths = appendNew(paths, v)
		case []any:
			for _, e := range v {
				if s, ok := e.(string); ok {
					paths = appendNew(paths, s)
				}
			}
		}
	}
	return paths
}

func appendNew(paths []string, p string) []string {
	if p == "" || slices.Contains(paths, p) {
		return paths
	}
	return append(paths, p)
}

// elicit puts a question of the agent's to the session's person.
func (s *session) elicit(ctx context.Context, p acpwire.ElicitRequest) (any, error) {
	if s.spec.Person == nil {
		return acpwire.ElicitResponse{Action: "cancel"}, nil
	}
	s.mu.Lock()
	t := s.turn
	s.numbered++
	id := fmt.Sprintf("acp-%d", s.numbered)
	s.mu.Unlock()
	if t != nil {
		t.push(item{event: bridge.InputAsked{RequestID: id, Question: bridge.Question{Text: p.Message}}})
		defer t.push(item{event: bridge.InputAnswered{RequestID: id}})
	}
	askC, cancel := context.WithCancel(s.gateContext())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	e := bridge.Elicitation{Message: p.Message, Schema: p.RequestedSchema, URL: p.URL}
	if i := s.link.init.AgentInfo; i != nil {
		e.Source = strings.TrimSpace(i.Title)
	}
	a, err := s.spec.Person.Elicit(askC, e)
	if err != nil {
		s.link.opts.Logger.Debug("a question was not answered", "error", err)
		return acpwire.ElicitResponse{Action: "cancel"}, nil
	}
	out := acpwire.ElicitResponse{Action: a.Action}
	if a.Action == "accept" {
		out.Content = a.Content
	}
	return out, nil
}
