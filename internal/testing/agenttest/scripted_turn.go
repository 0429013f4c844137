package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// scriptedTurn plays directives.
type scriptedTurn struct {
	*session.Turn
	session *scriptedSession

	text  string
	msg   string
	calls []bridge.ToolCall
}

func (r *scriptedTurn) wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.Ctx.Done():
		return context.Cause(r.Ctx)
	}
}

func (r *scriptedTurn) run(lines []string) error {
	if err := r.Emit(bridge.ModelCalled{Model: "scripted"}); err != nil {
		return err
	}
	for _, line := range lines {
		d, ok := strings.CutPrefix(line, "rehearsal: ")
		if !ok {
			continue
		}
		if err := r.directive(d); err != nil {
			return err
		}
		if err := context.Cause(r.Ctx); err != nil {
			return err
		}
	}
	if err := r.finish(); err != nil {
		return err
	}
	return context.Cause(r.Ctx)
}

func (r *scriptedTurn) directive(d string) error {
	verb, rest, _ := strings.Cut(d, " ")
	switch verb {
	case "text":
		return r.say(rest)
	case "chunks":
		for _, c := range strings.Split(rest, "|") {
			if err := r.say(c); err != nil {
				return err
			}
		}
		return nil
	case "delay":
		pause, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		return r.wait(pause)
	case "silence":
		<-r.Ctx.Done()
		return context.Cause(r.Ctx)
	case "usage":
		var in, out int64
		if _, err := fmt.Sscan(rest, &in, &out); err != nil {
			return err
		}
		u := bridge.Usage{Model: "scripted", Calls: 1, InputTokens: in, OutputTokens: out}
		r.Usage = r.Usage.Add(u)
		return r.Emit(bridge.UsageReported{Usage: u})
	case "status":
		code, _, _ := strings.Cut(rest, " ")
		status, err := strconv.Atoi(code)
		if err != nil {
			return err
		}
		e := &bridge.Error{Code: bridge.CodeProvider, Status: status, Message: rest}
		for attempt := 1; ; attempt++ { // retried for ever, as by a patient runtime
			if err := r.Emit(bridge.ModelFailed{Attempt: attempt, Error: e}); err != nil {
				return err
			}
			if err := r.wait(time.Second); err != nil {
				return err
			}
		}
	case "tool":
		name, args, _ := strings.Cut(rest, " ")
		var v any
		if err := json.Unmarshal([]byte(args), &v); err != nil {
			return err
		}
		r.session.calls++
		r.calls = append(r.calls, bridge.ToolCall{ID: fmt.Sprintf("call_%d", r.session.calls), Name: name, Args: v})
		return nil
	case "next":
		if err := r.finish(); err != nil {
			return err
		}
		return r.Emit(bridge.ModelCalled{Model: "scripted"})
	case "crash":
		r.session.mu.Lock()
		r.session.dead = true
		r.session.mu.Unlock()
		return crashed()
	}
	return fmt.Errorf("scripted: unknown directive %q", d)
}

func (r *scriptedTurn) say(text string) error {
	if r.msg == "" {
		r.msg = fmt.Sprintf("%s-m%d", r.session.ID(), time.Now().UnixNano())
	}
	r.text += text
	return r.Emit(bridge.TextDelta{Message: r.msg, Text: text})
}

// finish ends a message and runs the tools that it called.
func (r *scriptedTurn) finish() error {
	done := bridge.MessageDone{Message: r.msg, Text: r.text, Calls: r.calls}
	calls := r.calls
	r.text, r.msg, r.calls = "", "", nil
	r.session.agent.store(r.session.ID(), done)
	if err := r.Emit(done); err != nil {
		return err
	}
	return r.tools(calls)
}

// tools runs calls: the caller's own are all parked before any is awaited.
func (r *scriptedTurn) tools(calls []bridge.ToolCall) error {
	s := r.session
	waits := map[string]chan bridge.ToolResult{}
	for _, c := range calls {
		if err := r.Emit(bridge.ToolStarted{Call: c}); err != nil {
			return err
		}
		if !s.custom(c.Name) {
			if err := r.Emit(s.runTool(r.Ctx, c, r.Emit)); err != nil {
				return err
			}
			continue
		}
		ch := make(chan bridge.ToolResult, 1)
		s.mu.Lock()
		s.parked["req-"+c.ID] = ch
		s.mu.Unlock()
		waits[c.ID] = ch
		if err := r.Emit(bridge.ToolRequested{RequestID: "req-" + c.ID, Call: c}); err != nil {
			return err
		}
	}
	for id, ch := range waits {
		select {
		case res := <-ch:
			if err := r.Emit(bridge.ToolFinished{CallID: id, OK: !res.Failed, Result: res.Text}); err != nil {
				return err
			}
		case <-r.Ctx.Done():
			return context.Cause(r.Ctx)
		}
	}
	return nil
}

func (s *scriptedSession) custom(name string) bool {
	for _, t := range s.Spec.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// runTool knows `create{path,file_text}` and `sleep{for,print_every}`.
func (s *scriptedSession) runTool(ctx context.Context, c bridge.ToolCall, emit func(bridge.Event) error) bridge.ToolFinished {
	out := bridge.ToolFinished{CallID: c.ID, Name: c.Name}
	args, _ := c.Args.(map[string]any)
	fail := func(err error) bridge.ToolFinished {
		out.Error = err.Error()
		if s.Spec.Gate != nil {
			s.Spec.Gate.Failed(ctx, c, out.Error)
		}
		return out
	}
	if c.Name == "sleep" {
		return s.sleep(ctx, args, out, emit)
	}
	path, _ := args["path"].(string)
	text, _ := args["file_text"].(string)
	req := bridge.PermissionRequest{ID: "perm-" + c.ID, Kind: bridge.PermissionWrite, CallID: c.ID, Paths: []string{path}}
	d := s.Decide(ctx, func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Before(ctx, c) })
	if d.Verdict == bridge.Allow {
		if err := emit(bridge.PermissionAsked{Request: req}); err != nil {
			return fail(err)
		}
		d = s.Decide(ctx, func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Permit(ctx, req) })
		if err := emit(bridge.PermissionDecided{RequestID: req.ID, CallID: c.ID, Decision: d}); err != nil {
			return fail(err)
		}
	}
	if d.Verdict != bridge.Allow {
		return fail(errors.New("denied: " + d.Reason))
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fail(err)
	}
	result, err := s.AfterText(ctx, c, "created "+path)
	if err != nil {
		return fail(fmt.Errorf("withheld: %w", err))
	}
	out.Result = result
	out.OK = true
	return out
}

func (s *scriptedSession) sleep(ctx context.Context, args map[string]any, out bridge.ToolFinished, emit func(bridge.Event) error) bridge.ToolFinished {
	total, _ := args["for"].(string)
	every, _ := args["print_every"].(string)
	d, err := time.ParseDuration(total)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	step, err := time.ParseDuration(every)
	if err != nil {
		step = d
	}
	for left := d; left > 0; left -= step {
		select {
		case <-time.After(min(step, left)):
		case <-ctx.Done():
			out.Error = "aborted"
			return out
		}
		if err := emit(bridge.ToolProgress{CallID: out.CallID, Text: "tick\n"}); err != nil {
			return out
		}
	}
	out.OK = true
	return out
}
