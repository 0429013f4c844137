package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// aloneWithin is how late the events of calls may be that have ended.
const aloneWithin = time.Second

// grants sees to it that a grant serves one call only. A session has one
// sandbox for all of its calls, so no other call may start while the sandbox is
// wider. A sub-agent copies the sandbox when it starts, and so can be granted
// nothing.
//
// The runtime asks about all calls of a model's answer, one after another,
// before it starts any of them. So a call that needs a grant has to be the only
// one of its answer. Calls of sub-agents wait, and are waited for.
type grants struct {
	mu      sync.Mutex
	calls   []*call          // asked about and not ended
	started map[string]*call // what the runtime said of calls, by id
	wide    *call            // the one that has a grant
	changes int              // how often the confinement has changed
	tasks   []int            // changes, when each call was let through that starts a sub-agent
	born    map[string]int   // changes, when a sub-agent was started at the earliest
	moved   chan struct{}    // closed at the next change; nil if no call waits
}

// call is one use of a tool. The runtime's hooks give it no id.
type call struct {
	agent string // the session, or the sub-agent of it
	name  string
	args  string // as the model gave them
}

func (c *call) same(x *call) bool { return c.name == x.name && c.args == x.args }

func encoded(args any) string {
	b, _ := json.Marshal(args) // came as JSON
	return string(b)
}

// quiet are tools that look at nothing on this machine and start nothing.
var quiet = []string{"read_agent", "write_agent", "list_agents", "ask_user", "report_intent", "read_bash", "stop_bash", "list_bash", "sql", "task_complete"}

// What a model is told that has to make a call again.
const (
	notAlone     = "it was granted more than the sandbox allows, but only by itself: make this call again without others beside it"
	wideBeside   = "another call has been granted more than the sandbox allows and has to be by itself: make this call again after it"
	inForeground = "what runs in the background cannot be granted more than the sandbox allows: make this call again in the foreground (mode sync)"
	subAgents    = "a sub-agent cannot be granted more than the sandbox allows: say in your answer what you need, so that the agent above can do it"
	changedBelow = "the policy has just changed, and the sandbox of a sub-agent does not follow it: make this call again, or have the agent above do it"
	endsShells   = "to grant it more than the sandbox allows would end the commands that run in the background: stop them or wait for them, then make this call again"
)

// confines says whether the session's confinement holds for what an agent does.
// A sub-agent keeps the one that it was started with.
func (s *session) confines(agent string) bool {
	if !s.confined() || agent == s.ID() {
		return s.confined()
	}
	g := &s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	at, known := g.born[agent]
	if !known {
		if g.born == nil {
			g.born = map[string]int{}
		}
		if len(g.tasks) > 0 { // which of the calls started it is not known
			at, g.tasks = g.tasks[0], g.tasks[1:]
		}
		g.born[agent] = at
	}
	return at == g.changes
}

// rebase makes c what holds while nothing is granted. grants.mu is held.
func (s *session) rebase(c *bridge.Confinement) {
	if c == nil || c == s.wall.base {
		return
	}
	if !reflect.DeepEqual(c, s.wall.base) {
		s.grants.changes++
	}
	s.wall.base = c
}

// admitCall lets a call start that the gate has allowed, with its grant if it has
// one, or says why it may not. now is the confinement by which the gate judged;
// nil for the one that holds. The runtime starts no call of an answer before it
// has asked about all, so a change ends no other call of the same agent.
func (s *session) admitCall(ctx context.Context, agent string, tool bridge.ToolCall, given any, now, grant *bridge.Confinement) (refusal string) {
	switch {
	case !s.confined() && grant == nil:
		return ""
	case !s.confined():
		return "it was granted more than a sandbox allows, but the session has none"
	case grant == nil && slices.Contains(quiet, tool.Name):
		return ""
	}
	g := &s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.wide != nil {
		if g.wide.agent == agent || !g.wait(ctx, nil) {
			return wideBeside
		}
	}
	if now != nil && now != s.wall.base {
		if err := confinable(now, s.Spec.WorkingDir); err != nil {
			return err.Error()
		}
		s.rebase(now)
		if tool.Confined && agent != s.ID() && g.born[agent] != g.changes {
			return changedBelow
		}
	}
	if tool.Name == "task" {
		g.tasks = append(g.tasks, g.changes)
	}
	// A grant may be left of a call that has not come to its end.
	if err := s.setSandbox(ctx, s.wall.base); err != nil {
		return err.Error()
	}
	c := &call{agent: agent, name: tool.Name, args: encoded(given)}
	g.calls = append(g.calls, c)
	if grant == nil {
		return ""
	}
	refusal = s.applyGrant(ctx, c, tool, grant)
	if refusal != "" {
		g.end(c)
	}
	return refusal
}

// applyGrant waits until a call is the only one and gives it its grant. grants.mu
// is held, but not meanwhile.
func (s *session) applyGrant(ctx context.Context, c *call, tool bridge.ToolCall, grant *bridge.Confinement) (refusal string) {
	if c.agent != s.ID() {
		return subAgents
	}
	if inBackground(tool.Args) {
		return inForeground
	}
	g := &s.grants
	timer := time.NewTimer(aloneWithin)
	defer timer.Stop()
	for g.wide != nil || len(g.calls) > 1 {
		late := timer.C
		if !slices.ContainsFunc(g.calls, func(x *call) bool { return x != c && x.agent == c.agent }) {
			late = nil
		}
		if !g.wait(ctx, late) {
			return notAlone
		}
	}
	shells, err := s.shells(ctx)
	if err != nil {
		return s.host.explain(err, "see what runs in the background").Error()
	}
	if len(shells) > 0 {
		return endsShells
	}
	wide := s.wall.base.With(*grant)
	if err := s.setSandbox(ctx, &wide); err != nil {
		return err.Error()
	}
	g.wide = c
	return ""
}

// shells are the ids of the commands that run in the background.
func (s *session) shells(ctx context.Context) (ids []string, err error) {
	list, err := s.sdk.RPC.Tasks.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list.Tasks {
		if shell, ok := t.(*rpc.TaskShellInfo); ok && shell.Status == rpc.TaskStatusRunning {
			ids = append(ids, shell.ID)
		}
	}
	return ids, nil
}

// endShells ends what a confined session has running in the background. The
// runtime would let it run until it ends itself, and its directory goes now.
func (s *session) endShells(ctx context.Context) {
	if !s.confined() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, idleWithin)
	defer cancel()
	ids, err := s.shells(ctx)
	for _, id := range ids {
		_, e := s.sdk.RPC.Tasks.Cancel(ctx, &rpc.TasksCancelRequest{ID: id})
		err = errors.Join(err, e)
	}
	if err != nil {
		s.host.opts.Logger.Debug("session.shells_not_ended", "session", s.ID(), "error", err)
	}
}

func inBackground(args any) bool {
	m, _ := args.(map[string]any)
	return m["mode"] == "async"
}

// wait waits for a change, until late or the end of ctx, and says whether there
// was one. mu is held, but not meanwhile.
func (g *grants) wait(ctx context.Context, late <-chan time.Time) bool {
	if g.moved == nil {
		g.moved = make(chan struct{})
	}
	moved := g.moved
	g.mu.Unlock()
	defer g.mu.Lock()
	select {
	case <-moved:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// end forgets a call. mu is held.
func (g *grants) end(c *call) {
	g.calls = slices.DeleteFunc(g.calls, func(x *call) bool { return x == c })
	if g.wide == c {
		g.wide = nil
	}
	if g.moved != nil {
		close(g.moved)
		g.moved = nil
	}
}

// endGrant takes back the grant of the call for which over returns true. If the
// runtime cannot be told, admitCall lets no call start until it has been.
func (s *session) endGrant(over func(*call) bool) {
	g := &s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wide == nil || !over(g.wide) {
		return
	}
	if err := s.setSandbox(s.Context(), s.wall.base); err != nil {
		s.host.opts.Logger.Warn("session.grant_not_ended", "session", s.ID(), "error", err)
	}
	g.end(g.wide)
}

// endGrants is called when a turn is over. What an aborted one has under way the
// runtime says nothing more about; after another one sub-agents may go on.
func (s *session) endGrants(done bool) {
	if !s.confined() {
		return
	}
	s.endGrant(func(*call) bool { return true })
	g := &s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(c *call) bool { return !done || c.agent == s.ID() })
	if !done {
		clear(g.started)
	}
}

// trackCall learns from the session's events which calls have ended, run or not.
func (s *session) trackCall(e copilot.SessionEvent) {
	if !s.confined() {
		return
	}
	g := &s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	switch d := e.Data.(type) {
	case *rpc.ToolExecutionStartData:
		if g.started == nil {
			g.started = map[string]*call{}
		}
		g.started[d.ToolCallID] = &call{name: d.ToolName, args: encoded(d.Arguments)}
	case *rpc.ToolExecutionCompleteData:
		ended := g.started[d.ToolCallID]
		delete(g.started, d.ToolCallID)
		if ended == nil {
			return
		}
		if i := slices.IndexFunc(g.calls, ended.same); i >= 0 {
			g.end(g.calls[i]) // if it had a grant that is left, see admitCall
		}
	default:
	}
}

// refreshSandbox asks for the session's confinement again and tells the runtime if it
// is another. A wall that stands is not taken away.
func (s *session) refreshSandbox(ctx context.Context) error {
	if !s.confined() {
		return nil
	}
	c, err := s.confinement(ctx)
	if err != nil {
		return err
	}
	g := &s.grants
	g.mu.Lock()
	defer g.mu.Unlock()
	s.rebase(c)
	return s.setSandbox(ctx, s.wall.base)
}
