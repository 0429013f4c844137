package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/agentfiles"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// conversation is a session as far as the runner is told of it.
type conversation struct {
	*session.Base
	agent *Agent

	mu      sync.Mutex
	model   string
	effort  string
	said    []said
	history []bridge.Event
}

func (s *conversation) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return s.Run(ctx, p, s.turn)
}

func (s *conversation) turn(_ context.Context, st *session.Turn, p bridge.Prompt) error {
	if err := agentfiles.Check("runner", s.Spec.WorkingDir, s.agent.opts.Trusted); err != nil && s.agent.opts.Program != "" {
		return err
	}
	request, err := s.request(p)
	if err != nil {
		return err
	}
	t := &turn{Turn: st, session: s, calls: map[string]begun{}}
	s.ShowWith(st, func(ev bridge.Event) { _ = t.tell(ev) }) // a reader who left is noticed at once
	s.remember(said{"user", p.Text}, bridge.Other{Name: "user.message", Data: map[string]any{"content": p.Text}})
	if s.agent.opts.Program == "" {
		return t.explain()
	}
	proc, err := start(s.agent.opts, s.Spec.WorkingDir, request)
	if err != nil {
		return s.explainStart(err)
	}
	return t.follow(proc)
}

// remember keeps a message for later requests, and its event for the history.
func (s *conversation) remember(m said, ev bridge.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Role != "" {
		s.said = append(s.said, m)
	}
	s.history = append(s.history, ev)
}

func (s *conversation) explainStart(err error) error {
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the runner " + s.agent.opts.Program + " did not start", Cause: err,
		Remedy: "correct ABP_COPILOT_RUNNER (or ABP_COPILOT_CMD) and see that it may be executed"}
	if errors.Is(err, program.ErrNotFound) {
		out.Message = "the runner " + s.agent.opts.Program + " was not found"
	}
	return out
}

// Resolve has nothing to answer: there are no tools of the caller.
func (s *conversation) Resolve(_ context.Context, requestID string, _ bridge.ToolResult) error {
	return session.NoCall(requestID)
}

// SetModel names another model in the requests to come.
func (s *conversation) SetModel(_ context.Context, model, effort string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model, s.effort = model, effort
	return nil
}

// History is the conversation since the session was opened.
func (s *conversation) History(context.Context) ([]bridge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history), nil
}

// turn is one run of the runner, on the reader's goroutine.
type turn struct {
	*session.Turn
	session *conversation

	messages int
	text     strings.Builder // of the current message
	open     bool
	calls    map[string]begun
	lastCall string
	numbered int
	fault    *bridge.Error // the runner's last error
	stderr   string        // its last line
}

type begun struct {
	call bridge.ToolCall
	at   time.Time
}

// tell passes an event on and keeps what belongs into the history.
func (t *turn) tell(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.MessageDone:
		t.session.remember(said{"assistant", e.Text}, ev)
	case bridge.ToolStarted, bridge.ToolFinished:
		t.session.remember(said{}, ev)
	default:
	}
	return t.Emit(ev)
}

// follow reads the runner to its end, and ends it where it must not go on.
func (t *turn) follow(p *process) error {
	err := t.read(p)
	endC, cancel := context.WithTimeout(context.WithoutCancel(t.Ctx), 10*time.Second)
	defer cancel()
	if err == nil { // it has closed its streams, and has a moment to go by itself
		select {
		case <-p.group.Done():
		case <-time.After(endWithin):
		case <-t.Ctx.Done():
			err = context.Cause(t.Ctx)
		}
	}
	if endErr := p.end(endC); endErr != nil {
		t.session.agent.opts.Logger.Debug("the runner's end", "error", endErr) // how it exited
	}
	if err != nil {
		return err
	}
	return t.exited(p)
}

func (t *turn) read(p *process) error {
	for {
		select {
		case out, more := <-p.lines:
			if !more {
				return t.finishMessage()
			}
			if err := t.line(out); err != nil {
				return err
			}
		case <-t.Ctx.Done():
			return context.Cause(t.Ctx)
		}
	}
}

// exited says how the runner ended: code 0 is success.
func (t *turn) exited(p *process) error {
	code, signal := p.group.Exit()
	if code == 0 && signal == "" {
		return t.End(bridge.EndDone)
	}
	if t.fault != nil {
		return t.fault
	}
	how := fmt.Sprintf("the runner exited with code %d", code)
	if signal != "" {
		how = "the runner was ended by signal " + signal
	}
	if t.stderr != "" {
		how += ": " + t.stderr
	}
	return &bridge.Error{Code: bridge.CodeProvider, Message: how, Remedy: "see what " + t.session.agent.opts.Program + " says by itself"}
}

func (t *turn) line(out output) error {
	if out.stderr {
		t.stderr = out.text
		return t.tell(bridge.Notice{Level: "warning", Text: out.text})
	}
	l := normalise(out.text)
	switch l.kind {
	case kindDelta:
		return t.say(l.text)
	case kindMessage:
		return t.message(l.text)
	case kindCall:
		return t.call(l.call)
	case kindResult:
		return t.result(l)
	case kindWarning:
		return t.tell(bridge.Notice{Level: "warning", Text: l.text})
	case kindError:
		t.fault = &bridge.Error{Code: bridge.CodeProvider, Message: l.text, Status: l.status}
		switch l.status {
		case http.StatusUnauthorized, http.StatusForbidden:
			t.fault.Code = bridge.CodeUnauthenticated
		case http.StatusTooManyRequests:
			t.fault.Code = bridge.CodeRateLimited
		}
		return t.tell(bridge.Notice{Level: "error", Text: l.text})
	case kindUsage:
		t.Usage = t.Usage.Add(l.usage)
		return t.tell(bridge.UsageReported{Usage: l.usage})
	}
	return nil
}

func (t *turn) say(text string) error {
	if !t.open {
		t.open = true
		t.messages++
	}
	t.text.WriteString(text)
	if text == "" {
		return nil
	}
	return t.tell(bridge.TextDelta{Message: t.id(), Text: text})
}

func (t *turn) id() string { return fmt.Sprintf("message-%d", t.messages) }

// message is a whole one; pieces of it may have come before.
func (t *turn) message(text string) error {
	if !t.open || t.text.Len() == 0 {
		if err := t.say(text); err != nil {
			return err
		}
	}
	t.text.Reset()
	t.text.WriteString(text)
	return t.finishMessage()
}

func (t *turn) finishMessage() error {
	if !t.open {
		return nil
	}
	t.open = false
	text := t.text.String()
	t.text.Reset()
	return t.tell(bridge.MessageDone{Message: t.id(), Text: text, Model: t.Usage.Model})
}

// call hears of a tool call. The gate cannot stop it, only the runner.
func (t *turn) call(c bridge.ToolCall) error {
	if err := t.finishMessage(); err != nil {
		return err
	}
	if c.ID == "" {
		t.numbered++
		c.ID = fmt.Sprintf("call-%d", t.numbered)
	}
	t.calls[c.ID], t.lastCall = begun{c, time.Now()}, c.ID
	if err := t.tell(bridge.ToolStarted{Call: c}); err != nil {
		return err
	}
	d := t.session.Decide(t.session.WithWaiting(t.Ctx), func(ctx context.Context, g bridge.Gate) bridge.Decision { return g.Before(ctx, c) })
	if d.Verdict != bridge.Allow {
		if err := t.tell(bridge.ToolFinished{CallID: c.ID, Name: c.Name, Code: "denied", Error: d.Reason}); err != nil {
			return err
		}
		return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the runner used %s, which is denied: %s", c.Name, d.Reason),
			Remedy: "the runner was ended; use the SDK, which stops such calls before they happen: unset ABP_COPILOT_TRANSPORT"}
	}
	return nil
}

func (t *turn) result(l line) error {
	id := l.call.ID
	if id == "" {
		id = t.lastCall
	}
	b, known := t.calls[id]
	delete(t.calls, id)
	if !known {
		b = begun{l.call, time.Now()}
	}
	out := bridge.ToolFinished{CallID: id, Name: b.call.Name, OK: !l.failed, Duration: time.Since(b.at)}
	gate := t.session.Spec.Gate
	switch {
	case l.failed:
		out.Error = l.text
		if gate != nil {
			gate.Failed(t.Ctx, b.call, l.text)
		}
	case gate != nil:
		clean, err := t.session.AfterText(t.Ctx, b.call, l.text)
		if err != nil {
			out.OK, out.Error = false, "[withheld: "+err.Error()+"]"
		}
		out.Result = clean
	default:
		out.Result = l.text
	}
	return t.tell(out)
}

// explain is the turn without a runner: it says so, in the same words each
// time.
func (t *turn) explain() error {
	if err := t.tell(bridge.Notice{Level: "warning", Text: notConfigured + "; " + howToConfigure}); err != nil {
		return err
	}
	if err := t.message("Nothing was done: the legacy transport needs a runner, and " + notConfigured + ". " +
		strings.ToUpper(howToConfigure[:1]) + howToConfigure[1:] + "."); err != nil {
		return err
	}
	return t.End(bridge.EndPartial)
}
