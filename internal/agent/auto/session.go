package auto

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// session is a session whose agent may yet turn out not to work. As soon as
// one has, sessions are handed out as they are.
type session struct {
	auto *Auto
	spec bridge.SessionSpec

	mu    sync.Mutex
	inner bridge.Session
	at    int  // whose inner is
	used  bool // a turn had output here
}

// wrap returns a session with the same optional abilities as its inner one:
// an agent's sessions have all of them or none.
func (a *Auto) wrap(inner bridge.Session, i int, spec bridge.SessionSpec) bridge.Session {
	a.mu.Lock()
	settled := a.settled
	a.mu.Unlock()
	if settled {
		return inner
	}
	s := &session{auto: a, spec: spec, inner: inner, at: i}
	if _, ok := inner.(able); ok {
		return &ableSession{s}
	}
	return s
}

func (s *session) now() bridge.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner
}

func (s *session) ID() string { return s.now().ID() }

func (s *session) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		for {
			s.mu.Lock()
			inner, at, output := s.inner, s.at, s.used
			s.mu.Unlock()
			var failure error
			for ev, err := range inner.Send(ctx, p) {
				if err != nil {
					failure = err
					break
				}
				if !output && isOutput(ev) {
					output = true
					s.mark(at)
				}
				if !yield(ev, nil) {
					return
				}
			}
			if failure == nil {
				return
			}
			notice, ok := s.fallOver(ctx, at, output, failure)
			if !ok {
				yield(nil, failure)
				return
			}
			if !yield(notice, nil) {
				return
			}
		}
	}
}

func (s *session) mark(at int) {
	s.mu.Lock()
	s.used = true
	s.mu.Unlock()
	s.auto.settle(at)
}

// fallOver replaces the session by one of the next agent that opens it.
func (s *session) fallOver(ctx context.Context, at int, output bool, failure error) (bridge.Event, bool) {
	if output || !s.auto.passOver(ctx, at, failure) {
		return nil, false
	}
	var next bridge.Session
	var i int
	var name string
	err := s.auto.try(ctx, func(agent Agent, place int) (err error) {
		next, err = agent.Open(ctx, s.spec)
		i, name = place, agent.Name()
		return err
	})
	if err != nil {
		return nil, false // why is kept; the caller hears of the first failure
	}
	s.mu.Lock()
	s.inner, s.at = next, i
	s.mu.Unlock()
	return bridge.Notice{Level: "warning", Text: fmt.Sprintf("going on over %s: %v", name, failure)}, true
}

// isOutput says whether an event is something that must not happen twice.
func isOutput(ev bridge.Event) bool {
	switch ev.(type) {
	case bridge.TextDelta, bridge.ReasoningDelta, bridge.MessageDone, bridge.ToolStarted, bridge.ToolProgress, bridge.ToolFinished,
		bridge.ToolRequested, bridge.PermissionAsked, bridge.InputAsked, bridge.PlanChanged, bridge.UsageReported, bridge.TurnEnded:
		return true
	default:
		return false
	}
}

func (s *session) Resolve(ctx context.Context, requestID string, result bridge.ToolResult) error {
	return s.now().Resolve(ctx, requestID, result)
}
func (s *session) Abort(ctx context.Context) error { return s.now().Abort(ctx) }
func (s *session) SetModel(ctx context.Context, model, effort string) error {
	return s.now().SetModel(ctx, model, effort)
}
func (s *session) History(ctx context.Context) ([]bridge.Event, error) { return s.now().History(ctx) }
func (s *session) Close(ctx context.Context) error                     { return s.now().Close(ctx) }

// able are the optional abilities of sessions.
type able interface {
	Reset(ctx context.Context) error
	Steer(ctx context.Context, p bridge.Prompt) error
	Remove(ctx context.Context) error
	Current() bool
}

// ableSession passes them on; after falling over to an agent without them they
// fail, which whoever uses them is prepared for.
type ableSession struct{ *session }

func (s *ableSession) Reset(ctx context.Context) error {
	if a, ok := s.now().(able); ok {
		return a.Reset(ctx)
	}
	return errUnable("forget a conversation")
}

func (s *ableSession) Steer(ctx context.Context, p bridge.Prompt) error {
	if a, ok := s.now().(able); ok {
		return a.Steer(ctx, p)
	}
	return errUnable("be spoken to while a turn runs")
}

func (s *ableSession) Remove(ctx context.Context) error {
	if a, ok := s.now().(able); ok {
		return a.Remove(ctx)
	}
	return s.now().Close(ctx)
}

func (s *ableSession) Current() bool {
	a, ok := s.now().(able)
	return ok && a.Current()
}

// Commands lists slash commands, where there are any.
func (s *ableSession) Commands(ctx context.Context) ([]bridge.Command, error) {
	if c, ok := s.now().(commander); ok {
		return c.Commands(ctx)
	}
	return nil, nil
}

// Invoke runs one of them.
func (s *ableSession) Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error) {
	if c, ok := s.now().(commander); ok {
		return c.Invoke(ctx, name, input)
	}
	return bridge.CommandResult{}, errUnable("run commands")
}

type commander interface {
	Commands(ctx context.Context) ([]bridge.Command, error)
	Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error)
}

// Crowded and Aside are for sessions that know it.
func (s *ableSession) Crowded() bool {
	c, ok := s.now().(sharer)
	return ok && c.Crowded()
}

func (s *ableSession) Aside() bool {
	c, ok := s.now().(sharer)
	return ok && c.Aside()
}

type sharer interface {
	Crowded() bool
	Aside() bool
}

func errUnable(what string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the session cannot " + what}
}
