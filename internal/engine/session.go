package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// Request describes a session that a door wants.
type Request struct {
	Spec bridge.SessionSpec
	// Door names who asks, for the usage figures and the audit.
	Door string
	// Keep puts the session on the list, so that it can be resumed later.
	Keep bool
	// Title is shown in the list; the first prompt if empty.
	Title string
	// Budget bounds every turn of the session.
	Budget Budget
	// Ephemeral sessions are not resumed when their runtime has died: the turn
	// fails with CodeCrashed and the session is of no more use.
	Ephemeral bool
}

// Budget bounds what a turn may use; zero means no bound.
type Budget struct {
	ModelCalls int
	Tokens     int64
	Cost       float64
}

// Session is a conversation under the engine's care. It survives a crash of
// the runtime: the next turn resumes it. Send runs one turn at a time; the
// other methods may be called meanwhile.
type Session struct {
	engine  *Engine
	request Request
	resumed bool

	mu    sync.Mutex
	inner bridge.Session
	stale bool         // inner's runtime has died
	turn  *turn        // the running one
	door  string       // who asks now, see Serve
	usage bridge.Usage // of all turns
	fresh freshTurns
}

// freshTurns is what was used since the list was last written.
type freshTurns struct {
	turns int
	usage bridge.Usage
}

// Open makes a new session.
func (e *Engine) Open(ctx context.Context, r Request) (*Session, error) {
	r.Spec = e.prepare(r.Spec)
	return e.adopt(ctx, r, false, func() (bridge.Session, error) { return e.opts.Agent.Open(ctx, r.Spec) })
}

// Resume goes on with a session of the list; id may be shortened. What the
// request leaves open is taken from the list.
func (e *Engine) Resume(ctx context.Context, id string, r Request) (*Session, error) {
	if e.opts.Store == nil {
		return nil, e.unsupported("resume sessions")
	}
	entry, err := e.opts.Store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if entry.Agent != e.opts.Agent.Name() {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported,
			Message: fmt.Sprintf("session %s belongs to the %s agent, not to %s", entry.ID, entry.Agent, e.opts.Agent.Name())}
	}
	if r.Spec.WorkingDir == "" {
		r.Spec.WorkingDir = entry.WorkingDirectory
	}
	if r.Spec.Model == "" {
		r.Spec.Model = entry.Model
	}
	r.Spec.Profile = bridge.Profile(entry.Profile)
	r.Title, r.Keep = entry.Title, true
	r.Spec = e.prepare(r.Spec)
	return e.adopt(ctx, r, true, func() (bridge.Session, error) { return e.opts.Agent.Resume(ctx, entry.ID, r.Spec) })
}

// prepare adds what every session is told.
func (e *Engine) prepare(spec bridge.SessionSpec) bridge.SessionSpec {
	if spec.Profile == "" {
		spec.Profile = bridge.ProfileAgent
	}
	if c := e.opts.ProjectContext; c != "" {
		spec.System.Text = strings.TrimSpace(spec.System.Text + "\n\nProject context:\n" + c)
	}
	if g, ok := spec.Gate.(instructor); ok && spec.Profile == bridge.ProfileAgent && !spec.System.Replace {
		spec.Instructions = g.Instructions(spec.WorkingDir)
	}
	return spec
}

// instructor is a gate that knows which instruction files a session that works
// in a directory may be told.
type instructor interface {
	Instructions(dir string) string
}

func (e *Engine) adopt(ctx context.Context, r Request, resumed bool, open func() (bridge.Session, error)) (*Session, error) {
	inner, err := open()
	if bridge.CodeOf(err) == bridge.CodeCrashed {
		inner, err = open() // the runtime died while nobody looked; a new one starts
	}
	if err != nil {
		return nil, err
	}
	if g, ok := r.Spec.Gate.(recorder); ok {
		if err := g.Begin(ctx, inner.ID()); err != nil {
			return nil, errors.Join(err, inner.Close(ctx))
		}
	}
	s := &Session{engine: e, request: r, resumed: resumed, inner: inner}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.open[s] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the engine is closed"}, inner.Close(ctx))
	}
	if err := s.record(ctx, sessionstore.StateActive); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// recorder is a gate that keeps a record of the session it guards.
type recorder interface {
	Begin(ctx context.Context, session string) error
	End(ctx context.Context) error
}

// ID is the agent's id of the session.
func (s *Session) ID() string { return s.current().ID() }

func (s *Session) current() bridge.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner
}

// Opened describes the session as its first event does.
func (s *Session) Opened() bridge.SessionOpened {
	spec := s.spec()
	return bridge.SessionOpened{Session: s.ID(), Agent: s.engine.Agent(), Profile: spec.Profile, Model: spec.Model,
		WorkingDir: spec.WorkingDir, Resumed: s.resumed, Notice: s.engine.opts.Notice}
}

// Usage is what the session has used so far.
func (s *Session) Usage() bridge.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

// Abort and SetModel are those of bridge.Session, and so is History, which
// hides what the gate hides.
func (s *Session) Abort(ctx context.Context) error { return s.current().Abort(ctx) }

func (s *Session) SetModel(ctx context.Context, model, effort string) error {
	inner, err := s.live(ctx)
	if err != nil {
		return err
	}
	if err := inner.SetModel(ctx, model, effort); err != nil {
		return err
	}
	// A session that is resumed, after a crash or from the list, keeps it.
	s.mu.Lock()
	s.request.Spec.Model, s.request.Spec.ReasoningEffort = model, effort
	s.mu.Unlock()
	return nil
}

// spec is what the session is resumed with.
func (s *Session) spec() bridge.SessionSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.request.Spec
}

func (s *Session) History(ctx context.Context) ([]bridge.Event, error) {
	inner, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	events, err := inner.History(ctx)
	if err != nil {
		return nil, err
	}
	// The agent keeps tool results as they were before the gate saw them.
	clean := make([]bridge.Event, 0, len(events))
	show := s.masked(func(ev bridge.Event, _ error) bool { clean = append(clean, ev); return true })
	for _, ev := range events {
		show(ev, nil)
	}
	return clean, nil
}

// Close lets go of the session. What the agent stored stays.
func (s *Session) Close(ctx context.Context) error {
	s.engine.mu.Lock()
	_, open := s.engine.open[s]
	delete(s.engine.open, s)
	s.engine.mu.Unlock()
	if !open {
		return nil
	}
	err := errors.Join(s.current().Close(ctx), s.record(ctx, sessionstore.StateClosed))
	if g, ok := s.request.Spec.Gate.(recorder); ok {
		err = errors.Join(err, g.End(ctx))
	}
	return err
}

// Send runs a turn. It ends with TurnEnded; if the turn failed, Failed comes
// before that and the error after it. Leaving the loop aborts the turn.
func (s *Session) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return s.SendSeated(ctx, nil, p)
}

// SendSeated is Send for a caller that has been admitted already. The turn
// owns the seat and gives it back.
func (s *Session) SendSeated(ctx context.Context, seat *Seat, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		t := &turn{session: s, seat: seat, door: s.servedDoor(), began: time.Now(), yield: s.masked(yield)}
		if err := t.run(ctx, p); err != nil && !t.left {
			e := bridge.AsError(err)
			end := bridge.TurnEnded{Reason: bridge.EndFailed, Usage: t.usage, Duration: time.Since(t.began)}
			if e.Code == bridge.CodeCanceled {
				end.Reason = bridge.EndAborted
			}
			if t.yield(bridge.Failed{Error: e}, nil) && t.yield(end, nil) {
				yield(nil, e)
			}
		}
	}
}

// masked lets events pass through the mask of the session's gate, if it has
// one.
func (s *Session) masked(yield func(bridge.Event, error) bool) func(bridge.Event, error) bool {
	g, ok := s.request.Spec.Gate.(interface{ Mask() bridge.Mask })
	if !ok {
		return yield
	}
	mask, emit := g.Mask(), func(ev bridge.Event) bool { return yield(ev, nil) }
	return func(ev bridge.Event, _ error) bool { return mask(ev, emit) }
}

// hidden returns a text as the mask of the session's gate leaves it.
func (s *Session) hidden(text string) string {
	out := text
	s.masked(func(ev bridge.Event, _ error) bool {
		said, ok := ev.(bridge.UserSaid)
		if out = said.Text; !ok {
			out = "" // not what was asked for, so nothing is shown
		}
		return true
	})(bridge.UserSaid{Text: text}, nil)
	return out
}

// titled is how much of a prompt is looked at for a title: far more than a
// title and any secret that begins in it.
const titled = 16 << 10

// TitleOf returns a line that stands for a prompt in lists. Secrets are hidden
// before it is cut: half a secret is hard to tell.
func (s *Session) TitleOf(prompt string) string {
	prompt = strings.TrimSpace(prompt)
	if len(prompt) > titled {
		prompt = strings.ToValidUTF8(prompt[:titled], "")
	}
	return title(s.hidden(prompt))
}

// live returns the inner session, resumed if its runtime has died.
func (s *Session) live(ctx context.Context) (bridge.Session, error) {
	s.mu.Lock()
	inner, stale := s.inner, s.stale
	s.mu.Unlock()
	if !stale {
		return inner, nil
	}
	if s.request.Ephemeral {
		return nil, &bridge.Error{Code: bridge.CodeCrashed, Message: "the runtime of the session has exited"}
	}
	spec := s.spec()
	next, err := s.engine.opts.Agent.Resume(ctx, inner.ID(), spec)
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		// It died before anything was stored: there is nothing to lose.
		spec.ID = inner.ID()
		next, err = s.engine.opts.Agent.Open(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.inner, s.stale = next, false
	s.mu.Unlock()
	return next, nil
}

func (s *Session) markStale() {
	s.mu.Lock()
	s.stale = true
	s.mu.Unlock()
}

// record writes the session's line in the list. It outlives the caller's
// context: the list should be right above all after a cancellation.
func (s *Session) record(ctx context.Context, state sessionstore.State) error {
	if s.engine.opts.Store == nil || !s.request.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	s.mu.Lock()
	id, fresh, spec := s.inner.ID(), s.fresh, s.request.Spec
	s.fresh = freshTurns{}
	s.mu.Unlock()
	now := time.Now()
	change := func(e *sessionstore.Entry) error {
		e.State, e.Updated = state, now
		e.Turns += fresh.turns
		e.InputTokens += fresh.usage.InputTokens
		e.OutputTokens += fresh.usage.OutputTokens
		if e.Title == "" {
			e.Title = s.hidden(s.request.Title)
		}
		if spec.Model != "" {
			e.Model = spec.Model
		}
		return nil
	}
	err := s.engine.opts.Store.Update(ctx, id, change)
	if bridge.CodeOf(err) != bridge.CodeNotFound {
		return err
	}
	entry := sessionstore.Entry{ID: id, Agent: s.engine.Agent(), Profile: sessionstore.Profile(spec.Profile),
		WorkingDirectory: spec.WorkingDir, Created: now}
	if err := change(&entry); err != nil {
		return err
	}
	return s.engine.opts.Store.Put(ctx, entry)
}
