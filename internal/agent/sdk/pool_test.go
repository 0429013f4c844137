//go:build unix

package sdk

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// One runtime serves a few; more turns are spread over all of them. One that
// dies takes its own sessions along and no others, and is started anew.
func TestSessionsAreSpread(t *testing.T) {
	t.Parallel()
	ctx, s, m := chatSession(t)
	a := s.host.agent
	release := make(chan struct{})
	m.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		return demomodel.Reply{demomodel.WaitFor(release), demomodel.Text("hello")}, true
	})
	ends := make(chan error, 100)
	open := func(n int) {
		t.Helper()
		for range n {
			next, err := a.Open(ctx, s.Spec)
			if err != nil {
				t.Fatal(err)
			}
			before := len(m.Requests())
			go func() { ends <- agenttest.Collect(ctx, next, bridge.Prompt{Text: "hi"}).Err }()
			for len(m.Requests()) == before && ctx.Err() == nil {
				<-time.After(time.Millisecond)
			}
		}
	}
	open(alone)
	if pids := a.ProgramPIDs(bridge.ProfileChat); len(pids) != 2 || pids[0] == 0 || pids[1] != 0 {
		t.Fatalf("runtimes %v for a few", pids)
	}
	open(8 - alone)
	pids := a.ProgramPIDs(bridge.ProfileChat)
	for _, h := range a.hosts[bridge.ProfileChat] {
		if n := h.busy(); n != 4 {
			t.Errorf("of 8 turns a runtime has %d", n)
		}
	}
	if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := <-ends; bridge.CodeOf(err) != bridge.CodeCrashed {
			t.Errorf("a turn of the dead runtime: %v", err)
		}
	}
	open(2)
	close(release)
	for range 6 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if now := a.ProgramPIDs(bridge.ProfileChat); now[0] != pids[0] || now[1] == pids[1] || now[1] == 0 {
		t.Errorf("runtimes %v, were %v", now, pids)
	}
	// Agents have one.
	if _, _, done, err := a.quietest(ctx, bridge.ProfileAgent); err != nil || len(a.ProgramPIDs(bridge.ProfileAgent)) != 1 {
		t.Errorf("agents' runtimes %v, %v", a.ProgramPIDs(bridge.ProfileAgent), err)
	} else {
		done()
	}
}

// A runtime that has grown is replaced; it ends with its last session.
func TestRecycle(t *testing.T) {
	t.Parallel()
	ctx, s, _ := chatSession(t)
	a, first, pid := s.host.agent, s.proc, s.proc.tree.ProgramPID()
	recycle := func(above int64, grown float64, want bool) {
		t.Helper()
		if replaced := a.Recycle(bridge.ProfileChat, above, grown); replaced != want {
			t.Fatalf("replaced: %v", replaced)
		}
	}
	if o := agenttest.Collect(ctx, s, agenttest.Say("one")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if first.young.Load() < 1<<20 || first.served.Load() != 1 {
		t.Errorf("it held %d bytes after %d turns", first.young.Load(), first.served.Load())
	}
	recycle(1<<40, 0, false)
	first.young.Store(first.resident() / 2)
	recycle(math.MaxInt64, 1.5, false) // too early
	first.served.Store(grownTurns)
	recycle(math.MaxInt64, 3, false)
	recycle(math.MaxInt64, 1.5, true)
	if s.Current() || s.host.present.Load() == first {
		t.Error("it is still the old one")
	}
	recycle(math.MaxInt64, 1.5, false) // there is none
	if o := agenttest.Collect(ctx, s, agenttest.Say("two")); o.Err != nil {
		t.Errorf("a session of the old one: %v", o.Err)
	}
	if err := s.Remove(ctx); err != nil {
		t.Error(err)
	}
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		if ctx.Err() != nil {
			t.Fatal("the old runtime is still there")
		}
		<-time.After(10 * time.Millisecond)
	}
	if _, err := a.Open(ctx, s.Spec); err != nil || a.ProgramPID(bridge.ProfileChat) == 0 {
		t.Errorf("no new runtime: %v", err)
	}
	recycle(math.MaxInt64, 1.5, false) // it is young
	recycle(1<<20, 0, true)
}
