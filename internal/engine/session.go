package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

// Request describes a session that a door wants.
type Request struct {
	Spec bridge.SessionSpec
	// Door names who asks, for the usage figures and the audit.
	Door string
	// Client, Run and Task are for those who watch: what the client says of itself,
	// and the task of a large one that the session works on.
	Client, Run, Task string
	// Keep puts the session on the list, so that it can be resumed later.
	Keep bool
	// Title is shown in the list; the first prompt if empty.
	Title string
	// Mode is that of the turns until another is chosen, see bridge.Prompt.
	Mode string
	// Budget bounds every turn of the session.
	Budget Budget
	// Ephemeral sessions are not resumed when their runtime has died: the turn
	// fails with CodeCrashed and the session is useless.
	Ephemeral bool
	// PassRateLimits ends a turn with CodeRateLimited at once if the provider
	// says how long to wait and nothing is lost: the caller tries again by
	// itself. Otherwise the agent waits and tries again.
	PassRateLimits bool
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

	resuming sync.Mutex // held while inner is resumed

	mu    sync.Mutex
	inner bridge.Session
	agent Agent // whose inner is
	stale bool  // inner's runtime has died
	turn  *turn // the running one, and the watch of its attempt
	watch *watch
	taker *turn           // goes on with what is enqueued; nil between turns
	queue []bridge.Prompt // enqueued
	door  string          // who asks now, see Serve
	usage bridge.Usage    // of all turns
	mode  string          // see bridge.Prompt; "" is the agent's own
	fresh freshTurns

	watcher Watcher // nil if nobody watches

	toldOver string // what was said of an agent that has taken over
}

// freshTurns counts the turns since the list was last written.
type freshTurns struct {
	turns int
	usage bridge.Usage
}

// Open makes a new session.
func (e *Engine) Open(ctx context.Context, r Request) (*Session, error) {
	r.Spec = e.prepare(r.Spec)
	return e.adopt(ctx, r, "")
}

// Resume resumes a session of the list; id may be shortened. What the
// request leaves open is taken from the list.
func (e *Engine) Resume(ctx context.Context, id string, r Request) (*Session, error) {
	entry, err := e.resumable(ctx, id)
	if err != nil {
		return nil, err
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
	if r.Mode == "" {
		r.Mode = entry.Mode
	}
	return e.adopt(ctx, r, entry.ID)
}

// Fork is Resume for a copy of the session, which stays as it is.
func (e *Engine) Fork(ctx context.Context, id string, r Request) (*Session, error) {
	entry, err := e.resumable(ctx, id)
	if err != nil {
		return nil, err
	}
	agent, err := e.agents.current(ctx)
	if err != nil {
		return nil, err
	}
	f, ok := agent.(Forker)
	if !ok {
		return nil, e.unsupported("copy sessions")
	}
	copied, err := f.Fork(ctx, entry.ID)
	if err != nil {
		return nil, err
	}
	entry.ID, entry.State, entry.Created, entry.Updated, entry.Pinned = copied, sessionstore.StateIdle, time.Time{}, time.Time{}, false
	if err := e.opts.Store.Put(ctx, entry); err != nil {
		return nil, err
	}
	s, err := e.Resume(ctx, copied, r)
	if err != nil {
		return nil, errors.Join(err, e.Delete(context.WithoutCancel(ctx), copied))
	}
	return s, nil
}

// resumable finds a session of the list that the agent in use knows.
func (e *Engine) resumable(ctx context.Context, id string) (entry sessionstore.Entry, err error) {
	if e.opts.Store == nil {
		return entry, e.unsupported("resume sessions")
	}
	if entry, err = e.opts.Store.Get(ctx, id); err != nil {
		return entry, err
	}
	if name := e.Agent(); entry.Agent != name {
		return entry, &bridge.Error{Code: bridge.CodeUnsupported,
			Message: fmt.Sprintf("session %s belongs to the %s agent, not to %s", entry.ID, entry.Agent, name)}
	}
	return entry, nil
}

// prepare adds the texts that every session gets.
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

// CheckDirectory refuses a working directory whose name is not UTF-8: Copilot's
// protocols are JSON, which cannot hold it.
func CheckDirectory(dir string) error {
	if utf8.ValidString(dir) {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("the name of the working directory, %q, is not UTF-8", dir),
		Remedy: "rename it, or work in another directory"}
}

// instructor is a gate that knows which instruction files a session that works
// in a directory may be told.
type instructor interface {
	Instructions(dir string) string
}

// adopt opens a session, or resumes that with an id, and takes care of it.
func (e *Engine) adopt(ctx context.Context, r Request, id string) (*Session, error) {
	if err := CheckDirectory(r.Spec.WorkingDir); err != nil {
		return nil, err
	}
	s := &Session{engine: e, request: r, resumed: id != "", mode: r.Mode}
	open := func() error { return s.open(ctx, r.Spec) }
	if s.resumed {
		open = func() error { return s.resume(ctx, id, r.Spec) }
	}
	err := open()
	if bridge.CodeOf(err) == bridge.CodeCrashed {
		err = open() // the runtime had died unnoticed; a new one starts
	}
	if err != nil {
		e.met(err)
		return nil, err
	}
	inner := s.inner
	if g, ok := r.Spec.Gate.(recorder); ok {
		if err := g.Begin(ctx, inner.ID()); err != nil {
			return nil, errors.Join(err, inner.Close(ctx))
		}
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.open[s] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the engine is closed"}, inner.Close(ctx))
	}
	s.observe()
	if err := s.record(ctx, sessionstore.StateActive); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// resume resumes a stored session in the agent in use. Another agent would not
// know it, so there is no fallback.
func (s *Session) resume(ctx context.Context, id string, spec bridge.SessionSpec) error {
	agents := s.engine.agents
	agent, err := agents.current(ctx)
	if err != nil {
		return err
	}
	next, err := agent.Resume(ctx, id, spec)
	if err != nil {
		return agents.withReasons(err)
	}
	agents.settle(agent)
	s.use(next, agent)
	return nil
}

// open opens a session in the first agent that can.
func (s *Session) open(ctx context.Context, spec bridge.SessionSpec) error {
	return s.engine.agents.try(ctx, func(agent Agent) error {
		next, err := agent.Open(ctx, spec)
		if err == nil {
			s.use(next, agent)
		}
		return err
	})
}

func (s *Session) use(inner bridge.Session, agent Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner, s.agent, s.stale = inner, agent, false
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
	spec, agent := s.spec(), s.engine.Agent()
	return bridge.SessionOpened{Session: s.ID(), Agent: agent, Answers: s.engine.opts.Answers(agent), Profile: spec.Profile, Model: spec.Model,
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

// SetMode has the session go on in a mode, also when it is resumed later. The
// agent learns of it with the next prompt.
func (s *Session) SetMode(ctx context.Context, mode string) error {
	s.enterMode(mode)
	if s.engine.opts.Store == nil || !s.request.Keep {
		return nil
	}
	return s.engine.opts.Store.Update(ctx, s.ID(), func(e *sessionstore.Entry) error { e.Mode = mode; return nil })
}

func (s *Session) enterMode(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

// Mode is the mode in which the session works; "" is the agent's own.
func (s *Session) Mode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
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

// Close releases the session. Its stored state stays.
func (s *Session) Close(ctx context.Context) error {
	return s.end(ctx, func(inner bridge.Session, _ Agent) error { return inner.Close(ctx) })
}

// Discard closes the session and deletes its stored state, where the agent can.
func (s *Session) Discard(ctx context.Context) error {
	return s.end(ctx, func(inner bridge.Session, agent Agent) error {
		if r, ok := inner.(Remover); ok {
			return r.Remove(ctx)
		}
		if err := inner.Close(ctx); err != nil {
			return err
		}
		if l, ok := agent.(Lister); ok {
			err := l.Delete(ctx, inner.ID())
			if code := bridge.CodeOf(err); code != bridge.CodeNotFound && code != bridge.CodeUnsupported {
				return err
			}
		}
		return nil
	})
}

// end ends the session in the agent, once, and then its record.
func (s *Session) end(ctx context.Context, how func(bridge.Session, Agent) error) error {
	s.engine.mu.Lock()
	_, open := s.engine.open[s]
	delete(s.engine.open, s)
	s.engine.mu.Unlock()
	if !open {
		return nil
	}
	s.mu.Lock()
	inner, agent := s.inner, s.agent
	s.mu.Unlock()
	err := errors.Join(s.record(ctx, sessionstore.StateClosed), how(inner, agent))
	if g, ok := s.request.Spec.Gate.(recorder); ok {
		err = errors.Join(err, g.End(ctx))
	}
	s.unobserve()
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
		t := &turn{session: s, seat: seat, door: s.Door(), began: time.Now()}
		ctx, t.trace = s.engine.opts.Tracer.Turn(ctx, traces.About{Session: s.ID(), Door: t.door, Profile: s.request.Spec.Profile, Model: s.spec().Model})
		shown, over := t.shown(ctx, p, yield)
		defer over()
		t.yield = s.masked(shown)
		err := t.run(ctx, p)
		t.trace.End(err)
		if err != nil && !t.left {
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
func (s *Session) hidden(said string) string {
	out := said
	s.masked(func(ev bridge.Event, _ error) bool {
		e, ok := ev.(bridge.UserSaid)
		if out = e.Text; !ok {
			out = "" // not the requested format, so nothing is shown
		}
		return true
	})(bridge.UserSaid{Text: said}, nil)
	return out
}

const (
	// titled is how much of a prompt is looked at for a title: far more than a
	// title and any secret that begins in it.
	titled = 16 << 10
	// titleMost is the length of a title in characters.
	titleMost = 72
)

// TitleOf returns the line that names a prompt in lists. Secrets are hidden
// before it is cut: a cut secret is not recognised.
func (s *Session) TitleOf(prompt string) string {
	prompt = strings.TrimSpace(prompt)
	if len(prompt) > titled {
		prompt = strings.ToValidUTF8(prompt[:titled], "")
	}
	line, _, _ := strings.Cut(s.hidden(prompt), "\n")
	return text.FirstLine(line, titleMost)
}

// live returns the inner session, resumed if its runtime has died or been
// replaced.
func (s *Session) live(ctx context.Context) (bridge.Session, error) {
	s.resuming.Lock()
	defer s.resuming.Unlock()
	s.mu.Lock()
	inner, stale := s.inner, s.stale
	s.mu.Unlock()
	if r, ok := inner.(Replacer); !stale && (!ok || !r.Replaced(ctx)) {
		return inner, nil
	}
	if s.request.Ephemeral {
		return nil, &bridge.Error{Code: bridge.CodeCrashed, Message: "the runtime of the session has exited"}
	}
	spec := s.spec()
	err := s.resume(ctx, inner.ID(), spec)
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		// It died before anything was stored: there is nothing to lose.
		spec.ID = inner.ID()
		err = s.open(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	if err := inner.Close(ctx); err != nil {
		s.engine.opts.Logger.Debug("session.old_not_closed", "session", inner.ID(), "error", err)
	}
	return s.current(), nil
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
	id, fresh, spec, mode := s.inner.ID(), s.fresh, s.request.Spec, s.mode
	inner := s.inner
	s.fresh = freshTurns{}
	s.mu.Unlock()
	model, repository, branch := "", "", ""
	if m, ok := inner.(Modeler); ok {
		model = m.ModelInUse()
	}
	if s.engine.opts.Origin != nil && spec.WorkingDir != "" {
		repository, branch = s.engine.opts.Origin(spec.WorkingDir)
	}
	now := time.Now()
	change := func(e *sessionstore.Entry) error {
		e.State, e.Updated = state, now
		e.Turns += fresh.turns
		e.InputTokens += fresh.usage.InputTokens
		e.OutputTokens += fresh.usage.OutputTokens
		if e.Title == "" {
			e.Title = s.hidden(s.request.Title)
		}
		e.Model, e.Repository, e.Branch = cmp.Or(spec.Model, fresh.usage.Model, model, e.Model), repository, branch
		if mode != "" {
			e.Mode = mode
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

// Serve names the API that uses the session from now on, for the usage figures:
// a reused session serves several.
func (s *Session) Serve(door string) {
	s.mu.Lock()
	s.door = door
	s.mu.Unlock()
}

// Door is the API that uses the session.
func (s *Session) Door() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.door != "" {
		return s.door
	}
	return s.request.Door
}

// Resolve answers a parked tool call. A turn that has left its place among
// the running ones takes one first, so this may wait.
func (s *Session) Resolve(ctx context.Context, requestID string, r bridge.ToolResult) error {
	s.mu.Lock()
	inner, t, w := s.inner, s.turn, s.watch
	s.mu.Unlock()
	if t == nil {
		return inner.Resolve(ctx, requestID, r)
	}
	w.answered(requestID) // however long the wait for a seat is, it is not the caller's
	if err := t.seat.retake(ctx); err != nil {
		return err
	}
	if err := inner.Resolve(ctx, requestID, r); err != nil {
		return err
	}
	w.resolved(requestID)
	if w := s.watched(); w != nil {
		w.Resolved(requestID, r)
	}
	return nil
}

// Steer adds a message to the running turn: the model hears it with its next
// request. Not every agent can do that.
func (s *Session) Steer(ctx context.Context, p bridge.Prompt) error {
	st, ok := s.current().(Steerer)
	if !ok {
		return s.engine.unsupported("add to a running turn")
	}
	err := st.Steer(ctx, p)
	if err == nil {
		s.said(p)
	}
	return err
}

// Busy says whether a turn runs.
func (s *Session) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taker != nil
}

// maxQueue is how many messages may wait for a turn.
const maxQueue = 16

// Enqueue adds a message for which the running turn goes on when it would end.
// Its reader gets the answer.
func (s *Session) Enqueue(p bridge.Prompt) error {
	err := s.enqueue(p)
	if err == nil {
		s.said(p)
	}
	return err
}

func (s *Session) enqueue(p bridge.Prompt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taker == nil:
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no turn is running in session " + s.inner.ID(), Remedy: "send the message as a prompt of its own"}
	case len(s.queue) == maxQueue:
		return &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d messages wait for the turn already", maxQueue)}
	}
	s.queue = append(s.queue, p)
	return nil
}

// next takes the next message that was enqueued for a turn. Without one the turn
// takes no more.
func (s *Session) next(t *turn) (p bridge.Prompt, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taker != t:
		return p, false
	case len(s.queue) == 0:
		s.taker = nil
		return p, false
	}
	p, s.queue = s.queue[0], s.queue[1:]
	return p, true
}

// take lets a turn take messages. The agent refuses a second turn at a time, so
// the first keeps them.
func (s *Session) take(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taker == nil {
		s.taker = t
	}
}

// takeNoMore is called when a turn ends, and returns how many messages it leaves.
func (s *Session) takeNoMore(t *turn) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taker == t {
		left = len(s.queue)
		s.taker, s.queue = nil, nil
	}
	return left
}

// Reset makes the session forget its conversation, if the agent can do that;
// otherwise it fails with CodeUnsupported and the session is as it was.
func (s *Session) Reset(ctx context.Context) error {
	inner, err := s.live(ctx)
	if err != nil {
		return err
	}
	r, ok := inner.(Resetter)
	if !ok {
		return s.engine.unsupported("reset a session")
	}
	if err := r.Reset(ctx); err != nil {
		return err
	}
	s.unobserve()
	s.observe()
	return nil
}

// Current says whether a turn could run in the session as it is: its runtime
// lives and has not been replaced by another.
func (s *Session) Current() bool {
	s.mu.Lock()
	inner, stale := s.inner, s.stale
	s.mu.Unlock()
	if d, ok := inner.(Dater); ok && !stale {
		return d.Current()
	}
	return !stale
}

// Commands lists the slash commands of the session; none if the agent has no
// such thing.
func (s *Session) Commands(ctx context.Context) ([]bridge.Command, error) {
	inner, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	if c, ok := inner.(Commander); ok {
		return c.Commands(ctx)
	}
	return nil, nil
}

// Invoke runs a slash command. What it says is masked as a turn's words are.
func (s *Session) Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error) {
	inner, err := s.live(ctx)
	if err != nil {
		return bridge.CommandResult{}, err
	}
	c, ok := inner.(Commander)
	if !ok {
		return bridge.CommandResult{}, s.engine.unsupported("run commands")
	}
	r, err := c.Invoke(ctx, name, input)
	if err == nil {
		s.masked(func(ev bridge.Event, _ error) bool {
			if n, ok := ev.(bridge.Notice); ok {
				r.Text = n.Text
			}
			return true
		})(bridge.Notice{Text: r.Text}, nil)
	}
	return r, err
}
