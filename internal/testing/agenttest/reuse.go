package agenttest

import (
	"context"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// reuse is the contract of sessions that another caller may reuse. An agent
// without such sessions is not tested.
func (h Harness) reuse(t *testing.T) {
	if h.lacks(Chats) {
		ctx, a := h.agent(t)
		_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileChat, WorkingDir: t.TempDir()})
		refused(t, "a chat", err)
		return
	}
	empty := func(t *testing.T, ctx context.Context, s bridge.Session) {
		t.Helper()
		r, ok := s.(engine.Resetter)
		if !ok {
			return
		}
		if err := r.Reset(ctx); err != nil {
			t.Fatalf("reset: %v", err)
		}
		events, err := s.History(ctx)
		if err != nil || len(texts(events)) > 0 {
			t.Errorf("after a reset the history holds %q, %v", texts(events), err)
		}
		if o := Collect(ctx, s, Say("fresh")); o.Err != nil || o.Text() != "fresh" {
			t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
		}
		if events, err := s.History(ctx); err != nil || len(texts(events)) != 1 {
			t.Errorf("then the history holds %q, %v", texts(events), err)
		}
	}
	t.Run("after turns", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{Profile: bridge.ProfileChat})
		for _, word := range []string{"one", "two"} {
			if o := Collect(ctx, s, Say(word)); o.Err != nil {
				t.Fatal(o.Err)
			}
		}
		empty(t, ctx, s)
		empty(t, ctx, s)
	})
	t.Run("after an abort", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{Profile: bridge.ProfileChat})
		for ev, err := range s.Send(ctx, Script("text begin", "silence")) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := ev.(bridge.TextDelta); ok {
				break
			}
		}
		empty(t, ctx, s)
	})
	t.Run("after it was resumed", func(t *testing.T) {
		if h.lacks(Resumes) {
			return // see Resume
		}
		ctx, a, s := h.open(t, bridge.SessionSpec{Profile: bridge.ProfileChat})
		if o := Collect(ctx, s, Say("before")); o.Err != nil {
			t.Fatal(o.Err)
		}
		id := s.ID()
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		r, err := a.Resume(ctx, id, bridge.SessionSpec{Profile: bridge.ProfileChat})
		if err != nil {
			t.Fatal(err)
		}
		if o := Collect(ctx, r, Say("after")); o.Err != nil {
			t.Fatal(o.Err)
		}
		empty(t, ctx, r)
	})
	t.Run("not beside a turn", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{Profile: bridge.ProfileChat})
		r, ok := s.(engine.Resetter)
		if !ok {
			return
		}
		for ev, err := range s.Send(ctx, Script("text begin", "silence")) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := ev.(bridge.TextDelta); ok {
				if err := r.Reset(ctx); bridge.CodeOf(err) != bridge.CodeConflict {
					t.Errorf("reset: %v", err)
				}
				break
			}
		}
	})
	t.Run("steered while a call is parked", func(t *testing.T) {
		if h.lacks(ClientTools) {
			return // there are no such calls; see ClientTools
		}
		ctx, _, s := h.open(t, bridge.SessionSpec{Profile: bridge.ProfileChat, Tools: []bridge.ToolSpec{{Name: "look"}}})
		st, ok := s.(engine.Steerer)
		if !ok {
			return
		}
		if err := st.Steer(ctx, bridge.Prompt{Text: "x"}); bridge.CodeOf(err) != bridge.CodeConflict {
			t.Errorf("without a turn: %v", err)
		}
		for ev, err := range s.Send(ctx, Script("tool look {}", "next", "text on")) {
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := ev.(bridge.ToolRequested); ok {
				if err := st.Steer(ctx, Say("steered")); err != nil {
					t.Error(err)
				}
				if err := s.Resolve(ctx, r.RequestID, bridge.ToolResult{Text: "x"}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Run("removed", func(t *testing.T) {
		ctx, a, s := h.open(t, bridge.SessionSpec{Profile: bridge.ProfileChat})
		rm, ok := s.(engine.Remover)
		if !ok {
			return
		}
		if o := Collect(ctx, s, Say("x")); o.Err != nil {
			t.Fatal(o.Err)
		}
		if err := rm.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Resume(ctx, s.ID(), bridge.SessionSpec{Profile: bridge.ProfileChat}); bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Errorf("resume: %v", err)
		}
	})
}
