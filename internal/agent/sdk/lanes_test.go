//go:build unix

package sdk_test

import (
	"context"
	"sync"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// widened opens a session and then a second lane.
func widened(t *testing.T) (context.Context, *sdk.Agent, bridge.Session) {
	t.Helper()
	ctx, a, m := start(t, nil)
	if err := widen(ctx, a, m); err != nil || len(a.ProgramPIDs(bridge.ProfileChat)) != 0 {
		t.Fatalf("a lane beside none: %v, %v", a.ProgramPIDs(bridge.ProfileChat), err)
	}
	first := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
	if err := widen(ctx, a, m); err != nil {
		t.Fatal(err)
	}
	if pids := a.ProgramPIDs(bridge.ProfileChat); len(pids) != 2 || pids[0] == pids[1] || pids[1] == 0 {
		t.Fatalf("runtimes %v", pids)
	}
	return ctx, a, first
}

func widen(ctx context.Context, a *sdk.Agent, m *rehearsal.Server) error {
	return a.Widen(ctx, bridge.ProfileChat, bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, m.Model())
}

func crowded(t *testing.T, s bridge.Session) bool {
	t.Helper()
	c, ok := s.(engine.Sharer)
	if !ok {
		t.Fatal("the session does not know its share")
	}
	return c.Crowded()
}

func TestSecondLane(t *testing.T) {
	ctx, a, first := widened(t)
	pids := a.ProgramPIDs(bridge.ProfileChat)
	var others []bridge.Session
	for range 7 {
		others = append(others, openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat}))
	}
	// Eight sessions, four a lane: whose runtime dies takes half of them along.
	if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, first, agenttest.Say("here")); o.Err != nil {
		t.Errorf("a session of the first runtime: %v", o.Err)
	}
	var left, lost []bridge.Session
	for _, s := range others {
		if o := agenttest.Collect(ctx, s, agenttest.Say("hello")); o.Err == nil {
			left = append(left, s)
		} else if bridge.CodeOf(o.Err) == bridge.CodeCrashed {
			lost = append(lost, s)
		} else {
			t.Error(o.Err)
		}
	}
	if len(left) != 3 || len(lost) != 4 {
		t.Errorf("%d sessions are left and %d lost", len(left), len(lost))
	}
	if !crowded(t, first) {
		t.Error("four sessions against none are not too many")
	}
	for range 4 { // the lane is started anew, and evened out
		if o := agenttest.Collect(ctx, openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat}), agenttest.Say("hello")); o.Err != nil {
			t.Error(o.Err)
		}
	}
	if crowded(t, first) {
		t.Error("four sessions against four are too many")
	}
	if now := a.ProgramPIDs(bridge.ProfileChat); len(now) != 2 || now[0] != pids[0] || now[1] == pids[1] {
		t.Errorf("runtimes %v, were %v", now, pids)
	}
}

// The second runtime ends with its last session, whoever closes it; the first
// one stays.
func TestSecondLaneEnds(t *testing.T) {
	ctx, a, first := widened(t)
	pids := a.ProgramPIDs(bridge.ProfileChat)
	var wg sync.WaitGroup
	for range 6 {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
		r, ok := s.(engine.Remover)
		if !ok {
			t.Fatal("a session cannot be removed")
		}
		wg.Go(func() {
			if o := agenttest.Collect(ctx, s, agenttest.Say("hello")); o.Err != nil {
				t.Error(o.Err)
			}
			if err := r.Remove(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if now := a.ProgramPIDs(bridge.ProfileChat); len(now) != 1 || now[0] != pids[0] {
		t.Errorf("runtimes %v, were %v", now, pids)
	}
	for syscall.Kill(pids[1], 0) == nil {
		if ctx.Err() != nil {
			t.Fatal("the second runtime still runs")
		}
	}
	if o := agenttest.Collect(ctx, first, agenttest.Say("here")); o.Err != nil {
		t.Error(o.Err)
	}
}

// There are never more than are of use.
func TestMostLanes(t *testing.T) {
	ctx, a, m := start(t, nil)
	openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
	for range 4 {
		if err := widen(ctx, a, m); err != nil {
			t.Fatal(err)
		}
	}
	if pids := a.ProgramPIDs(bridge.ProfileChat); len(pids) != 3 {
		t.Errorf("runtimes %v", pids)
	}
}
