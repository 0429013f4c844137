package chat

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

const (
	openWithin    = 90 * time.Second // a runtime may have to be started for it
	discardWithin = 10 * time.Second
	closeWithin   = 3 * time.Second
	closeAtOnce   = 8

	// pooledMost is as many sessions as a crowd needs that keeps the processors
	// busy. To delete one gives no memory back.
	pooledMost = 256

	// A few turns at a time are no crowd.
	few = 2
	// quietFor is how long there must be little to do before runtimes that have
	// grown are replaced.
	quietFor = 15 * time.Second
	// A runtime that has grown so many times is replaced when there are few
	// turns, or none. Turns one after the other make it grow to twice its first
	// size, and no further.
	grownCalm = 3.0
	grownIdle = 1.5
)

// pooled is an empty session that waits for a caller.
type pooled struct {
	shape   digest
	session *engine.Session
	since   time.Time
}

// spare takes an empty session from the pool, nil if there is none. The one
// that came last is the first: a single caller stays in one runtime.
func (s *Service) spare(sh *shape) *engine.Session {
	s.mu.Lock()
	var session *engine.Session
	for i, p := range slices.Backward(s.pool) {
		if p.shape == sh.key {
			session = p.session
			s.pool = slices.Delete(s.pool, i, i+1)
			break
		}
	}
	s.mu.Unlock()
	if session == nil || session.Current() {
		return session
	}
	if s.start(func() { s.discard(session); s.dropOutdated() }) != nil {
		s.discard(session) // closing
	}
	return nil
}

// keep puts an empty session into the pool. The oldest one leaves a full pool.
func (s *Service) keep(sh *shape, session *engine.Session) {
	surplus := session
	s.mu.Lock()
	if !s.closed && !sh.agent {
		s.pool = append(s.pool, pooled{sh.key, session, time.Now()})
		if surplus = nil; len(s.pool) > pooledMost {
			surplus = s.pool[0].session
			s.pool = slices.Delete(s.pool, 0, 1)
		}
	}
	s.mu.Unlock()
	if surplus != nil {
		s.discard(surplus)
	}
}

// removePooled takes sessions out of the pool. mu is held.
func (s *Service) removePooled(bad func(pooled) bool) (removed []*engine.Session) {
	s.pool = slices.DeleteFunc(s.pool, func(p pooled) bool {
		if !bad(p) {
			return false
		}
		removed = append(removed, p.session)
		return true
	})
	return removed
}

// open makes a new session. Opening is not stopped halfway, since the session
// would be lost; if its caller has left, the session goes to the pool.
func (s *Service) open(ctx context.Context, c *bridge.Chat, sh *shape) (*engine.Session, error) {
	// The client decides how much of a conversation the model is told, so the
	// runtime does not shorten it.
	spec := bridge.SessionSpec{Profile: bridge.ProfileChat, System: bridge.SystemText{Replace: true}, Infinite: &bridge.InfiniteSession{}, Headers: s.opts.Headers}
	if sh.agent {
		var err error
		if spec, err = s.opts.AgentSpec(sh.tools.specs); err != nil {
			return nil, err
		}
		spec.Profile = bridge.ProfileAgent
	}
	if sh.model != "" {
		spec.Model = sh.model
	}
	e := s.engine
	if sh.worker != "" {
		e, spec.Model = s.opts.Workers, spec.Model+workerSign+sh.worker
	}
	if sh.effort != "" {
		spec.ReasoningEffort = sh.effort
	}
	spec.Tools = sh.tools.specs
	if sh.system != "" {
		text := sh.system
		if s.opts.Prompt != nil {
			var err error
			if text, err = s.opts.Prompt(ctx, c.Door, text); err != nil {
				return nil, err
			}
		}
		if spec.System.Text != "" {
			text = spec.System.Text + "\n\n" + text
		}
		spec.System.Text = text
	}
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), openWithin)
	defer cancel()
	session, err := e.Open(opening, engine.Request{Spec: spec, Door: c.Door, Ephemeral: !sh.agent, PassRateLimits: true})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		s.keep(sh, session)
		return nil, context.Cause(ctx)
	}
	return session, nil
}

// dispose cleans the session of a conversation for the next caller, or
// deletes it if it cannot be proven clean. No turn runs in it.
func (s *Service) dispose(c *conversation) {
	if !c.resetUnsafe && s.clean(c.shape, c.session) {
		s.keep(c.shape, c.session)
		return
	}
	s.discard(c.session)
}

// clean empties a session; see sdk's Reset for how that is proven.
func (s *Service) clean(sh *shape, session *engine.Session) bool {
	if sh.agent || !session.Current() || s.ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.ctx, discardWithin)
	defer cancel()
	if err := session.Reset(ctx); err != nil {
		s.opts.Logger.Debug("chat.session_not_reset", "session", session.ID(), "error", err)
		return false
	}
	return true
}

func (s *Service) discard(session *engine.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), discardWithin)
	defer cancel()
	if err := session.Discard(ctx); err != nil {
		s.opts.Logger.Warn("chat.session_not_deleted", "session", session.ID(), "error", err)
	}
}

// discardAll deletes the last sessions at the end, some at a time, in a short
// time. Sessions that are not deleted by then go with the runtime.
func (s *Service) discardAll(ctx context.Context, sessions []*engine.Session) error {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	var wg sync.WaitGroup
	places := make(chan struct{}, closeAtOnce)
	errs := make([]error, len(sessions))
	for i, session := range sessions {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = session.Discard(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// surplus takes conversations out that are held beyond the bounds, the oldest
// first, and parked turns only if there is nothing else: those are aborted, and
// their goroutines dispose of them. mu is held.
func (s *Service) surplus() (victims []*conversation) {
	openings := 0
	for _, c := range slices.Backward(slices.Clone(s.held)) {
		if c.opening && c.state != parked {
			openings++
		}
		if openings > s.opts.Openings && c.opening && c.state == idle {
			victims = s.evict(victims, c, "")
		}
	}
	for _, st := range []state{idle, parked} {
		for _, c := range slices.Clone(s.held) {
			if c.state == st && len(s.held) > s.opts.Conversations {
				victims = s.evict(victims, c, "too many conversations are held")
			}
		}
	}
	return victims
}

func (s *Service) evict(victims []*conversation, c *conversation, why string) []*conversation {
	s.release(c)
	if c.state == parked {
		c.cancel(&bridge.Error{Code: bridge.CodeTimeout, Message: why})
		return victims
	}
	return append(victims, c)
}

// sweep ends sessions that are unused for too long. It is the service's first
// goroutine and runs until Close.
func (s *Service) sweep() {
	every := max(min(s.opts.ConversationTTL, s.opts.ParkTimeout, answersTTL)/20, 10*time.Millisecond)
	t := time.NewTicker(min(every, quietFor))
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		s.expire()
		s.recycleGrown()
	}
}

func (s *Service) expire() {
	s.answers.expire()
	s.mu.Lock()
	var victims []*conversation
	for _, c := range slices.Clone(s.held) {
		age := time.Since(c.used)
		switch {
		case c.state == idle && age >= s.opts.ConversationTTL:
			victims = s.evict(victims, c, "")
		case c.state == parked && age >= s.opts.ParkTimeout:
			victims = s.evict(victims, c, "the client did not answer its tool calls")
		}
	}
	old := s.removePooled(func(p pooled) bool { return time.Since(p.since) >= s.opts.ConversationTTL })
	s.mu.Unlock()
	for _, v := range victims {
		s.dispose(v)
	}
	for _, session := range old {
		s.discard(session)
	}
	s.dropOutdated()
}

// recycleGrown replaces runtimes that hold an eighth of the machine's memory,
// and in quiet times those that have grown.
func (s *Service) recycleGrown() {
	s.mu.Lock()
	grown := 0.0
	switch {
	case s.running == 0 && time.Since(s.active) >= quietFor:
		grown = grownIdle
	case s.running <= few && time.Since(s.crowded) >= quietFor:
		grown = grownCalm
	}
	s.mu.Unlock()
	s.recycle(engine.MachineMemory()/8, grown)
}

// recycle replaces runtimes that are too large. Running and parked turns
// finish in the old one; conversations that wait are told again in a new one
// with their next request.
func (s *Service) recycle(above int64, grown float64) {
	if !s.engine.Recycle(bridge.ProfileChat, above, grown) {
		return
	}
	s.opts.Logger.Info("chat.runtime_recycled")
	if s.opts.Warm != nil {
		ctx, cancel := context.WithTimeout(s.ctx, openWithin)
		defer cancel()
		if err := s.opts.Warm(ctx); err != nil {
			s.opts.Logger.Debug("chat.warm_up_failed", "error", err)
		}
	}
	s.dropOutdated()
}

// dropOutdated discards the sessions whose runtime has been replaced or has
// died.
func (s *Service) dropOutdated() {
	s.mu.Lock()
	var victims []*conversation
	for _, c := range slices.Clone(s.held) {
		if c.state == idle && c.outdated() {
			victims = s.evict(victims, c, "")
		}
	}
	old := s.removePooled(func(p pooled) bool { return !p.session.Current() })
	s.mu.Unlock()
	for _, c := range victims {
		old = append(old, c.session)
	}
	for _, session := range old {
		s.discard(session)
	}
}
