package git

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"
)

const (
	// patience bounds one run of git: a checkout of a large tree takes a while.
	patience = 10 * time.Minute
	// maxOutput bounds what one run may write.
	maxOutput = 256 << 20
)

// errTooMuch ends a run that writes more than maxOutput.
var errTooMuch = errors.New("the output is too large")

// run runs a program to its end. A code other than 0 is no error. When the
// context ends the program is asked to end first: git then removes its lock
// files; killed, it would leave them in the user's repository.
func run(ctx context.Context, path string, args []string, dir string, env []string, stdin string) (stdout, stderr string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, env
	out, problem := &bounded{}, &bounded{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), out, problem
	apart(cmd)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return "", "", -1, context.Cause(ctx)
	case out.full || problem.full:
		return "", "", -1, errTooMuch
	case errors.As(err, &exit):
		code = exit.ExitCode()
	default:
		return "", "", -1, err
	}
	return out.String(), problem.String(), code, nil
}

// bounded is a buffer that takes so much and no more.
type bounded struct {
	bytes.Buffer
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		b.full = true
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}
