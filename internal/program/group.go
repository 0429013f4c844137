package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// Trees makes the supervised tree that one program runs in. Nil means that a
// process group has to do.
type Trees func() (*supervise.Tree, error)

// WithTemp gives c a private temporary directory, which is removed with the
// process tree. The results belong together and can be started once.
func (c Command) WithTemp(t Trees) (Command, Trees, error) {
	if t == nil {
		return c, nil, nil
	}
	tree, err := t()
	if err != nil {
		return c, nil, fmt.Errorf("supervise: %w", err)
	}
	env, err := tree.Temp()
	if err != nil {
		return c, nil, err
	}
	c.Env = slices.Concat(c.Env, env)
	return c, func() (*supervise.Tree, error) { return tree, nil }, nil
}

// How long a part of the group may still be there after it was killed. It is
// past that only if the system holds it, as on a dead network disk.
const killWait = 5 * time.Second

// killedCode is the exit code of a program that SIGKILL ended.
const killedCode = 128 + 9

// poll is how often the group is looked at while it may end by itself.
const poll = 10 * time.Millisecond

// Group is one program and what it started. All methods may be called
// concurrently and more than once.
type Group struct {
	cmd    *exec.Cmd
	tree   *supervise.Tree
	guards bool // the leader is an Outer that guards the program

	done   chan struct{} // closed when the program has ended and the rest was killed
	err    error         // set before done is closed
	asked  chan struct{} // holds one token once the program was asked to end
	polite atomic.Int64  // how long the rest may take then, in nanoseconds
	killed atomic.Bool   // by us, while it lived
}

// Streams are the standard streams of a program. They are files: no goroutine
// copies them; those left out are empty.
type Streams struct{ In, Out, Err *os.File }

// Start starts the program. Once it has ended, whatever is left of its group
// is killed.
func (c Command) Start(s Streams, trees Trees) (*Group, error) { return c.start(s, trees, false) }

// start starts the program. If the bridge is killed, a polite one is asked to
// end, so that it can remove its locks; any other is killed with it.
func (c Command) start(s Streams, trees Trees, polite bool) (*Group, error) {
	if !c.made {
		return nil, errors.New("the command was not made by New or Shell")
	}
	if c.outer != nil { // a supervisor would report it as a failure of the program
		if _, err := executable(c.outer.Path); err != nil {
			return nil, c.outer.failed(err.Error())
		}
	}
	cmd := c.cmd(s)
	g := &Group{cmd: cmd, guards: c.outer != nil && c.outer.Guards, done: make(chan struct{}), asked: make(chan struct{}, 1)}
	if trees != nil {
		tree, err := trees()
		if err != nil {
			return nil, fmt.Errorf("supervise: %w", err)
		}
		path, args, env := tree.Command(cmd.Path)
		cmd.Args = append(append([]string{path}, args...), cmd.Args[1:]...)
		cmd.Path = path
		cmd.Env = append(cmd.Env, env...)
		g.tree = tree
	}
	ownGroup(cmd, g.tree != nil, polite)

	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the thread that started the
		// program ends, so that thread has to stay until the program is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			g.wait()
		}
	}()
	if err := <-started; err != nil {
		if g.tree != nil {
			err = errors.Join(err, g.tree.Sweep())
		}
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return g, nil
}

func (g *Group) wait() {
	defer close(g.done)
	g.err = g.cmd.Wait()
	select {
	case <-g.asked: // the others were asked as well, and may have to clean up
		deadline := time.Now().Add(time.Duration(g.polite.Load()))
		for !groupGone(g.cmd.Process) && time.Now().Before(deadline) {
			time.Sleep(poll)
		}
	default:
	}
	if err := killRest(g.cmd.Process); err != nil {
		g.err = errors.Join(g.err, err)
	}
	if g.tree != nil {
		if err := g.tree.Sweep(); err != nil {
			g.err = errors.Join(g.err, err)
		}
	}
}

// Done is closed when the program has ended and the rest of its group was
// killed.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err is how the program ended, as exec.Cmd.Wait tells it. It is valid once
// Done is closed.
func (g *Group) Err() error { return g.err }

// PID is the program's process id; 0 if a supervisor has not told it yet.
func (g *Group) PID() int {
	if g.tree != nil {
		return g.tree.ProgramPID()
	}
	return g.cmd.Process.Pid
}

// Exit returns the program's exit code and the signal that ended it, if any;
// the code is then 128 and the signal's number, as shells have it. It is
// valid once Done is closed. A supervisor and an Outer pass signals on as such
// codes, so there a program that ends with 129 to 159 by itself counts as
// signalled.
func (g *Group) Exit() (code int, signal string) {
	code, signal = exitStatus(g.cmd.ProcessState)
	if g.tree == nil && !g.guards || signal != "" {
		return code, signal
	}
	if g.tree != nil && code == 0 && g.killed.Load() { // a supervisor that had to insist does not say so
		code = killedCode
	}
	return code, signalName(code - 128)
}

// End asks the whole group to end, kills the rest after grace, and returns
// when all of it is gone. ctx cuts the grace short.
func (g *Group) End(ctx context.Context, grace time.Duration) error {
	g.polite.Store(int64(grace))
	select {
	case g.asked <- struct{}{}:
	default:
	}
	g.terminate()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-g.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return g.Kill()
}

// Kill ends the whole group at once and returns when it is gone.
func (g *Group) Kill() error {
	g.polite.Store(0)
	select {
	case <-g.done:
	default:
		g.killed.Store(true)
	}
	var err error
	if g.tree != nil {
		// Not the caller's context: killed processes must be gone.
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		err = g.tree.Kill(ctx)
		cancel()
	}
	select {
	case <-g.done: // the group's id is no longer ours
		return err
	default:
	}
	err = errors.Join(err, killGroup(g.cmd.Process))
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-g.done:
		return err
	case <-timer.C:
		return errors.Join(err, fmt.Errorf("process %d does not end although it was killed", g.cmd.Process.Pid))
	}
}

func (g *Group) terminate() {
	select {
	case <-g.done:
		return
	default:
	}
	if g.tree != nil {
		if pid := g.tree.ProgramPID(); pid > 1 {
			terminateGroup(pid, g.guards)
			return
		}
		// Not started yet: the supervisor is to give up.
		terminateGroup(g.cmd.Process.Pid, false)
		return
	}
	terminateGroup(g.cmd.Process.Pid, g.guards)
}
