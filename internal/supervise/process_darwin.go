package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Untried: no such machine was at hand. There is no sub-reaper and no
// parent-death signal here, so the supervisor's own watch has to do. A process
// that left its parent before the end is only found by its group.

func becomeReaper() {}

func programAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func startTime(pid int) uint64 {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || p.Proc.P_pid != int32(pid) {
		return 0
	}
	return uint64(p.Proc.P_starttime.Sec)*1e6 + uint64(p.Proc.P_starttime.Usec)
}

func alive(pid int, start uint64) bool {
	const zombie = 5
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && p.Proc.P_pid == int32(pid) && p.Proc.P_stat != zombie && startTime(pid) == start
}

// descendants follows parents, and groups for orphans.
func descendants(root int) []int {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	in := map[int32]bool{int32(root): true}
	groups := map[int32]bool{}
	var found []int
	for grew := true; grew; {
		grew = false
		for i := range all {
			p := &all[i]
			if in[p.Proc.P_pid] || p.Proc.P_stat == 5 || (!in[p.Eproc.Ppid] && !groups[p.Eproc.Pgid]) {
				continue
			}
			in[p.Proc.P_pid], groups[p.Eproc.Pgid] = true, true
			found = append(found, int(p.Proc.P_pid))
			grew = true
		}
	}
	return found
}

// Members is the leader: groups are not looked into here.
func Members(leader int) []int { return []int{leader} }

// sweep cannot read other processes' environment here.
func sweep(string) (int, error) { return 0, nil }

// Gone is false: processes are not found by their tree here.
func Gone(string) bool { return false }
