package engine

import (
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Observer is told what sessions do. Its methods and those of a Watcher are
// called concurrently, on the goroutines of the turns, and must not wait.
type Observer interface {
	// SessionOpened is called for every session that was opened or resumed, and
	// again when one has forgotten its conversation. Without a Watcher nothing
	// more is told of it.
	SessionOpened(s *Session, r Request) Watcher
}

// Watcher is told what one session does.
type Watcher interface {
	// TurnBegan is called before the turn is admitted.
	TurnBegan(ctx context.Context, p bridge.Prompt)
	// Said is called with a message that was added to the running turn.
	Said(p bridge.Prompt)
	// Event is called with the events of a turn, as its reader gets them. The
	// last one is TurnEnded, also if the reader has left.
	Event(ev bridge.Event)
	// Resolved is called when a call of the caller's own tool was answered.
	Resolved(requestID string, r bridge.ToolResult)
	// SessionClosed is called once, after everything else.
	SessionClosed()
}

// observe begins to tell the observer of a session.
func (s *Session) observe() {
	if s.engine.opts.Observer == nil {
		return
	}
	w := s.engine.opts.Observer.SessionOpened(s, s.request)
	s.mu.Lock()
	s.watcher = w
	s.mu.Unlock()
}

// unobserve ends that.
func (s *Session) unobserve() {
	s.mu.Lock()
	w := s.watcher
	s.watcher = nil
	s.mu.Unlock()
	if w != nil {
		w.SessionClosed()
	}
}

func (s *Session) watched() Watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watcher
}

// said tells of a message for the running turn.
func (s *Session) said(p bridge.Prompt) {
	if w := s.watched(); w != nil {
		w.Said(p)
	}
}

// shown returns yield with the watcher before it, and what is to be called when
// the turn is over.
func (t *turn) shown(ctx context.Context, p bridge.Prompt, yield func(bridge.Event, error) bool) (shown func(bridge.Event, error) bool, over func()) {
	w := t.session.watched()
	if w == nil {
		return yield, func() {}
	}
	w.TurnBegan(ctx, p)
	ended := false
	return func(ev bridge.Event, err error) bool {
			w.Event(ev)
			_, last := ev.(bridge.TurnEnded)
			ended = ended || last
			return yield(ev, err)
		}, func() {
			if !ended { // its reader has left
				w.Event(bridge.TurnEnded{Reason: bridge.EndAborted, Usage: t.usage, Duration: time.Since(t.began)})
			}
		}
}
