//go:build unix && !linux

package program

import (
	"os"
	"syscall"
)

// dieWithParent does nothing where there is no parent-death signal: language
// servers end when their input does, and supervised programs are looked
// after by the supervisor. Untried.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func groupGone(leader *os.Process) bool { return syscall.Kill(-leader.Pid, 0) != nil }
