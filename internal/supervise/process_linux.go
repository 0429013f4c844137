package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomeReaper makes orphans below us our children, so that they stay in
// sight however they detach. Without it (an old kernel) Sweep still finds them.
func becomeReaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// programAttr: if the supervisor itself is killed, so is the program. It has no
// terminal.
func programAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

type stat struct {
	ppid  int
	group int
	state byte
	start uint64
}

func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat reads the fields behind the command name, which may itself hold
// spaces and parentheses.
func parseStat(b []byte) (stat, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, errors.New("no command name")
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, errors.New("too few fields")
	}
	ppid, err := strconv.Atoi(string(f[1]))
	group, gerr := strconv.Atoi(string(f[2]))
	start, serr := strconv.ParseUint(string(f[19]), 10, 64)
	return stat{ppid: ppid, group: group, state: f[0][0], start: start}, errors.Join(err, gerr, serr)
}

func startTime(pid int) uint64 {
	s, _ := readStat(pid) // empty if it has ended
	return s.start
}

// alive says whether pid is still the process that started then. A zombie
// has ended.
func alive(pid int, start uint64) bool {
	s, err := readStat(pid)
	return err == nil && s.start == start && !s.ended()
}

// processes lists all pids; it is read at the end of a tree only.
func processes() []int {
	entries, _ := os.ReadDir("/proc") // as far as it can be read
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Members lists the living processes of a process group; the leader alone if
// that cannot be told.
func Members(leader int) []int {
	all := processes()
	if all == nil {
		return []int{leader}
	}
	return slices.DeleteFunc(all, func(pid int) bool {
		s, err := readStat(pid)
		return err != nil || s.group != leader || s.ended()
	})
}

// descendants lists the living processes below root, deepest last.
func descendants(root int) []int {
	children := map[int][]int{}
	ended := map[int]bool{}
	for _, pid := range processes() {
		s, err := readStat(pid)
		if err != nil {
			continue
		}
		children[s.ppid] = append(children[s.ppid], pid)
		ended[pid] = s.ended()
	}
	var found []int
	queue := []int{root}
	for len(queue) > 0 {
		next := children[queue[0]]
		queue = append(queue[1:], next...)
		found = append(found, next...)
	}
	return slices.DeleteFunc(found, func(pid int) bool { return ended[pid] })
}

// sweep kills every process that carries the tree's id, until a look finds
// none, since one may fork while we look.
func sweep(id string) (int, error) {
	killed := map[int]bool{}
	deadline := time.Now().Add(2 * time.Second)
	for {
		pids := marked(id)
		if len(pids) == 0 {
			return len(killed), nil
		}
		if time.Now().After(deadline) {
			return len(killed), fmt.Errorf("%d processes of tree %s could not be killed", len(pids), id)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
			killed[pid] = true
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// orphanedSandboxes lists bubblewraps that were to die with their parent and
// did not. One that is killed while it starts leaves a child which waits for
// it for ever: the first process of a sandbox, and the child of another
// program. All others have bubblewrap for a parent or are in no sandbox.
func orphanedSandboxes() []int {
	return slices.DeleteFunc(processes(), func(pid int) bool {
		if !firstOfSandbox(pid) || !slices.Contains(arguments(pid), "--die-with-parent") {
			return true
		}
		s, err := readStat(pid)
		return err != nil || s.ppid == 0 || s.state == 'Z' || readProc(s.ppid, "comm") == "bwrap\n"
	})
}

// readProc is a file about a process; "" if it has ended.
func readProc(pid int, file string) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	return string(b)
}

// firstOfSandbox says whether a process is a bubblewrap that is the first process of a
// new namespace. All others in there end with it.
func firstOfSandbox(pid int) bool {
	if readProc(pid, "comm") != "bwrap\n" {
		return false
	}
	_, rest, _ := strings.Cut(readProc(pid, "status"), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	ids := strings.Fields(line)
	return len(ids) > 1 && ids[len(ids)-1] == "1"
}

// killAdoptedSandboxes kills the sandboxes that have lost their bubblewrap and so
// became children of this process. The runtime ends a command by SIGTERM. If
// bubblewrap is still setting up the sandbox, the first process in it ignores
// the signal, as that of any namespace does, and has not asked yet to die with
// its parent: it would go on and run the command.
func killAdoptedSandboxes() {
	for _, pid := range children() {
		if firstOfSandbox(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // may have gone by itself
		}
	}
}

// children lists the children of this process. The kernel's list of them
// is a build option of it.
func children() []int {
	self := os.Getpid()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	if len(lists) == 0 {
		return slices.DeleteFunc(processes(), func(pid int) bool {
			s, err := readStat(pid)
			return err != nil || s.ppid != self
		})
	}
	var pids []int
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for _, id := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(id); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func killOrphanedSandboxes() int {
	found := orphanedSandboxes()
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL) // may have gone by itself, or be another user's
	}
	return len(found)
}

// Gone says that no process of a tree is left, as far as that is known.
func Gone(id string) bool { return len(marked(id)) == 0 }

// marked lists the living processes whose environment names the tree.
func marked(id string) []int {
	want := []byte(envTree + "=" + id)
	var found []int
	for _, pid := range processes() {
		if pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(kv []byte) bool { return bytes.Equal(kv, want) }) {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.ended() {
			found = append(found, pid)
		}
	}
	return found
}
