package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

var binary string // the program under test

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv(modelVariable) != "" {
		if err := runModel(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if os.Getenv("SOAK") == "" {
		return m.Run() // all tests are skipped, so nothing to build
	}
	return programtest.NoLeaks(programtest.Run(m, &binary))
}

// TestSoak is the only test of this package. SOAK is its duration (make soak:
// 20m; .ci/run: 30s). SEED repeats the random choices of a run, but not its
// timing. The faults: processes are killed, disks are full or read-only, state
// files are damaged, and the model provider and clients misbehave. Full and
// read-only disks are tested only if the test may mount, as root.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("make soak runs it, with the machine to itself")
	}
	lasts, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SEED: %v", err)
		}
		seed = n
	}
	t.Logf("SOAK=%s SEED=%d", lasts, seed)
	w := newWorld(t, lasts)
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	var actors sync.WaitGroup
	act := func(name string, f func(context.Context, *rand.Rand) error) {
		actors.Go(func() { w.loop(name, seed, f) })
	}
	for i := range 4 {
		act(fmt.Sprintf("chat%d", i), w.chat)
	}
	for i := range 2 {
		act(fmt.Sprintf("agent%d", i), w.agent)
		act(fmt.Sprintf("patch%d", i), w.patcher(i))
	}
	act("deaf", w.neverRead)
	act("person", w.person())
	act("run", w.oneShot("run", "--yes"))
	act("mcp", w.mcpTasks)
	act("acp", w.acp)
	act("abp", w.abp)
	act("orchestrate", w.orchestrate)
	actors.Go(func() { w.causeFaults(rand.New(rand.NewPCG(seed, 1))) })
	actors.Go(func() {
		for every := max(10*time.Second, lasts/20); time.Now().Add(every).Before(w.until); {
			<-time.After(every)
			w.check(false)
		}
	})
	actors.Wait()
	w.check(true)
	for _, name := range slices.Sorted(maps.Keys(w.done)) {
		t.Logf("%5d %s", w.done[name], name)
	}
	if w.failed > 0 {
		t.Errorf("%d failures; again with SOAK=%s SEED=%d", w.failed, lasts, seed)
	}
}

// causeFaults causes faults until the end of the run.
func (w *world) causeFaults(rng *rand.Rand) {
	faults := map[string]func(*rand.Rand) error{"kill runtime": w.killRuntime, "kill serve": w.killServe, "restart serve": w.restartServe, "provider": w.breakProvider, "damage state": w.damageState}
	if w.mounted {
		faults["full disk"], faults["read-only disk"] = w.fillDisk, w.lockDisk
	}
	names := slices.Sorted(maps.Keys(faults))
	for {
		<-time.After(time.Duration(2000+rng.IntN(8000)) * time.Millisecond)
		if time.Now().After(w.until) {
			return
		}
		name := names[rng.IntN(len(names))]
		w.checking.RLock()
		w.faultsNow.Add(1)
		w.faultCount.Add(1)
		began := time.Now()
		if err := faults[name](rng); err != nil {
			w.fail("%s: %v", name, err)
		}
		w.faultCount.Add(1)
		w.faultsNow.Add(-1)
		w.checking.RUnlock()
		w.count("- " + name)
		w.t.Logf("%s: %s, begun at %s", time.Now().Format("15:04:05.000"), name, began.Format("15:04:05.000"))
	}
}

func (w *world) killRuntime(rng *rand.Rand) error {
	var found []int
	for pid := range w.processes() {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.HasPrefix(string(name), "copilot-runtime") {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	err := syscall.Kill(found[rng.IntN(len(found))], syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) { // it has just ended
		err = nil
	}
	<-time.After(time.Second) // until everything has noticed
	return err
}

func (w *world) killServe(*rand.Rand) error {
	return errors.Join(w.stop(syscall.SIGKILL), w.start())
}

func (w *world) restartServe(*rand.Rand) error {
	return errors.Join(w.stop(syscall.SIGTERM), w.start())
}

func (w *world) breakProvider(rng *rand.Rand) error {
	if err := w.model.fault(rng.IntN(len(faultyReplies))); err != nil {
		return err
	}
	<-time.After(time.Duration(500+rng.IntN(3000)) * time.Millisecond)
	return w.model.fault(-1)
}

// damageState stops serve, damages one of its state files, and starts it again.
func (w *world) damageState(rng *rand.Rand) error {
	if err := w.stop(syscall.SIGKILL); err != nil {
		return err
	}
	state := filepath.Join(w.home, ".copilot-bridge")
	names, err := filepath.Glob(filepath.Join(state, "sessions", "?", "??.json"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	names = append(names, filepath.Join(state, "state.json"), filepath.Join(state, "sessions.json"))
	text := []string{"", "{", "\x00\x00\x00\x00"}[rng.IntN(3)]
	err = os.WriteFile(names[rng.IntN(len(names))], []byte(text), 0o600)
	return errors.Join(err, w.start())
}

const filled = "filled" // the file that fills a disk

func (w *world) fillDisk(rng *rand.Rand) (err error) {
	path := filepath.Join([]string{w.home, w.dir}[rng.IntN(2)], filled)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	<-time.After(time.Duration(500+rng.IntN(3000)) * time.Millisecond)
	return errors.Join(f.Close(), os.Remove(path))
}

func (w *world) lockDisk(rng *rand.Rand) error {
	// A disk with files open for writing cannot be made read-only. The
	// workspace's files are open only briefly, so try again.
	for range 100 {
		err := syscall.Mount("tmpfs", w.dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		if err == nil {
			<-time.After(time.Duration(500+rng.IntN(3000)) * time.Millisecond)
			return syscall.Mount("tmpfs", w.dir, "tmpfs", syscall.MS_REMOUNT, "size=512m")
		}
		pause()
	}
	return nil // too busy
}

// usage is the resource usage that must stay bounded.
type usage struct{ goroutines, descriptors, memory int }

// check waits until all actors pause, and then checks the invariants: no turn
// or request is running; ended processes have left no child process, file,
// worktree or temporary file; stored data can be read and verified; and
// resource usage is bounded. If last is set, serve stops and nothing at all may
// be left.
func (w *world) check(last bool) {
	w.checking.Lock()
	defer w.checking.Unlock()
	if !last {
		w.checkUsage()
	}
	for _, args := range [][]string{{"audit", "verify"}, {"sessions", "list", "--json"}, {"orchestrate", "--list", "--json"}, {"validate"}} {
		ctx, cancel := context.WithTimeout(context.Background(), actionBound)
		out, err := w.command(ctx, args...).CombinedOutput()
		cancel()
		if err != nil {
			w.fail("%q: %v\n%.3000s", args, err, out)
		}
	}
	status, err := w.git("status", "--porcelain", "--untracked-files=all")
	if err != nil {
		w.fail("%v", err)
	}
	for line := range strings.Lines(status) {
		if strings.Contains(line, "copilot-bridge") {
			w.fail("a file of the bridge is left: %s", line)
		}
	}
	if trees, err := w.git("worktree", "list"); err != nil || strings.Count(trees, "\n") != 1 {
		w.fail("worktrees are left (%v):\n%s", err, trees)
	}
	if !last {
		return
	}
	if err := w.stop(syscall.SIGTERM); err != nil {
		w.fail("%v", err)
	}
	w.eventually("processes are left", func() string {
		if left := w.processes(); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	if left, err := os.ReadDir(w.tmp); err != nil || len(left) > 0 {
		w.fail("temporary files are left (%v): %v", err, left)
	}
}

// checkUsage waits until serve is idle and compares its resource usage with
// that of the first check.
func (w *world) checkUsage() {
	w.eventually("serve is still busy", func() string {
		m, err := w.metrics()
		if err != nil {
			return err.Error()
		}
		if m["copilot_bridge_running_turns"] > 0 || m["copilot_bridge_requests_in_flight"] > 1 || m["copilot_bridge_parked_calls"] > 0 {
			return fmt.Sprintf("%v turns, %v requests, %v parked calls", m["copilot_bridge_running_turns"], m["copilot_bridge_requests_in_flight"]-1, m["copilot_bridge_parked_calls"])
		}
		return ""
	})
	w.mu.Lock()
	pid := w.serve.cmd.Process.Pid
	w.mu.Unlock()
	w.eventually("processes of others are left", func() string {
		left := w.processes()
		maps.DeleteFunc(left, func(p int, _ string) bool { return w.isBelow(p, pid) })
		if len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	m, err := w.metrics()
	if err != nil {
		w.fail("%v", err)
		return
	}
	now := &usage{goroutines: int(m["go_goroutines"])}
	if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		now.descriptors = len(entries)
	}
	for p := range w.processes() {
		now.memory += resident(p)
	}
	w.t.Logf("%s: %d goroutines, %d descriptors, %d MB", time.Now().Format("15:04:05"), now.goroutines, now.descriptors, now.memory>>20)
	if w.first == nil {
		w.first = now
	}
	if now.goroutines > w.first.goroutines+200 || now.descriptors > w.first.descriptors+200 || now.memory > 2*w.first.memory+1<<30 {
		w.fail("it grows: %+v, at first %+v", *now, *w.first)
	}
}

// eventually polls until there is no complaint.
func (w *world) eventually(what string, complaint func() string) {
	deadline := time.Now().Add(time.Minute)
	for {
		c := complaint()
		if c == "" {
			return
		}
		if time.Now().After(deadline) {
			w.fail("%s: %s", what, c)
			return
		}
		pause()
	}
}

// isBelow reports whether a process is the ancestor itself or a descendant of
// it.
func (w *world) isBelow(pid, ancestor int) bool {
	for range 30 {
		if pid == ancestor {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return true
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil || pid <= 1 {
			return false
		}
	}
	return false
}

func resident(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	_, rest, ok := strings.Cut(string(status), "VmRSS:")
	if !ok {
		return 0
	}
	kb, _ := strconv.Atoi(strings.Fields(rest)[0])
	return kb << 10
}
