package cli

import (
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
)

// finish prints err, once, and returns the exit code.
func (p *program) finish(err error) int {
	if broken := errors.Join(p.out.Failure(), p.err.Failure()); broken != nil {
		if errors.Is(broken, syscall.EPIPE) || errors.Is(broken, io.ErrClosedPipe) {
			return exitInterrupted // the reader has seen enough
		}
		p.report(&bridge.Error{Code: bridge.CodeInternal, Message: "the output cannot be written", Cause: broken,
			Remedy: "see that the disk is not full"}, false)
		return exitFailed
	}
	code := exitCode(err)
	var fixed *exitError
	if err == nil || errors.As(err, &fixed) && fixed.err == nil {
		return code
	}
	p.report(err, slices.Contains(p.env.Args, "--json") && (fixed == nil || !fixed.told))
	// The report itself may have been the write that failed.
	if p.out.Failure() != nil {
		return max(code, exitFailed)
	}
	return code
}

// report prints an error for people and, if asked for, for machines.
func (p *program) report(err error, asJSON bool) {
	e := view.Shown(err)
	if p.console.Report(e); asJSON {
		view.WriteEvent(p.out, bridge.Failed{Error: e})
	}
}

// The exit codes: the one table of them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2 // a wrong flag, argument or configuration value
	exitUnavailable = 3 // Copilot, or the provider in its place, cannot answer
	exitDenied      = 4 // by policy or by a person
	exitPartly      = 5 // some of it was done, some failed, was skipped or denied
	exitInterrupted = 130
)

const exitHelp = `Exit codes: 0 done, 1 failed, 2 usage, 3 Copilot unavailable, 4 denied by policy,
5 partly done, 130 interrupted.`

// exitError is an error whose exit code does not follow from its kind, or of
// which something was printed already. A nil err leaves nothing to print.
type exitError struct {
	code int
	err  error
	told bool // standard output has it as JSON
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// withResult has write make a last line with --json also for a task that could
// not be started.
func withResult(err error, write func(err error, code int) error) error {
	var fixed *exitError
	if err == nil || errors.As(err, &fixed) && fixed.told {
		return err
	}
	code := exitCode(err)
	return &exitError{code: code, err: errors.Join(err, write(err, code)), told: true}
}

// ended is how a task ended of which machines have read the result. Those who
// pressed Ctrl-C need not read that it was canceled.
func ended(err error) error {
	if err == nil {
		return nil
	}
	out := &exitError{code: exitCode(err), err: err, told: true}
	if bridge.CodeOf(err) == bridge.CodeCanceled {
		out.err = nil
	}
	return out
}

// exitCode maps an error to the code that the process ends with.
func exitCode(err error) int {
	var fixed *exitError
	if errors.As(err, &fixed) {
		return fixed.code
	}
	switch bridge.CodeOf(err) {
	case "":
		return exitDone
	case bridge.CodeInvalid:
		return exitUsage
	case bridge.CodeUnavailable, bridge.CodeUnauthenticated, bridge.CodeCrashed, bridge.CodeRateLimited, bridge.CodeQuota:
		return exitUnavailable
	case bridge.CodeProvider:
		// A provider that refuses the request as such is another matter.
		if bridge.Outage(bridge.AsError(err)) {
			return exitUnavailable
		}
	case bridge.CodeDenied, bridge.CodeConsent:
		return exitDenied
	case bridge.CodeCanceled:
		return exitInterrupted
	default:
	}
	return exitFailed
}

// printJSON writes v to standard output as one line.
func (p *program) printJSON(v any) error { return view.WriteJSON(p.out, v) }

// show writes the result of a command to standard output, as JSON or for people.
func (p *program) show(v any, text string) error {
	if p.json {
		return p.printJSON(v)
	}
	return p.print(text)
}

// showFailed is show for a command of which err, if not nil, is the end.
func (p *program) showFailed(v any, text string, err error) error {
	if werr := p.show(v, text); werr != nil || err == nil {
		return werr
	}
	return &exitError{code: exitCode(err), err: err, told: true}
}

// print writes to standard output.
func (p *program) print(text string) error {
	_, err := io.WriteString(p.out, p.console.Wrapped(text))
	return err
}

// writeln writes to a buffer, which cannot fail.
func writeln(w io.StringWriter, line string) { _, _ = w.WriteString(line + "\n") }
