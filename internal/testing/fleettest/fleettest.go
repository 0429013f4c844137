package fleettest

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
)

// Timeout bounds each step of a test.
const Timeout = 30 * time.Second

// Fleet is a fleet of one test. Its methods may be called concurrently.
type Fleet struct {
	Hub         *hub.Hub
	Coordinator *fleet.Conn // of the hub's machine
	Dir         string      // has hub, coordinator, and a directory for each worker

	record Record // of the hub
}

// Record keeps what a hub or a coordinator records. Its methods may be called
// concurrently.
type Record struct {
	mu    sync.Mutex
	lines []string
}

// Add is for their options.
func (r *Record) Add(kind, member, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, kind+" "+member+": "+text)
}

// Lines returns all lines recorded so far.
func (r *Record) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// Has reports whether a line has all these words.
func (r *Record) Has(words ...string) bool {
	return slices.ContainsFunc(r.Lines(), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	})
}

// Up starts a fleet, which ends with the test.
func Up(t testing.TB) *Fleet {
	t.Helper()
	f := &Fleet{Dir: t.TempDir()}
	f.Start(t)
	t.Cleanup(func() {
		if err := f.Hub.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	f.Coordinator = f.Connect(t, "coordinator")
	return f
}

// Start starts the hub, again if it was there before.
func (f *Fleet) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	h, err := hub.Up(ctx, hub.Options{Dir: filepath.Join(f.Dir, "hub"), CoordinatorDir: filepath.Join(f.Dir, "coordinator"),
		Listen: "127.0.0.1:0", Version: "test", Record: f.record.Add})
	if err != nil {
		t.Fatal(err)
	}
	f.Hub = h
}

// Recorded is what the hub has refused so far.
func (f *Fleet) Recorded() []string { return f.record.Lines() }

// WaitRecorded waits until the hub has recorded a line with all these words.
func (f *Fleet) WaitRecorded(t testing.TB, words ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("recorded: %q", f.Recorded())
		}
	}()
	Wait(t, "a record of "+strings.Join(words, ", "), func() bool { return f.record.Has(words...) })
}

// Wait polls until a condition holds.
func Wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.NewTimer(Timeout)
	defer end.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-end.C:
			t.Fatalf("%s did not come", what)
		case <-tick.C:
		}
	}
}

// Receive waits for something from a channel.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	end := time.NewTimer(Timeout)
	defer end.Stop()
	select {
	case v := <-from:
		return v
	case <-end.C:
		t.Fatalf("%s did not come", what)
		panic("not reached")
	}
}

// Flood calls f without end, until the test is over.
func Flood(t testing.TB, f func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				f()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

// Names are those of the fleet's tables.
func (f *Fleet) Names(t testing.TB) fleet.Names {
	t.Helper()
	n, err := fleet.FindNames(t.Context(), f.Coordinator.JS)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Connect connects as the member in a directory of the fleet, until the test ends.
func (f *Fleet) Connect(t testing.TB, dir string) *fleet.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	c, err := fleet.Connect(ctx, filepath.Join(f.Dir, dir), fleet.ConnectOptions{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Invite makes an invitation.
func (f *Fleet) Invite(t testing.TB, role fleet.Role, uses int, labels ...string) (line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	reply, err := fleet.Invite(ctx, f.Coordinator, role, labels, uses, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Line
}

// Worker joins a worker, whose files are in a directory of its name, and connects
// it until the test ends.
func (f *Fleet) Worker(t testing.TB, name string, labels ...string) *fleet.Conn {
	t.Helper()
	f.Join(t, f.Invite(t, fleet.RoleWorker, 1, labels...), name)
	return f.Connect(t, name)
}

// Join joins a machine, whose files are in a directory of its name.
func (f *Fleet) Join(t testing.TB, line, name string) fleet.Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	m, err := fleet.Join(ctx, line, filepath.Join(f.Dir, name), fleet.JoinOptions{Name: name, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
