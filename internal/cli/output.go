package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// stream is one of the program's outputs. It masks the secrets that the program
// was given and, if forms is set, whatever looks like a secret. The first write
// that fails ends the command, so callers need not check each write.
type stream struct {
	name  string
	w     io.Writer
	scrub *scrubber
	forms *redact.Redactor
	fail  func(error)

	mu  sync.Mutex
	err error // of the first write that failed
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	clean := []byte(s.scrub.text(string(b)))
	if s.forms != nil {
		clean, _ = s.forms.Bytes(clean)
	}
	if _, err := s.w.Write(clean); err != nil {
		s.err = err
		s.fail(&bridge.Error{Code: bridge.CodeCanceled, Message: s.name + " cannot be written", Cause: err})
		return 0, err
	}
	return len(b), nil
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// finish prints err, once, and returns the exit code.
func (p *program) finish(err error) int {
	if broken := errors.Join(p.out.failure(), p.err.failure()); broken != nil {
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
	if p.out.failure() != nil {
		return max(code, exitFailed)
	}
	return code
}

// report prints an error for people and, if asked for, for machines.
func (p *program) report(err error, asJSON bool) {
	e := shown(err)
	text := "copilot-bridge: " + strings.ReplaceAll(harmless(e.Message), "\n", "\n  ") + "\n"
	if e.Remedy != "" {
		text += "  → " + harmless(e.Remedy) + "\n"
	}
	p.console.lines(text)
	if !asJSON {
		return
	}
	if line, err := bridge.EncodeEvent(bridge.Failed{Error: e}); err == nil {
		_, _ = p.out.Write(append(line, '\n')) // a failure is noticed by the stream
	}
}

// shown is an error as it is printed: the causes are in its message, and what
// looks like a secret is not. An error may quote an argument or a prompt.
func shown(err error) *bridge.Error {
	e := *bridge.AsError(err)
	e.Message, e.Remedy, e.Cause = withoutTokens(strings.TrimSpace(err.Error())), withoutTokens(e.Remedy), nil
	return &e
}

// withoutTokens hides what looks like a secret.
func withoutTokens(text string) string {
	clean, _ := redact.New(redact.Options{}).String(text)
	return clean
}

// printJSON writes v to standard output as one line.
func (p *program) printJSON(v any) error { return writeJSON(p.out, v) }

func writeJSON(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// show writes the result of a command to standard output, as JSON or for people.
func (p *program) show(asJSON bool, v any, text string) error {
	if asJSON {
		return p.printJSON(v)
	}
	return p.print(text)
}

// print writes to standard output.
func (p *program) print(text string) error {
	_, err := io.WriteString(p.out, text)
	return err
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

// told says whether standard output has an error as JSON already.
func told(err error) bool {
	var fixed *exitError
	return errors.As(err, &fixed) && fixed.told
}

// ended is how a task ended that was shown, as JSON or to a person. Those who
// pressed Ctrl-C need not read that it was canceled.
func ended(err error, asJSON bool) error {
	if err == nil {
		return nil
	}
	out := &exitError{code: exitCode(err), err: err, told: asJSON}
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
	case bridge.CodeUnavailable, bridge.CodeUnauthenticated, bridge.CodeCrashed, bridge.CodeRateLimited:
		return exitUnavailable
	case bridge.CodeProvider:
		// Without a status it was not reached; a provider that refuses the
		// request as such is another matter.
		if s := bridge.AsError(err).Status; s == 0 || s >= http.StatusInternalServerError {
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

// machine writes a turn as JSON lines, each in one write.
type machine struct {
	out     io.Writer
	verbose bool // events of the runtime that have no meaning here, too
	failed  bool // an error event was written
}

func (m *machine) event(ev bridge.Event) {
	switch ev.(type) {
	case bridge.Other:
		if !m.verbose {
			return
		}
	case bridge.Failed:
		m.failed = true
	default:
	}
	line, err := bridge.EncodeEvent(ev)
	if err != nil {
		// Only what the runtime said by itself can fail to be JSON.
		line = fmt.Appendf(nil, `{"type":"other","name":%q}`, bridge.TypeOf(ev))
	}
	_, _ = m.out.Write(append(line, '\n')) // a failure is noticed by the stream
}

// resultLine is the last line of a task.
type resultLine struct {
	Type string `json:"type"`
	engine.Result
	ExitCode int           `json:"exit_code"`
	Error    *bridge.Error `json:"error,omitempty"`
}

// result writes the last line, after an error event if none was written.
func (m *machine) result(r engine.Result, err error, code int) error {
	out := resultLine{Type: "result", Result: r, ExitCode: code}
	if err != nil && err.Error() != "" {
		out.Error = shown(err)
		if !m.failed {
			m.event(bridge.Failed{Error: out.Error})
		}
	}
	return writeJSON(m.out, out)
}
