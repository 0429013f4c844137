package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/agentfiles"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// session is a conversation as far as the runner is told of it.
type session struct {
	agent *Agent
	id    string
	spec  bridge.SessionSpec

	mu      sync.Mutex
	closed  bool
	abort   context.CancelCauseFunc // of the running turn
	done    chan struct{}           // closed when that has ended
	model   string
	effort  string
	said    []said
	history []bridge.Event
}

func newSession(a *Agent, id string, spec bridge.SessionSpec) *session {
	return &session{agent: a, id: id, spec: spec, model: spec.Model, effort: spec.ReasoningEffort}
}

func (s *session) ID() string { return s.id }

var (
	errAborted    = errors.New("aborted")
	errReaderLeft = errors.New("the reader left")
)

func (s *session) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		if err := s.send(ctx, p, func(e bridge.Event) bool { return yield(e, nil) }); err != nil && !errors.Is(err, errReaderLeft) {
			yield(nil, err)
		}
	}
}

func (s *session) send(ctx context.Context, p bridge.Prompt, yield func(bridge.Event) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := agentfiles.Check("runner", s.spec.WorkingDir, s.agent.opts.Trusted); err != nil && s.agent.opts.Program != "" {
		return err
	}
	if s.spec.Gate != nil {
		text, err := s.spec.Gate.Prompt(ctx, p.Text)
		if err != nil {
			return err
		}
		p.Text = text
	}
	request, err := s.request(p)
	if err != nil {
		return err
	}
	turnC, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.begin(cancel); err != nil {
		return err
	}
	defer s.finish()
	t := &turn{session: s, ctx: turnC, yield: yield, began: time.Now(), calls: map[string]begun{}}
	s.mu.Lock()
	s.said = append(s.said, said{"user", p.Text})
	s.history = append(s.history, bridge.Other{Name: "user.message", Data: map[string]any{"content": p.Text}})
	s.mu.Unlock()
	if s.agent.opts.Program == "" {
		return t.explain()
	}
	proc, err := start(s.agent.opts, s.spec.WorkingDir, request)
	if err != nil {
		return s.explainStart(err)
	}
	err = t.follow(proc)
	if errors.Is(context.Cause(turnC), errAborted) {
		return t.end(bridge.EndAborted)
	}
	return err
}

func (s *session) explainStart(err error) error {
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the runner " + s.agent.opts.Program + " did not start", Cause: err,
		Remedy: "correct ABP_COPILOT_RUNNER (or ABP_COPILOT_CMD) and see that it may be executed"}
	if errors.Is(err, program.ErrNotFound) {
		out.Message = "the runner " + s.agent.opts.Program + " was not found"
	}
	return out
}

func (s *session) begin(cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &bridge.Error{Code: bridge.CodeConflict, Message: "the session is closed"}
	case s.abort != nil:
		return &bridge.Error{Code: bridge.CodeConflict, Message: "a turn is already running in this session", Remedy: "wait for it or abort it"}
	}
	s.abort, s.done = cancel, make(chan struct{})
	return nil
}

func (s *session) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort = nil
	close(s.done)
}

// Abort ends the runner of the running turn.
func (s *session) Abort(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abort != nil {
		s.abort(errAborted)
	}
	return nil
}

// Resolve has nothing to answer: there are no tools of the caller.
func (s *session) Resolve(_ context.Context, requestID string, _ bridge.ToolResult) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "no tool call is waiting under " + requestID}
}

// SetModel names another model in the requests to come.
func (s *session) SetModel(_ context.Context, model, effort string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model, s.effort = model, effort
	return nil
}

// History is what was said since the session was opened.
func (s *session) History(context.Context) ([]bridge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]bridge.Event(nil), s.history...), nil
}

// Close ends a turn that runs, and the session.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	running, done := s.abort, s.done
	s.mu.Unlock()
	s.agent.mu.Lock()
	delete(s.agent.open, s)
	s.agent.mu.Unlock()
	if running == nil {
		return nil
	}
	running(errAborted)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing a session: %w", ctx.Err())
	}
}
