package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// A turn that waits for its caller's own tools leaves its place to others, and
// continues only when there is room.
func TestParkedTurnLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := open(t, engine.Options{Limits: engine.Limits{MaxConcurrent: 1, TotalTimeout: 3 * time.Minute}},
			engine.Request{Spec: bridge.SessionSpec{Tools: []bridge.ToolSpec{{Name: "look"}}}})
		other, err := e.Open(t.Context(), engine.Request{})
		if err != nil {
			t.Fatal(err)
		}
		requests := make(chan string, 2)
		first := make(chan outcome, 1)
		go func() {
			var o outcome
			for ev, err := range s.Send(t.Context(), script("tool look {}", "tool look {}", "next", "delay 2m", "text on")) {
				if r, ok := ev.(bridge.ToolRequested); ok {
					requests <- r.RequestID
				}
				o.err = err
			}
			first <- o
		}()
		ids := []string{<-requests, <-requests}
		// The caller takes longer than a turn may.
		<-time.After(4 * time.Minute)
		if o := turn(t.Context(), other, agenttest.Say("meanwhile")); o.err != nil {
			t.Errorf("another turn: %v", o.err)
		}
		// Another turn runs now, so the results have to wait.
		second := make(chan outcome, 1)
		go func() { second <- turn(t.Context(), other, script("delay 1m", "text slow")) }()
		synctest.Wait()
		hurry, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Resolve(hurry, ids[0], bridge.ToolResult{Text: "x"}); bridge.CodeOf(err) != bridge.CodeTimeout {
			t.Errorf("resolved without a place: %v", err)
		}
		for _, id := range ids {
			if err := s.Resolve(t.Context(), id, bridge.ToolResult{Text: "x"}); err != nil {
				t.Error(err)
			}
		}
		if o := <-second; o.err != nil {
			t.Error(o.err)
		}
		if o := turn(t.Context(), other, agenttest.Say("no room")); bridge.CodeOf(o.err) != bridge.CodeBusy {
			t.Errorf("the place was not taken again: %v", o.err)
		}
		if o := <-first; o.err != nil {
			t.Errorf("the parked turn: %v", o.err)
		}
		if o := turn(t.Context(), other, agenttest.Say("free")); o.err != nil {
			t.Errorf("in the end: %v", o.err)
		}
	})
}

// An abort while the results wait for a place loses no place.
func TestParkedTurnAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := open(t, engine.Options{Limits: engine.Limits{MaxConcurrent: 1}}, engine.Request{Spec: bridge.SessionSpec{Tools: []bridge.ToolSpec{{Name: "look"}}}})
		other, err := e.Open(t.Context(), engine.Request{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		requests := make(chan string, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ev := range s.Send(ctx, script("tool look {}", "next", "text on")) {
				if r, ok := ev.(bridge.ToolRequested); ok {
					requests <- r.RequestID
				}
			}
		}()
		id := <-requests
		slow := make(chan outcome, 1)
		go func() { slow <- turn(t.Context(), other, script("delay 1m", "text slow")) }()
		synctest.Wait()
		resolved := make(chan error, 1)
		go func() { resolved <- s.Resolve(t.Context(), id, bridge.ToolResult{}) }()
		synctest.Wait()
		cancel()
		<-ended
		<-slow
		<-resolved
		for range 2 {
			if o := turn(t.Context(), other, agenttest.Say("free")); o.err != nil {
				t.Errorf("a place was lost: %v", o.err)
			}
		}
	})
}

func TestEphemeralSessionsAreNotResumed(t *testing.T) {
	a := agenttest.NewScripted()
	_, s := open(t, engine.Options{Agent: a}, engine.Request{Ephemeral: true})
	if !s.Current() {
		t.Error("a new session is not current")
	}
	for _, p := range []bridge.Prompt{script("crash"), agenttest.Say("x")} {
		if o := turn(t.Context(), s, p); bridge.CodeOf(o.err) != bridge.CodeCrashed {
			t.Errorf("ended with %v", o.err)
		}
	}
	if _, resumed := a.Counts(); resumed != 0 || s.Current() {
		t.Errorf("resumed %d times, current %v", resumed, s.Current())
	}
	if err := s.Discard(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := a.List(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestAdmitAndServe(t *testing.T) {
	e, s := open(t, engine.Options{Limits: engine.Limits{MaxConcurrent: 1}}, engine.Request{Door: "a"})
	seat, err := e.Admit(t.Context(), bridge.ProfileAgent, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Admit(t.Context(), bridge.ProfileAgent, "a"); bridge.CodeOf(err) != bridge.CodeBusy {
		t.Errorf("a second one: %v", err)
	}
	s.Serve("b")
	for _, err := range s.SendSeated(t.Context(), seat, script("usage 1 2", "text x")) {
		if err != nil {
			t.Error(err)
		}
	}
	if seat, err = e.Admit(t.Context(), bridge.ProfileAgent, "a"); err != nil {
		t.Errorf("the seat was not given back: %v", err)
	}
	seat.Close()
	seat.Close()
	if rows := e.Usage(); len(rows) != 1 || rows[0].Door != "b" {
		t.Errorf("usage %+v", rows)
	}
}

// keeper is an agent that can list its sessions, but not delete them.
type keeper struct{ engine.Agent }

func (keeper) List(context.Context) ([]bridge.SessionInfo, error) { return nil, nil }
func (keeper) Delete(context.Context, string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "it keeps them"}
}

// plainSession hides the optional abilities of a session.
type plainSession struct{ bridge.Session }

func (k keeper) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	s, err := k.Agent.Open(ctx, spec)
	return plainSession{s}, err
}

func TestDiscardWithoutDeleting(t *testing.T) {
	e := engine.New(engine.Options{Agent: keeper{agenttest.NewScripted()}})
	s, err := e.Open(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Discard(t.Context()); err != nil {
		t.Errorf("discard: %v", err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
