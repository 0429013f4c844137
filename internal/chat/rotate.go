package chat

import (
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// look replaces a runtime that holds too much memory, now and then, after a
// turn. Turns that run or are parked go on in the old one; conversations that
// wait are let go, and told again if somebody comes back to them.
func (s *Service) look() {
	s.mu.Lock()
	s.turns++
	due := s.turns >= lookEvery && !s.rotating && s.opts.MemoryLimit > 0 && !s.closed
	if due {
		s.turns, s.rotating = 0, true
	}
	s.mu.Unlock()
	if !due {
		return
	}
	for _, p := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
		if held := s.engine.Memory(p); held > s.opts.MemoryLimit {
			s.opts.Logger.Info("the runtime has grown and is replaced", "profile", p, "bytes", held)
			s.rotate(p)
		}
	}
	s.mu.Lock()
	s.rotating = false
	s.mu.Unlock()
}

func (s *Service) rotate(p bridge.Profile) {
	ctx, cancel := context.WithTimeout(s.ctx, openWithin)
	defer cancel()
	if err := s.engine.Rotate(ctx, p); err != nil {
		s.opts.Logger.Warn("the runtime could not be replaced", "error", err)
		return
	}
	if s.opts.Warm != nil {
		if err := s.opts.Warm(ctx); err != nil {
			s.opts.Logger.Debug("warming up a new runtime", "error", err)
		}
	}
	s.mu.Lock()
	var old []*engine.Session
	for e := s.order.Back(); e != nil; {
		c := conversationAt(e)
		e = e.Prev()
		if c.state == idle && c.outdated() {
			s.release(c)
			old = append(old, c.session)
		}
	}
	old = append(old, s.pool.weed(func(x pooled) bool { return !x.session.Current() })...)
	s.mu.Unlock()
	for _, session := range old {
		s.discard(session)
	}
}

const (
	// widenAt is how many turns at once are worth one more runtime.
	widenAt = 8
	// widenEvery bounds how often one is asked for: so long must the crowd last
	// for a third, and there may be enough of them.
	widenEvery = 2 * time.Second
)

// shouldWiden says that one more runtime is to be asked for. mu is held.
func (s *Service) shouldWiden() bool {
	if s.opts.Widen == nil || s.running < widenAt || s.widening || time.Since(s.widened) < widenEvery {
		return false
	}
	s.widening, s.widened = true, time.Now()
	return true
}

// widen asks for one more runtime beside the turns. Pooled sessions move over
// as they are emptied, see dispose.
func (s *Service) widen() {
	work := func() {
		ctx, cancel := context.WithTimeout(s.ctx, openWithin)
		defer cancel()
		if err := s.opts.Widen(ctx); err != nil {
			s.opts.Logger.Warn("one more runtime could not be started", "error", err)
		}
		s.mu.Lock()
		s.widening = false
		s.mu.Unlock()
	}
	if err := s.start(work); err != nil {
		s.opts.Logger.Debug("no other runtime is needed any more", "error", err)
	}
}
