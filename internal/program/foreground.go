package program

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Foreground runs a program that the user works with, such as an editor, to its
// end. Unlike the others it stays in the bridge's own process group, so that it
// has the terminal.
func (c Command) Foreground(ctx context.Context, s Streams) (Exit, error) {
	if !c.made {
		return Exit{}, errors.New("the command was not made by New or Shell")
	}
	cmd := exec.CommandContext(ctx, c.Path)
	inner := c.cmd(s)
	cmd.Args, cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = inner.Args, inner.Dir, inner.Env, inner.Stdin, inner.Stdout, inner.Stderr
	failed := cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Exit{}, context.Cause(ctx)
	case failed != nil && !errors.As(failed, &ended):
		return Exit{}, fmt.Errorf("start %s: %w", c.Path, failed)
	}
	var exit Exit
	exit.Code, exit.Signal = exitStatus(cmd.ProcessState)
	return exit, nil
}
