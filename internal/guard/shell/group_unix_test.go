//go:build unix

package shell

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a script into a process group; the function it returns ends
// whatever the script has left behind.
func ownGroup(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	return func() {
		if cmd.Process != nil {
			_ = kill() // mostly there is nobody
		}
	}
}
