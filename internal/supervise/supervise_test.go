//go:build linux

package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary plays every part: the supervisor itself, and a bridge that
// starts a tree and then waits to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2:], os.Stderr))
	}
	if mode := os.Getenv("SUPERVISE_TEST_CALLERS"); mode != "" {
		os.Exit(callersMain(mode))
	}
	if dir := os.Getenv("SUPERVISE_TEST_BRIDGE"); dir != "" {
		os.Exit(bridgeMain(dir))
	}
	os.Exit(m.Run())
}

// bridgeMain starts the test tree, prints its id and pids, and blocks.
func bridgeMain(dir string) int {
	_, lines, _, err := startTree(dir)
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(strings.Join(lines, " "))
	<-time.After(time.Hour) // it is killed long before; an empty select would be taken for a deadlock
	return 0
}

// A program with a child that ignores SIGTERM, and another that has left
// session and parent; it prints their pids and waits for its input to end.
const program = `trap '' TERM
sh -c 'trap "" TERM; sleep 300 & wait' & a=$!
setsid sh -c 'sleep 300' < /dev/null > /dev/null 2>&1 & b=$!
( setsid sleep 301 < /dev/null > /dev/null 2>&1 & )
echo "$$ $a $b"
cat > /dev/null
exec sleep 302`

func startTree(dir string) (*exec.Cmd, []string, *Tree, error) { return startScript(dir, program) }

// startScript supervises a shell and returns the words of its first line.
func startScript(dir, script string) (*exec.Cmd, []string, *Tree, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	tree, err := NewTree(dir, self)
	if err != nil {
		return nil, nil, nil, err
	}
	place, err := tree.Place(dir+"-places", "of-")
	if err == nil {
		err = os.WriteFile(filepath.Join(place, "state"), nil, 0o600)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	path, args, env := tree.Command("/bin/sh")
	cmd := exec.Command(path, append(args, "-c", script)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "SUPERVISE_TEST_BRIDGE=")
	}), env...)
	// The write end stays open as long as this process lives.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return cmd, strings.Fields(line), tree, err
}

func pidsOf(t *testing.T, fields []string) []int {
	t.Helper()
	var pids []int
	for _, f := range fields {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("not pids: %q", fields)
		}
		pids = append(pids, pid)
	}
	return pids
}

func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// treeSize waits until the whole tree is there and returns its id.
func waitTree(t *testing.T, id string) {
	t.Helper()
	eventually(t, 5*time.Second, "the tree is complete", func() bool { return len(marked(id)) >= 6 })
}

func TestStopEndsDetachedAndStubborn(t *testing.T) { testEnd(t, (*Tree).Stop) }

func TestKillEndsDetachedAndStubborn(t *testing.T) { testEnd(t, (*Tree).Kill) }

func testEnd(t *testing.T, end func(*Tree, context.Context) error) {
	t.Helper()
	dir := t.TempDir()
	cmd, fields, tree, err := startTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	waitTree(t, tree.id)
	want := pidsOf(t, fields)[0]
	eventually(t, 2*time.Second, "the program's pid is known", func() bool { return tree.ProgramPID() == want })
	began := time.Now()
	if err := end(tree, context.Background()); err != nil {
		t.Fatal(err)
	}
	if left := marked(tree.id); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	<-done
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("records left: %v", files)
	}
	noPlaces(t, dir)
}

// noPlaces waits until the directories of all trees are gone.
func noPlaces(t *testing.T, dir string) {
	t.Helper()
	eventually(t, 5*time.Second, "the tree's place is gone", func() bool {
		left, err := os.ReadDir(dir + "-places")
		return err == nil && len(left) == 0
	})
}

// Only a directory with the name of its tree is removed, whatever a record
// says.
func TestForeignPlace(t *testing.T) {
	dir := t.TempDir()
	for _, place := range []string{dir, "relative", filepath.Join(dir, "..")} {
		if err := clearPlace(place, "0123456789abcdef01234567"); err == nil {
			t.Errorf("%s was taken for a place", place)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

func TestProgramKilled(t *testing.T) {
	cmd, fields, tree, err := startTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	waitTree(t, tree.id)
	if err := syscall.Kill(pidsOf(t, fields)[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 128+9 {
		t.Errorf("supervisor ended with %v, want the program's status", err)
	}
	if left := marked(tree.id); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSupervisorKilledThenSweep(t *testing.T) {
	cmd, fields, tree, err := startTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	waitTree(t, tree.id)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports the signal
	pid := pidsOf(t, fields)[0]
	eventually(t, 2*time.Second, "the program dies with its supervisor", func() bool { return startTime(pid) == 0 || !alive(pid, startTime(pid)) })
	if err := tree.Sweep(); err != nil {
		t.Fatal(err)
	}
	if left := marked(tree.id); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A bubblewrap that is killed while it starts leaves a child that waits for it
// for ever. Such children are killed, and no other process.
func TestOrphanedSandbox(t *testing.T) {
	script := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho started\nread forever\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(flags uintptr, args ...string) int {
		cmd := exec.Command(script, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Skip("this system does not allow user namespaces:", err)
		}
		t.Cleanup(func() {
			_ = in.Close() // ends it, if it still runs
			_ = cmd.Wait() // reports the signal
		})
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return cmd.Process.Pid
	}
	const apart = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID
	orphan, other, outer := start(apart, "--die-with-parent"), start(apart), start(0, "--die-with-parent")
	n, err := Reap(filepath.Join(t.TempDir(), "none"))
	if err != nil || n < 1 {
		t.Errorf("%d killed, %v", n, err)
	}
	for pid, want := range map[int]bool{orphan: false, other: true, outer: true} {
		eventually(t, 10*time.Second, "only the orphan ends", func() bool { return alive(pid, startTime(pid)) == want })
	}
}

// A sandbox goes on if its bubblewrap is killed while it is set up. The supervisor,
// whose child it becomes, ends it, told of that death or not. Others are let be.
func TestAdoptedSandbox(t *testing.T) {
	if err := exec.Command("unshare", "--user", "--pid", "--fork", "true").Run(); err != nil {
		t.Skip("this system does not allow user namespaces:", err)
	}
	dir := t.TempDir()
	bwrap := filepath.Join(dir, "bwrap")
	if err := os.WriteFile(bwrap, []byte("#!/bin/sh\nsleep 300\n:\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The first one's death is told to the shell, the second one's to the supervisor.
	cmd, fields, tree, err := startScript(t.TempDir(), `start() { unshare --user --pid --fork `+bwrap+` < /dev/null > /dev/null 2>&1 & }
start; child=$!
orphan=$(start; echo $!)
other=$(sleep 300 > /dev/null & echo $!)
echo $child $orphan $other
cat > /dev/null`)
	if err != nil {
		t.Fatal(err)
	}
	pids := pidsOf(t, fields)
	other := ProcessOf(pids[2])
	for _, outer := range pids[:2] {
		var first Process
		eventually(t, 10*time.Second, "the sandbox is there", func() bool {
			below := descendants(outer)
			if len(below) > 0 {
				first = ProcessOf(below[0])
			}
			return first.Alive() && firstOfSandbox(first.PID)
		})
		if err := syscall.Kill(outer, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the sandbox is ended", func() bool { return !first.Alive() })
	}
	if !other.Alive() {
		t.Error("another process was killed")
	}
	if err := tree.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // reports the signal
}

// startBridge runs this binary as a bridge that holds a tree.
func startBridge(t *testing.T, dir string) (*exec.Cmd, record) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "SUPERVISE_TEST_BRIDGE="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("records: %v %v", files, err)
	}
	rec, err := readRecord(files[0])
	if err != nil {
		t.Fatal(err)
	}
	waitTree(t, rec.ID)
	return cmd, rec
}

func TestBridgeKilled(t *testing.T) {
	dir := t.TempDir()
	cmd, rec := startBridge(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports the signal
	eventually(t, 5*time.Second, "the whole tree is gone", func() bool { return len(marked(rec.ID)) == 0 })
	eventually(t, 5*time.Second, "its record is gone", func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) == 0
	})
	noPlaces(t, dir)
}

func TestReapAfterBridgeAndSupervisorKilled(t *testing.T) {
	dir := t.TempDir()
	cmd, rec := startBridge(t, dir)
	if n, err := Reap(dir); n != 0 || err != nil {
		t.Fatalf("Reap touched the tree of a living bridge: %d, %v", n, err)
	}
	if err := syscall.Kill(rec.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports the signal
	n, err := Reap(dir)
	if err != nil || n == 0 {
		t.Errorf("Reap = %d, %v; want some killed", n, err)
	}
	if left := marked(rec.ID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if n, err := Reap(dir); n != 0 || err != nil {
		t.Errorf("second Reap = %d, %v", n, err)
	}
	noPlaces(t, dir)
}

func TestReapWithoutDirectory(t *testing.T) {
	if n, err := Reap(filepath.Join(t.TempDir(), "none")); n != 0 || err != nil {
		t.Errorf("Reap = %d, %v", n, err)
	}
}

func TestMainRefusesNoProgram(t *testing.T) {
	var out strings.Builder
	if code := Main(nil, &out); code != 2 || !strings.Contains(out.String(), "no program") {
		t.Errorf("Main = %d, %q", code, out.String())
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1 1"
	s, err := parseStat([]byte(line))
	if err != nil || s.ppid != 7 || s.state != 'S' || s.start != 12345 {
		t.Errorf("parseStat = %+v, %v", s, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1 1"))
	f.Add([]byte(") "))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && s.state == 0 {
			t.Errorf("no state from %q", b)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	b, err := json.Marshal(record{ID: strings.Repeat("a1", 12), Bridge: 2, Supervisor: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"id":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if rec, err := decodeRecord(b); err == nil && (len(rec.ID) != 24 || rec.Bridge <= 1 || rec.Supervisor <= 1) {
			t.Errorf("accepted %+v", rec)
		}
	})
}
