package chat

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// settleWithin is how long a turn may take to end after its last message.
const settleWithin = 2 * time.Second

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
	s.mu.Lock()
	s.count(1) // settle counts it out
	s.newest = a.first
	widen := s.shouldWiden()
	s.mu.Unlock()
	if widen {
		s.widen()
	}
	c, p, err := s.prepare(ctx, a, known)
	if err != nil {
		seat.Close()
		s.uncount()
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
			s.uncount()
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
	if known != nil && !s.ready(ctx, known) {
		known = nil
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
	if c.session = s.spare(a.shape); c.session != nil {
		c.used = time.Now()
		return c, p, nil
	}
	c.session, err = s.open(ctx, a.chat, a.shape)
	return c, p, err
}

// ready waits for the end of the turn before in a conversation that was taken,
// and says whether it can be gone on with; if not, it has been seen to.
func (s *Service) ready(ctx context.Context, c *conversation) bool {
	s.mu.Lock()
	patience := settleWithin
	if c.moving {
		patience = moveWithin
	}
	s.mu.Unlock()
	late := time.NewTimer(patience)
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
	if dead || c.outdated() && !s.move(c) {
		s.discard(c.session)
		return false
	}
	return true
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
		s.answers.put(id, &remembered{before: a.before, added: slices.Concat(a.chat.Messages, []bridge.Message{reply})})
	}
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
