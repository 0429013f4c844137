package engine

import (
	"context"
	"errors"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// Serve names who asks from now on, for the usage figures: a session that is
// used again serves different doors.
func (s *Session) Serve(door string) {
	s.mu.Lock()
	s.door = door
	s.mu.Unlock()
}

func (s *Session) servedDoor() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.door != "" {
		return s.door
	}
	return s.request.Door
}

// attend says which turn runs; nil when it is over.
func (s *Session) attend(t *turn, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.watch = nil
	}
	if s.turn = t; t != nil {
		t.watch = w
	}
}

// Resolve answers a parked tool call. A turn that has left its place among
// the running ones takes one first, so this may wait.
func (s *Session) Resolve(ctx context.Context, requestID string, r bridge.ToolResult) error {
	s.mu.Lock()
	inner, t := s.inner, s.turn
	var w *watch
	if t != nil {
		w = t.watch
	}
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
	return nil
}

// Steer says something to the turn that is running.
func (s *Session) Steer(ctx context.Context, p bridge.Prompt) error {
	st, ok := s.current().(Steerer)
	if !ok {
		return s.engine.unsupported("add to a running turn")
	}
	return st.Steer(ctx, p)
}

// Reset makes the session forget its conversation, if the agent can do that;
// otherwise it fails with CodeUnsupported and the session is as it was.
func (s *Session) Reset(ctx context.Context) error {
	r, ok := s.current().(Resetter)
	if !ok {
		return s.engine.unsupported("reset a session")
	}
	return r.Reset(ctx)
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

// Move takes the session to the runtime in which new ones are opened. No turn
// may run in it. If this fails it can only be discarded.
func (s *Session) Move(ctx context.Context) error {
	m, ok := s.current().(Mover)
	if !ok {
		return s.engine.unsupported("move a session")
	}
	next, err := m.Move(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.inner = next
	s.mu.Unlock()
	return nil
}

// Crowded says that a new session would find more room than this one has,
// which is therefore better discarded than kept for somebody else.
func (s *Session) Crowded() bool {
	c, ok := s.current().(Sharer)
	return ok && c.Crowded()
}

// Aside says that the session is in a runtime that is there for a crowd only.
func (s *Session) Aside() bool {
	c, ok := s.current().(Sharer)
	return ok && c.Aside()
}

// Discard closes the session and deletes what the agent stored of it, where
// the agent can.
func (s *Session) Discard(ctx context.Context) error {
	s.engine.mu.Lock()
	_, open := s.engine.open[s]
	delete(s.engine.open, s)
	s.engine.mu.Unlock()
	if !open {
		return nil
	}
	inner := s.current()
	err := s.record(ctx, sessionstore.StateClosed)
	if g, ok := s.request.Spec.Gate.(recorder); ok {
		err = errors.Join(err, g.End(ctx))
	}
	if r, ok := inner.(Remover); ok {
		return errors.Join(err, r.Remove(ctx))
	}
	if err := errors.Join(err, inner.Close(ctx)); err != nil {
		return err
	}
	if l, ok := s.engine.opts.Agent.(Lister); ok {
		err := l.Delete(ctx, inner.ID())
		if code := bridge.CodeOf(err); code != bridge.CodeNotFound && code != bridge.CodeUnsupported {
			return err
		}
	}
	return nil
}
