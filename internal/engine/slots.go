package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// slots bounds how many turns run and how many wait.
type slots struct {
	running chan struct{}
	waiting atomic.Int64
	queue   int64
}

func newSlots(running, queue int) *slots {
	return &slots{running: make(chan struct{}, running), queue: int64(queue)}
}

// acquire waits for a slot, if there is room to wait.
func (s *slots) acquire(ctx context.Context) error {
	select {
	case s.running <- struct{}{}:
		return nil
	default:
	}
	if s.waiting.Add(1) > s.queue {
		s.waiting.Add(-1)
		return &bridge.Error{Code: bridge.CodeBusy, RetryAfter: time.Second,
			Message: fmt.Sprintf("busy: %d turns are running and %d are waiting", cap(s.running), s.queue),
			Remedy:  "try again in a moment, or raise engine.max_concurrent or engine.queue_limit"}
	}
	defer s.waiting.Add(-1)
	select {
	case s.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Seat is the place of one turn among those that run. A turn that waits for
// its caller's own tools leaves it, so that it keeps nobody out meanwhile, and
// takes one again before it goes on.
type Seat struct {
	slots *slots

	mu     sync.Mutex
	held   bool
	closed bool
}

// Admit waits for a place in which a turn may run, or fails with CodeBusy if
// there is no room to wait. It is for callers that would otherwise prepare
// what they cannot use; see Session.SendSeated.
func (e *Engine) Admit(ctx context.Context) (*Seat, error) {
	if err := e.slots.acquire(ctx); err != nil {
		return nil, err
	}
	return &Seat{slots: e.slots, held: true}, nil
}

// Leave gives the seat back for a while: until the turn goes on.
func (t *Seat) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.held = false
		<-t.slots.running
	}
}

// retake waits for a seat again, however long the queue is: the turn was let
// in before. It fails if the turn is over.
func (t *Seat) retake(ctx context.Context) error {
	over := &bridge.Error{Code: bridge.CodeNotFound, Message: "the turn is over"}
	t.mu.Lock()
	held, closed := t.held, t.closed
	t.mu.Unlock()
	switch {
	case closed:
		return over
	case held:
		return nil
	}
	select {
	case t.slots.running <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		<-t.slots.running
		return over
	case t.held: // somebody was faster
		<-t.slots.running
		return nil
	}
	t.held = true
	return nil
}

// Close gives the seat back for good.
func (t *Seat) Close() {
	t.Leave()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.held { // retaken in between
		t.held = false
		<-t.slots.running
	}
}
