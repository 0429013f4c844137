//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a tree gets between SIGTERM and SIGKILL.
const grace = time.Second

// Main is the supervisor. args are what follows Verb: the program and its
// arguments. It returns the exit code to end with.
//
// The program inherits the standard streams, so no byte passes through the
// supervisor. It notices the bridge's death by the hang-up of its standard
// input, which it never reads. It ends the tree by SIGTERM and then SIGKILL. On
// Linux it is the sub-reaper of everything below it, so it also finds processes
// that detached themselves.
func Main(args []string, stderr io.Writer) int {
	// The program's parent-death signal follows this thread, so it must last.
	runtime.LockOSThread()
	if len(args) == 0 {
		_, _ = fmt.Fprintln(stderr, "supervise: no program given")
		return 2
	}
	code, err := run(args)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "supervise:", err)
	}
	return code
}

func run(args []string) (int, error) {
	bridge := os.Getppid()
	rec := record{
		ID: os.Getenv(envTree), Bridge: bridge, BridgeStart: startTime(bridge),
		Supervisor: os.Getpid(), SupervisorStart: startTime(os.Getpid()), Path: args[0], Place: os.Getenv(envPlace),
	}
	recordPath := os.Getenv(envRecord)
	if err := errors.Join(os.Unsetenv(envRecord), os.Unsetenv(envPlace)); err != nil {
		return 1, err
	}
	// Its own group: Ctrl-C in the terminal is for the bridge to handle.
	if err := unix.Setpgid(0, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return 1, fmt.Errorf("process group: %w", err)
	}
	becomeReaper()

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	if info, err := os.Stat(args[0]); err != nil || info.IsDir() || !filepath.IsAbs(args[0]) {
		return 127, errors.Join(fmt.Errorf("%s is no program by its absolute path", args[0]), err)
	}
	// The record comes before the program: a tree without one could be lost.
	if err := rec.write(recordPath); err != nil {
		return 1, err
	}
	defer func() {
		if clearPlace(rec.Place, rec.ID) == nil {
			_ = os.Remove(recordPath) // Reap removes it if we cannot
		}
	}()
	proc, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   programAttr(),
	})
	if err != nil {
		return 126, err
	}
	rec.Program = proc.Pid
	if err := rec.write(recordPath); err != nil {
		return 1, errors.Join(err, killTree())
	}
	// The bridge must see end-of-file when the program goes, not when we do.
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		_ = unix.Dup2(int(null.Fd()), 1) // keeping it open only delays that
		_ = null.Close()
	}

	orphaned := make(chan struct{})
	go func() { // ends with the process: a poll cannot be interrupted
		waitHangup(0)
		close(orphaned)
	}()
	// In case the pipe was inherited elsewhere, and for adopted processes: nothing
	// tells of those but the end of another.
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-children:
			if status, gone := reapChildren(proc.Pid); gone {
				return exitCode(status), killTree()
			}
			killAdoptedSandboxes()
		case <-orphaned:
			return endTree(proc.Pid)
		case <-signals:
			return endTree(proc.Pid)
		case <-look.C:
			if os.Getppid() != bridge {
				return endTree(proc.Pid)
			}
			killAdoptedSandboxes()
		}
	}
}

// endTree asks the program to go, then everything that is left, then insists.
func endTree(program int) (int, error) {
	_ = syscall.Kill(program, syscall.SIGTERM) // gone already: that is what we want
	deadline := time.Now().Add(grace)
	code := 0
	for time.Now().Before(deadline) {
		if status, gone := reapChildren(program); gone {
			code = exitCode(status)
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return code, killTree()
}

// killTree ends all that is below this process: SIGTERM, then SIGKILL until
// nothing is left, since a process may fork while we look.
func killTree() error {
	pids := descendants(os.Getpid())
	if len(pids) == 0 {
		return nil
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGTERM) // may have gone by itself
	}
	soon := time.Now().Add(grace / 4)
	for time.Now().Before(soon) {
		reapChildren(0)
		if len(descendants(os.Getpid())) == 0 {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	deadline := time.Now().Add(grace)
	for time.Now().Before(deadline) {
		left := descendants(os.Getpid())
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		reapChildren(0)
		time.Sleep(2 * time.Millisecond)
	}
	return errors.New("some processes could not be killed")
}

// reapChildren collects every child that has ended and reports the program's
// status if it was among them.
func reapChildren(program int) (status syscall.WaitStatus, gone bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return status, gone
		}
		if pid == program {
			status, gone = ws, true
		}
	}
}

func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// waitHangup returns when the other end of fd is closed. It asks for no other
// event and reads nothing: the bytes are the program's.
func waitHangup(fd int32) {
	for {
		fds := []unix.PollFd{{Fd: fd}}
		_, err := unix.Poll(fds, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			return
		}
	}
}

func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
