package mcp

import (
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// maxSteps bounds the log of a task that does not end; shownSteps is how much
// of it one report carries.
const (
	maxSteps   = 2000
	shownSteps = 100
)

// steps is a numbered log of what a task does. Its methods are for one
// goroutine.
type steps struct {
	lines   []string
	dropped int            // further steps that are not kept
	open    map[string]int // by call: its line
	calls   map[string]bridge.ToolCall
}

// add takes note of an event and says whether the log has changed.
func (s *steps) add(ev bridge.Event) bool {
	switch e := ev.(type) {
	case bridge.SessionOpened:
		s.step("session `" + e.Session + "` opened")
	case bridge.ToolStarted:
		if s.open == nil {
			s.open, s.calls = map[string]int{}, map[string]bridge.ToolCall{}
		}
		s.calls[e.Call.ID] = e.Call
		s.open[e.Call.ID] = s.step("`" + approval.Visible(e.Call.Name) + "`" + about(e.Call.Args) + " …")
	case bridge.ToolFinished:
		i, begun := s.open[e.CallID]
		call := s.calls[e.CallID]
		delete(s.open, e.CallID)
		delete(s.calls, e.CallID)
		if !begun || i < 0 {
			return false
		}
		s.lines[i] = toolText(call.Name, about(call.Args), e.OK, e.Error, e.Duration)
	case bridge.PermissionAsked:
		return false // the tool call that it is about has a step
	case bridge.MessageDone:
		text := strings.TrimSpace(e.Text)
		if text == "" || e.AgentID != "" {
			return false
		}
		s.step("says: " + clip(approval.Visible(strings.ReplaceAll(text, "\n", " ")), 300))
	case bridge.ModelFailed:
		s.step("the model failed, trying again: " + clip(approval.Visible(e.Error.Error()), 200))
	case bridge.Notice:
		if e.Level == "info" {
			return false // mostly what a tool has done, which has a step
		}
		s.step(approval.Visible(e.Level) + ": " + clip(approval.Visible(e.Text), 300))
	default:
		return false
	}
	return true
}

// step adds a line and returns its place, or -1 if there are too many.
func (s *steps) step(line string) int {
	if len(s.lines) >= maxSteps {
		s.dropped++
		return -1
	}
	s.lines = append(s.lines, line)
	return len(s.lines) - 1
}

func (s *steps) String() string { return s.from(0) }

// recent is the end of the log.
func (s *steps) recent() string { return s.from(max(0, len(s.lines)-shownSteps)) }

func (s *steps) from(first int) string {
	var b strings.Builder
	for i, line := range s.lines[first:] {
		fmt.Fprintf(&b, "%d. %s\n", first+i+1, line)
	}
	if s.dropped > 0 {
		fmt.Fprintf(&b, "… and %d more\n", s.dropped)
	}
	return b.String()
}
