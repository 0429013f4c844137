package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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
	clean := s.scrub.bytes(b)
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
			return exitInterrupted // whoever read has seen enough
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
func (p *program) printJSON(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = p.out.Write(append(line, '\n'))
	return err
}

// print writes to standard output.
func (p *program) print(text string) error {
	_, err := io.WriteString(p.out, text)
	return err
}
