package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/hub"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// A hub that is killed comes back with the same keys, at the same address, with
// all that it had answered for; members connect again by themselves.
func TestKilledHub(t *testing.T) {
	dir := t.TempDir()
	kill, address := startVictim(t, dir)
	f := &fleettest.Fleet{Dir: dir}
	back := make(chan struct{}, 10)
	coordinator, err := fleet.Connect(t.Context(), filepath.Join(dir, "coordinator"), fleet.ConnectOptions{Back: func() { back <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer coordinator.Close()
	f.Coordinator = coordinator
	w := f.Worker(t, "worker")
	to := f.Names(t).To(fleet.JournalSubject("run"))
	line := f.Invite(t, fleet.RoleWorker, 1)
	written := 0
	for round := range 5 {
		ctx, stop := context.WithCancel(t.Context())
		acknowledged := make(chan int, 1)
		go func() { // writes until the hub is gone
			for ; ctx.Err() == nil; written++ {
				if _, err := coordinator.JS.Publish(ctx, to, fmt.Append(nil, written)); err != nil {
					break
				}
			}
			acknowledged <- written
		}()
		fleettest.Wait(t, "some entries", func() bool {
			info, err := journal(t, coordinator)
			return err == nil && info > uint64(round*3)
		})
		kill()
		stop()
		written = fleettest.Receive(t, "the end of the writer", acknowledged)
		var again string
		if kill, again = startVictim(t, dir); again != address {
			t.Fatalf("it came back at %s, not %s", again, address)
		}
		begun := time.Now()
		select {
		case <-back:
		case <-time.After(fleettest.Timeout):
			t.Fatal("the coordinator did not come back")
		}
		t.Logf("coordinator back after %s", time.Since(begun))
		has, err := journal(t, coordinator)
		// What was under way may be there too.
		if err != nil || has < uint64(written) || has > uint64(written+round+1) {
			t.Fatalf("round %d: %d entries, %d were acknowledged, %v", round, has, written, err)
		}
	}
	fleettest.Wait(t, "a worker's hello", func() bool {
		_, err := w.Hello(t.Context(), fleet.Hello{})
		return err == nil
	})
	f.Join(t, line, "another")
	kill()
}

func journal(t *testing.T, c *fleet.Conn) (uint64, error) {
	stream, err := c.JS.Stream(t.Context(), fleet.StreamJournal)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// startVictim starts a hub in a process of its own; kill kills it.
func startVictim(t *testing.T, dir string) (kill func(), address string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}
	}
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the hub did not start", lines.Err())
	}
	return kill, lines.Text()
}

// The port of a fleet is its own: members know it.
func TestTakenPort(t *testing.T) {
	f, other := fleettest.Up(t), &fleettest.Fleet{}
	other.Dir = t.TempDir()
	_, err := hub.Up(t.Context(), hub.Options{Dir: filepath.Join(other.Dir, "hub"), Listen: f.Hub.URLs()[0][len("tls://"):]})
	if bridge.CodeOf(err) != bridge.CodeUnavailable {
		t.Fatal(err)
	}
	t.Log(err)
	for _, listen := range []string{"nowhere", "127.0.0.1:http", "127.0.0.1:70000"} {
		if _, err := hub.Up(t.Context(), hub.Options{Dir: filepath.Join(other.Dir, "hub"), Listen: listen}); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%s: %v", listen, err)
		}
	}
}
