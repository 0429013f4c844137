package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// Output is one of the program's outputs. It masks the secrets that the program
// was given and, if Forms is set, whatever looks like a secret. The first write
// that fails ends the command, so callers need not check each write.
type Output struct {
	Name   string
	To     io.Writer
	Known  *Scrubber
	Forms  *redact.Redactor
	Failed func(error) // is told of that write

	mu  sync.Mutex
	err error // of the first write that failed
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	clean := []byte(o.Known.Text(string(b)))
	if o.Forms != nil {
		clean, _ = o.Forms.Bytes(clean)
	}
	if _, err := o.To.Write(clean); err != nil {
		o.err = err
		o.Failed(&bridge.Error{Code: bridge.CodeCanceled, Message: o.Name + " cannot be written", Cause: err})
		return 0, err
	}
	return len(b), nil
}

// Failure is the error of the first write that failed.
func (o *Output) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Shown is an error as it is printed: the causes are in its message, and what
// looks like a secret is not. An error may quote an argument or a prompt.
func Shown(err error) *bridge.Error {
	e := *bridge.AsError(err)
	e.Message, e.Remedy, e.Cause = WithoutTokens(strings.TrimSpace(err.Error())), WithoutTokens(e.Remedy), nil
	e.Detail = e.Detail.Hidden(WithoutTokens)
	return &e
}

// WithoutTokens hides what looks like a secret.
func WithoutTokens(text string) string {
	clean, _ := redact.New(redact.Options{}).String(text)
	return clean
}

// WriteJSON writes v as one line.
func WriteJSON(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// WriteEvent writes an event as one line.
func WriteEvent(w io.Writer, ev bridge.Event) {
	line, err := bridge.EncodeEvent(ev)
	if err != nil {
		// Only what the runtime said by itself can fail to be JSON.
		line = fmt.Appendf(nil, `{"type":"other","name":%q}`, bridge.TypeOf(ev))
	}
	_, _ = w.Write(append(line, '\n')) // a failure is noticed by the stream
}

// writeEvent writes an event for machines, which want those of the runtime that
// have no meaning here only with Verbose.
func (a *Activity) writeEvent(ev bridge.Event) {
	_, other := ev.(bridge.Other)
	if a.o.JSON == nil || other && !a.o.Verbose {
		return
	}
	if _, fault := ev.(bridge.Failed); fault {
		a.failed = true
	}
	WriteEvent(a.o.JSON, ev)
}

// verdict is what ends the last line of a task, after the result itself.
type verdict struct {
	ExitCode int           `json:"exit_code"`
	Error    *bridge.Error `json:"error,omitempty"`
}

func lastLine(err error, code int) (end verdict) {
	if end.ExitCode = code; err != nil && err.Error() != "" {
		end.Error = Shown(err)
	}
	return end
}

func (a *Activity) writeTurn(r engine.Result, err error, code int) error {
	end := lastLine(err, code)
	if end.Error != nil && !a.failed {
		a.writeEvent(bridge.Failed{Error: end.Error})
	}
	return WriteJSON(a.o.JSON, struct {
		Type string `json:"type"`
		engine.Result
		verdict
	}{"result", r, end})
}

func (a *Activity) writeRun(r orchestrate.Result, err error, code int) error {
	return WriteJSON(a.o.JSON, struct {
		Type string `json:"type"`
		orchestrate.Result
		verdict
	}{"result", r, lastLine(err, code)})
}
