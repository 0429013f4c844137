package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
)

// turn is one run of Session.Send, on the caller's goroutine.
type turn struct {
	session *Session
	door    string
	seat    *Seat
	watch   *watch // of the running attempt; guarded by session.mu
	began   time.Time
	yield   func(bridge.Event, error) bool
	left    bool // the caller has left the loop
	moved   bool // something happened that must not happen twice
	usage   bridge.Usage
}

func (t *turn) run(ctx context.Context, p bridge.Prompt) (err error) {
	s := t.session
	if t.seat == nil {
		if t.seat, err = s.engine.Admit(ctx); err != nil {
			return err
		}
	}
	defer t.seat.Close()
	if s.request.Title == "" {
		s.request.Title = s.TitleOf(p.Text)
	}
	defer func() { err = t.account(ctx, err) }()
	for attempt := 0; ; attempt++ {
		err := t.attempt(ctx, p)
		if bridge.CodeOf(err) != bridge.CodeCrashed {
			return err
		}
		s.markStale()
		if s.request.Ephemeral {
			return err
		}
		// A runtime that was dead before the turn began has done nothing yet;
		// anything else is the caller's to judge.
		if t.moved || t.left || attempt > 0 {
			return err
		}
		s.engine.opts.Logger.Info("the runtime was gone; the session is resumed", "session", s.ID())
	}
}

// attempt sends the prompt once and passes the events on.
func (t *turn) attempt(ctx context.Context, p bridge.Prompt) error {
	s := t.session
	inner, err := s.live(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(s.engine.opts.Limits, cancel)
	defer w.stop()
	s.attend(t, w)
	defer s.attend(nil, nil)
	for ev, err := range inner.Send(ctx, p) {
		if err != nil {
			return err
		}
		w.see(ev)
		if _, ok := ev.(bridge.ToolRequested); ok {
			t.seat.Leave() // until Resolve
		}
		if err := t.judge(ev); err != nil {
			// Leaving the loop aborts the turn in the agent.
			return err
		}
		if !t.yield(ev, nil) {
			t.left = true
			return &bridge.Error{Code: bridge.CodeCanceled, Message: "the caller left"}
		}
		w.seen()
	}
	return nil
}

// judge counts, and ends the turn when a bound is passed or when trying again
// makes no sense. The agent's runtime retries by itself, so to stop it is all
// that there is to do.
func (t *turn) judge(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.ModelCalled, bridge.TextDelta, bridge.ReasoningDelta, bridge.ToolStarted, bridge.ToolRequested:
		t.moved = true
	case bridge.ModelFailed:
		t.moved = true
		if e.Attempt > bridge.Classify(e.Error).Retries(t.session.engine.opts.Limits.MaxRetries) {
			return gaveUp(e)
		}
	case bridge.UsageReported:
		t.usage = t.usage.Add(e.Usage)
		t.session.engine.usage.add(t.door, e.Usage)
		return t.session.request.Budget.check(t.usage)
	default:
	}
	return nil
}

func gaveUp(e bridge.ModelFailed) error {
	out := *e.Error
	if e.Attempt > 1 {
		out.Message = fmt.Sprintf("%s (gave up after %d attempts)", out.Message, e.Attempt)
	}
	return &out
}

func (b Budget) check(u bridge.Usage) error {
	over := func(what string, limit any) error {
		return &bridge.Error{Code: bridge.CodeBudget, Message: fmt.Sprintf("the turn has used up its budget of %v %s", limit, what)}
	}
	switch {
	case b.ModelCalls > 0 && u.Calls > b.ModelCalls:
		return over("model calls", b.ModelCalls)
	case b.Tokens > 0 && u.InputTokens+u.OutputTokens > b.Tokens:
		return over("tokens", b.Tokens)
	case b.Cost > 0 && u.Cost > b.Cost:
		return over("cost", b.Cost)
	}
	return nil
}

// account adds the turn to the session and the list. The list is not worth
// failing a turn for that went well, but the caller should know.
func (t *turn) account(ctx context.Context, turnErr error) error {
	s := t.session
	s.mu.Lock()
	s.usage = s.usage.Add(t.usage)
	s.fresh.turns++
	s.fresh.usage = s.fresh.usage.Add(t.usage)
	s.mu.Unlock()
	state := sessionstore.StateIdle
	if turnErr != nil {
		state = sessionstore.StateFailed
	}
	if err := s.record(ctx, state); err != nil {
		s.engine.opts.Logger.Warn("the list of sessions could not be written", "error", err)
	}
	return turnErr
}

// title is the first line of a prompt, short enough for a list.
func title(prompt string) string {
	const most = 72
	runes := []rune(firstLine(prompt))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' || r == '\r' {
			if i > 0 {
				return s[:i]
			}
			return firstLine(s[1:])
		}
	}
	return s
}
