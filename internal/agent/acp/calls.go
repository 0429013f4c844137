package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"context"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

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
func (s *session) noteCall(u *acpwire.ToolCall) *call {
	c := s.calls[u.ToolCallID]
	if c == nil {
		c = &call{started: time.Now(), wire: acpwire.ToolCall{ToolCallID: u.ToolCallID}}
		s.calls[u.ToolCallID] = c
	}
	c.merge(u)
	c.tool = toolOf(&c.wire, s.spec.MCPServers)
	if s.turn == nil || s.loading || c.asked || c.judged || !runs(u) || harmless(&c.wire) {
		return c
	}
	c.judged = true
	tool := c.tool
	s.wg.Go(func() { s.judge(c, tool) })
	return c
}

// merge adds what is new. What an agent says first of a call's input stands:
// its permission requests word it in another way.
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
func (s *session) judge(c *call, tool bridge.ToolCall) {
	ctx := bridge.WithWaiting(s.gateContext(), s.waiting)
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

// before asks the gate about a tool call.
func (s *session) before(ctx context.Context, tool bridge.ToolCall) bridge.Decision {
	if !s.offered(tool.Name) {
		return bridge.Decision{Reason: "the tool " + tool.Name + " is not offered in this session"}
	}
	return guarded(ctx, func(ctx context.Context) bridge.Decision {
		if s.spec.Gate == nil {
			return bridge.Decision{Reason: "nobody is there to allow it"}
		}
		return s.spec.Gate.Before(ctx, tool)
	})
}

// offered applies the session's choice of tools, which the protocol cannot
// pass on.
func (s *session) offered(name string) bool {
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(pattern string) bool {
			_, bare, qualified := strings.Cut(pattern, ":")
			if !qualified {
				bare = pattern
			}
			return bare == "*" || bare == name
		})
	}
	return (s.spec.AvailableTools == nil || in(s.spec.AvailableTools)) && !in(s.spec.ExcludedTools)
}

// gateContext is what gates and persons run under: the turn, if there is one.
func (s *session) gateContext() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turnC != nil {
		return s.turnC
	}
	return s.ctx
}

// waiting makes a question of the gate visible in the turn.
func (s *session) waiting(r bridge.PermissionRequest) func(bridge.Decision) {
	s.mu.Lock()
	t := s.turn
	s.numbered++
	r.ID = fmt.Sprintf("gate-%d", s.numbered)
	s.mu.Unlock()
	if t == nil {
		return func(bridge.Decision) {}
	}
	t.push(item{event: bridge.PermissionAsked{Request: r}})
	return func(d bridge.Decision) {
		t.push(item{event: bridge.PermissionDecided{RequestID: r.ID, CallID: r.CallID, Decision: d}})
	}
}

// guarded runs a gate's decision so that it fails closed.
func guarded(ctx context.Context, f func(context.Context) bridge.Decision) (d bridge.Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = bridge.Decision{Reason: fmt.Sprintf("the guard failed: %v", r)}
		} else if ctx.Err() != nil {
			d = bridge.Decision{Reason: "the turn has ended"}
		}
	}()
	return f(ctx)
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
	out.Name = toolName(u, args)
	if paths := locations(u); len(paths) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(args)), isPathKey) {
		args["paths"] = paths
	}
	out.Args = args
	for name := range servers {
		if strings.HasPrefix(out.Name, name+"-") {
			out.Server = name
		}
	}
	return out
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
