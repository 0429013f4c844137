package program

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

func dieWithParent(attr *syscall.SysProcAttr, by syscall.Signal) { attr.Pdeathsig = by }

// groupGone says whether nobody of the group is alive. Those that have ended
// but that their new parent has not waited for yet still count for kill(2),
// hence the look at /proc.
func groupGone(leader *os.Process) bool {
	return syscall.Kill(-leader.Pid, 0) != nil || len(groupMembers(leader.Pid)) == 0
}

// groupMembers lists those of a group that are alive. If that cannot be told,
// it is the leader.
func groupMembers(leader int) []int {
	d, err := os.Open("/proc")
	if err != nil {
		return []int{leader}
	}
	defer func() { _ = d.Close() }() // it was only read
	names, err := d.Readdirnames(-1)
	if err != nil {
		return []int{leader}
	}
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has gone
		}
		if state, pgrp := parseStat(stat); pgrp == leader && state != 'Z' && state != 'X' {
			found = append(found, pid)
		}
	}
	return found
}

// parseStat reads state and process group, which come after a name that may
// itself hold spaces and parentheses.
func parseStat(stat []byte) (state byte, pgrp int) {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return 0, 0
	}
	pgrp, err := strconv.Atoi(string(f[2]))
	if err != nil {
		return 0, 0
	}
	return f[0][0], pgrp
}
