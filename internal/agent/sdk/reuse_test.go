//go:build unix

package sdk

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// chatSession opens a chat with two tools in one of two runtimes.
func chatSession(t *testing.T) (context.Context, *session, *demomodel.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
	t.Cleanup(cancel)
	m := programtest.Model(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Runtime: runtimetest.Path(t), Runtimes: 2, Home: t.TempDir(), Records: t.TempDir(), Self: self, Env: os.Environ(), Version: "test",
		Provider: &bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, Model: m.Model()})
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileChat, WorkingDir: t.TempDir(), Tools: []bridge.ToolSpec{{Name: "look"}, {Name: "listen"}}})
	if err != nil {
		t.Fatal(err)
	}
	own, ok := s.(*session)
	if !ok {
		t.Fatalf("the session is a %T", s)
	}
	return ctx, own, m
}

// A reset trusts its own count of what the runtime stores, so the count has to
// be right, and it must have been worth it: where nothing is odd, there is no
// doubt.
func TestKeptEventsAreCounted(t *testing.T) {
	ctx, s, _ := chatSession(t)
	check := func(what string) {
		t.Helper()
		events, err := s.sdk.GetEvents(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stored := 0
		for _, e := range events {
			if stored > 0 || e.ID == s.firstMessageID {
				stored++
			}
		}
		if s.storedEvents != stored || s.resetUnsafe || what != "reset" && stored < 3 {
			t.Errorf("%s: counted %d of %d stored events, doubt %v", what, s.storedEvents, stored, s.resetUnsafe)
		}
		if left := len(events) - stored; left > 2 {
			t.Errorf("%s: %d events stand before the conversation", what, left)
		}
	}
	calls := agenttest.Script("tool look {}", "tool listen {}", "next", "text done")
	for range 2 {
		for what, p := range map[string]bridge.Prompt{"a turn": agenttest.Say("one"), "a turn with calls": calls} {
			for ev, err := range s.Send(ctx, p) {
				if err != nil {
					t.Fatal(err)
				}
				if r, ok := ev.(bridge.ToolRequested); ok {
					if err := s.Resolve(ctx, r.RequestID, bridge.ToolResult{Text: "x"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			check(what)
		}
		if err := s.Reset(ctx); err != nil {
			t.Fatal(err)
		}
		check("reset")
	}
}

// What the runtime has not removed, for whatever reason, is found.
func TestResetLeavesNothing(t *testing.T) {
	ctx, s, _ := chatSession(t)
	say := func(word string) {
		t.Helper()
		if o := agenttest.Collect(ctx, s, agenttest.Say(word)); o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	say("one")
	first := s.firstMessageID
	s.firstMessageID = ""
	say("two")
	if s.firstMessageID == first || s.firstMessageID == "" {
		t.Fatalf("the conversation begins with %q", s.firstMessageID)
	}
	err := s.Reset(ctx) // from the second turn on
	if bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), "still holds") {
		t.Errorf("with a turn left: %v", err)
	}
	s.firstMessageID = first
	if err := s.Reset(ctx); err != nil {
		t.Errorf("with nothing left, and a count that is wrong: %v", err)
	}
}

// A turn that did not end well is no ground for trust.
func TestAbortedTurnsAreDoubted(t *testing.T) {
	ctx, s, _ := chatSession(t)
	for ev, err := range s.Send(ctx, agenttest.Script("text begin", "silence")) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(bridge.TextDelta); ok {
			break
		}
	}
	if !s.resetUnsafe {
		t.Error("an aborted turn is taken for a good one")
	}
	if err := s.Reset(ctx); err != nil || s.resetUnsafe {
		t.Errorf("the reset: %v, doubt %v", err, s.resetUnsafe)
	}
}
