package chat

import (
	"container/list"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

type state int

const (
	busy     state = iota // a turn runs for an answer
	settling              // the answer is over, the turn not quite
	idle                  // waits for its next request
	parked                // the turn waits for the client's tools
)

// conversation is a session and what was said in it. While a turn runs, its
// goroutine owns the conversation; held by the service it belongs to whoever
// takes it.
type conversation struct {
	service *Service
	shape   *shape
	session *engine.Session

	// Of the present turn.
	ctx    context.Context
	cancel context.CancelCauseFunc
	seat   *engine.Seat
	format digest
	moved  bool // the model was asked
	odd    bool // something happened that no reset can be trusted with

	// Guarded by Service.mu.
	state   state
	place   *list.Element // in Service.order while it is held
	key     digest        // under which it is held
	used    time.Time
	settled chan struct{} // closed when the turn is over
	dead    bool          // of no more use; final when settled is closed
	calls   []bridge.ToolCall

	mu      sync.Mutex                   // guards what follows
	ended   bool                         // the turn is over
	reader  *answer                      // whom the turn's events go to
	pending map[string]string            // the runtime's requests, by call
	results map[string]bridge.ToolResult // the client's results that are not asked for yet
	backlog []bridge.Event               // what happened while it was parked
}

// backlogMost bounds what is kept of an agent's activity while it is parked.
const backlogMost = 32

// closedChannel is the settled of a conversation without a turn.
var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func conversationAt(e *list.Element) *conversation {
	c, _ := e.Value.(*conversation) // nothing else is in there
	return c
}

// begin finds the session for an answer and sets the turn going. What takes
// time happens on the turn's goroutine.
func (s *Service) begin(ctx context.Context, a *answer) error {
	known := s.take(a)
	if known != nil && known.state == parked {
		if err := known.resume(ctx, a); !errors.Is(err, errOver) {
			return err
		}
		known = nil // its runtime died under our hands: the history will do
	}
	var turn context.Context
	turn, a.cancel = context.WithCancelCause(s.ctx)
	err := s.start(func() { s.run(turn, a, known) })
	if err != nil {
		a.cancel(nil)
	}
	return err
}

// take finds the held conversation that an answer continues, and makes it the
// caller's.
func (s *Service) take(a *answer) *conversation {
	if len(a.known) == 0 {
		return nil
	}
	key := a.chain.key()
	results := a.fresh[0].Role == bridge.RoleTool
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.held[key] {
		switch c.state {
		case parked:
			if c.format != a.format || !c.answers(a.fresh) {
				continue
			}
		case idle, settling:
			if results {
				continue
			}
		case busy:
		}
		s.release(c)
		return c
	}
	return nil
}

// hold keeps a conversation under what was said in it. mu is held.
func (s *Service) hold(c *conversation, key digest, st state) {
	c.key, c.state, c.used = key, st, time.Now()
	s.held[key] = append(s.held[key], c)
	c.place = s.order.PushFront(c)
}

// release takes a conversation out of those that are held. mu is held.
func (s *Service) release(c *conversation) {
	if c.place == nil {
		return
	}
	s.order.Remove(c.place)
	c.place = nil
	list := s.held[c.key]
	for i, x := range list {
		if x == c {
			list = append(list[:i:i], list[i+1:]...)
		}
	}
	if len(list) == 0 {
		delete(s.held, c.key)
		return
	}
	s.held[c.key] = list
}

// run is the goroutine of a turn: it gets a session, runs the turn in it to
// its very end, and leaves everything in order.
func (s *Service) run(ctx context.Context, a *answer, known *conversation) {
	defer a.cancel(nil)
	seat, err := s.engine.Admit(ctx)
	if err != nil {
		s.giveBack(known)
		a.fail(err)
		return
	}
	s.count(1)
	defer s.count(-1)
	c, p, err := s.prepare(ctx, a, known)
	if err != nil {
		seat.Close()
		a.fail(err)
		return
	}
	kept := !c.used.IsZero()
	err = c.turn(ctx, seat, a, p)
	if bridge.CodeOf(err) == bridge.CodeCrashed && kept && !c.moved {
		// The runtime of a session that was kept has died meanwhile; a new
		// session can be told everything.
		s.discard(c.session)
		if c, err = s.retry(ctx, a); c == nil {
			a.fail(err)
			return
		}
	}
	s.settle(c, err)
}

// retry runs the turn in a new session. Without one it returns nil.
func (s *Service) retry(ctx context.Context, a *answer) (*conversation, error) {
	seat, err := s.engine.Admit(ctx)
	if err != nil {
		return nil, err
	}
	c, p, err := s.prepare(ctx, a, nil)
	if err != nil {
		seat.Close()
		return nil, err
	}
	return c, c.turn(ctx, seat, a, p)
}

// prepare returns a session, and the prompt that brings it up to date.
func (s *Service) prepare(ctx context.Context, a *answer, known *conversation) (*conversation, bridge.Prompt, error) {
	if known != nil {
		<-known.settled // a few milliseconds: the answer was over
		if known.dead || known.outdated() {
			s.discard(known.session)
			known = nil
		}
	}
	var p bridge.Prompt
	if known != nil {
		p = replay(a.fresh, s.opts.HistoryBytes, 0)
	} else {
		p = replay(a.history, s.opts.HistoryBytes, s.opts.HistoryTurns)
	}
	s.direct(&p, a.chat, a.shape)
	var err error
	if p.Text, err = s.guard(ctx, a, p.Text); err != nil {
		s.giveBack(known)
		return nil, p, err
	}
	if known != nil {
		return known, p, nil
	}
	c := &conversation{service: s, shape: a.shape, settled: closedChannel}
	s.mu.Lock()
	c.session = s.pool.take(a.shape.key)
	s.mu.Unlock()
	if c.session != nil && !c.session.Current() {
		s.discard(c.session)
		c.session = nil
	}
	if c.session != nil {
		c.used = time.Now()
		return c, p, nil
	}
	c.session, err = s.open(ctx, a.chat, a.shape)
	return c, p, err
}

// guard has a text checked on its way to the model. Agents have a gate.
func (s *Service) guard(ctx context.Context, a *answer, text string) (string, error) {
	if s.opts.Prompt == nil || a.shape.agent || text == "" {
		return text, nil
	}
	return s.opts.Prompt(ctx, a.chat.Door, text)
}

// turn runs a turn to its end.
func (c *conversation) turn(ctx context.Context, seat *engine.Seat, a *answer, p bridge.Prompt) (failure error) {
	c.session.Serve(a.chat.Door)
	c.ctx, c.cancel, c.seat, c.format, c.moved = ctx, a.cancel, seat, a.format, false
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
		c.moved = true
	case bridge.ToolRequested:
		return c.requested(e)
	case bridge.Other:
		c.odd = c.odd || strings.Contains(e.Name, "compaction")
	case bridge.Notice:
		c.odd = c.odd || strings.Contains(e.Text, "compacted")
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
	if err := a.steady.see(ev); err != nil {
		return err
	}
	m, ok := ev.(bridge.MessageDone)
	if !ok || m.AgentID != "" {
		return nil
	}
	if calls := c.shape.own(m.Calls); len(calls) > 0 {
		c.park(a, calls)
	} else if len(m.Calls) == 0 && m.Text != "" && !c.shape.agent {
		// The last message: the turn has nothing to say after it, so its
		// caller need not wait until it is over.
		c.conclude(a, bridge.EndDone, settling, nil)
	}
	return nil
}

// conclude ends the answer and holds the conversation for the next request,
// in this order for the client: the next request may come at once.
func (c *conversation) conclude(a *answer, r bridge.EndReason, st state, calls []bridge.ToolCall) {
	c.mu.Lock()
	c.reader = nil
	c.mu.Unlock()
	reply := a.reply(calls)
	s := c.service
	if id := a.chat.Answer; id != "" {
		added := append(a.chat.Messages[:len(a.chat.Messages):len(a.chat.Messages)], reply)
		s.answers.put(id, &remembered{before: a.before, added: added})
	}
	a.chain.add(a.fresh...)
	a.chain.add(reply)
	key := a.chain.key()
	s.mu.Lock()
	c.calls = calls
	s.hold(c, key, st)
	if st == parked {
		s.running--
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
