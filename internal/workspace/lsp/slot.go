package lsp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	firstDelay = 200 * time.Millisecond // before a server that failed is started again
	mostDelay  = 30 * time.Second
	patience   = time.Second // a delay up to this is waited for, a longer one is an error
	goodbye    = 3 * time.Second
)

// slot is the place of one language's server: none, being started, or live.
type slot struct {
	m        *Manager
	language string
	server   Server
	stale    atomic.Bool // files have changed, see Manager.Changed

	mu       sync.Mutex
	live     *client
	rules    string // that it was permitted under
	starting *attempt
	users    int
	idle     *time.Timer
	lastUsed time.Time
	starts   int
	requests int
	failures int // in a row
	retryAt  time.Time
	lastErr  error
	closed   bool
}

// attempt is one start, shared by all who wait for it.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

// errNotJudged means that a server has to be started, and none was permitted yet.
var errNotJudged = errors.New("no language server runs")

// acquire returns the live server, starting the one that was judged if need
// be. release must be called when the caller is done with it.
func (s *slot) acquire(ctx context.Context, rules string, judged *Start) (*client, error) {
	for {
		c, wait, err := s.try(rules, judged)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-wait.done:
			if wait.err != nil {
				return nil, wait.err
			}
		case <-ctx.Done():
			return nil, contextError(ctx, "waiting for the language server")
		}
	}
}

// try returns the live server, an error, or what to wait for.
func (s *slot) try(rules string, judged *Start) (*client, *attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, closedError()
	}
	if s.live != nil && s.live.dead() {
		s.lost(s.live)
	}
	if s.live != nil && s.rules != rules {
		s.dismiss(s.live) // who uses it tries again on the next one
	}
	if s.live != nil {
		s.users++
		s.requests++
		s.lastUsed = time.Now()
		if s.idle != nil {
			s.idle.Stop()
		}
		return s.live, nil, nil
	}
	if s.starting != nil {
		return nil, s.starting, nil
	}
	delay := time.Until(s.retryAt)
	if delay > patience {
		e := *bridge.AsError(s.lastErr)
		e.Message = fmt.Sprintf("%s (failed %d times in a row)", e.Message, s.failures)
		e.RetryAfter = delay.Round(time.Second)
		return nil, nil, &e
	}
	if judged == nil {
		return nil, nil, errNotJudged
	}
	if !s.m.begin() {
		return nil, nil, closedError()
	}
	a := &attempt{done: make(chan struct{})}
	s.starting = a
	s.starts++
	go func() {
		defer s.m.wg.Done()
		s.start(a, *judged, delay)
	}()
	return nil, a, nil
}

// start runs under the manager's context, not that of the first caller:
// others wait for the same server.
func (s *slot) start(a *attempt, judged Start, delay time.Duration) {
	c, err := func() (*client, error) {
		if delay > 0 {
			select {
			case <-time.After(delay):
			case <-s.m.ctx.Done():
				return nil, closedError()
			}
		}
		return s.m.startClient(s.m.ctx, s.server, judged)
	}()
	s.mu.Lock()
	s.starting = nil
	switch {
	case err != nil:
		// Nothing was started if it is not installed, and it may be any moment.
		if bridge.CodeOf(err) != bridge.CodeUnsupported {
			s.failed(err)
		}
		a.err = err
	case s.closed:
		a.err = closedError()
	default:
		s.live, s.rules = c, judged.rules
		s.keep(c) // its callers may have given up
	}
	s.mu.Unlock()
	close(a.done)
	if err == nil && a.err != nil {
		if err := c.stop(s.m.ctx); err != nil {
			s.m.log.Warn("language server did not end", "language", s.language, "error", err)
		}
	}
}

// failed counts a failure and sets when to try again; s.mu is held.
func (s *slot) failed(err error) {
	s.lastErr = err
	delay := firstDelay << min(s.failures, 10)
	s.failures++
	s.retryAt = time.Now().Add(min(delay, mostDelay))
	s.m.log.Warn("language server failed", "language", s.language, "failures", s.failures, "error", err)
}

// lost takes a dead server out; s.mu is held. One that never did anything
// counts as failed, any other may be started again at once.
func (s *slot) lost(c *client) {
	if s.live != c {
		return
	}
	s.live = nil
	if c.completed.Load() == 0 {
		s.failed(c.lostError(c.conn.Err()))
		return
	}
	s.lastErr = c.lostError(c.conn.Err())
	s.m.log.Warn("language server died", "language", s.language, "error", s.lastErr)
}

// release gives the server back. hung says that it must not be used again.
func (s *slot) release(c *client, hung bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.live != c {
		return
	}
	if c.completed.Load() > 0 {
		s.failures = 0
	}
	if c.dead() {
		s.lost(c)
		return
	}
	if hung {
		s.failed(&bridge.Error{
			Code: bridge.CodeTimeout, Message: fmt.Sprintf("the language server for %s does not answer", s.language),
			Remedy: "See whether it works by itself, or name another in the configuration.",
		})
		s.dismiss(c)
		return
	}
	s.lastUsed = time.Now()
	s.keep(c)
}

// keep lets the server live until it is idle for long; s.mu is held.
func (s *slot) keep(c *client) {
	if s.users > 0 || s.closed {
		return
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(s.m.opts.IdleTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users == 0 && s.live == c && !s.closed {
			s.dismiss(c)
		}
	})
}

// dismiss takes a server out of its place and ends it; s.mu is held.
func (s *slot) dismiss(c *client) {
	if !s.m.begin() {
		return // Close is about to do it
	}
	s.live = nil
	go func() {
		defer s.m.wg.Done()
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		if err := c.stop(ctx); err != nil {
			s.m.log.Warn("language server did not end", "language", s.language, "error", err)
		}
	}()
}

func (s *slot) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	c := s.live
	s.live = nil
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.stop(ctx)
}

func (s *slot) stats() ServerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := ServerStats{
		Language: s.language, Starts: s.starts, Requests: s.requests, Active: s.users, LastUsed: s.lastUsed,
	}
	if s.live != nil && !s.live.dead() {
		st.Running, st.PID, st.Command = true, s.live.process.PID(), slices.Concat([]string{s.live.program.Path}, s.live.program.Args[1:])
	}
	if s.lastErr != nil {
		st.LastError = s.lastErr.Error()
	}
	return st
}

// contextError names the operation that was under way when ctx ended.
func contextError(ctx context.Context, doing string) error {
	err := context.Cause(ctx)
	code := bridge.CodeCanceled
	message := doing + " was canceled"
	if errors.Is(err, context.DeadlineExceeded) {
		code, message = bridge.CodeTimeout, doing+" took too long"
	}
	return &bridge.Error{Code: code, Message: message, Cause: err}
}
