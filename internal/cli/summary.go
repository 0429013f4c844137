package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// tally counts how tool calls ended, those of sub-agents too.
type tally struct {
	done, failed, denied int
	why                  string // of the first denial
	calls                map[string]bridge.ToolCall
}

func (t *tally) add(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.ToolStarted:
		if t.calls == nil {
			t.calls = map[string]bridge.ToolCall{}
		}
		t.calls[e.Call.ID] = e.Call
	case bridge.ToolFinished:
		switch {
		case e.OK:
			t.done++
		case denied(e):
			t.denied++
			if t.why == "" {
				t.why = toolText(t.calls[e.CallID], "") + ": " + reason(e)
			}
		default:
			t.failed++
		}
	default:
	}
}

// verdict is what a turn that ended well comes to, given what was denied.
func (t *tally) verdict() error {
	if t.denied == 0 {
		return nil
	}
	all := t.done + t.failed + t.denied
	err := &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the guard denied %d of %s: %s", t.denied, plural(all, "tool call"), t.why)}
	if t.done > 0 {
		return &exitError{code: exitPartly, err: err}
	}
	return err
}

// summary tells a person what a task came to.
func (t *talk) summary(r engine.Result, n tally, err error, took time.Duration) {
	c := t.p.console
	mark := c.style.green("done in " + duration(took))
	switch code := bridge.CodeOf(err); {
	case code == bridge.CodeCanceled || r.Reason == bridge.EndAborted:
		mark = c.style.yellow("interrupted after " + duration(took))
	case code == bridge.CodeDenied && n.done > 0:
		mark = c.style.yellow("partly done after " + duration(took))
	case code == bridge.CodeDenied:
		mark = c.style.red("denied after " + duration(took))
	case err != nil:
		mark = c.style.red("failed after " + duration(took))
	}
	parts := []string{mark}
	if len(r.Tools) > 0 {
		parts = append(parts, plural(len(r.Tools), "tool call")+" ("+toolCounts(r.Tools)+")")
	}
	if n.denied > 0 {
		parts = append(parts, c.style.red(fmt.Sprintf("%d denied", n.denied)))
	}
	if u := r.Usage; u.Calls > 0 {
		parts = append(parts, count(u.InputTokens)+" tokens in, "+count(u.OutputTokens)+" out")
	}
	c.line(strings.Join(parts, c.style.dim(" · ")))
	if len(r.Files) > 0 {
		names := make([]string, len(r.Files))
		for i, f := range r.Files {
			names[i] = approval.Visible(shorten(f, t.dir, t.p.env.HomeDir))
		}
		c.line("  " + plural(len(names), "file") + " written: " + c.style.bold(strings.Join(names, ", ")))
	}
	if r.Session != "" {
		c.line(c.style.dim(fmt.Sprintf("  session %s · go on with: copilot-bridge run --resume %s \"…\"", r.Session, shortID(r.Session))))
	}
}

// toolCounts is "create, bash ×3", in the order of first use.
func toolCounts(tools []engine.ToolUse) string {
	var names []string
	times := map[string]int{}
	for _, u := range tools {
		if !slices.Contains(names, u.Name) {
			names = append(names, u.Name)
		}
		times[u.Name]++
	}
	for i, name := range names {
		names[i] = approval.Visible(name)
		if n := times[name]; n > 1 {
			names[i] += fmt.Sprintf(" ×%d", n)
		}
	}
	return strings.Join(names, ", ")
}

// shortID is enough of a session's id to type.
func shortID(id string) string { return id[:min(len(id), 8)] }
