// Package runner reaches Copilot through a program of the user's own: the
// legacy runner. Each turn starts it anew, gives it one JSON request on
// standard input, and reads events from its standard output.
//
// It is an engine.Agent with few abilities. A runner tells of its tool calls,
// if it does, when they happen, and asks nobody: the session's Gate hears of
// them, and a call that it denies ends the runner. See docs/agents.md.
package runner

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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

	mu     sync.Mutex
	closed bool
	open   map[*session]struct{}
}

// New returns an agent; nothing is started yet.
func New(opts Options) *Agent {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{opts: opts, open: map[*session]struct{}{}}
}

// Name is "legacy", as the transport is called.
func (a *Agent) Name() string { return "legacy" }

// Open makes a new session. It is kept here alone: a runner has no memory.
func (a *Agent) Open(_ context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the agent is closed"}
	case spec.Profile == bridge.ProfileChat:
		return nil, unsupported("be kept from using its own tools, which a chat must")
	case len(spec.Tools) > 0:
		return nil, unsupported("call tools of the caller")
	case spec.Provider != nil || spec.MaxAICredits > 0:
		return nil, unsupported("be told of providers or credits")
	case spec.Confinement != nil:
		return nil, unsupported("keep its programs inside a sandbox")
	}
	id := spec.ID
	if id == "" {
		id = newID()
	}
	s := newSession(a, id, spec)
	a.open[s] = struct{}{}
	return s, nil
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

// Ping says whether there is a runner to start.
func (a *Agent) Ping(context.Context) error {
	if a.opts.Program == "" {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: notConfigured, Remedy: howToConfigure}
	}
	return nil
}

const (
	notConfigured  = "no runner is configured"
	howToConfigure = "set ABP_COPILOT_RUNNER to a program that reads one JSON request and writes events"
)

// Close ends what runs.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	var open []*session
	for s := range a.open {
		open = append(open, s)
	}
	a.mu.Unlock()
	for _, s := range open {
		if err := s.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func unsupported(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "a legacy runner cannot " + what,
		Remedy: "use the SDK for it: unset ABP_COPILOT_TRANSPORT"}
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
