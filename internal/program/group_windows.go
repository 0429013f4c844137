package program

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

func ownGroup(cmd *exec.Cmd, _, _ bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP,
	}
}

func politeWithParent(*exec.Cmd) {}

// killGroup ends leader and all that it started. Once leader has ended there
// is nothing to find the others by, except for a supervisor's job object;
// hence killRest can do nothing.
func killGroup(leader *os.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// It fails if leader has ended, which Kill below tells from real failures.
	_ = exec.CommandContext(ctx, "taskkill", "/T", "/F", "/PID", strconv.Itoa(leader.Pid)).Run()
	err := leader.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func killRest(*os.Process) error { return nil }

// terminateGroup does nothing: there is no polite way to end a program that
// has no window and no console.
func terminateGroup(int, bool) {}

func groupGone(*os.Process) bool { return true }

func exitStatus(state *os.ProcessState) (int, string) { return state.ExitCode(), "" }

func signalName(int) string { return "" }

// KeepFiles does nothing: programs get no handles but those that are named.
func KeepFiles() {}
