//go:build unix

package program

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

func ownGroup(cmd *exec.Cmd, supervised, polite bool) {
	// A session of its own is a group of its own too, and one without the
	// bridge's terminal: nobody can ask for a password there, or type into it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	switch {
	case supervised: // a supervisor must outlive us to do its work
	case polite:
		dieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
	default:
		dieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	}
}

// killGroup kills all of the group that leader leads. That there is nobody
// left is fine; macOS says EPERM if those left are dead but not yet waited for.
// Like everywhere in this program, the instant in which an empty group's id
// could have gone to another process is taken as too short to matter.
func killGroup(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

// killRest kills what a leader that has ended leaves behind.
func killRest(leader *os.Process) error { return killGroup(leader) }

// terminateGroup asks only; what does not listen is killed later. A leader
// that guards the others would kill them when it goes, so it is not asked.
func terminateGroup(leader int, guards bool) {
	if guards {
		others := slices.DeleteFunc(groupMembers(leader), func(pid int) bool { return pid == leader })
		for _, pid := range others {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
		}
		if len(others) > 0 {
			return
		}
	}
	_ = syscall.Kill(-leader, syscall.SIGTERM) // it may have ended
}

func exitStatus(state *os.ProcessState) (int, string) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), signalName(int(ws.Signal()))
	}
	return state.ExitCode(), ""
}

func signalName(n int) string {
	if n <= 0 || n > 31 {
		return ""
	}
	return unix.SignalName(syscall.Signal(n))
}
