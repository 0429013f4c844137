package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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
	state byte
	start uint64
}

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
	if err != nil {
		return stat{}, fmt.Errorf("ppid: %w", err)
	}
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("start time: %w", err)
	}
	return stat{ppid: ppid, state: f[0][0], start: start}, nil
}

func startTime(pid int) uint64 {
	s, err := readStat(pid)
	if err != nil {
		return 0
	}
	return s.start
}

// alive says whether pid is still the process that started then. A zombie
// has ended.
func alive(pid int, start uint64) bool {
	s, err := readStat(pid)
	return err == nil && s.start == start && s.state != 'Z' && s.state != 'X'
}

// processes lists all pids; it is read at the end of a tree only.
func processes() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, err := d.Readdirnames(-1)
	if cerr := d.Close(); err != nil || cerr != nil {
		return nil
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descendants lists what is below root and has not ended, deepest last.
func descendants(root int) []int {
	children := map[int][]int{}
	ended := map[int]bool{}
	for _, pid := range processes() {
		s, err := readStat(pid)
		if err != nil {
			continue
		}
		children[s.ppid] = append(children[s.ppid], pid)
		ended[pid] = s.state == 'Z' || s.state == 'X'
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
			_ = syscall.Kill(pid, syscall.SIGKILL) // may have gone by itself
			killed[pid] = true
		}
		time.Sleep(2 * time.Millisecond)
	}
}

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
		if s, err := readStat(pid); err == nil && s.state != 'Z' && s.state != 'X' {
			found = append(found, pid)
		}
	}
	return found
}
