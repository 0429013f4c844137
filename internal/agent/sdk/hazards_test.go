//go:build unix

package sdk_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// Two runtimes may share a home, but not a session: each would go on from
// what it knows. Bridges keep apart by their claims; here the other one has
// none, as Copilot's own program.
func TestASessionIsOpenInOneRuntime(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	inHome := func(o *sdk.Options) { o.Home = home }
	ctx, other, _ := start(t, inHome)
	_, ours, _ := start(t, inHome)
	s := openSession(t, ctx, other, bridge.SessionSpec{WorkingDir: dir})
	if o := agenttest.Collect(ctx, s, agenttest.Say("before")); o.Err != nil {
		t.Fatal(o.Err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	spec := bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir}
	unclaimed := spec
	unclaimed.Shared = true
	theirs, err := other.Resume(ctx, s.ID(), unclaimed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Resume(ctx, s.ID(), spec); bridge.CodeOf(err) != bridge.CodeConflict || bridge.AsError(err).Remedy == "" {
		t.Errorf("a session in use was resumed: %v", err)
	}
	reader, err := ours.Resume(ctx, s.ID(), unclaimed)
	if err != nil {
		t.Fatalf("a session in use cannot be read: %v", err)
	}
	if h, err := reader.History(ctx); err != nil || len(h) == 0 {
		t.Errorf("%d events, %v", len(h), err)
	}
	if err := reader.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if o := agenttest.Collect(ctx, theirs, agenttest.Say("still here")); o.Err != nil || o.Text() != "still here" {
		t.Errorf("the other one: %q, %v", o.Text(), o.Err)
	}
	if err := theirs.Close(ctx); err != nil {
		t.Fatal(err)
	}
	r, err := ours.Resume(ctx, s.ID(), spec)
	if err != nil {
		t.Fatalf("closed there, but not to be had here: %v", err)
	}
	if o := agenttest.Collect(ctx, r, agenttest.Say("after")); o.Err != nil || o.Text() != "after" {
		t.Errorf("the next turn: %q, %v", o.Text(), o.Err)
	}
}

// A shell that wants to be detached ends with its turn like any other.
func TestNoShellIsDetached(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	dir := t.TempDir()
	g := agenttest.AllowAll()
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: g, WorkingDir: dir})
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	pid := 0
	for ev, err := range s.Send(turn, agenttest.Script(agenttest.Tool("bash", map[string]any{"command": "echo $$ > pid; sleep 600", "description": "wait",
		"mode": "async", "detach": true}), "next", "silence")) {
		if err != nil && bridge.CodeOf(err) != bridge.CodeCanceled {
			t.Fatal(err)
		}
		if _, ok := ev.(bridge.ToolFinished); ok {
			pid = awaitPID(t, ctx, filepath.Join(dir, "pid"))
			cancel()
		}
	}
	if pid == 0 {
		t.Fatal("the shell did not start")
	}
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(pid, 0) == nil {
		if time.Now().After(deadline) {
			t.Fatal("the shell outlives its turn")
		}
		<-time.After(10 * time.Millisecond)
	}
	for _, c := range g.Befores() {
		if args, ok := c.Args.(map[string]any); !ok || args["detach"] != nil || args["mode"] != "async" {
			t.Errorf("the gate judged %v", c.Args)
		}
	}
}

func awaitPID(t *testing.T, ctx context.Context, path string) int {
	t.Helper()
	for {
		if b, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(b), "\n") {
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the command did not start")
		}
	}
}
