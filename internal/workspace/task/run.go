package task

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// The bounds of a command that names none.
const (
	DefaultTimeout   = 10 * time.Minute
	DefaultMaxOutput = 1 << 20
)

// grace lies between SIGTERM and SIGKILL.
const grace = 2 * time.Second

// Spec is one command to run, with its bounds.
type Spec struct {
	Program program.Command
	Stdin   []byte // nothing by default

	Timeout   time.Duration // 0: DefaultTimeout
	MaxOutput int           // kept of each stream; 0: DefaultMaxOutput

	// OnOutput gets each stream ("stdout", "stderr") in pieces of whole UTF-8
	// characters as it comes, up to MaxOutput bytes of it. Calls do not
	// overlap. While one lasts the command may have to wait, so it should be
	// brief; Run does not return before it does. It must not keep text.
	OnOutput func(stream string, text []byte)

	// Trees, if set, runs the command under a supervisor, so that nothing of
	// it outlives a bridge that is killed.
	Trees program.Trees
}

// Result is how a command ended. Output that is no UTF-8 has replacement
// characters; where it was too long, its middle is missing, with a note there.
type Result struct {
	ExitCode   int    `json:"exitCode"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Truncated  bool   `json:"truncated"`
	DurationMs int64  `json:"durationMs"`
	TimedOut   bool   `json:"timedOut"`
	Signal     string `json:"signal,omitempty"`
}

// Run runs a command to its end. A command that fails or runs out of time is
// no error: the result says so. When ctx ends, the command is ended like one
// that ran out of time (SIGTERM to its whole process group, SIGKILL 2 s
// later), and Run returns what there was along with the error. What a command
// leaves running in its process group when it ends is killed.
func Run(ctx context.Context, spec Spec) (Result, error) {
	timeout := cmp.Or(max(spec.Timeout, 0), DefaultTimeout)
	limit := cmp.Or(max(spec.MaxOutput, 0), DefaultMaxOutput)
	var turn sync.Mutex // OnOutput calls do not overlap
	stdout, stderr := newOutput("stdout", limit, &turn, spec.OnOutput), newOutput("stderr", limit, &turn, spec.OnOutput)
	bounded, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	began := time.Now()
	exit, err := spec.Program.Run(bounded, program.RunOptions{Stdin: spec.Stdin, Stdout: stdout, Stderr: stderr, Grace: grace, Trees: spec.Trees})
	stdout.flush()
	stderr.flush()
	result := Result{
		ExitCode: exit.Code, Signal: exit.Signal, Stdout: stdout.String(), Stderr: stderr.String(),
		Truncated: stdout.truncated() || stderr.truncated(), DurationMs: time.Since(began).Milliseconds(),
	}
	if errors.Is(err, errTimeout) {
		result.TimedOut, err = true, nil
	}
	if err != nil && ctx.Err() != nil {
		err = canceled(ctx.Err())
	}
	return result, err
}

// errTimeout ends a command that ran out of time.
var errTimeout = errors.New("the command's time is up")

func canceled(err error) error {
	code, message := bridge.CodeCanceled, "the command was canceled"
	if errors.Is(err, context.DeadlineExceeded) {
		code, message = bridge.CodeTimeout, "the command was ended because its caller's time ran out"
	}
	return &bridge.Error{Code: code, Message: message, Cause: err}
}

func invalid(message, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}
}
