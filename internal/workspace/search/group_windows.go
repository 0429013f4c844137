package search

import (
	"os"
	"os/exec"
	"syscall"
)

// Untried: written for Windows, where it was never run.

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup ends the program, which with our arguments starts no other.
func killGroup(leader *os.Process) error { return leader.Kill() }
