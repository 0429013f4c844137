package orchestrate

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// turn sends a prompt and collects the outcome, and the last message in full.
// Both hold what there is even if the turn failed.
func turn(ctx context.Context, s Session, dir string, p bridge.Prompt, report func(Progress)) (Outcome, string, error) {
	c := collector{dir: dir, out: Outcome{Session: s.ID(), Files: []string{}}, writes: map[string][]string{}}
	for ev, err := range s.Send(ctx, p) {
		if err != nil {
			return c.out, c.said, err
		}
		if c.add(ev) {
			report(Progress{Text: c.doing, Usage: c.out.Usage})
		}
	}
	switch {
	case c.end == bridge.EndAborted:
		return c.out, c.said, &bridge.Error{Code: bridge.CodeCanceled, Message: "the turn was aborted"}
	case c.out.Denied > 0 && c.out.Denied == c.out.Tools:
		return c.out, c.said, &bridge.Error{Code: bridge.CodeDenied, Message: "everything that the task tried was denied: " + c.why,
			Remedy: "see `copilot-bridge audit tail`; allow it in a policy file, or consent with --yes"}
	}
	return c.out, c.said, nil
}

type collector struct {
	dir    string
	out    Outcome
	doing  string
	said   string
	why    string
	end    bridge.EndReason
	writes map[string][]string // by tool call
}

// add takes note of an event and says whether it is worth telling.
func (c *collector) add(ev bridge.Event) bool {
	switch e := ev.(type) {
	case bridge.MessageDone:
		if e.AgentID == "" && e.Text != "" {
			c.said, c.out.Summary = e.Text, text.Clip(e.Text, maxSummary)
		}
	case bridge.ModelCalled:
		c.doing = "thinking"
		return true
	case bridge.ModelFailed:
		c.doing = "the model failed, trying again: " + text.FirstLine(e.Error.Error(), 80)
		return true
	case bridge.ToolStarted:
		c.doing = c.toolText(e.Call)
		return true
	case bridge.PermissionAsked:
		c.doing = "waiting for consent"
		if e.Request.Kind == bridge.PermissionWrite && len(e.Request.Paths) > 0 {
			c.writes[e.Request.CallID] = append(c.writes[e.Request.CallID], e.Request.Paths[0])
		}
		return e.Request.Kind != bridge.PermissionWrite
	case bridge.ToolFinished:
		c.finished(e)
	case bridge.UsageReported:
		c.out.Usage = c.out.Usage.Add(e.Usage)
		return true
	case bridge.TurnEnded:
		c.end = e.Reason
	default:
	}
	return false
}

func (c *collector) finished(e bridge.ToolFinished) {
	c.out.Tools++
	if !e.OK && e.Code == "denied" {
		c.out.Denied++
		c.why = text.FirstLine(e.Error, 200)
	}
	if !e.OK {
		return
	}
	for _, f := range c.writes[e.CallID] {
		if rel, err := filepath.Rel(c.dir, f); err == nil && filepath.IsLocal(rel) {
			f = filepath.ToSlash(rel)
		}
		if !slices.Contains(c.out.Files, f) {
			c.out.Files = append(c.out.Files, f)
		}
	}
}

// toolText is a tool call on one line: "edit main.go", "bash npm test".
func (c *collector) toolText(call bridge.ToolCall) string {
	args, _ := call.Args.(map[string]any) // others have no names to go by
	for _, key := range []string{"command", "path", "pattern", "url", "query", "description"} {
		value, ok := args[key].(string)
		if !ok || strings.TrimSpace(value) == "" {
			continue
		}
		if rel, err := filepath.Rel(c.dir, value); key == "path" && err == nil && filepath.IsLocal(rel) {
			value = rel
		}
		return call.Name + " " + text.FirstLine(value, 100)
	}
	return call.Name
}
