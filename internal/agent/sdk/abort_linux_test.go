package sdk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// An aborted turn leaves no command running, whenever the abort comes: not even
// while the sandbox of the command is being set up, which is when most come here.
func TestAbortsLeaveNoCommand(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	t.Run("in the sandbox", func(t *testing.T) {
		t.Parallel()
		x := newSite(t)
		abortCommands(t, rand.NewPCG(seed, 1), x.options, func() bridge.SessionSpec {
			return bridge.SessionSpec{WorkingDir: x.ws, Confinement: x.confinement(t)}
		})
	})
	t.Run("without one", func(t *testing.T) {
		t.Parallel()
		abortCommands(t, rand.NewPCG(seed, 2), nil, func() bridge.SessionSpec { return bridge.SessionSpec{WorkingDir: t.TempDir()} })
	})
}

func abortCommands(t *testing.T, source rand.Source, options func(*sdk.Options), spec func() bridge.SessionSpec) {
	t.Helper()
	ctx, a, _ := start(t, options)
	rng := rand.New(source)
	for i := range 60 {
		opts := spec()
		opts.Gate = agenttest.AllowAll()
		s := openSession(t, ctx, a, opts)
		command := fmt.Sprintf("sleep 3600.%d", rng.Uint64())
		after := time.Duration(rng.IntN(40)) * time.Millisecond
		if i%4 == 0 {
			after = time.Duration(rng.IntN(500)) * time.Millisecond
		}
		abortCommand(t, ctx, s, command, after)
		// On a busy machine it takes a while to die.
		for deadline := time.Now().Add(10 * time.Second); len(running(t, command)) > 0; <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("turn %d was aborted %s after its call had begun, and still runs %q", i, after, running(t, command))
			}
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// abortCommand has the agent run a command, and aborts the turn so long after the
// call has begun.
func abortCommand(t *testing.T, ctx context.Context, s bridge.Session, command string, after time.Duration) {
	t.Helper()
	call := agenttest.Tool("bash", map[string]any{"command": command, "description": "wait", "mode": "sync", "initial_wait": 600})
	var end bridge.EndReason
	for ev, err := range s.Send(ctx, agenttest.Script(call, "next", "silence")) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := ev.(type) {
		case bridge.ToolStarted:
			timer := time.AfterFunc(after, func() { _ = s.Abort(ctx) }) // the end of the turn tells
			defer timer.Stop()
		case bridge.TurnEnded:
			end = e.Reason
		default:
		}
	}
	if end != bridge.EndAborted {
		t.Fatalf("the turn ended as %q", end)
	}
}

// running are the processes with that text on their command lines.
func running(t *testing.T, text string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range lines {
		line, _ := os.ReadFile(at) // it may have ended
		if args := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(args, text) {
			found = append(found, filepath.Base(filepath.Dir(at))+": "+args)
		}
	}
	return found
}
