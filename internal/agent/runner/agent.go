// Package runner reaches Copilot through a program of the user: the legacy runner.
// Each turn starts it anew, gives it one JSON request on standard input, and reads
// events from its standard output. It is an engine.Agent with few abilities: a
// runner reports its tool calls without asking, so a call that the Gate denies
// ends the runner. See docs/guides/agents.md.
package runner

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// Options say what to run.
type Options struct {
	Program string // "" means that there is none: turns only explain that
	Args    []string
	Records string // directory of process records, see supervise
	Self    string // executable that answers to supervise.Verb
	Env     []string
	// Trusted says whether the user trusts the files of a directory. In others
	// no runner is started if they hold anything that an agent loads by itself.
	Trusted func(dir string) bool
	Logger  *slog.Logger
}

// Agent runs a runner. Its methods may be called concurrently.
type Agent struct {
	opts Options
	open session.Open
}

// New returns an agent; nothing is started yet.
func New(opts Options) *Agent {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{opts: opts}
}

// Name is "legacy", as the transport is called.
func (a *Agent) Name() string { return "legacy" }

// Open makes a new session. It is kept here alone: a runner has no memory.
func (a *Agent) Open(_ context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	switch {
	case a.open.Closed():
		return nil, session.ErrClosed()
	case spec.Profile == bridge.ProfileChat:
		return nil, unsupported("be kept from using its own tools, which a chat must")
	case len(spec.Tools) > 0:
		return nil, unsupported("call tools of the caller")
	case spec.Provider != nil || len(spec.Headers) > 0 || spec.MaxAICredits > 0:
		return nil, unsupported("be told of providers or credits")
	case spec.Confinement != nil:
		return nil, unsupported("keep its programs inside a sandbox")
	}
	s := &conversation{Base: session.New(cmp.Or(spec.ID, session.NewID()), spec), agent: a, model: spec.Model, effort: spec.ReasoningEffort}
	return s, a.open.Add(s.Base)
}

// Resume is not possible.
func (a *Agent) Resume(context.Context, string, bridge.SessionSpec) (bridge.Session, error) {
	return nil, unsupported("go on with stored sessions")
}

// Status says which program is run. Whether it has a login only it knows.
func (a *Agent) Status(context.Context) (bridge.AgentStatus, error) {
	out := bridge.AgentStatus{Agent: a.Name(), AuthType: "runner", Authenticated: a.opts.Program != "", Host: a.opts.Program}
	if a.opts.Program == "" {
		out.Message = notConfigured
	}
	return out, nil
}

const (
	notConfigured  = "no runner is configured"
	howToConfigure = "set ABP_COPILOT_RUNNER to a program that reads one JSON request and writes events"
)

// Capabilities are what can be promised of any runner.
func (a *Agent) Capabilities() map[bridge.Capability]bridge.Support {
	return map[bridge.Capability]bridge.Support{bridge.CapStreaming: {Level: bridge.SupportNative},
		bridge.CapHooksPre: {Level: bridge.SupportRestricted, Reason: "a runner tells of its tool calls and does not ask"}}
}

// Close ends all turns.
func (a *Agent) Close(ctx context.Context) error { return a.open.Close(ctx) }

func unsupported(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "a legacy runner cannot " + what,
		Remedy: "use the SDK for it: unset ABP_COPILOT_TRANSPORT"}
}
