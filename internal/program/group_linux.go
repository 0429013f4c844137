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
	if syscall.Kill(-leader.Pid, 0) != nil {
		return true
	}
	d, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer func() { _ = d.Close() }() // it was only read
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false
	}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has gone
		}
		if state, pgrp := parseStat(stat); pgrp == leader.Pid && state != 'Z' && state != 'X' {
			return false
		}
	}
	return true
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
