package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// permission answers a permission request by the session's gate. Its first
// part runs in the order of arrival, so that a call which asks is never taken
// for one that does not.
func (s *conversation) permission(ctx context.Context, p acpwire.PermissionRequest) func() (any, error) {
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
		t.show(bridge.PermissionAsked{Request: req})
	}
	s.mu.Unlock()
	return func() (any, error) {
		gateC, cancel := context.WithCancel(s.GateContext())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		d := bridge.Decision{Verdict: bridge.Allow}
		if fresh {
			d = s.before(gateC, tool)
		}
		if d.Verdict == bridge.Allow {
			d = s.Decide(gateC, func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Permit(ctx, req) })
		}
		answer, d := choose(p.Options, d, gateC.Err() != nil)
		if d.Verdict != bridge.Allow {
			s.mu.Lock()
			first.denied = d.Reason
			s.mu.Unlock()
		}
		if t != nil {
			t.show(bridge.PermissionDecided{RequestID: req.ID, CallID: req.CallID, Decision: d})
		}
		return answer, nil
	}
}

// choose finds the option for a decision. Nothing is allowed permanently: the
// agent would not ask again, and the policy may decide otherwise next time.
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
func (s *conversation) requestOf(c *call, u *acpwire.ToolCall) bridge.PermissionRequest {
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
	case c.tool.Server != "":
		r.Kind, r.Paths = bridge.PermissionMCP, nil
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
			r.Paths = []string{s.Spec.WorkingDir}
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
func (s *conversation) elicit(ctx context.Context, p acpwire.ElicitRequest) (any, error) {
	if s.Spec.Person == nil {
		return acpwire.ElicitResponse{Action: "cancel"}, nil
	}
	s.mu.Lock()
	t := s.turn
	s.numbered++
	id := fmt.Sprintf("acp-%d", s.numbered)
	s.mu.Unlock()
	if t != nil {
		t.show(bridge.InputAsked{RequestID: id, Question: bridge.Question{Text: p.Message}})
		defer t.show(bridge.InputAnswered{RequestID: id})
	}
	askC, cancel := context.WithCancel(s.GateContext())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	e := bridge.Elicitation{Message: p.Message, Schema: p.RequestedSchema, URL: p.URL}
	if i := s.link.init.AgentInfo; i != nil {
		e.Source = strings.TrimSpace(i.Title)
	}
	a, err := s.Spec.Person.Elicit(askC, e)
	if err != nil {
		s.link.opts.Logger.Debug("acp.question_unanswered", "error", err)
		return acpwire.ElicitResponse{Action: "cancel"}, nil
	}
	out := acpwire.ElicitResponse{Action: a.Action}
	if a.Action == "accept" {
		out.Content = a.Content
	}
	return out, nil
}

// call is a tool call of the running turn. It is guarded by the session's mu,
// except for what only the translator uses.
type call struct {
	tool    bridge.ToolCall
	wire    acpwire.ToolCall // as it is known so far
	asked   bool             // the agent has asked for permission
	judged  bool             // the gate has seen it
	denied  string           // why it was not allowed
	started time.Time

	announced bool   // the translator's: ToolStarted was told
	printed   string // the translator's: the output so far
	finished  bool   // the translator's
}

// noteCall takes note of a call and has it judged if it runs without having
// asked. mu is held.
func (s *conversation) noteCall(u *acpwire.ToolCall) *call {
	c := s.calls[u.ToolCallID]
	if c == nil {
		c = &call{started: time.Now(), wire: acpwire.ToolCall{ToolCallID: u.ToolCallID}}
		s.calls[u.ToolCallID] = c
	}
	c.merge(u)
	c.tool = toolOf(&c.wire, s.Spec.MCPServers)
	if s.turn == nil || s.loading || c.asked || c.judged || !runs(u) || harmless(&c.wire) {
		return c
	}
	c.judged = true
	tool := c.tool
	s.wg.Go(func() { s.judge(c, tool) })
	return c
}

// merge adds the new fields of an update. The first input that an agent tells
// is kept: its permission requests have it in another form.
func (c *call) merge(u *acpwire.ToolCall) {
	set := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	set(&c.wire.Name, u.Name)
	set(&c.wire.ToolKind, u.ToolKind)
	set(&c.wire.Status, u.Status)
	if c.wire.Title == "" {
		c.wire.Title = u.Title
	}
	if len(c.wire.RawInput) == 0 || string(c.wire.RawInput) == "null" || string(c.wire.RawInput) == "{}" {
		c.wire.RawInput = u.RawInput
	}
	if len(u.Locations) > 0 {
		c.wire.Locations = u.Locations
	}
	if u.Type == acpwire.UpdateToolCall {
		c.wire.Content = u.Content // of an update it is the output
	}
}

// runs says that a call has begun, or even ended well. One that failed may
// have been refused by the agent itself.
func runs(u *acpwire.ToolCall) bool {
	return u.Status == acpwire.StatusInProgress || u.Status == acpwire.StatusCompleted ||
		u.Type == acpwire.UpdateToolCallUpdate && u.Status == "" && len(u.Content) > 0
}

// harmless calls touch nothing but the conversation.
func harmless(u *acpwire.ToolCall) bool {
	return u.ToolKind == acpwire.KindThink || u.ToolKind == acpwire.KindSwitchMode
}

// judge lets the gate see a call that the agent made without asking. What is
// denied cannot be undone, but the turn goes no further.
func (s *conversation) judge(c *call, tool bridge.ToolCall) {
	ctx := s.WithWaiting(s.GateContext())
	d := s.before(ctx, tool)
	if d.Verdict == bridge.Allow {
		return
	}
	s.mu.Lock()
	c.denied = d.Reason
	s.mu.Unlock()
	if ctx.Err() != nil {
		return // the turn is over anyway
	}
	s.forbid(&bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the agent used %s without asking, which is denied: %s", tool.Name, d.Reason),
		Remedy: "the turn was ended; use the SDK, which stops such calls before they happen: unset ABP_COPILOT_TRANSPORT"})
}

// review says why a call that failed was denied, or "". One that failed before
// the agent asked about it is judged now.
func (s *conversation) review(c *call, tool bridge.ToolCall) string {
	s.mu.Lock()
	judged := c.asked || c.judged || harmless(&c.wire)
	c.judged = true
	denied := c.denied
	s.mu.Unlock()
	ctx := s.GateContext()
	if judged || ctx.Err() != nil {
		return denied
	}
	var d bridge.Decision
	if r, ok := s.Spec.Gate.(bridge.Reviewer); ok && s.offered(tool.Name) {
		d = s.Decide(ctx, func(ctx context.Context, _ bridge.Gate) bridge.Decision { return r.Review(ctx, tool) })
	} else {
		d = s.before(ctx, tool)
	}
	if d.Verdict == bridge.Allow || ctx.Err() != nil {
		return ""
	}
	return d.Reason
}

// before asks the gate about a tool call.
func (s *conversation) before(ctx context.Context, tool bridge.ToolCall) bridge.Decision {
	if !s.offered(tool.Name) {
		return bridge.Decision{Reason: "the tool " + tool.Name + " is not offered in this session"}
	}
	return s.Decide(ctx, func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Before(ctx, tool) })
}

// offered applies the session's choice of tools, which the protocol cannot
// pass on.
func (s *conversation) offered(name string) bool {
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(pattern string) bool {
			_, bare, qualified := strings.Cut(pattern, ":")
			if !qualified {
				bare = pattern
			}
			return bare == "*" || bare == name
		})
	}
	return (s.Spec.AvailableTools == nil || in(s.Spec.AvailableTools)) && !in(s.Spec.ExcludedTools)
}

// toolOf names a call in the words that policies use. The protocol has only
// recently a field for the name; before that it is told by what kind of call
// it is and what it was given.
func toolOf(u *acpwire.ToolCall, servers map[string]bridge.MCPServer) bridge.ToolCall {
	out := bridge.ToolCall{ID: u.ToolCallID}
	var args map[string]any
	if json.Unmarshal(u.RawInput, &args) != nil || args == nil {
		args = map[string]any{}
	}
	if words, ok := args["command"].([]any); ok {
		args["command"] = shellLine(words)
	}
	if out.Server = serverOf(u, args, servers); out.Server != "" {
		out.Name, out.Args = u.Title, args
		return out
	}
	out.Name = toolName(u, args)
	if paths := locations(u); len(paths) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(args)), isPathKey) {
		args["paths"] = paths
	}
	out.Args = args
	return out
}

// serverOf is the MCP server whose tool a call is of, or "". Copilot calls such
// a tool SERVER-TOOL in the title and guesses its kind from the name. For some of
// Copilot's own tools the model writes the title. So a call that looks like a
// command, a sub-agent or a change of files never counts as a server's tool.
func serverOf(u *acpwire.ToolCall, args map[string]any, servers map[string]bridge.MCPServer) (server string) {
	_, command := args["command"]
	_, agent := args["agent_type"]
	if command || agent || u.ToolKind == acpwire.KindExecute || len(u.Locations) > 0 || len(u.Content) > 0 || strings.ContainsAny(u.Title, " \t\n") {
		return ""
	}
	for name := range servers {
		if strings.HasPrefix(u.Title, name+"-") && len(name) > len(server) {
			server = name
		}
	}
	return server
}

func isPathKey(k string) bool {
	k = strings.ToLower(k)
	return strings.Contains(k, "path") || strings.Contains(k, "file") || strings.Contains(k, "dir")
}

func locations(u *acpwire.ToolCall) []any {
	var out []any
	for _, l := range u.Locations {
		out = append(out, l.Path)
	}
	return out
}

func toolName(u *acpwire.ToolCall, args map[string]any) string {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := args[n]; return ok })
	}
	edits := u.ToolKind == acpwire.KindEdit || u.ToolKind == acpwire.KindDelete || u.ToolKind == acpwire.KindMove
	switch {
	case u.Name != "":
		return u.Name
	case !edits && has("command"):
		return "bash"
	case u.ToolKind == acpwire.KindExecute && has("input"):
		return "write_bash"
	case u.ToolKind == acpwire.KindExecute && has("shellId"):
		return "read_bash"
	case edits && has("file_text", "content"):
		return "create"
	case edits && has("patch"):
		return "apply_patch"
	case edits:
		return "edit"
	case u.ToolKind == acpwire.KindFetch && has("url"):
		return "web_fetch"
	case u.ToolKind == acpwire.KindFetch:
		return "web_search"
	case u.ToolKind == acpwire.KindSearch || u.ToolKind == acpwire.KindRead && has("pattern"):
		if strings.HasPrefix(u.Title, "Finding files") {
			return "glob"
		}
		return "grep"
	case u.ToolKind == acpwire.KindRead:
		return "view"
	case u.Title != "" && !strings.ContainsAny(u.Title, " \t\n"):
		return u.Title // many agents have nothing better to call it
	}
	return "acp:" + u.ToolKind
}

// shellLine words a command and its arguments as a shell would take them.
func shellLine(words []any) string {
	var out []string
	for _, w := range words {
		out = append(out, quote(fmt.Sprint(w)))
	}
	return strings.Join(out, " ")
}

func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%") == "" && s[0] != '=' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
