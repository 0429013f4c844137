package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

const (
	// settleWithin is how long a turn may take to end after its last message.
	settleWithin = 2 * time.Second
	// yieldWithin bounds the wait for the first word of the next request.
	yieldWithin = 50 * time.Millisecond
	// backlogMost bounds the events of an agent that are kept while it is parked.
	backlogMost = 32
)

type state int

const (
	busy     state = iota // a turn runs for an answer
	settling              // the answer is over, the turn not quite
	idle                  // waits for its next request
	parked                // the turn waits for the client's tools
)

// conversation is a session and its messages so far. While a turn runs, the
// turn's goroutine owns the conversation. A request owns it from take to the
// start of its turn; between turns the service holds it.
type conversation struct {
	service *Service
	shape   *shape
	session *engine.Session

	// Of the current turn.
	ctx         context.Context
	cancel      context.CancelCauseFunc
	seat        *engine.Seat
	format      digest
	modelAsked  bool
	resetUnsafe bool // the history was compacted: no reset can be trusted

	// Guarded by Service.mu.
	state   state
	held    bool   // it is in Service.held, under key
	key     digest // of its messages
	exact   digest // see chain
	used    time.Time
	opening bool          // it holds one question and its answer
	settled chan struct{} // closed when the turn is over
	dead    bool          // it cannot be used again; final when settled is closed
	calls   []bridge.ToolCall

	mu      sync.Mutex                   // guards the rest
	ended   bool                         // the turn is over
	reader  *answer                      // who gets the turn's events
	pending map[string]string            // the runtime's requests, by call
	results map[string]bridge.ToolResult // the client's results that are not asked for yet
	backlog []bridge.Event               // events of the time while it was parked
}

// closedChannel is the settled of a conversation without a turn.
var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// begin finds the session for a request and starts the turn. Whatever takes
// time happens on the turn's goroutine.
func (s *Service) begin(ctx context.Context, chat *bridge.Chat) (*answer, error) {
	a, err := s.accept(ctx, chat)
	if err != nil {
		return nil, err
	}
	known, waits := s.take(a)
	if waits {
		if err := known.resume(ctx, a); !errors.Is(err, errOver) {
			return a, err
		}
		// Its turn ended meanwhile, perhaps together with this answer: a new one
		// is told the history.
		known = nil
		if a, err = s.accept(ctx, chat); err != nil {
			return nil, err
		}
	}
	var turn context.Context
	turn, a.cancel = context.WithCancelCause(traces.Follow(bridge.WithCaller(s.ctx, bridge.CallerOf(ctx)), ctx))
	if err := s.start(func() { s.run(turn, a, known) }); err != nil {
		a.cancel(nil)
		return nil, err
	}
	return a, nil
}

// take finds the held conversation that an answer continues, and makes it the
// caller's. It reports whether the conversation is parked: its state may change
// as soon as the caller has it.
func (s *Service) take(a *answer) (c *conversation, waits bool) {
	if len(a.known) == 0 {
		return nil, false
	}
	key, exact := a.chain.key()
	results := a.fresh[0].Role == bridge.RoleTool
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *conversation
	several := false
	for _, c := range s.held {
		switch {
		case c.key != key:
			continue
		case c.state == parked && (c.format != a.format || !c.answers(a.fresh)), c.state != parked && results:
			continue
		case c.exact == exact:
			s.release(c)
			return c, c.state == parked
		}
		found, several = c, found != nil
	}
	// If two differ only in the arguments of their tool calls it could be either,
	// so the history is told anew.
	if found == nil || several {
		return nil, false
	}
	s.release(found)
	return found, found.state == parked
}

// hold keeps a conversation under the digests of its messages. mu is held.
func (s *Service) hold(c *conversation, key, exact digest, st state) {
	c.key, c.exact, c.state, c.used, c.held = key, exact, st, time.Now(), true
	s.held = append(s.held, c)
}

// release takes a conversation out of those that are held. mu is held.
func (s *Service) release(c *conversation) {
	if c.held {
		c.held = false
		s.held = slices.DeleteFunc(s.held, func(x *conversation) bool { return x == c })
	}
}

// run is the goroutine of a turn: it gets a session, runs the turn in it to its
// end, and cleans up.
func (s *Service) run(ctx context.Context, a *answer, known *conversation) {
	defer a.cancel(nil)
	counted := false
	fail := func(err error) {
		if counted {
			s.uncount()
		}
		a.fail(err)
	}
	for {
		seat, err := s.engine.Admit(ctx, a.chat.Profile, a.caller)
		if err != nil {
			s.giveBack(known)
			fail(err)
			return
		}
		if !counted {
			counted = true
			s.mu.Lock()
			s.count(1) // settle counts it out
			s.newest = a.first
			s.mu.Unlock()
		}
		c, p, err := s.prepare(ctx, a, known)
		if err != nil {
			seat.Close()
			fail(err)
			return
		}
		kept := !c.used.IsZero()
		err = c.turn(ctx, seat, a, p)
		if bridge.CodeOf(err) != bridge.CodeCrashed || !kept || c.modelAsked {
			s.settle(c, err)
			return
		}
		// The runtime of a session that was kept has died meanwhile; another
		// session is told the history.
		s.discard(c.session)
		known = nil
	}
}

// prepare returns a session, and the prompt with all that it does not know.
func (s *Service) prepare(ctx context.Context, a *answer, known *conversation) (*conversation, bridge.Prompt, error) {
	if known != nil && !s.ready(ctx, known) {
		known = nil
	}
	var p bridge.Prompt
	if known != nil {
		p = a.shape.tools.replay(a.fresh, 0, 0)
	} else {
		p = a.shape.tools.replay(a.history, s.opts.HistoryBytes, s.opts.HistoryTurns)
	}
	a.direct(&p, s.opts.ProviderKind)
	var err error
	if p.Text, err = s.checkPrompt(ctx, a, p.Text); err != nil {
		s.giveBack(known)
		return nil, p, err
	}
	if known != nil {
		return known, p, nil
	}
	c := &conversation{service: s, shape: a.shape, settled: closedChannel}
	if c.session = s.spare(a.shape); c.session != nil {
		c.used = time.Now()
		return c, p, nil
	}
	c.session, err = s.open(ctx, a.chat, a.shape)
	return c, p, err
}

// ready waits for the end of the previous turn in a conversation that was taken,
// and reports whether it can be continued. If not, the session is discarded.
func (s *Service) ready(ctx context.Context, c *conversation) bool {
	late := time.NewTimer(settleWithin)
	defer late.Stop()
	select {
	case <-c.settled: // a few milliseconds: the answer was over
	case <-late.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case <-c.settled:
	default:
		c.state = busy // its goroutine disposes of it
		s.mu.Unlock()
		c.cancel(&bridge.Error{Code: bridge.CodeTimeout, Message: "the turn did not end after its last message"})
		return false
	}
	dead := c.dead
	s.mu.Unlock()
	if dead || c.outdated() {
		s.discard(c.session)
		return false
	}
	return true
}

// turn runs a turn to its end.
func (c *conversation) turn(ctx context.Context, seat *engine.Seat, a *answer, p bridge.Prompt) (failure error) {
	c.session.Serve(a.chat.Door)
	c.ctx, c.cancel, c.seat, c.format, c.modelAsked = ctx, a.cancel, seat, a.format, false
	s := c.service
	s.mu.Lock()
	c.state, c.settled = busy, make(chan struct{})
	s.mu.Unlock()
	c.mu.Lock()
	c.reader, c.ended = a, false
	c.pending, c.results, c.backlog = map[string]string{}, map[string]bridge.ToolResult{}, nil
	c.mu.Unlock()
	for ev, err := range c.session.SendSeated(ctx, seat, p) {
		if err != nil {
			return err
		}
		switch e := ev.(type) {
		case bridge.Failed:
			failure = e.Error // told again as the error, after TurnEnded
		case bridge.TurnEnded:
			if e.Reason == bridge.EndAborted && failure == nil {
				failure = &bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"}
			}
		default:
			if err := c.see(ev); err != nil {
				return err // leaving the loop aborts the turn
			}
		}
	}
	return failure
}

// see passes an event to the reader and notices where its answer ends.
func (c *conversation) see(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.ModelCalled, bridge.ModelFailed:
		c.modelAsked = true
	case bridge.ToolRequested:
		return c.requested(e)
	case bridge.Other:
		c.resetUnsafe = c.resetUnsafe || strings.Contains(e.Name, "compaction")
	case bridge.Notice:
		c.resetUnsafe = c.resetUnsafe || strings.Contains(e.Text, "compacted")
	default:
	}
	c.mu.Lock()
	a := c.reader
	if a == nil && c.shape.agent && len(c.backlog) < backlogMost {
		c.backlog = append(c.backlog, ev)
	}
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	if err := a.stream.see(ev); err != nil {
		if errors.Is(err, errLimit) {
			c.end(a)
		}
		return err
	}
	m, ok := ev.(bridge.MessageDone)
	if !ok || m.AgentID != "" {
		return nil
	}
	if calls := c.shape.tools.calls(m.Calls); len(calls) > 0 {
		c.park(a, calls)
	} else if len(m.Calls) == 0 && m.Text != "" && !c.shape.agent {
		// After the last message the turn has no further text, so its caller
		// need not wait for its end.
		c.conclude(a, bridge.EndDone, settling, nil)
	}
	return nil
}

// end ends an answer, but not the turn behind it, which is to be aborted.
func (c *conversation) end(a *answer) {
	c.mu.Lock()
	c.reader = nil
	c.mu.Unlock()
	if n := a.stream.limit; int64(n) != a.chat.MaxTokens*tokenBytes {
		c.service.opts.Logger.Warn("chat.answer_cut: an answer was longer than any may be", "session", c.session.ID(), "bytes", n)
	}
	a.remember(a.reply(nil))
	a.finish(bridge.EndDone)
}

// conclude ends the answer and holds the conversation for the next request,
// in this order for the client: the next request may come at once.
func (c *conversation) conclude(a *answer, r bridge.EndReason, st state, calls []bridge.ToolCall) {
	c.mu.Lock()
	c.reader = nil
	c.mu.Unlock()
	reply := a.reply(calls)
	s := c.service
	a.remember(reply)
	a.chain.add(a.fresh...)
	a.chain.add(reply)
	key, exact := a.chain.key()
	s.mu.Lock()
	c.calls, c.opening = calls, len(a.known) == 0
	s.hold(c, key, exact, st)
	if st == parked {
		s.count(-1)
	}
	s.mu.Unlock()
	c.seat.Leave() // what is left of the turn should not keep the next one out
	a.finish(r)
}

// park ends an answer with calls of the client's tools. The turn behind it
// waits; the engine lets others run meanwhile.
func (c *conversation) park(a *answer, calls []bridge.ToolCall) {
	c.conclude(a, bridge.EndTools, parked, calls)
	s := c.service
	s.mu.Lock()
	victims := s.surplus()
	s.mu.Unlock()
	for _, v := range victims {
		s.dispose(v)
	}
}

// count adds to the turns that run. mu is held.
func (s *Service) count(n int) {
	s.active = time.Now()
	if max(s.running, s.running+n) > few {
		s.crowded = s.active
	}
	s.running += n
}

func (s *Service) uncount() {
	s.mu.Lock()
	s.count(-1)
	s.mu.Unlock()
}

// settle comes after a turn, on its goroutine: the conversation stays held, or
// its session is cleaned for another caller.
func (s *Service) settle(c *conversation, err error) {
	c.mu.Lock()
	reader := c.reader
	c.reader, c.ended = nil, true
	c.mu.Unlock()
	switch {
	case reader == nil:
	case err != nil:
		reader.fail(err)
	default:
		c.conclude(reader, bridge.EndDone, idle, nil)
	}
	s.mu.Lock()
	if c.state == parked {
		s.count(1) // it was not counted while it waited
	}
	dispose := s.finishTurn(c, err == nil && !c.outdated())
	victims := s.surplus()
	s.mu.Unlock()
	if dispose {
		s.dispose(c)
	}
	s.mu.Lock()
	s.count(-1)
	next := s.newest
	followed := s.running == 1
	s.mu.Unlock()
	if len(victims) > 0 && followed {
		// The one request that came at once should have its first word before
		// the runtime is busied with what can wait; otherwise it comes 2 ms later.
		select {
		case <-next:
		case <-time.After(yieldWithin):
		case <-s.ctx.Done():
		}
	}
	for _, v := range victims {
		s.dispose(v)
	}
}

// finishTurn ends the turn of a conversation. It then waits for its next
// request, or it is dead, and the result says whether the caller disposes of it.
// mu is held.
func (s *Service) finishTurn(c *conversation, good bool) (dispose bool) {
	if good && (c.state == settling || c.state == idle) {
		c.state = idle
	} else {
		c.dead = true
		// A conversation taken for the next request is disposed of by that request.
		dispose = c.state != settling || c.held
		s.release(c)
	}
	close(c.settled)
	return dispose
}

// outdated says that a conversation's runtime has died or been replaced. An
// agent's session holds more than messages, so it is never outdated. That of a
// worker elsewhere is for one turn.
func (c *conversation) outdated() bool {
	return c.shape.worker != "" || !c.shape.agent && !c.session.Current()
}

// giveBack holds a conversation that was taken but not used.
func (s *Service) giveBack(c *conversation) {
	if c == nil {
		return
	}
	s.mu.Lock()
	dead := c.dead
	if !dead {
		s.hold(c, c.key, c.exact, c.state)
	}
	s.mu.Unlock()
	if dead {
		s.dispose(c)
	}
}
