package agenttest

import (
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func (h Harness) resume(t *testing.T) {
	if h.lacks(Resumes) {
		ctx, a := h.agent(t)
		_, err := a.Resume(ctx, "11111111-2222-4333-8444-555555555555", bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
		refused(t, "resuming", err)
		return
	}
	t.Run("with its history", func(t *testing.T) {
		dir := t.TempDir()
		ctx, a, s := h.open(t, bridge.SessionSpec{WorkingDir: dir})
		if o := Collect(ctx, s, Say("remember me")); o.Err != nil {
			t.Fatal(o.Err)
		}
		id := s.ID()
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		r, err := a.Resume(ctx, id, bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if r.ID() != id {
			t.Errorf("resumed as %s, was %s", r.ID(), id)
		}
		events, err := r.History(ctx)
		if err != nil || !slices.Contains(texts(events), "remember me") {
			t.Errorf("history %q, %v", texts(events), err)
		}
		if o := Collect(ctx, r, Say("and on")); o.Err != nil || o.Text() != "and on" {
			t.Errorf("%q, %v", o.Text(), o.Err)
		}
	})
	t.Run("an unknown session", func(t *testing.T) {
		ctx, a := h.agent(t)
		_, err := a.Resume(ctx, "11111111-2222-4333-8444-555555555555", bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: t.TempDir()})
		if bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Errorf("resume: %v", err)
		}
	})
	t.Run("list and delete", func(t *testing.T) {
		if h.lacks(Lists) {
			ctx, a := h.agent(t)
			if lister, ok := a.(engine.Lister); ok {
				_, err := lister.List(ctx)
				refused(t, "listing", err)
			}
			return
		}
		ctx, a, s := h.open(t, bridge.SessionSpec{})
		if o := Collect(ctx, s, Say("listed")); o.Err != nil {
			t.Fatal(o.Err)
		}
		lister, ok := a.(engine.Lister)
		if !ok {
			t.Fatalf("%T is no Lister", a)
		}
		has := func() bool {
			list, err := lister.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(list, func(i bridge.SessionInfo) bool { return i.ID == s.ID() })
		}
		if !has() {
			t.Error("the session is not listed")
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if h.lacks(Deletes) {
			refused(t, "deleting", lister.Delete(ctx, s.ID()))
			return
		}
		if err := lister.Delete(ctx, s.ID()); err != nil {
			t.Fatal(err)
		}
		if has() {
			t.Error("the session is listed after it was deleted")
		}
	})
}

func (h Harness) closing(t *testing.T) {
	t.Run("a closed session", func(t *testing.T) {
		ctx, _, s := h.open(t, bridge.SessionSpec{})
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if o := Collect(ctx, s, Say("no")); bridge.CodeOf(o.Err) != bridge.CodeConflict {
			t.Errorf("a turn in it ended with %v", o.Err)
		}
	})
	t.Run("a closed agent", func(t *testing.T) {
		ctx, _ := h.agent(t)
		a := h.start(t)
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileAgent}); bridge.CodeOf(err) != bridge.CodeUnavailable {
			t.Errorf("open: %v", err)
		}
	})
}
