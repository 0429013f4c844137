//go:build unix

package sdk_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// stopped waits until the signal has reached all threads, where the system
// tells; on a busy machine they go on for a while.
func stopped(ctx context.Context, pid int) {
	for ctx.Err() == nil {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || strings.Contains(string(status), "State:\tT") {
			return
		}
	}
}

// A runtime that does not react to an abort is replaced.
func TestRuntimeThatHangs(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{})
	pid := a.ProgramPID(bridge.ProfileAgent)
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	for ev, err := range s.Send(turn, agenttest.Script("text begin", "silence")) {
		if _, ok := ev.(bridge.TextDelta); ok {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			stopped(ctx, pid)
			cancel()
		}
		if err != nil && bridge.CodeOf(err) != bridge.CodeCanceled {
			t.Errorf("ended with %v", err)
		}
	}
	if o := agenttest.Collect(ctx, openSession(t, ctx, a, bridge.SessionSpec{}), agenttest.Say("fresh")); o.Err != nil {
		t.Errorf("a new session: %v", o.Err)
	}
}

// One that serves others as well is waited for: it may be the machine.
func TestRuntimeThatStalls(t *testing.T) {
	t.Parallel()
	ctx, a, m := start(t, nil)
	left, other := openSession(t, ctx, a, bridge.SessionSpec{}), openSession(t, ctx, a, bridge.SessionSpec{})
	pid := a.ProgramPID(bridge.ProfileAgent)
	spoken, gate := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	m.Push(demomodel.Reply{demomodel.Chunks("begin "), demomodel.WaitFor(gate), demomodel.Chunks("end")})
	var answer agenttest.Outcome
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev, err := range other.Send(ctx, bridge.Prompt{Text: "go on"}) {
			if _, ok := ev.(bridge.TextDelta); ok && len(agenttest.Find[bridge.TextDelta](answer)) == 0 {
				close(spoken)
			}
			answer.Events, answer.Err = append(answer.Events, ev), err
		}
	})
	select {
	case <-spoken:
	case <-ctx.Done():
		t.Fatal("there is no first word")
	}
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	for ev := range left.Send(turn, agenttest.Script("text begin", "silence")) {
		if _, ok := ev.(bridge.TextDelta); ok {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			stopped(ctx, pid)
			// Longer than a runtime without other sessions may be silent.
			wake := time.AfterFunc(3*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			defer wake.Stop()
			cancel()
		}
	}
	release()
	wg.Wait()
	if answer.Err != nil || answer.Text() != "begin end" {
		t.Errorf("the other turn: %q, %v", answer.Text(), answer.Err)
	}
	if now := a.ProgramPID(bridge.ProfileAgent); now != pid {
		t.Errorf("pid %d, was %d", now, pid)
	}
}
