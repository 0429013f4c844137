package chat

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

const (
	openWithin    = 90 * time.Second // a runtime may have to be started for it
	discardWithin = 10 * time.Second
	moveWithin    = 10 * time.Second
	speakWithin   = 50 * time.Millisecond
	closeWithin   = 3 * time.Second
	closeAtOnce   = 8
	// lookEvery is how many turns pass between two looks at the memory.
	lookEvery = 64
)

// count adds to the turns that run. mu is held.
func (s *Service) count(n int) {
	s.active = time.Now()
	if max(s.running, s.running+n) > calm {
		s.crowded = s.active
	}
	s.running += n
}

// uncount is for a turn that came to nothing.
func (s *Service) uncount() {
	s.mu.Lock()
	s.count(-1)
	s.mu.Unlock()
}

// settle comes after a turn, on its goroutine: the conversation goes on being
// held, or its session is cleaned for somebody else.
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
	good := err == nil && (c.state == settling || c.state == idle)
	stray := good && c.place != nil && c.outdated()
	if stray {
		c.state, c.moving = settling, true
	}
	s.mu.Unlock()
	if stray {
		good = s.move(c)
	}
	s.mu.Lock()
	dispose := s.rested(c, good)
	victims := s.surplus()
	s.mu.Unlock()
	if dispose {
		s.dispose(c)
	}
	s.mu.Lock()
	s.count(-1)
	next := s.newest
	if s.running != 1 {
		next = nil
	}
	s.mu.Unlock()
	if len(victims) > 0 && next != nil {
		s.letSpeak(next)
	}
	for _, v := range victims {
		s.dispose(v)
	}
	s.look()
}

// rested ends what went on in a conversation: it waits for its next request,
// or is of no more use and perhaps the caller's to dispose of. mu is held.
func (s *Service) rested(c *conversation, good bool) (dispose bool) {
	c.moving = false
	if good && (c.state == settling || c.state == idle) {
		c.state = idle
	} else {
		c.dead = true
		// One that was taken for the next request is that one's to dispose of.
		dispose = c.state != settling || c.place != nil
		s.release(c)
	}
	close(c.settled)
	return dispose
}

// letSpeak lets the one request that followed at once have its first word
// before the runtime is busied with what can wait.
func (s *Service) letSpeak(first <-chan struct{}) {
	t := time.NewTimer(speakWithin)
	defer t.Stop()
	select {
	case <-first:
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// outdated says that a conversation's runtime has died or been replaced. An
// agent's session may hold more than words, so it stays where it is.
func (c *conversation) outdated() bool { return !c.shape.agent && !c.session.Current() }

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

// spare returns an empty session from the pool, nil if there is none. Those
// whose runtime has gone are seen to beside.
func (s *Service) spare(sh *shape) *engine.Session {
	s.mu.Lock()
	var stale []*engine.Session
	// One more may be about to end.
	quiet := s.running <= 2
	session := s.pool.take(sh.key, quiet)
	for session != nil && !session.Current() {
		stale = append(stale, session)
		session = s.pool.take(sh.key, quiet)
	}
	s.mu.Unlock()
	if len(stale) > 0 {
		discard := func() {
			for _, x := range stale {
				s.discard(x)
			}
		}
		if s.start(discard) != nil {
			discard() // closing
		}
	}
	return session
}

// open makes a new session. It is not stopped halfway, since nobody would
// know of the session then; if the caller has gone it is kept for the next.
func (s *Service) open(ctx context.Context, c *bridge.Chat, sh *shape) (*engine.Session, error) {
	// How much of a conversation the model is told is for the client to say,
	// so the runtime does not shorten it.
	spec := bridge.SessionSpec{Profile: bridge.ProfileChat, System: bridge.SystemText{Replace: true}, Infinite: &bridge.InfiniteSession{}}
	if sh.agent {
		var err error
		if spec, err = s.opts.AgentSpec(sh.tools); err != nil {
			return nil, err
		}
		spec.Profile = bridge.ProfileAgent
	}
	if sh.model != "" {
		spec.Model = sh.model
	}
	if sh.effort != "" {
		spec.ReasoningEffort = sh.effort
	}
	spec.Tools = sh.tools
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
	session, err := s.engine.Open(opening, engine.Request{Spec: spec, Door: c.Door, Ephemeral: !sh.agent})
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
// deletes it if it cannot be proven clean, or if the next one had better be
// opened in another runtime. No turn runs in it.
func (s *Service) dispose(c *conversation) {
	if !c.odd && !c.session.Crowded() && s.clean(c.shape, c.session) {
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
		s.opts.Logger.Debug("a session could not be reset", "session", session.ID(), "error", err)
		return false
	}
	return true
}

// keep puts an empty session into the pool.
func (s *Service) keep(sh *shape, session *engine.Session) {
	surplus := session
	s.mu.Lock()
	if !s.closed && !sh.agent {
		surplus = s.pool.put(sh.key, session, time.Now())
	}
	s.mu.Unlock()
	if surplus != nil {
		s.discard(surplus)
	}
}

func (s *Service) discard(session *engine.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), discardWithin)
	defer cancel()
	if err := session.Discard(ctx); err != nil {
		s.opts.Logger.Warn("a session could not be deleted", "session", session.ID(), "error", err)
	}
}

// discardAll deletes what is left at the end, some at a time. It does not take
// long: what is not deleted by then goes with the runtime.
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
