package acp

import (
	"context"
	"errors"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

const (
	// abortWithin is how long the agent may be silent, in all of its sessions,
	// while it should end a turn, before it is taken for hung and ended;
	// abortAtMost if it is merely busy.
	abortWithin = 3 * time.Second
	abortAtMost = 20 * time.Second
	// abortAgain is the time between the first two requests to abort.
	abortAgain = 50 * time.Millisecond
	// closeWithin bounds the request that closes a session.
	closeWithin = 5 * time.Second
)

// abortTurn ends the turn in the agent and waits until it is over there too.
// One that does not react is ended, with the turns of everybody else.
func (s *session) abortTurn(t *turn) {
	ctx, cancel := context.WithTimeout(context.Background(), abortAtMost)
	defer cancel()
	began, pause := time.Now(), abortAgain
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		t.mu.Lock()
		ended := t.ended
		t.mu.Unlock()
		if ended {
			return
		}
		select {
		case <-t.wake:
			continue
		case now := <-again.C:
			if last := max(s.link.heard.Load(), began.UnixNano()); now.UnixNano()-last <= int64(abortWithin) {
				_ = s.cancelTurn(ctx) // an agent that has gone has ended it
				again.Reset(pause)
				pause = min(2*pause, abortWithin/2)
				continue
			}
		case <-ctx.Done():
		}
		s.link.opts.Logger.Warn("the ACP agent did not end an aborted turn and is restarted", "session", s.id)
		s.link.conn.Fail(errors.New("it did not end an aborted turn"))
		return
	}
}

// cancelTurn asks the agent to end the turn. Permission requests that still
// wait are answered with that, as the protocol wants it.
func (s *session) cancelTurn(ctx context.Context) error {
	s.mu.Lock()
	if s.quit != nil {
		s.quit()
	}
	s.mu.Unlock()
	return s.link.conn.Notify(ctx, acpwire.NotifyCancel, acpwire.SessionRef{SessionID: s.id})
}

// forbid ends the running turn because of something that the policy denies.
func (s *session) forbid(err error) {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return
	}
	t.fail(err)
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = s.cancelTurn(ctx) // an agent that has gone does no more
}

func (s *session) Abort(ctx context.Context) error {
	s.mu.Lock()
	running := s.turn != nil
	s.mu.Unlock()
	if !running {
		return nil
	}
	return s.link.explain(s.cancelTurn(ctx), "abort the turn")
}

// Resolve has nothing to answer: there are no tools of the caller.
func (s *session) Resolve(_ context.Context, requestID string, _ bridge.ToolResult) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "no tool call is waiting under " + requestID}
}

// History returns what was said in this session as far as this agent knows:
// since it was opened, and before that what the ACP agent has replayed.
func (s *session) History(context.Context) ([]bridge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]bridge.Event(nil), s.history...), nil
}

func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	t, closed := s.turn, s.over()
	s.mu.Unlock()
	if closed {
		return nil
	}
	if t != nil {
		s.abortTurn(t)
	}
	var err error
	if s.link.init.Capabilities.Session.Close != nil && s.link.alive() {
		callC, cancel := context.WithTimeout(ctx, closeWithin)
		err = s.link.call(callC, acpwire.MethodSessionClose, acpwire.SessionRef{SessionID: s.id}, nil)
		cancel()
	}
	s.release(ctx)
	err = s.link.explain(err, "close the session")
	if !s.link.alive() {
		err = nil // there is nothing left to close
	}
	return err
}

// over says whether the session is closed. mu is held.
func (s *session) over() bool { return s.ctx.Err() != nil }

// release lets go of what the session holds here.
func (s *session) release(ctx context.Context) {
	s.mu.Lock()
	s.stop() // nothing is begun after that
	s.mu.Unlock()
	s.link.unregister(s)
	s.wg.Wait()
	s.endTerminals(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		_ = s.root.Close() // only a handle to look things up in
		s.root = nil
	}
}
