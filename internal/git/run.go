package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

const (
	// patience bounds one run of git: a checkout of a large tree takes a while.
	patience = 10 * time.Minute
	// maxOutput bounds what one run may write.
	maxOutput = 256 << 20
	// grace is how long git may take to end when it is asked to. It removes
	// its lock files then; killed, it would leave them in the user's repository.
	grace = 5 * time.Second
)

// errConfine is that git could not be put in its sandbox. It does not mean that
// there is no git.
var errConfine = errors.New("git cannot be confined")

// ErrTooMuch ends a run that writes more than maxOutput.
var ErrTooMuch = errors.New("the output is too large")

// input is what git reads: text, or a file from where it stands.
type input struct {
	text string
	file *os.File
}

// run runs git to its end. A code other than 0 is no error.
func run(ctx context.Context, path string, args []string, dir string, env []string, in input, confine func(context.Context, program.Command) (program.Command, error)) (stdout, stderr string, code int, err error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := program.New(program.Place{Dir: dir, Env: env}, path, args...)
	if err != nil {
		return "", "", -1, err
	}
	if confine != nil {
		if c, err = confine(ctx, c); err != nil {
			return "", "", -1, fmt.Errorf("%w: %w", errConfine, err)
		}
	}
	out, problem := &bounded{full: cancel}, &bounded{full: cancel}
	exit, err := c.Run(ctx, program.RunOptions{Stdin: []byte(in.text), In: in.file, Stdout: out, Stderr: problem, Grace: grace})
	if confine != nil && bridge.CodeOf(err) == bridge.CodeUnavailable { // the sandbox did not start
		err = fmt.Errorf("%w: %w", errConfine, err)
	}
	if err != nil {
		return "", "", -1, err
	}
	return out.String(), problem.String(), exit.Code, nil
}

// bounded is a buffer that takes maxOutput bytes. More than that ends the run.
type bounded struct {
	bytes.Buffer
	full context.CancelCauseFunc
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		b.full(ErrTooMuch)
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
