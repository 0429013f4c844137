package agenttest

import (
	"context"
	"errors"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func (h Harness) turn(t *testing.T) {
	t.Run("streams text and ends", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		o := Collect(ctx, s, Script("chunks one |two |three", "usage 7 3"))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if o.Text() != "one two three" || o.Deltas() != "one two three" {
			t.Errorf("text %q, deltas %q", o.Text(), o.Deltas())
		}
		if o.reason() != bridge.EndDone {
			t.Errorf("the last event is %#v", o.Events[len(o.Events)-1])
		}
		end := Find[bridge.TurnEnded](o)
		if len(end) != 1 || end[0].Usage.InputTokens != 7 || end[0].Usage.OutputTokens != 3 || end[0].Usage.Calls != 1 {
			t.Errorf("turn ended with %+v", end)
		}
	})
	t.Run("goes on in the same session", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		for _, word := range []string{"first", "second"} {
			if o := Collect(ctx, s, Say(word)); o.Err != nil || o.Text() != word {
				t.Fatalf("%s: %q, %v", word, o.Text(), o.Err)
			}
		}
		events, err := s.History(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(events); len(got) != 2 || got[0] != "first" || got[1] != "second" {
			t.Errorf("history holds %q", got)
		}
	})
	t.Run("one at a time", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		turn, cancel := context.WithCancel(ctx)
		defer cancel()
		for ev, err := range s.Send(turn, Script("text wait", "silence")) {
			if err != nil {
				break // our own cancel
			}
			if _, ok := ev.(bridge.TextDelta); !ok {
				continue
			}
			if o := Collect(ctx, s, Say("no")); bridge.CodeOf(o.Err) != bridge.CodeConflict {
				t.Errorf("a second turn ended with %v", o.Err)
			}
			cancel()
		}
	})
	t.Run("the gate may rewrite or refuse the prompt", func(t *testing.T) {
		refuse := errors.New("not that")
		g := &Gate{PromptFunc: func(p string) (string, error) {
			if p == "forbidden" {
				return "", refuse
			}
			return "rehearsal: text rewritten", nil
		}}
		ctx, _, s := h.open(t, bridge.SessionSpec{Gate: g})
		if o := Collect(ctx, s, bridge.Prompt{Text: "anything"}); o.Err != nil || o.Text() != "rewritten" {
			t.Errorf("%q, %v", o.Text(), o.Err)
		}
		if o := Collect(ctx, s, bridge.Prompt{Text: "forbidden"}); !errors.Is(o.Err, refuse) {
			t.Errorf("refused prompt ended with %v", o.Err)
		}
	})
	t.Run("a failing model is reported", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		var seen *bridge.Error
		for ev, err := range s.Send(ctx, Script("status 400 bad words")) {
			if e, ok := ev.(bridge.ModelFailed); ok {
				seen = e.Error
			} else if err != nil && seen == nil {
				seen = bridge.AsError(err)
			}
			if seen != nil {
				break
			}
		}
		if seen == nil || seen.Code != bridge.CodeProvider || seen.Status != 400 {
			t.Errorf("reported as %+v", seen)
		}
		if o := Collect(ctx, s, Say("fine again")); o.Err != nil || o.Text() != "fine again" {
			t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
		}
	})
}

func texts(events []bridge.Event) []string {
	var out []string
	for _, ev := range events {
		if m, ok := ev.(bridge.MessageDone); ok && m.Text != "" {
			out = append(out, m.Text)
		}
	}
	return out
}

func (h Harness) cancel(t *testing.T) {
	again := func(t *testing.T, ctx context.Context, s bridge.Session) {
		t.Helper()
		if o := Collect(ctx, s, Say("still here")); o.Err != nil || o.Text() != "still here" {
			t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
		}
	}
	started := func(ev bridge.Event) bool { _, ok := ev.(bridge.TextDelta); return ok }

	t.Run("by abort", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		var o Outcome
		for ev, err := range s.Send(ctx, Script("text begin", "silence")) {
			if err != nil {
				o.Err = err
				continue
			}
			o.Events = append(o.Events, ev)
			if started(ev) {
				if err := s.Abort(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if o.Err != nil || o.reason() != bridge.EndAborted {
			t.Errorf("ended with %v, %v", o.reason(), o.Err)
		}
		again(t, ctx, s)
	})
	t.Run("by abort, before the agent has the prompt", func(t *testing.T) {
		var s bridge.Session
		gate := AllowAll()
		gate.PromptFunc = func(text string) (string, error) {
			return text, s.Abort(context.Background())
		}
		ctx, _, opened := h.open(t, bridge.SessionSpec{Gate: gate})
		s = opened
		if o := Collect(ctx, s, Script("silence")); o.Err != nil || o.reason() != bridge.EndAborted {
			t.Errorf("ended with %v, %v", o.reason(), o.Err)
		}
		gate.PromptFunc = nil
		again(t, ctx, s)
	})
	t.Run("by context", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		why := &bridge.Error{Code: bridge.CodeTimeout, Message: "enough"}
		turn, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var last error
		for ev, err := range s.Send(turn, Script("text begin", "silence")) {
			last = err
			if err == nil && started(ev) {
				cancel(why)
			}
		}
		if !errors.Is(last, why) {
			t.Errorf("ended with %v, want the cause", last)
		}
		again(t, ctx, s)
	})
	t.Run("by leaving the loop", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		for ev, err := range s.Send(ctx, Script("text begin", "silence")) {
			if err != nil {
				t.Fatal(err)
			}
			if started(ev) {
				break
			}
		}
		again(t, ctx, s)
	})
	t.Run("before it began", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if o := Collect(gone, s, Say("no")); !errors.Is(o.Err, context.Canceled) || len(o.Events) > 0 {
			t.Errorf("%d events, %v", len(o.Events), o.Err)
		}
		again(t, ctx, s)
	})
	t.Run("without a turn", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		if err := s.Abort(ctx); err != nil {
			t.Errorf("abort: %v", err)
		}
		again(t, ctx, s)
	})
}
