// Package engine is the one service behind every API: it chooses an agent, opens
// sessions on it, bounds how many turns run, ends turns that hang, retries, counts
// tokens, and keeps the list of sessions. It knows bridge's types only, no API, and
// not how an agent works. APIs, chats and the orchestrator call it.
package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
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
	// Forker copies a stored session, and returns the id of the copy.
	Forker interface {
		Fork(ctx context.Context, id string) (string, error)
	}
	// ModelLister knows which models can answer.
	ModelLister interface {
		Models(ctx context.Context) ([]bridge.Model, error)
	}
	// Prober can say whether it would be able to answer.
	Prober interface {
		Status(ctx context.Context) (bridge.AgentStatus, error)
	}
	// Describer says what it can do. What it does not name it cannot do.
	Describer interface {
		Capabilities() map[bridge.Capability]bridge.Support
	}
	// Warmer can pay start-up costs in advance.
	Warmer interface {
		Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error
	}
	// Recycler can retire the runtimes of a profile that hold more than so
	// many bytes, or so many times what they did when they were young (0: do
	// not ask), and starts others when they are needed.
	Recycler interface {
		Recycle(p bridge.Profile, above int64, grown float64) (recycled bool)
	}
	// LoginWatcher counts how often the login by which it answers has changed.
	LoginWatcher interface {
		Logins() int
	}
	// Resetter is a session that can forget its conversation.
	Resetter interface {
		Reset(ctx context.Context) error
	}
	// Steerer is a session that can be spoken to while its turn runs.
	Steerer interface {
		Steer(ctx context.Context, p bridge.Prompt) error
	}
	// Modeler is a session that knows which model answers.
	Modeler interface {
		ModelInUse() string
	}
	// Commander is a session with slash commands.
	Commander interface {
		Commands(ctx context.Context) ([]bridge.Command, error)
		Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error)
	}
	// Caller is a session whose runtime's methods can be called by name. It
	// judges nothing.
	Caller interface {
		Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	}
	// Remover is a session that can be closed and deleted in one.
	Remover interface {
		Remove(ctx context.Context) error
	}
	// Replacer is a session that may have left its runtime, because another one
	// replaces it. It has to be resumed before it can be used again.
	Replacer interface {
		Replaced(ctx context.Context) bool
	}
	// Dater is a session that knows whether its runtime lives and is the one
	// in which new sessions are opened.
	Dater interface {
		Current() bool
	}
)

// AgentSessions returns the open sessions of agents.
func (e *Engine) AgentSessions() []*Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*Session
	for s := range e.open {
		if s.request.Spec.Profile == bridge.ProfileAgent {
			out = append(out, s)
		}
	}
	return out
}

// Store keeps the list of sessions. A nil Store keeps none.
type Store interface {
	Put(ctx context.Context, e sessionstore.Entry) error
	Update(ctx context.Context, id string, change func(*sessionstore.Entry) error) error
	Get(ctx context.Context, id string) (sessionstore.Entry, error)
	List(ctx context.Context) ([]sessionstore.Entry, error)
	Delete(ctx context.Context, id string) error
}

// Limits bound time, work and attempts. Zero means: IdleTimeout 5 minutes,
// ApprovalTimeout 5 minutes, ParkTimeout 10 minutes, QueueTimeout 1 minute, as
// many turns as the machine can hold, and no bound for the rest.
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
	// MaxConcurrent turns are open (0: as memory allows for chats, processors
	// for agents), QueueLimit more wait, for QueueTimeout at most (agents ten
	// times that), and the rest are refused.
	MaxConcurrent int
	QueueLimit    int
	QueueTimeout  time.Duration
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
	set(&l.QueueTimeout, time.Minute)
	return l
}

// defaultMemory is assumed where the machine's is not known.
const defaultMemory = 8 << 30

// Options are what an Engine is made of. Either Agent or Agents is required.
type Options struct {
	Agent  Agent
	Agents *Agents // to choose from
	Store  Store
	// Ledger, if set, is told what each turn has used.
	Ledger Ledger
	Limits Limits
	// ProjectContext is told to every session.
	ProjectContext string
	// Notice, if set, says that the answers are not Copilot's; every session
	// carries it in its first event.
	Notice string
	// Origin names the repository and the branch of a directory, for the list of
	// sessions. It may be nil.
	Origin func(dir string) (repository, branch string)
	// Answers, if set, says who answers through an agent.
	Answers func(agent string) bridge.Answers
	// Observer, if set, is told what sessions do.
	Observer Observer
	// Tracer, if set, gets the spans of turns.
	Tracer *traces.Tracer
	Logger *slog.Logger
}

// Ledger keeps what turns have used.
type Ledger interface {
	Add(ctx context.Context, records ...usagelog.Record) error
}

// Engine is the service. Its methods may be called concurrently.
type Engine struct {
	opts        Options
	agents      *Agents
	admission   *admission
	usage       ledger
	multipliers multipliers
	trouble     atomic.Pointer[Trouble]

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
	if opts.Answers == nil {
		opts.Answers = func(string) (none bridge.Answers) { return none }
	}
	if opts.Agents == nil {
		opts.Agents = only(opts.Agent)
	}
	return &Engine{
		opts:      opts,
		agents:    opts.Agents,
		admission: newAdmission(opts.Limits),
		open:      map[*Session]struct{}{},
	}
}

// Agent names the agent in use.
func (e *Engine) Agent() string { return e.agents.name() }

// Notice says that the answers are not Copilot's, or is empty.
func (e *Engine) Notice() string { return e.opts.Notice }

// Capabilities says what the agent can do; nothing, if it does not say.
func (e *Engine) Capabilities() map[bridge.Capability]bridge.Support {
	if d, ok := e.agents.made().(Describer); ok {
		return d.Capabilities()
	}
	return nil
}

// Models lists what can answer.
func (e *Engine) Models(ctx context.Context) ([]bridge.Model, error) {
	list, err := ask(ctx, e, "list models", func(l ModelLister) ([]bridge.Model, error) { return l.Models(ctx) })
	e.met(err)
	e.multipliers.learn(list)
	return list, err
}

// Status says whether the agent would be able to answer.
func (e *Engine) Status(ctx context.Context) (bridge.AgentStatus, error) {
	return ask(ctx, e, "report its status", func(p Prober) (bridge.AgentStatus, error) { return p.Status(ctx) })
}

// Warm pays start-up costs in advance. The provider answers the dummy turn,
// so it should be one that costs nothing.
func (e *Engine) Warm(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	agent, err := e.agents.current(ctx)
	if w, ok := agent.(Warmer); ok {
		return w.Warm(ctx, p, provider, model)
	}
	return err
}

// Logins counts the changes of the login; see LoginWatcher.
func (e *Engine) Logins() int {
	if w, ok := e.agents.made().(LoginWatcher); ok {
		return w.Logins()
	}
	return 0
}

// Recycle retires runtimes that have grown too large; see Recycler. They end
// with their last session, and their sessions are no longer Current. An
// agent that cannot do that does nothing.
func (e *Engine) Recycle(p bridge.Profile, above int64, grown float64) (recycled bool) {
	r, ok := e.agents.made().(Recycler)
	return ok && r.Recycle(p, above, grown)
}

func (e *Engine) unsupported(what string) error { return unsupported(e.Agent(), what) }

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
	agent, err := e.agents.current(ctx)
	if err != nil {
		return err
	}
	if l, ok := agent.(Lister); ok && entry.Agent == agent.Name() {
		// A session that the agent has forgotten is as good as deleted.
		if err := l.Delete(ctx, entry.ID); err != nil && bridge.CodeOf(err) != bridge.CodeNotFound {
			return err
		}
	}
	return e.opts.Store.Delete(ctx, entry.ID)
}

// Trouble is what kept the last request from being answered.
type Trouble struct {
	*bridge.Error
	At time.Time
}

// tryAgain is how long trouble is expected to last.
const tryAgain = time.Minute

// Fresh reports whether another request would most likely meet it too. It ends
// by itself: whoever waits for it would never send one.
func (t *Trouble) Fresh() bool { return time.Since(t.At) < max(tryAgain, t.RetryAfter) }

// Trouble returns why the last request was not answered, nil if it was. What was
// wrong with that request alone does not count.
func (e *Engine) Trouble() *Trouble { return e.trouble.Load() }

// met takes note of an error that others would meet too.
func (e *Engine) met(err error) {
	why := bridge.AsError(err)
	if why == nil || why.Detail != nil && why.Detail.Type == bridge.DetailAccount {
		return // Status tells it, and when it is over
	}
	if bridge.Outage(why) || why.Code == bridge.CodeRateLimited || why.Code == bridge.CodeQuota {
		e.trouble.Store(&Trouble{why, time.Now()})
	}
}

// Usage returns the figures so far, by door and model.
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
	return errors.Join(append(errs, e.agents.close(ctx))...)
}

// UsageRow is what one door has used of one model.
type UsageRow struct {
	Door  string       `json:"door"`
	Model string       `json:"model"`
	Usage bridge.Usage `json:"usage"`
}

type ledger struct {
	mu    sync.Mutex
	count map[[2]string]bridge.Usage
}

func (l *ledger) add(door string, u bridge.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = map[[2]string]bridge.Usage{}
	}
	key := [2]string{door, u.Model}
	l.count[key] = l.count[key].Add(u)
}

func (l *ledger) rows() []UsageRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]UsageRow, 0, len(l.count))
	for k, u := range l.count {
		out = append(out, UsageRow{Door: k[0], Model: k[1], Usage: u})
	}
	slices.SortStableFunc(out, func(a, b UsageRow) int {
		return cmp.Or(cmp.Compare(a.Door, b.Door), cmp.Compare(a.Model, b.Model))
	})
	return out
}
