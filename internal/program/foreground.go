package program

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// Foreground is a program that has the terminal: it runs in the bridge's own
// process group, with its standard streams.
type Foreground struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// StartForeground starts the program. On Linux it is asked to end if the bridge is
// killed.
func (c Command) StartForeground(s Streams) (*Foreground, error) {
	f := &Foreground{cmd: c.cmd(s), done: make(chan struct{})}
	politeWithParent(f.cmd)
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the thread that started the program
		// ends, so that thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := f.cmd.Start()
		started <- err
		if err == nil {
			f.err = f.cmd.Wait()
			close(f.done)
		}
	}()
	return f, <-started
}

// Signal passes a signal on. The program may have ended.
func (f *Foreground) Signal(s os.Signal) { _ = f.cmd.Process.Signal(s) }

// Wait waits for the end. That the program failed is no error: Exit tells.
func (f *Foreground) Wait() (Exit, error) {
	<-f.done
	var failed *exec.ExitError
	if f.err != nil && !errors.As(f.err, &failed) {
		return Exit{}, f.err
	}
	var exit Exit
	exit.Code, exit.Signal = exitStatus(f.cmd.ProcessState)
	return exit, nil
}
