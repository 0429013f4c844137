package program

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Detached is a program that outlives this one.
type Detached struct {
	cmd     *exec.Cmd
	process supervise.Process
}

// Detach starts the program in a session of its own, without a terminal and without
// input. What it writes goes to a file. It is not ended with this process, nor
// supervised: it is for the bridge itself.
func (c Command) Detach(output *os.File) (*Detached, error) {
	cmd := c.cmd(Streams{Out: output, Err: output})
	ownGroup(cmd, true, false)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return &Detached{cmd, supervise.ProcessOf(cmd.Process.Pid)}, nil
}

// PID is its process id.
func (d *Detached) PID() int { return d.process.PID }

// Exit is its exit code, if it has ended.
func (d *Detached) Exit() (code int, ended bool) {
	if d.process.Alive() {
		return 0, false
	}
	_ = d.cmd.Wait() // the code says how it ended
	code, _ = exitStatus(d.cmd.ProcessState)
	return code, true
}

// Terminate asks it to end.
func (d *Detached) Terminate() error { return d.process.Terminate() }
