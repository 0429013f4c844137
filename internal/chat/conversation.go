package chat

import (
	"container/list"
	"context"
	"errors"
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
	exact   digest        // see chain
	used    time.Time
	opening bool          // it holds one question and its answer
	moving  bool          // to another runtime, which is like a turn to others
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

// begin finds the session for a request and sets the turn going. What takes
// time happens on the turn's goroutine.
func (s *Service) begin(ctx context.Context, chat *bridge.Chat) (*answer, error) {
	a, err := s.accept(chat)
	if err != nil {
		return nil, err
	}
	known, waits := s.take(a)
	if waits {
		if err := known.resume(ctx, a); !errors.Is(err, errOver) {
			return a, err
		}
		// Its turn ended under our hands, and may have ended this answer with
		// it: a new one is told the history.
		known = nil
		if a, err = s.accept(chat); err != nil {
			return nil, err
		}
	}
	var turn context.Context
	turn, a.cancel = context.WithCancelCause(s.ctx)
	if err := s.start(func() { s.run(turn, a, known) }); err != nil {
		a.cancel(nil)
		return nil, err
	}
	return a, nil
}

// take finds the held conversation that an answer continues, and makes it the
// caller's. It waits if it is parked; whoever settles the last turn may be
// changing its state by the time the caller has it.
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
		if c.exact == exact {
			found, several = c, false
			break
		}
		found, several = c, found != nil
	}
	// Of two that differ in nothing but what their tools were called with it
	// could be either, so it is told anew.
	if found == nil || several {
		return nil, false
	}
	s.release(found)
	return found, found.state == parked
}

// hold keeps a conversation under what was said in it. mu is held.
func (s *Service) hold(c *conversation, key, exact digest, st state) {
	c.key, c.exact, c.state, c.used = key, exact, st, time.Now()
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
