// Package acp reaches Copilot, or another agent, through the Agent Client
// Protocol: over the standard streams of a program, or over TCP. It is an
// engine.Agent that translates between bridge's types and acpwire's. The session's
// Gate answers the agent's permission requests and judges the files and terminals
// that it asks for. A call that the agent makes without asking is judged when it
// is seen; a denied one ends the turn. See docs/guides/agents.md.
package acp

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/agentfiles"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Options say which agent to reach, and how.
type Options struct {
	// Program is started with Args and spoken to over its standard streams;
	// with an Address, only if nothing listens there, and spoken to over TCP.
	Program string
	Args    []string
	Address string // host:port
	// Copilot says that the program is Copilot's CLI, which can be told what
	// the fields below say. Other agents bring their own login and models.
	Copilot bool
	Home    string // Copilot's state directory, and where questions about it are asked
	// Token is a GitHub token; UseLogin leaves Copilot the user's own login.
	Token    string
	UseLogin bool
	// Provider and Model answer instead of GitHub's models.
	Provider *bridge.Provider
	Model    string

	Records string // directory of process records, see supervise
	Self    string // executable that answers to supervise.Verb
	Version string // of the bridge
	Env     []string
	// TerminalEnv is the environment of commands that the agent asks for.
	TerminalEnv []string
	// Confine puts such a command in the sandbox of a session, with what was
	// granted to it; nil where there is none.
	Confine func(ctx context.Context, spec bridge.SessionSpec, c program.Command, grant *bridge.Confinement) (program.Command, error)
	// Trusted says whether the user trusts the files of a directory. In others
	// the agent does not work if they hold anything that it loads by itself.
	Trusted func(dir string) bool
	Logger  *slog.Logger
}

// Agent is one ACP agent. Its methods may be called concurrently.
type Agent struct {
	opts Options

	mu       sync.Mutex       // held while a link is made
	links    map[string]*link // by the servers that the program has, see serversOf
	crashes  int
	notUntil time.Time
	closed   bool
	loggedIn *link          // the link that has shown that it can open sessions
	models   []bridge.Model // as the last session told them
}

// New returns an agent; nothing is started yet.
func New(opts Options) *Agent {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{opts: opts, links: map[string]*link{}}
}

// Name is "acp".
func (a *Agent) Name() string { return "acp" }

// ensure returns a link, to a program with these servers, that was alive a
// moment ago. The caller calls release when its session is registered. After a
// crash there is a pause that grows: none after the first, which may be chance.
func (a *Agent) ensure(ctx context.Context, servers string) (l *link, release func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		if err == nil {
			l.opening.Add(1)
			release = func() { l.opening.Add(-1) }
		}
	}()
	if a.closed {
		return nil, nil, session.ErrClosed()
	}
	if l = a.links[servers]; l != nil && l.alive() {
		return l, nil, nil
	}
	if l != nil {
		a.end(ctx, servers)
		a.backOff()
	}
	for other, l := range a.links {
		if other != "" && l.idle() {
			a.end(ctx, other)
		}
	}
	if wait := time.Until(a.notUntil); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	if l, err = a.connect(ctx, servers); err != nil {
		a.backOff()
		return nil, nil, err
	}
	a.links[servers] = l
	return l, nil, nil
}

// end ends a link. mu is held.
func (a *Agent) end(ctx context.Context, servers string) {
	if err := a.links[servers].close(ctx); err != nil {
		a.opts.Logger.Debug("acp.end_failed", "error", err) // how it died
	}
	delete(a.links, servers)
}

// running returns a link that is alive, or makes one: for what does not depend
// on a session.
func (a *Agent) running(ctx context.Context) (*link, error) {
	a.mu.Lock()
	for _, l := range a.links {
		if l.alive() {
			a.mu.Unlock()
			return l, nil
		}
	}
	a.mu.Unlock()
	l, release, err := a.ensure(ctx, "")
	if err == nil {
		release()
	}
	return l, err
}

func (a *Agent) backOff() {
	a.crashes++
	if a.crashes > 1 {
		a.notUntil = time.Now().Add(min(5*time.Second, 100*time.Millisecond<<min(a.crashes-1, 8)))
	}
}

// worked is called after a turn that ended well.
func (a *Agent) worked() {
	a.mu.Lock()
	a.crashes = 0
	a.mu.Unlock()
}

// linkFor is ensure for a session.
func (a *Agent) linkFor(ctx context.Context, spec bridge.SessionSpec) (*link, func(), error) {
	servers, err := a.serversOf(spec)
	if err != nil {
		return nil, nil, err
	}
	return a.ensure(ctx, servers)
}

// Open makes a new session.
func (a *Agent) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	if err := a.supported(spec); err != nil {
		return nil, err
	}
	l, release, err := a.linkFor(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer release()
	req, err := l.newSession(spec)
	if err != nil {
		return nil, err
	}
	var resp acpwire.NewSessionResponse
	if err := l.call(ctx, acpwire.MethodSessionNew, req, &resp); err != nil {
		return nil, l.explain(err, "open a session")
	}
	if resp.SessionID == "" {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the ACP agent opened a session without an id"}
	}
	return a.adopt(ctx, newConversation(a, l, resp.SessionID, spec), resp)
}

// Resume opens a stored session, with its history if the agent sends it.
func (a *Agent) Resume(ctx context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error) {
	if err := a.supported(spec); err != nil {
		return nil, err
	}
	l, release, err := a.linkFor(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer release()
	method := acpwire.MethodSessionLoad
	if c := l.init.Capabilities; !c.LoadSession && c.Session.Resume != nil {
		method = acpwire.MethodSessionResume
	} else if !c.LoadSession {
		return nil, unsupported("go on with stored sessions")
	}
	req, err := l.newSession(spec)
	if err != nil {
		return nil, err
	}
	req.SessionID = id
	s := newConversation(a, l, id, spec)
	s.loading = true
	l.register(s) // the history comes before the answer
	var resp acpwire.NewSessionResponse
	if err := l.call(ctx, method, req, &resp); err != nil {
		l.unregister(s)
		return nil, l.explain(err, "go on with session "+id)
	}
	s.loaded()
	return a.adopt(ctx, s, resp)
}

// adopt takes a session into service: nothing may be allowed in it without
// asking, and it has the model that was asked for.
func (a *Agent) adopt(ctx context.Context, s *conversation, resp acpwire.NewSessionResponse) (bridge.Session, error) {
	a.mu.Lock()
	a.loggedIn = s.link
	a.mu.Unlock()
	s.configured(resp)
	s.link.register(s)
	err := s.makeItAsk(ctx)
	if err == nil && s.Spec.Model != "" && s.Spec.Model != a.opts.Model {
		err = s.SetModel(ctx, s.Spec.Model, s.Spec.ReasoningEffort)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Capabilities are what can be had over ACP. Which tools there are only the
// agent knows; those named here are Copilot's.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	native := bridge.Support{Level: bridge.SupportNative}
	out := map[bridge.Capability]bridge.Support{bridge.CapStreaming: native, bridge.CapSessionResume: native,
		bridge.CapHooksPre:  {Level: bridge.SupportRestricted, Reason: "over ACP only calls that the agent asks about can be stopped"},
		bridge.CapHooksPost: {Level: bridge.SupportRestricted, Reason: "over ACP the agent has a tool's result before the bridge"}}
	switch {
	case a.opts.Address == "":
		out[bridge.CapMCPClient] = native
	case !a.opts.Copilot:
		out[bridge.CapMCPClient] = bridge.Support{Level: bridge.SupportRestricted, Reason: "Copilot's CLI starts no MCP servers when it is reached over TCP"}
	}
	if a.opts.Copilot {
		for _, c := range []bridge.Capability{bridge.CapToolRead, bridge.CapToolWrite, bridge.CapToolEdit, bridge.CapToolBash, bridge.CapToolGlob, bridge.CapToolGrep} {
			out[c] = native
		}
	}
	return out
}

// Close ends the agent and everything it started.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	links := a.links
	a.links = nil
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	errs := make(chan error, len(links))
	for _, l := range links {
		go func() { errs <- l.close(ctx) }()
	}
	var err error
	for range links {
		err = errors.Join(err, <-errs)
	}
	return err
}

// ProgramPID is the pid of a program that was started, or 0.
func (a *Agent) ProgramPID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.links {
		if l.group != nil {
			return l.group.PID()
		}
	}
	return 0
}

func unsupported(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the ACP agent cannot " + what,
		Remedy: "use the SDK for it: unset ABP_COPILOT_TRANSPORT"}
}

// supported refuses what the protocol has no words for, rather than to drop it
// silently.
func (a *Agent) supported(spec bridge.SessionSpec) error {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	switch {
	case closed:
		return session.ErrClosed()
	case spec.Profile == bridge.ProfileChat:
		return unsupported("be kept from using its own tools, which a chat must")
	case len(spec.Tools) > 0:
		return unsupported("call tools of the caller")
	case spec.Provider != nil:
		return unsupported("use another provider for one session")
	case len(spec.Headers) > 0:
		return unsupported("send headers of the caller's with its requests")
	case spec.MaxAICredits > 0:
		return unsupported("bound the credits of one session")
	case spec.Confinement != nil:
		return unsupported("keep its programs inside a sandbox")
	case spec.WorkingDir == "":
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "an ACP session needs a working directory"}
	}
	return a.loadable(spec)
}

// loadable refuses a workspace from which the agent would load hooks or
// instructions. Copilot's CLI does so over ACP whatever its arguments say.
func (a *Agent) loadable(spec bridge.SessionSpec) error {
	return agentfiles.Check("ACP agent", spec.WorkingDir, a.opts.Trusted)
}

// List returns the sessions that the agent has stored.
func (a *Agent) List(ctx context.Context) ([]bridge.SessionInfo, error) {
	l, err := a.running(ctx)
	if err != nil {
		return nil, err
	}
	if l.init.Capabilities.Session.List == nil {
		return nil, unsupported("list its sessions")
	}
	var out []bridge.SessionInfo
	req := acpwire.ListSessionsRequest{}
	for range 1000 { // an agent that never ends its pages is not followed for ever
		var resp acpwire.ListSessionsResponse
		if err := l.call(ctx, acpwire.MethodSessionList, req, &resp); err != nil {
			return nil, l.explain(err, "list sessions")
		}
		for _, s := range resp.Sessions {
			info := bridge.SessionInfo{ID: s.SessionID, Title: s.Title, WorkingDir: s.Cwd}
			if t, err := time.Parse(time.RFC3339, s.UpdatedAt); err == nil {
				info.Modified = t
			}
			out = append(out, info)
		}
		if resp.NextCursor == "" || resp.NextCursor == req.Cursor {
			break
		}
		req.Cursor = resp.NextCursor
	}
	slices.SortStableFunc(out, func(x, y bridge.SessionInfo) int { return y.Modified.Compare(x.Modified) })
	return out, nil
}

// Delete removes a stored session, where the agent can.
func (a *Agent) Delete(ctx context.Context, id string) error {
	l, err := a.running(ctx)
	if err != nil {
		return err
	}
	if l.init.Capabilities.Session.Delete == nil {
		return unsupported("delete its sessions")
	}
	return l.explain(l.call(ctx, acpwire.MethodSessionDelete, acpwire.SessionRef{SessionID: id}, nil), "delete session "+id)
}

// Models lists what can answer: the provider's model if one is configured,
// else what the agent lets choose.
func (a *Agent) Models(ctx context.Context) ([]bridge.Model, error) {
	if a.opts.Copilot && a.opts.Provider != nil {
		return []bridge.Model{{ID: a.opts.Model, Name: a.opts.Model}}, nil
	}
	if err := a.probe(ctx, false); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.models), nil
}

// Status says which agent runs and whether it opens sessions.
func (a *Agent) Status(ctx context.Context) (bridge.AgentStatus, error) {
	l, err := a.running(ctx)
	if err != nil {
		return bridge.AgentStatus{}, err
	}
	out := bridge.AgentStatus{Agent: a.Name(), ProtocolVersion: l.init.ProtocolVersion, AuthType: "agent"}
	if i := l.init.AgentInfo; i != nil {
		out.RuntimeVersion = i.Name + " " + i.Version
	}
	if a.opts.Copilot && a.opts.Provider != nil {
		out.AuthType, out.Host = "provider", a.opts.Provider.BaseURL
	}
	err = a.probe(ctx, true)
	if bridge.CodeOf(err) == bridge.CodeUnauthenticated {
		out.Message = err.Error() + "; " + bridge.AsError(err).Remedy
		return out, nil
	}
	out.Authenticated = err == nil
	return out, err
}

// probe opens and closes a session, which is the one way to learn whether
// there is a login. It is done once a link, unless known is enough.
func (a *Agent) probe(ctx context.Context, known bool) error {
	if _, err := a.running(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	done := a.loggedIn != nil && a.loggedIn.alive() && (known || a.models != nil)
	a.mu.Unlock()
	if done {
		return nil
	}
	dir := a.opts.Home
	if dir == "" {
		dir = "/"
	}
	s, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir})
	if err != nil {
		return err
	}
	return s.Close(ctx)
}
