package supervise

import (
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Untried: no such machine was at hand. A job object that dies with the
// supervisor takes the whole tree along, so there is nothing to sweep.

const grace = time.Second

// Main is the supervisor. args are what follows Verb: the program and its
// arguments. It returns the exit code to end with.
func Main(args []string, stderr io.Writer) int {
	if len(args) == 0 {
		_, _ = fmt.Fprintln(stderr, "supervise: no program given")
		return 2
	}
	if err := joinJob(); err != nil {
		_, _ = fmt.Fprintln(stderr, "supervise:", err)
		return 1
	}
	if parent, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(os.Getppid())); err == nil {
		go func() { // ends with the process
			_, _ = windows.WaitForSingleObject(parent, windows.INFINITE)
			os.Exit(1)
		}()
	}
	proc, err := os.StartProcess(args[0], args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	var state *os.ProcessState
	if err == nil {
		state, err = proc.Wait()
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "supervise:", err)
		return 126
	}
	return state.ExitCode()
}

func joinJob() error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	if err := windows.AssignProcessToJobObject(job, windows.CurrentProcess()); err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	return nil // the handle stays open until this process ends
}

func kill(pid int) error { return terminate(pid) }

func terminate(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

func alive(pid int, _ uint64) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer func() { _ = windows.CloseHandle(h) }()
	s, err := windows.WaitForSingleObject(h, 0)
	return err == nil && s == uint32(windows.WAIT_TIMEOUT)
}

func sweep(string) (int, error) { return 0, nil }

// Gone is false: processes are not found by their tree here.
func Gone(string) bool { return false }

func startTime(pid int) uint64 {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return 0
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &ended, &kernel, &user); err != nil {
		return 0
	}
	return uint64(created.Nanoseconds())
}
