package vscode

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// session is a conversation: all of its messages, sent with every request.
type session struct {
	agent *Agent
	id    string
	spec  bridge.SessionSpec

	mu       sync.Mutex
	closed   bool
	abort    context.CancelCauseFunc // of the running turn
	done     chan struct{}           // closed when that has ended
	model    string
	messages []editor.Message
	history  []bridge.Event
	parked   map[string]chan bridge.ToolResult
	steered  []editor.Part // said while the turn runs, for its next request
	requests int
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
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.spec.Gate != nil {
		text, err := s.spec.Gate.Prompt(ctx, p.Text)
		if err != nil {
			return err
		}
		p.Text = text
	}
	turnCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.begin(cancel); err != nil {
		return err
	}
	t := &turn{session: s, ctx: turnCtx, yield: yield, began: time.Now(), said: len(s.messages), told: len(s.history), mustCall: p.MustCall}
	defer s.finish(t)
	err := t.run(p)
	switch {
	case errors.Is(err, errReaderLeft):
	case errors.Is(context.Cause(turnCtx), errAborted):
		return t.emit(bridge.TurnEnded{Reason: bridge.EndAborted, Usage: t.usage, Duration: time.Since(t.began)})
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
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
	s.abort, s.done, s.steered = cancel, make(chan struct{}), nil
	return nil
}

// finish lets go of a turn. One that has not come to its end is taken out of
// the conversation: calls without results, or a question without an answer,
// are what no model takes.
func (s *session) finish(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.complete {
		s.messages, s.history = s.messages[:t.said:t.said], s.history[:t.told:t.told]
	}
	clear(s.parked)
	s.abort = nil
	close(s.done)
}

// Resolve answers a parked call.
func (s *session) Resolve(_ context.Context, requestID string, r bridge.ToolResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.parked[requestID]
	if !ok {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "no tool call is waiting under " + requestID}
	}
	delete(s.parked, requestID)
	ch <- r // there is room for the one that is awaited
	return nil
}

// Steer adds to what the turn tells the model next, beside the results of
// tools.
func (s *session) Steer(_ context.Context, p bridge.Prompt) error {
	parts, err := userParts(p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abort == nil || len(s.parked) == 0 {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no call is parked in this session"}
	}
	s.steered = append(s.steered, parts...)
	return nil
}

// Abort ends the running turn.
func (s *session) Abort(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abort != nil {
		s.abort(errAborted)
	}
	return nil
}

// SetModel names another model for the turns to come. The effort is the
// editor's own affair.
func (s *session) SetModel(_ context.Context, model, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = model
	return nil
}

// History is what was said since the session was opened or reset.
func (s *session) History(context.Context) ([]bridge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history), nil
}

// Reset forgets the conversation.
func (s *session) Reset(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abort != nil {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "a turn is running in this session"}
	}
	s.messages, s.history = nil, nil
	return nil
}

// Current says whether the editor is still there.
func (s *session) Current() bool {
	select {
	case <-s.agent.opts.Editor.Done():
		return false
	default:
		return true
	}
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
