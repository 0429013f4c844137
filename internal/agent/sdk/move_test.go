//go:build unix

package sdk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// talk runs a turn, answering calls of the client's tools.
func talk(t *testing.T, ctx context.Context, s bridge.Session, p bridge.Prompt) {
	t.Helper()
	for ev, err := range s.Send(ctx, p) {
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := ev.(bridge.ToolRequested); ok {
			if err := s.Resolve(ctx, r.RequestID, bridge.ToolResult{Text: "seen"}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A conversation that is moved goes on as if it had stayed: the model is sent
// what it was sent before, to the letter, and what is new after it.
func TestMove(t *testing.T) {
	ctx, s, m := chatSession(t)
	a, old, pid := s.host.agent, s.proc, s.proc.tree.ProgramPID()
	talk(t, ctx, s, agenttest.Say("one"))
	talk(t, ctx, s, agenttest.Script(`tool look {"a":1}`, "tool listen {}", "next", "text done"))
	if err := a.Rotate(ctx, bridge.ProfileChat); err != nil {
		t.Fatal(err)
	}
	if s.Current() {
		t.Error("a session of the old runtime is taken for one of the new")
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the old runtime has ended before its session: %v", err)
	}
	moved, err := s.Move(ctx)
	if err != nil {
		t.Fatal(err)
	}
	next, ok := moved.(*session)
	if !ok || !next.Current() || next.proc == old || next.ID() != s.ID() {
		t.Fatalf("it was moved to %+v", moved)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the old runtime is still there: %v", err)
	}
	talk(t, ctx, moved, agenttest.Say("three"))
	sent := m.Requests()
	before, after := sent[len(sent)-2], sent[len(sent)-1]
	n := len(before.Messages)
	if n < 6 || len(after.Messages) != n+2 || !reflect.DeepEqual(after.Messages[:n], before.Messages) || !reflect.DeepEqual(after.Tools, before.Tools) {
		t.Errorf("the model was sent\n%s\nand now\n%s", before.Raw, after.Raw)
	}
	// And it can be emptied for somebody else.
	if err := next.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	talk(t, ctx, moved, agenttest.Say("four"))
	sent = m.Requests()
	if last := sent[len(sent)-1]; len(last.Messages) != len(sent[0].Messages) {
		t.Errorf("after a reset the model was sent\n%s", last.Raw)
	}
}

// One that cannot be moved is of no more use, and nothing of it stays.
func TestMoveFails(t *testing.T) {
	ctx, s, _ := chatSession(t)
	talk(t, ctx, s, agenttest.Say("one"))
	if err := s.host.agent.Rotate(ctx, bridge.ProfileChat); err != nil {
		t.Fatal(err)
	}
	here, there := stateOf(s.proc.home, s.ID()), stateOf(s.host.present.Load().home, s.ID())
	if err := os.MkdirAll(filepath.Join(there, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Move(ctx); err == nil {
		t.Fatal("it was moved to a place that is taken")
	}
	if err := s.Remove(ctx); err != nil {
		t.Errorf("what is left of it: %v", err)
	}
	for _, at := range []string{here, there} {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", at, err)
		}
	}
}

// What has not arrived is noticed.
func TestMoveIsChecked(t *testing.T) {
	ctx, s, _ := chatSession(t)
	talk(t, ctx, s, agenttest.Say("one"))
	history, err := s.sdk.GetEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.knows(ctx, history); err != nil {
		t.Errorf("with everything there: %v", err)
	}
	talk(t, ctx, s, agenttest.Say("two"))
	if err := s.knows(ctx, history); err != nil {
		t.Errorf("with more than that: %v", err)
	}
	if history, err = s.sdk.GetEvents(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.knows(ctx, history); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Errorf("with events lost: %v", err)
	}
}

// In quiet times one runtime is left. What has grown is replaced, but not by
// each look at it, and what a crowd needs again stays.
func TestShrink(t *testing.T) {
	ctx, s, m := chatSession(t)
	a, first := s.host.agent, s.proc
	provider := bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}
	shrink := func(want bool) {
		t.Helper()
		if renewed, err := a.Shrink(ctx, bridge.ProfileChat, 1.5); err != nil || renewed != want {
			t.Fatalf("replaced: %v, %v", renewed, err)
		}
	}
	widen := func() {
		t.Helper()
		if err := a.Widen(ctx, bridge.ProfileChat, provider, m.Model()); err != nil {
			t.Fatal(err)
		}
	}
	talk(t, ctx, s, agenttest.Say("one"))
	shrink(false)
	widen()
	shrink(false)
	if pids := a.ProgramPIDs(bridge.ProfileChat); len(pids) != 1 {
		t.Errorf("runtimes %v: the second has nothing to do", pids)
	}
	widen()
	second, err := a.Open(ctx, s.spec)
	if err != nil {
		t.Fatal(err)
	}
	aside, ok := second.(*session)
	if !ok || !aside.Aside() || !aside.Current() {
		t.Fatalf("it was opened as %+v", second)
	}
	talk(t, ctx, aside, agenttest.Say("two")) // before that there is nothing to move
	shrink(false)
	if aside.Current() {
		t.Error("a session in a runtime that is to end is not asked to go")
	}
	widen()
	if !aside.Current() || len(a.ProgramPIDs(bridge.ProfileChat)) != 2 {
		t.Errorf("runtimes %v: the second is needed again", a.ProgramPIDs(bridge.ProfileChat))
	}
	shrink(false)
	if _, err := aside.Move(ctx); err != nil {
		t.Error(err)
	}
	if pids := a.ProgramPIDs(bridge.ProfileChat); len(pids) != 1 {
		t.Errorf("runtimes %v: the second has nothing to do", pids)
	}
	if first.young.Load() < 1<<20 || first.served.Load() < 1 {
		t.Errorf("it held %d bytes after %d turns", first.young.Load(), first.served.Load())
	}
	first.young.Store(first.resident() / 2)
	shrink(false) // too early
	first.served.Store(grownTurns)
	shrink(true)
	if s.host.present.Load() == first {
		t.Error("it is still the old one")
	}
	shrink(false)
}

// Without the runtime that it is in a session cannot be moved, and no other
// one is started to find that out.
func TestMoveFromADeadRuntime(t *testing.T) {
	ctx, s, _ := chatSession(t)
	talk(t, ctx, s, agenttest.Say("one"))
	if err := syscall.Kill(s.proc.tree.ProgramPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Move(ctx); bridge.CodeOf(err) != bridge.CodeCrashed {
		t.Errorf("moved with %v", err)
	}
	if _, err := s.Move(ctx); bridge.CodeOf(err) != bridge.CodeCrashed {
		t.Errorf("moved again with %v", err)
	}
	if s.host.present.Load() != nil {
		t.Error("another runtime was started")
	}
	if err := s.Remove(ctx); err != nil {
		t.Errorf("what is left of it: %v", err)
	}
}
