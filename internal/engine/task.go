package engine

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Task is one prompt in a new session, or in a stored one.
type Task struct {
	Request
	Prompt bridge.Prompt
	// Resume continues this session instead of opening a new one.
	Resume string
}

// ToolUse is one tool call in a Result.
type ToolUse struct {
	Name     string        `json:"name"`
	Args     any           `json:"args,omitempty"`
	OK       bool          `json:"ok"`
	Denied   bool          `json:"denied,omitempty"` // the policy or a person said no
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// Result is what a task came to.
type Result struct {
	Session  string           `json:"session"`
	Text     string           `json:"text"` // the last message
	Reason   bridge.EndReason `json:"reason"`
	Tools    []ToolUse        `json:"tools"`
	Files    []string         `json:"files"` // written by file tools, as they were named
	Usage    bridge.Usage     `json:"usage"`
	Duration time.Duration    `json:"duration_ns"`
	Notice   string           `json:"notice,omitempty"`
	Answers  bridge.Answers   `json:"answers,omitzero"`
}

// Stream runs a task and yields its events, SessionOpened first and TurnEnded
// last (then the error, if it failed). The session is closed at the end.
func (e *Engine) Stream(ctx context.Context, t Task) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		s, err := e.begin(ctx, t)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() {
			if err := s.Close(context.WithoutCancel(ctx)); err != nil {
				e.opts.Logger.Warn("session.not_closed", "session", s.ID(), "error", err)
			}
		}()
		if !yield(s.Opened(), nil) {
			return
		}
		s.Send(ctx, t.Prompt)(yield)
	}
}

func (e *Engine) begin(ctx context.Context, t Task) (*Session, error) {
	if t.Resume != "" {
		return e.Resume(ctx, t.Resume, t.Request)
	}
	return e.Open(ctx, t.Request)
}

// RunTask runs a task to its end. The result holds what there is even when
// the error is not nil. watch, if not nil, is called with every event.
func (e *Engine) RunTask(ctx context.Context, t Task, watch func(bridge.Event)) (Result, error) {
	c := Collector{}
	for ev, err := range e.Stream(ctx, t) {
		if err != nil {
			return c.Result(), err
		}
		c.Add(ev)
		if watch != nil {
			watch(ev)
		}
	}
	return c.Result(), nil
}

// Collector makes a Result of a stream of events.
type Collector struct {
	result Result
	calls  map[string]bridge.ToolCall
	writes map[string][]string
}

// Add takes note of an event.
func (c *Collector) Add(ev bridge.Event) {
	if c.calls == nil {
		c.calls, c.writes = map[string]bridge.ToolCall{}, map[string][]string{}
	}
	switch e := ev.(type) {
	case bridge.SessionOpened:
		c.result.Session, c.result.Notice, c.result.Answers = e.Session, e.Notice, e.Answers
	case bridge.MessageDone:
		if e.AgentID == "" && e.Text != "" {
			c.result.Text = e.Text
		}
	case bridge.ToolStarted:
		c.calls[e.Call.ID] = e.Call
	case bridge.PermissionAsked:
		if e.Request.Kind == bridge.PermissionWrite && len(e.Request.Paths) > 0 {
			c.writes[e.Request.CallID] = append(c.writes[e.Request.CallID], e.Request.Paths[0])
		}
	case bridge.ToolFinished:
		call := c.calls[e.CallID]
		c.result.Tools = append(c.result.Tools, ToolUse{Name: call.Name, Args: call.Args, OK: e.OK, Denied: !e.OK && e.Code == string(bridge.CodeDenied), Error: e.Error, Duration: e.Duration})
		if e.OK {
			for _, f := range c.writes[e.CallID] {
				if !slices.Contains(c.result.Files, f) {
					c.result.Files = append(c.result.Files, f)
				}
			}
		}
	case bridge.TurnEnded:
		c.result.Reason, c.result.Usage, c.result.Duration = e.Reason, e.Usage, e.Duration
	default:
	}
}

// Result returns the result so far.
func (c *Collector) Result() Result {
	r := c.result
	r.Tools, r.Files = append([]ToolUse{}, r.Tools...), append([]string{}, r.Files...)
	return r
}
