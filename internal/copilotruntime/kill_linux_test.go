package copilotruntime_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// processesIn returns the processes whose working directory is under dir.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		// A process may be gone by now, and others are not ours to look at.
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			found = append(found, link+" -> "+target)
		}
	}
	return found
}

// eventually polls until done reports true and fails the test after a minute.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("still waiting: %s", what)
		case <-tick.C:
		}
	}
}

func TestKilledInstallLeavesNothingThatCounts(t *testing.T) {
	home := t.TempDir()
	options := copilotruntime.Options{Home: home}
	wrapNPM(t, lingering)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childHome+"="+home)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	// The worst moment: all of the package is there.
	eventually(t, "npm unpacks", func() bool {
		started, err := filepath.Glob(filepath.Join(home, "runtime", ".staging-*", "started"))
		return err == nil && len(started) > 0
	})
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil || child.ProcessState.Exited() {
		t.Fatalf("the child was not killed: %v", err)
	}

	eventually(t, "npm goes with its parent", func() bool { return len(processesIn(t, home)) == 0 })
	left, err := filepath.Glob(filepath.Join(home, "runtime", ".staging-*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("expected one leftover of the killed install, got %v, %v", left, err)
	}
	checkNothingFound(t, options)

	wrapNPM(t, "REAL\n")
	if _, err := copilotruntime.Install(t.Context(), options, nil); err != nil {
		t.Fatalf("the next install: %v", err)
	}
	checkNoStaging(t, home)
}

func TestCanceledInstallEndsNPMAndItsChildren(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	// An npm that never ends, with a child that does not either.
	writeScript(t, filepath.Join(dir, "npm"), "sleep 600 &\ntouch started\nwait\n")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	checkCanceledInstall(t, home)
	eventually(t, "npm's child ends too", func() bool { return len(processesIn(t, home)) == 0 })
}
