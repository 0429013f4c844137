// Package sdk reaches Copilot through the official Go SDK and the native
// runtime that it spawns. It is an engine.Agent: it knows bridge's types and
// the SDK's, and translates between them. It decides nothing about what a
// tool may do; that is asked of the session's Gate.
//
// An Agent owns a runtime process a profile, because the SDK's mode belongs to
// the process, and more of them for a profile with much to do (see Widen).
// Each is started when it is first needed and replaced, after a pause that
// grows, when it dies.
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

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Options say which runtime to run, and as whom.
type Options struct {
	Runtime string // path of the runtime's executable
	Home    string // the runtime's state directory
	Records string // directory of process records, see supervise
	Self    string // executable that answers to supervise.Verb
	// Token is a GitHub token; UseLogin looks for the user's own login, which
	// costs time with every session.
	Token    string
	UseLogin bool
	// Provider and Model answer instead of GitHub's models.
	Provider  *bridge.Provider
	Model     string
	LogLevel  string
	Telemetry *Telemetry
	Version   string   // of the bridge, for the User-Agent
	Env       []string // the runtime's environment
	Logger    *slog.Logger
}

// Telemetry configures the runtime's OpenTelemetry export.
type Telemetry struct {
	OTLPEndpoint   string
	FilePath       string
	ExporterType   string
	SourceName     string
	CaptureContent bool
}

// Agent is the native runtime. Its methods may be called concurrently.
type Agent struct {
	opts Options

	starting sync.WaitGroup // hosts that come or go; added to under mu, while not closed

	claiming sync.Mutex
	claims   map[string]*claim

	mu       sync.Mutex
	lanes    map[bridge.Profile][]*host
	widening bool
	closed   bool
}

// New returns an agent; nothing is started yet.
func New(opts Options) *Agent {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{opts: opts, lanes: map[bridge.Profile][]*host{}, claims: map[string]*claim{}}
}

// Name is "sdk".
func (a *Agent) Name() string { return "sdk" }

// host returns the first host of a profile with its process, started if need
// be and there until done is called.
func (a *Agent) host(ctx context.Context, p bridge.Profile) (h *host, proc *process, done func(), err error) {
	if h, err = a.first(p); err == nil {
		proc, done, err = h.ensure(ctx)
	}
	return h, proc, done, err
}

// anyHost is for questions that every runtime can answer. No other one is
// started for them where one runs, or ran before it died.
func (a *Agent) anyHost(ctx context.Context) (*host, *process, func(), error) {
	a.mu.Lock()
	known := map[bridge.Profile]*host{}
	for p, lanes := range a.lanes {
		known[p] = lanes[0]
	}
	a.mu.Unlock()
	profile := bridge.ProfileAgent
	for p, h := range known {
		if len(known) == 1 || h.alive() {
			profile = p
		}
	}
	return a.host(ctx, profile)
}

// Open makes a new session.
func (a *Agent) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	h, proc, done, err := a.lane(ctx, spec.Profile)
	if err != nil {
		return nil, err
	}
	defer done()
	s := newSession(h, proc, spec)
	if err := s.create(ctx); err != nil {
		return nil, h.noticed(proc, h.explain(err, "open a session"))
	}
	return s, nil
}

// Resume goes on with a stored session.
func (a *Agent) Resume(ctx context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error) {
	h, proc, done, err := a.lane(ctx, spec.Profile)
	if err != nil {
		return nil, err
	}
	defer done()
	s := newSession(h, proc, spec)
	if err := s.resume(ctx, id); err != nil {
		if known := (*bridge.Error)(nil); !errors.As(err, &known) && strings.Contains(strings.ToLower(err.Error()), "not found") {
			return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "Copilot has no session " + id,
				Remedy: "list what there is with `copilot-bridge sessions list`", Cause: err}
		}
		return nil, h.noticed(proc, h.explain(err, "resume session "+id))
	}
	return s, nil
}

// List returns the stored sessions, the one changed last first.
func (a *Agent) List(ctx context.Context) ([]bridge.SessionInfo, error) {
	h, proc, done, err := a.host(ctx, bridge.ProfileAgent)
	if err != nil {
		return nil, err
	}
	defer done()
	var list []copilot.SessionMetadata
	err = proc.call(func(c *copilot.Client) (err error) { list, err = c.ListSessions(ctx, nil); return err })
	if err != nil {
		return nil, h.noticed(proc, h.explain(err, "list sessions"))
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
	h, proc, done, err := a.host(ctx, bridge.ProfileAgent)
	if err != nil {
		return err
	}
	defer done()
	if err := proc.call(func(c *copilot.Client) error { return c.DeleteSession(ctx, id) }); err != nil {
		if strings.Contains(strings.ToLower(err.Error()), "not found") {
			return &bridge.Error{Code: bridge.CodeNotFound, Message: "Copilot has no session " + id, Cause: err}
		}
		return h.noticed(proc, h.explain(err, "delete session "+id))
	}
	return nil
}

// Models lists what can answer: the provider's models if one is configured,
// else GitHub's.
func (a *Agent) Models(ctx context.Context) ([]bridge.Model, error) {
	if a.opts.Provider != nil {
		return providerModels(ctx, a.opts.Provider, a.opts.Model)
	}
	h, proc, done, err := a.host(ctx, bridge.ProfileAgent)
	if err != nil {
		return nil, err
	}
	defer done()
	var list []copilot.ModelInfo
	err = proc.call(func(c *copilot.Client) (err error) { list, err = c.ListModels(ctx); return err })
	if err != nil {
		return nil, h.noticed(proc, h.explain(err, "list models"))
	}
	out := make([]bridge.Model, 0, len(list))
	for _, m := range list {
		out = append(out, modelOf(m))
	}
	return out, nil
}

func modelOf(m copilot.ModelInfo) bridge.Model {
	out := bridge.Model{ID: m.ID, Name: m.Name, Vision: m.Capabilities.Supports.Vision,
		ReasoningEfforts: m.SupportedReasoningEfforts, DefaultEffort: m.DefaultReasoningEffort}
	if n := m.Capabilities.Limits.MaxContextWindowTokens; n != nil {
		out.ContextTokens = *n
	}
	if n := m.Capabilities.Limits.MaxPromptTokens; n != nil {
		out.PromptTokens = *n
	}
	return out
}

// Status says which runtime runs and who is logged in. With a provider of its
// own the agent needs no login and counts as authenticated.
func (a *Agent) Status(ctx context.Context) (bridge.AgentStatus, error) {
	h, proc, done, err := a.anyHost(ctx)
	if err != nil {
		return bridge.AgentStatus{}, err
	}
	defer done()
	out := bridge.AgentStatus{Agent: a.Name()}
	var st *copilot.GetStatusResponse
	err = proc.call(func(c *copilot.Client) (err error) { st, err = c.GetStatus(ctx); return err })
	if err != nil {
		return out, h.noticed(proc, h.explain(err, "ask for the runtime's status"))
	}
	out.RuntimeVersion, out.ProtocolVersion = st.Version, st.ProtocolVersion
	if a.opts.Provider != nil {
		out.Authenticated, out.AuthType, out.Host = true, "provider", a.opts.Provider.BaseURL
		return out, nil
	}
	var au *copilot.GetAuthStatusResponse
	err = proc.call(func(c *copilot.Client) (err error) { au, err = c.GetAuthStatus(ctx); return err })
	if err != nil {
		return out, h.noticed(proc, h.explain(err, "ask for the login"))
	}
	out.Authenticated = au.IsAuthenticated
	for _, f := range []struct {
		dst *string
		src *string
	}{{&out.AuthType, au.AuthType}, {&out.Host, au.Host}, {&out.Login, au.Login}, {&out.Message, au.StatusMessage}} {
		if f.src != nil {
			*f.dst = *f.src
		}
	}
	return out, nil
}

// Ping asks the runtime for a sign of life, starting it if need be.
func (a *Agent) Ping(ctx context.Context) error {
	h, proc, done, err := a.anyHost(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := proc.call(func(c *copilot.Client) error { _, err := c.Ping(ctx, "ping"); return err }); err != nil {
		return h.noticed(proc, h.explain(err, "ping the runtime"))
	}
	return nil
}

// Warm starts the runtime of a profile and runs one turn on the given
// provider, so that the first real turn does not pay for it. The provider is
// meant to be a local one: a turn on GitHub's models would cost money.
func (a *Agent) Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	h, err := a.first(p)
	if err != nil {
		return err
	}
	if err := a.warmUp(ctx, h, provider, model); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}

// Close ends the runtimes and everything they started.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	hosts := slices.Concat(slices.Collect(maps.Values(a.lanes))...)
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(hosts))
	for i, h := range hosts {
		wg.Go(func() { errs[i] = h.close(ctx) })
	}
	wg.Wait()
	a.starting.Wait() // what comes or goes just now ends by itself
	return errors.Join(append(errs, a.releaseAll())...)
}
