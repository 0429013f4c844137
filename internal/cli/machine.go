package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

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
		line = fmt.Appendf(nil, `{"type":"other","name":%q}`, ev.Type())
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
	line, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	_, err = m.out.Write(append(line, '\n'))
	return err
}
