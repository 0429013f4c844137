package copilotruntime

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Untried: written for Windows, where it was never run.

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP,
	}
}

// killGroup ends leader and all that it started. Once leader has gone there
// is nothing to find the others by; the programs started here end when their
// input is closed.
func killGroup(leader *os.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// It fails if leader has gone, which Kill below tells from real failures.
	_ = exec.CommandContext(ctx, "taskkill", "/T", "/F", "/PID", strconv.Itoa(leader.Pid)).Run()
	err := leader.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
