package git

import (
	"os"
	"os/exec"
	"syscall"
)

// apart keeps a Ctrl-C on the terminal from git: we decide when it ends.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func terminate(p *os.Process) error { return p.Kill() }
