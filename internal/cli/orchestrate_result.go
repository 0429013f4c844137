package cli

import (
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// orchestrateVerdict is the error that a run comes to which did not fail as such.
func orchestrateVerdict(r orchestrate.Result) error {
	if r.Success {
		return nil
	}
	first := &bridge.Error{Code: bridge.CodeConflict, Message: r.Summary}
	for _, t := range r.Tasks {
		if t.Error != nil {
			first = &bridge.Error{Code: t.Error.Code, Message: fmt.Sprintf("%s: %s", t.ID, t.Error.Error()), Remedy: t.Error.Remedy, Status: t.Error.Status}
			break
		}
	}
	if r.Done == 0 {
		return first
	}
	partly := &bridge.Error{Code: first.Code, Message: "partly done: " + r.Summary, Remedy: "go on with `copilot-bridge orchestrate --resume " + r.Run + "`"}
	return &exitError{code: exitPartly, err: partly}
}

// orchestratedLine is the last line with --json.
type orchestratedLine struct {
	Type string `json:"type"`
	orchestrate.Result
	ExitCode int           `json:"exit_code"`
	Error    *bridge.Error `json:"error,omitempty"`
}

func (p *program) orchestrated(r orchestrate.Result, err error) error {
	out := orchestratedLine{Type: "result", Result: r, ExitCode: exitCode(err)}
	if err != nil {
		out.Error = shown(err)
	}
	if werr := p.printJSON(out); werr != nil || err == nil {
		return werr
	}
	return &exitError{code: out.ExitCode, err: quietIfCanceled(err), told: true}
}
