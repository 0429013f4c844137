// Package engine is the one service behind every door: it opens sessions on
// an agent, bounds how many turns run, watches that none of them hangs,
// retries what may be retried, counts tokens, and keeps the list of sessions.
// It speaks bridge's types only and knows neither a door nor how an agent
// works.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// Agent is a way to reach Copilot. Its methods are called concurrently.
type Agent interface {
	Name() string
	Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error)
	Resume(ctx context.Context, id string, spec bridge.SessionSpec) (bridge.Session, error)
	Close(ctx context.Context) error
}

// What an agent may be able to do besides; found by type assertion.
type (
	// Lister knows the sessions that the agent has stored.
	Lister interface {
		List(ctx context.Context) ([]bridge.SessionInfo, error)
		Delete(ctx context.Context, id string) error
	}
	// ModelLister knows which models can answer.
	ModelLister interface {
		Models(ctx context.Context) ([]bridge.Model, error)
	}
	// Prober can say whether it would be able to answer.
	Prober interface {
		Status(ctx context.Context) (bridge.AgentStatus, error)
		Ping(ctx context.Context) error
	}
	// Describer says what it can do. What it does not name it cannot do.
	Describer interface {
		Capabilities() map[bridge.Capability]bridge.Support
	}
	// Warmer can pay start-up costs in advance.
	Warmer interface {
		Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error
	}
	// Rotator can replace the runtime of a profile by a new one, and says how
	// much memory the present one holds (0 = not known). Shrink does so if it
	// has grown so many times, and ends those that are there for a crowd.
	Rotator interface {
		Memory(p bridge.Profile) int64
		Rotate(ctx context.Context, p bridge.Profile) error
		Shrink(ctx context.Context, p bridge.Profile, times float64) (renewed bool, err error)
	}
	// Widener can give a profile more runtimes while there is much to do.
	Widener interface {
		Widen(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error
	}
	// Resetter is a session that can forget its conversation.
	Resetter interface {
		Reset(ctx context.Context) error
	}
	// Steerer is a session that can be spoken to while its turn runs.
	Steerer interface {
		Steer(ctx context.Context, p bridge.Prompt) error
	}
	// Commander is a session with slash commands.
	Commander interface {
		Commands(ctx context.Context) ([]bridge.Command, error)
		Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error)
	}
	// Remover is a session that can be closed and deleted in one.
	Remover interface {
		Remove(ctx context.Context) error
	}
	// Dater is a session that knows whether its runtime lives and is the one
	// in which new sessions are opened.
	Dater interface {
		Current() bool
	}
	// Mover is a session that can be taken to the runtime that has replaced its
	// own.
	Mover interface {
		Move(ctx context.Context) (bridge.Session, error)
	}
	// Sharer is a session of an agent with several runtimes. It knows whether
	// its own has more than its share of the sessions, and whether that is one
	// beside the first, which is there for a crowd.
	Sharer interface {
		Crowded() bool
		Aside() bool
	}
)

// Store keeps the list of sessions. A nil Store keeps none.
type Store interface {
	Put(ctx context.Context, e sessionstore.Entry) error
	Update(ctx context.Context, id string, change func(*sessionstore.Entry) error) error
	Get(ctx context.Context, id string) (sessionstore.Entry, error)
	List(ctx context.Context) ([]sessionstore.Entry, error)
	Delete(ctx context.Context, id string) error
}

// Limits bound time, work and attempts. Zero means: IdleTimeout 5 minutes,
// ApprovalTimeout 5 minutes, ParkTimeout 10 minutes, MaxConcurrent 8, and no
// bound for the rest.
type Limits struct {
	// IdleTimeout ends a turn in which nothing happens.
	IdleTimeout time.Duration
	// TotalTimeout ends a turn however busy it is.
	TotalTimeout time.Duration
	// ApprovalTimeout is how long a person may take; it is added to
	// IdleTimeout while one is asked.
	ApprovalTimeout time.Duration
	// ParkTimeout is how long a caller may take to answer its own tools.
	ParkTimeout time.Duration
	// MaxConcurrent turns run, QueueLimit more wait, the rest are refused.
	MaxConcurrent int
	QueueLimit    int
	// MaxRetries caps how often a failed request to the model is tried again.
	MaxRetries int
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&l.IdleTimeout, 5*time.Minute)
	set(&l.ApprovalTimeout, 5*time.Minute)
	set(&l.ParkTimeout, 10*time.Minute)
	if l.MaxConcurrent <= 0 {
		l.MaxConcurrent = 8
	}
	return l
}

// Options are what an Engine is made of. Agent is required.
type Options struct {
	Agent  Agent
	Store  Store
	Limits Limits
	// ProjectContext is told to every session.
	ProjectContext string
	// Notice, if set, says that the answers are not Copilot's; every session
	// carries it in its first event.
	Notice string
	Logger *slog.Logger
}

// Engine is the service. Its methods may be called concurrently.
type Engine struct {
	opts  Options
	slots *slots
	usage ledger

	mu     sync.Mutex
	open   map[*Session]struct{}
	closed bool
}

// New returns an engine. It owns the agent from then on: Close closes it.
func New(opts Options) *Engine {
	opts.Limits = opts.Limits.withDefaults()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		opts:  opts,
		slots: newSlots(opts.Limits.MaxConcurrent, opts.Limits.QueueLimit),
		open:  map[*Session]struct{}{},
	}
}

// Agent names the agent in use.
func (e *Engine) Agent() string { return e.opts.Agent.Name() }

// Notice says that the answers are not Copilot's, or is empty.
func (e *Engine) Notice() string { return e.opts.Notice }

// Capabilities says what the agent can do; nothing, if it does not say.
func (e *Engine) Capabilities() map[bridge.Capability]bridge.Support {
	if d, ok := e.opts.Agent.(Describer); ok {
		return d.Capabilities()
	}
	return nil
}

// Models lists what can answer.
func (e *Engine) Models(ctx context.Context) ([]bridge.Model, error) {
	if l, ok := e.opts.Agent.(ModelLister); ok {
		return l.Models(ctx)
	}
	return nil, e.unsupported("list models")
}

// Status says whether the agent would be able to answer.
func (e *Engine) Status(ctx context.Context) (bridge.AgentStatus, error) {
	if p, ok := e.opts.Agent.(Prober); ok {
		return p.Status(ctx)
	}
	return bridge.AgentStatus{}, e.unsupported("report its status")
}

// Warm pays start-up costs in advance. The provider answers the dummy turn,
// so it should be one that costs nothing.
func (e *Engine) Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	if w, ok := e.opts.Agent.(Warmer); ok {
		return w.Warm(ctx, p, provider, model)
	}
	return nil
}

// Memory is what the runtime of a profile holds, in bytes; 0 if not known.
func (e *Engine) Memory(p bridge.Profile) int64 {
	if r, ok := e.opts.Agent.(Rotator); ok {
		return r.Memory(p)
	}
	return 0
}

// Rotate has new sessions of a profile opened in a new runtime; the old one
// ends with its last session. An agent that cannot do that does nothing.
func (e *Engine) Rotate(ctx context.Context, p bridge.Profile) error {
	if r, ok := e.opts.Agent.(Rotator); ok {
		return r.Rotate(ctx, p)
	}
	return nil
}

// Shrink is Rotate for quiet times: a profile goes back to one runtime, which
// is replaced if it holds more than so many times what it did when it was
// young. Sessions elsewhere are not Current any more.
func (e *Engine) Shrink(ctx context.Context, p bridge.Profile, times float64) (renewed bool, err error) {
	if r, ok := e.opts.Agent.(Rotator); ok {
		return r.Shrink(ctx, p, times)
	}
	return false, nil
}

// Widen has new sessions of a profile spread over one runtime more, up to as
// many as are of use. The provider answers a dummy turn, as with Warm.
func (e *Engine) Widen(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	if w, ok := e.opts.Agent.(Widener); ok {
		return w.Widen(ctx, p, provider, model)
	}
	return nil
}

func (e *Engine) unsupported(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the " + e.opts.Agent.Name() + " agent cannot " + what}
}

// Sessions lists the sessions that were kept, the one used last first.
func (e *Engine) Sessions(ctx context.Context) ([]sessionstore.Entry, error) {
	if e.opts.Store == nil {
		return nil, nil
	}
	return e.opts.Store.List(ctx)
}

// Delete removes a session from the list and from the agent.
func (e *Engine) Delete(ctx context.Context, id string) error {
	if e.opts.Store == nil {
		return e.unsupported("delete sessions")
	}
	entry, err := e.opts.Store.Get(ctx, id)
	if err != nil {
		return err
	}
	if l, ok := e.opts.Agent.(Lister); ok && entry.Agent == e.opts.Agent.Name() {
		// A session that the agent has forgotten is as good as deleted.
		if err := l.Delete(ctx, entry.ID); err != nil && bridge.CodeOf(err) != bridge.CodeNotFound {
			return err
		}
	}
	return e.opts.Store.Delete(ctx, entry.ID)
}

// Usage returns what was counted so far, by door and model.
func (e *Engine) Usage() []UsageRow { return e.usage.rows() }

// Close ends every session and then the agent, with all that it started.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	var open []*Session
	for s := range e.open {
		open = append(open, s)
	}
	e.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, len(open))
	for i, s := range open {
		wg.Go(func() { errs[i] = s.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(append(errs, e.opts.Agent.Close(ctx))...)
}
