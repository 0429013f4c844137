//go:build unix

package program

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

func ownGroup(cmd *exec.Cmd, supervised, polite bool) {
	// A new session is also a new group, and has no terminal: no program can
	// ask for a password there.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	switch {
	case supervised: // a supervisor must outlive us to do its work
	case polite:
		dieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
	default:
		dieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	}
}

// politeWithParent asks a program to end if the bridge is killed.
func politeWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
}

// killGroup kills all of the group that leader leads. An empty group is
// fine; macOS says EPERM if those left are dead but not yet waited for.
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
		others := slices.DeleteFunc(supervise.Members(leader), func(pid int) bool { return pid == leader })
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

// KeepFiles sees to it that no program gets a file which this one has inherited
// besides its standard streams. Through a directory among them a program could
// leave its sandbox. It is called before anything else runs.
func KeepFiles() {
	list, _ := os.ReadDir("/dev/fd") // where that is not possible there is no sandbox either
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
