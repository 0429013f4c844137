package chat

import (
	"context"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// look replaces a runtime that holds too much memory, now and then, after a
// turn. Turns that run or are parked go on in the old one; conversations that
// wait are taken along.
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
	s.warm(ctx)
	s.follow()
}

// rest has the runtimes give back what they have taken, when there has been
// little to do for a while.
func (s *Service) rest() {
	s.mu.Lock()
	due := s.running <= calm && time.Since(s.crowded) >= s.opts.RestAfter && !s.rotating && !s.widening && !s.closed
	if due {
		s.rotating = true
	}
	times := grownCalm
	if s.running == 0 && time.Since(s.active) >= s.opts.RestAfter {
		times = grownIdle
	}
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, openWithin)
	defer cancel()
	renewed, err := s.engine.Shrink(ctx, bridge.ProfileChat, times)
	switch {
	case err != nil && s.ctx.Err() == nil:
		s.opts.Logger.Warn("the runtime could not be replaced", "error", err)
	case renewed:
		s.opts.Logger.Debug("the runtime had grown and was replaced")
		s.warm(ctx)
	}
	s.follow()
	s.mu.Lock()
	s.rotating = false
	s.mu.Unlock()
}

func (s *Service) warm(ctx context.Context) {
	if s.opts.Warm == nil {
		return
	}
	if err := s.opts.Warm(ctx); err != nil {
		s.opts.Logger.Debug("warming up a new runtime", "error", err)
	}
}

// follow takes the conversations that wait to where new sessions are opened,
// if their runtime has been replaced. What is pooled there is empty, and let
// go.
func (s *Service) follow() {
	s.mu.Lock()
	var strays []*conversation
	for e := s.order.Front(); e != nil; e = e.Next() {
		if c := conversationAt(e); c.state == idle && c.outdated() {
			// As after a turn: whoever wants to go on with it waits.
			c.state, c.settled, c.moving = settling, make(chan struct{}), true
			strays = append(strays, c)
		}
	}
	old := s.pool.weed(func(x pooled) bool { return !x.session.Current() })
	s.mu.Unlock()
	for _, session := range old {
		s.discard(session)
	}
	for _, c := range strays {
		good := s.move(c)
		s.mu.Lock()
		dispose := s.rested(c, good)
		s.mu.Unlock()
		if dispose {
			s.dispose(c)
		}
	}
}

// move takes the session of a conversation in which nothing goes on to where
// new ones are opened. If that fails it is of no more use, and the
// conversation is told again when somebody comes back to it.
func (s *Service) move(c *conversation) bool {
	ctx, cancel := context.WithTimeout(s.ctx, moveWithin)
	defer cancel()
	if err := c.session.Move(ctx); err != nil {
		s.opts.Logger.Debug("a conversation could not be moved", "session", c.session.ID(), "error", err)
		return false
	}
	return true
}

const (
	// calm is how many turns one runtime does easily.
	calm = 2
	// A runtime that has grown so many times is replaced when little is left
	// to do, or nothing. One caller after the other makes it grow to twice
	// what it was, and no further.
	grownCalm = 3.0
	grownIdle = 1.5
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
