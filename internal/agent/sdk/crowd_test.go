//go:build unix

package sdk_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// Callers who leave at any moment, even before the runtime has taken up their
// message, do not cost the others their runtime.
func TestAbortsAtAnyMoment(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	var wg sync.WaitGroup
	var pid int
	for w := range 6 {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
		pid = a.ProgramPID(bridge.ProfileChat)
		rng := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range 40 {
				turn, leave := context.WithCancel(ctx)
				after := time.AfterFunc(time.Duration(rng.IntN(12000))*time.Microsecond, leave)
				if o := agenttest.Collect(turn, s, agenttest.Script("text begin", "silence")); bridge.CodeOf(o.Err) != bridge.CodeCanceled {
					t.Errorf("ended with %v", o.Err)
				}
				after.Stop()
				leave()
			}
		})
	}
	wg.Wait()
	if now := a.ProgramPID(bridge.ProfileChat); now != pid {
		t.Errorf("pid %d, was %d", now, pid)
	}
}

// The status comes from the runtime that exists, also after that has died.
func TestStatusAfterACrash(t *testing.T) {
	ctx, a, _ := start(t, nil)
	openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
	pid := a.ProgramPID(bridge.ProfileChat)
	if _, err := a.Status(ctx); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// It may take a moment until its death is noticed.
	for now := 0; now == pid || now == 0; now = a.ProgramPID(bridge.ProfileChat) {
		if _, err := a.Status(ctx); ctx.Err() != nil {
			t.Fatalf("pid %d, was %d: %v", now, pid, err)
		}
	}
	if other := a.ProgramPID(bridge.ProfileAgent); other != 0 {
		t.Error("another runtime was started only to be asked")
	}
}

// A removed session does not stay on the disk because its runtime has died.
func TestRemoveAfterACrash(t *testing.T) {
	t.Parallel()
	var home string
	ctx, a, _ := start(t, func(o *sdk.Options) { home = o.Home })
	for _, runtime := range []string{"dead", "replaced"} {
		s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
		if o := agenttest.Collect(ctx, s, agenttest.Say("hello")); o.Err != nil {
			t.Fatal(o.Err)
		}
		found, err := filepath.Glob(filepath.Join(home, "chats", "*", "session-state", s.ID()))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v %v", found, err)
		}
		stored := found[0]
		if err := syscall.Kill(a.ProgramPID(bridge.ProfileChat), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if runtime == "replaced" {
			for openSessionOf(ctx, a) != nil && ctx.Err() == nil { // until its death has been noticed
			}
		}
		r, ok := s.(engine.Remover)
		if !ok {
			t.Fatal("a session cannot be removed")
		}
		if err := r.Remove(ctx); err != nil {
			t.Errorf("%s: %v", runtime, err)
		}
		if runtime == "dead" {
			openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat}) // which ends what is left of the dead one
		}
		if _, err := os.Stat(stored); !os.IsNotExist(err) {
			t.Errorf("%s: %s is still there (%v)", runtime, stored, err)
		}
	}
}

func openSessionOf(ctx context.Context, a *sdk.Agent) error {
	_, err := a.Open(ctx, bridge.SessionSpec{Profile: bridge.ProfileChat})
	return err
}
