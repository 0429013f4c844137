package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// A single task waits for a worker that starts, and for no other one.
func TestStartingWorkerIsWaitedFor(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "one", "gpu")
	hello := func(notReady string) {
		if _, err := w.Hello(t.Context(), fleet.Hello{Capacity: 1, Answers: "github", NotReady: notReady}); err != nil {
			t.Error(err)
		}
	}
	run := &FleetRun{conn: f.Coordinator, labels: []string{"gpu"}}
	if lack, soon, err := run.lacks(t.Context()); lack == "" || !soon || err != nil {
		t.Errorf("before the first sign of life: %q %t %v", lack, soon, err)
	}
	hello(fleet.Starting)
	if lack, soon, err := run.lacks(t.Context()); lack == "" || !soon || err != nil {
		t.Errorf("while it starts: %q %t %v", lack, soon, err)
	}
	var other sync.WaitGroup
	other.Go(func() { hello("") })
	if lack, err := run.lacksNow(t.Context()); lack != "" || err != nil {
		t.Errorf("%q %v", lack, err)
	}
	other.Wait()
	run.labels = []string{"cuda"}
	if lack, soon, err := run.lacks(t.Context()); lack != "no worker with cuda is ready in the fleet now" || soon || err != nil {
		t.Errorf("no such worker: %q %t %v", lack, soon, err)
	}
	run.labels = nil
	hello("nobody is logged in")
	if lack, soon, err := run.lacks(t.Context()); lack == "" || soon || err != nil {
		t.Errorf("a worker that cannot: %q %t %v", lack, soon, err)
	}
}

// The watcher of a run hears of the connection too, never of two events at a time.
func TestWatcherHearsOfTheConnection(t *testing.T) {
	var heard []string // only safe if the calls are one at a time
	opts := orchestrate.Options{Watch: func(e orchestrate.Event) { heard = append(heard, e.Text) }}
	say := alsoSay(&opts)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() { say(fleetLost) })
		calls.Go(func() { opts.Watch(orchestrate.Event{Text: "x"}) })
	}
	calls.Wait()
	if n := strings.Count(strings.Join(heard, " "), fleetLost); len(heard) != 40 || n != 20 {
		t.Errorf("%q", heard)
	}
	alsoSay(&orchestrate.Options{})(fleetLost) // nobody watches
}

// What a killed process left in the member's directory goes with the next run; what
// a living one has stays.
func TestScratchOfTheDeadIsRemoved(t *testing.T) {
	dir := t.TempDir()
	const dead = "scratch-2147483647-1" // no system has such a process
	for _, name := range []string{dead, "scratch-x-1", fmt.Sprintf("scratch-%d-1", os.Getppid())} {
		if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	one, err := makeScratch(dir)
	if err == nil {
		_, err = makeScratch(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(one); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == dead }) {
		t.Errorf("%v %v", left, err)
	}
}
