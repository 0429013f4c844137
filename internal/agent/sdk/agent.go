// Package sdk reaches Copilot through the official Go SDK and the native runtime
// that it starts. It is an engine.Agent: it translates between bridge's types and
// the SDK's, and asks the session's Gate about every tool call. An Agent owns one
// runtime process for agents and a fixed number for chats, because the SDK's mode
// belongs to the process. A process is started when it is first needed, and
// replaced when it dies or has grown. Only the engine calls the package.
package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// Options say which runtime to run, and as whom.
type Options struct {
	Runtime string // path of the runtime's executable
	// Runtimes is how many processes chats are spread over; 1 if it is 0.
	Runtimes int
	Home     string // the runtime's state directory
	Records  string // directory of process records, see supervise
	Self     string // executable that answers to supervise.Verb
	// Token is a GitHub token; UseLogin looks for the user's own login, which
	// costs time with every session.
	Token    string
	UseLogin bool
	// Provider and Model answer instead of GitHub's models.
	Provider *bridge.Provider
	Model    string
	// GitHubTools says which tools of GitHub's MCP server agents have.
	GitHubTools string
	LogLevel    string
	Telemetry   *Telemetry
	Version     string   // of the bridge, for the User-Agent
	Env         []string // the runtime's environment
	// MemoryLimit is what an agents' runtime may hold, in bytes, before a new
	// one takes over, however little it has grown; 0 is no limit.
	MemoryLimit int64
	// Bubblewrap is the program that confines sessions; "" looks on the PATH of
	// Env.
	Bubblewrap string
	Logger     *slog.Logger
}

// Telemetry configures the runtime's OpenTelemetry export.
type Telemetry struct {
	OTLPEndpoint   string
	FilePath       string
	ExporterType   string
	SourceName     string
	CaptureContent bool
	// Parent, if set, names the span below which the runtime's are, of what happens
	// under a context; see traces.Relay.
	Parent func(context.Context) string
}

// Agent is the native runtime. Its methods may be called concurrently.
type Agent struct {
	opts Options

	notes    *notes
	logins   *logins
	claiming sync.Mutex
	claims   map[string]*claim

	mu         sync.Mutex
	hosts      map[bridge.Profile][]*host
	loginsSeen int // see Logins
	closed     bool
}

// New returns an agent; nothing is started yet.
func New(opts Options) *Agent {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{opts: opts, notes: newNotes(opts.Records), logins: newLogins(opts), hosts: map[bridge.Profile][]*host{}, claims: map[string]*claim{}}
}

// Name is "sdk".
func (a *Agent) Name() string { return "sdk" }

// anyProfile is for questions that every runtime can answer. No other one is
// started for them where one runs, or ran before it died.
func (a *Agent) anyProfile() bridge.Profile {
	a.mu.Lock()
	known := map[bridge.Profile]*host{}
	for p, hosts := range a.hosts {
		known[p] = hosts[0]
	}
	a.mu.Unlock()
	profile := bridge.ProfileAgent
	for p, h := range known {
		if len(known) == 1 || h.alive() {
			profile = p
		}
	}
	return profile
}

// ask asks the first runtime of a profile, which is started if necessary. what
// completes "could not …".
func ask[R any](ctx context.Context, a *Agent, p bridge.Profile, what string, f func(*copilot.Client) (R, error)) (result R, err error) {
	a.Logins()
	hosts, err := a.pool(p)
	if err != nil {
		return result, err
	}
	h := hosts[0]
	proc, done, err := h.ensure(ctx)
	if err != nil {
		return result, err
	}
	defer done()
	err = proc.call(func(c *copilot.Client) (err error) { result, err = f(c); return err })
	return result, h.noticed(proc, h.explain(err, what))
}

func notFound(err error) bool { return strings.Contains(strings.ToLower(err.Error()), "not found") }

// Open makes a new session.
func (a *Agent) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	h, proc, done, err := a.quietest(ctx, spec.Profile)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := h.mayAsk(ctx, proc, spec); err != nil {
		return nil, h.noticed(proc, err)
	}
	s := newSession(h, proc, spec)
	if err := s.create(ctx); err != nil {
		return nil, h.noticed(proc, h.explain(err, "open a session"))
	}
	return s, nil
}

// Resume resumes a stored session.
func (a *Agent) Resume(ctx context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error) {
	h, proc, done, err := a.quietest(ctx, spec.Profile)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := h.mayAsk(ctx, proc, spec); err != nil {
		return nil, h.noticed(proc, err)
	}
	s := newSession(h, proc, spec)
	if err := s.resume(ctx, id); err != nil {
		if known := (*bridge.Error)(nil); !errors.As(err, &known) && notFound(err) {
			return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "Copilot has no session " + id,
				Remedy: "list what there is with `copilot-bridge sessions list`", Cause: err}
		}
		return nil, h.noticed(proc, h.explain(err, "resume session "+id))
	}
	return s, nil
}

// List returns the stored sessions, the one changed last first.
func (a *Agent) List(ctx context.Context) ([]bridge.SessionInfo, error) {
	list, err := ask(ctx, a, bridge.ProfileAgent, "list sessions", func(c *copilot.Client) ([]copilot.SessionMetadata, error) { return c.ListSessions(ctx, nil) })
	if err != nil {
		return nil, err
	}
	out := make([]bridge.SessionInfo, 0, len(list))
	for _, m := range list {
		info := bridge.SessionInfo{ID: m.SessionID, Started: m.StartTime, Modified: m.ModifiedTime}
		if m.Summary != nil {
			info.Title = *m.Summary
		}
		if m.Context != nil {
			info.WorkingDir = m.Context.WorkingDirectory
		}
		out = append(out, info)
	}
	slices.SortStableFunc(out, func(x, y bridge.SessionInfo) int { return y.Modified.Compare(x.Modified) })
	return out, nil
}

// Delete removes a stored session for good.
func (a *Agent) Delete(ctx context.Context, id string) error {
	_, err := ask(ctx, a, bridge.ProfileAgent, "delete session "+id, func(c *copilot.Client) (any, error) { return nil, c.DeleteSession(ctx, id) })
	if err != nil && notFound(err) {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "Copilot has no session " + id, Cause: err}
	}
	return err
}

// Fork copies a stored session and returns the id of the copy.
func (a *Agent) Fork(ctx context.Context, id string) (string, error) {
	made, err := ask(ctx, a, bridge.ProfileAgent, "copy session "+id, func(c *copilot.Client) (*rpc.SessionsForkResult, error) {
		return c.RPC.Sessions.Fork(ctx, &rpc.SessionsForkRequest{SessionID: id})
	})
	if err != nil {
		if notFound(err) {
			return "", &bridge.Error{Code: bridge.CodeNotFound, Message: "Copilot has no session " + id, Cause: err}
		}
		return "", err
	}
	return made.SessionID, nil
}

// Models lists what can answer: the provider's models if one is configured,
// else GitHub's.
func (a *Agent) Models(ctx context.Context) ([]bridge.Model, error) {
	if a.opts.Provider != nil {
		return providerModels(ctx, a.opts.Provider, a.opts.Model)
	}
	if err := a.checkAccount(ctx, bridge.ProfileAgent); err != nil {
		return nil, err
	}
	// Not by the SDK's own ListModels, which leaves out a part and never asks again.
	list, err := ask(ctx, a, bridge.ProfileAgent, "list models", func(c *copilot.Client) (*rpc.ModelList, error) {
		return c.RPC.Models.List(ctx, &rpc.ModelsListRequest{})
	})
	if err != nil {
		return nil, err
	}
	out := make([]bridge.Model, 0, len(list.Models))
	for _, m := range list.Models {
		out = append(out, modelOf(m))
	}
	return out, nil
}

func modelOf(m rpc.Model) bridge.Model {
	out := bridge.Model{ID: m.ID, Name: m.Name, ReasoningEfforts: m.SupportedReasoningEfforts, DefaultEffort: str(m.DefaultReasoningEffort)}
	if s := m.Capabilities.Supports; s != nil {
		out.Vision = s.Vision != nil && *s.Vision
	}
	if l := m.Capabilities.Limits; l != nil {
		out.ContextTokens, out.PromptTokens, out.OutputTokens = count(l.MaxContextWindowTokens), count(l.MaxPromptTokens), count(l.MaxOutputTokens)
	}
	if b := m.Billing; b != nil {
		out.Multiplier = b.Multiplier
	}
	if p := m.Policy; p != nil {
		out.Policy = string(p.State)
	}
	return out
}

func count(n *int64) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// Status says which runtime runs and who is logged in. With a provider of its
// own the agent needs no login and counts as authenticated.
func (a *Agent) Status(ctx context.Context) (bridge.AgentStatus, error) {
	out, profile := bridge.AgentStatus{Agent: a.Name()}, a.anyProfile()
	st, err := ask(ctx, a, profile, "ask for the runtime's status", func(c *copilot.Client) (*copilot.GetStatusResponse, error) { return c.GetStatus(ctx) })
	if err != nil {
		return bridge.AgentStatus{}, err
	}
	out.RuntimeVersion, out.ProtocolVersion = st.Version, st.ProtocolVersion
	if a.opts.Provider != nil {
		out.Authenticated, out.AuthType, out.Host = true, "provider", a.opts.Provider.BaseURL
		return out, nil
	}
	if err := a.checkAccount(ctx, profile); err != nil {
		if out.Failure = bridge.AsError(err); out.Failure.Problem() == "" {
			return out, err
		}
		out.Message = out.Failure.Message
		return out, nil
	}
	au, err := ask(ctx, a, profile, "ask for the login", func(c *copilot.Client) (*copilot.GetAuthStatusResponse, error) { return c.GetAuthStatus(ctx) })
	if err != nil {
		return out, err
	}
	out.Authenticated = au.IsAuthenticated
	out.AuthType, out.Host, out.Login, out.Message = str(au.AuthType), str(au.Host), str(au.Login), str(au.StatusMessage)
	return out, nil
}

// checkAccount looks the account up in the first runtime of a profile.
func (a *Agent) checkAccount(ctx context.Context, p bridge.Profile) error {
	hosts, err := a.pool(p)
	if err != nil {
		return err
	}
	proc, done, err := hosts[0].ensure(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = hosts[0].account(ctx, proc)
	return hosts[0].noticed(proc, err)
}

// Close ends the runtimes and everything they started.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	hosts := slices.Concat(slices.Collect(maps.Values(a.hosts))...)
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(hosts))
	for i, h := range hosts {
		wg.Go(func() { errs[i] = h.close(ctx) })
	}
	wg.Wait()
	return errors.Join(append(errs, a.releaseAll(), a.notes.close())...)
}

// pool returns the hosts of a profile: as many as Options.Runtimes says for
// chats, one for agents. They start their processes when they are used.
func (a *Agent) pool(p bridge.Profile) ([]*host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, common.ErrClosed()
	}
	if a.hosts[p] == nil {
		n := 1
		if p == bridge.ProfileChat {
			n = max(1, a.opts.Runtimes)
		}
		for range n {
			a.hosts[p] = append(a.hosts[p], newHost(a, p))
		}
	}
	return a.hosts[p], nil
}

// alone is how many turns one runtime does as well as several would. Others
// are used, and started, only when there is more to do.
const alone = 3

// quietest returns the host on which a new session of a profile is opened, and
// its process, which does not end before done is called.
func (a *Agent) quietest(ctx context.Context, p bridge.Profile) (h *host, proc *process, done func(), err error) {
	a.Logins()
	hosts, err := a.pool(p)
	if err != nil {
		return nil, nil, nil, err
	}
	a.mu.Lock()
	h = hosts[0]
	for _, x := range hosts {
		if h.busy() >= alone && x.busy() < h.busy() {
			h = x
		}
	}
	h.opening.Add(1) // so that those who come at once see each other
	a.mu.Unlock()
	proc, leave, err := h.ensure(ctx)
	if err != nil {
		h.opening.Add(-1)
		return nil, nil, nil, err
	}
	return h, proc, func() { h.opening.Add(-1); leave() }, nil
}

// busy is how many turns run in the host's process or are about to.
func (h *host) busy() int32 {
	n := h.opening.Load()
	if p := h.present.Load(); p != nil {
		n += p.turns.Load()
	}
	return n
}

// Warm starts the first runtime of a profile and runs one turn on the given
// provider, so that the first real turn does not pay for it. The provider is
// meant to be a local one: a turn on GitHub's models would cost money.
func (a *Agent) Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	h, proc, done, err := a.quietest(ctx, p)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	defer done()
	s := newSession(h, proc, bridge.SessionSpec{Profile: h.profile, Provider: &provider, Model: model})
	if err := s.create(ctx); err != nil {
		return h.noticed(proc, h.explain(err, "open a session"))
	}
	var turnErr error
	for _, err := range s.Send(ctx, bridge.Prompt{Text: "warm-up"}) {
		turnErr = err
	}
	return errors.Join(turnErr, s.Remove(context.WithoutCancel(ctx)))
}
