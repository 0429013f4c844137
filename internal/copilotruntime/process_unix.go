//go:build unix

package copilotruntime

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// killGroup kills all of the group that leader leads. That there is nobody
// left is fine; macOS says EPERM if those left are dead but not yet waited for.
func killGroup(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}
