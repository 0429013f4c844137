package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// turn is one run of the runner, on the goroutine of whoever reads it.
type turn struct {
	session *session
	ctx     context.Context
	yield   func(bridge.Event) bool
	began   time.Time
	left    bool // the reader has

	messages int
	text     strings.Builder // of the present message
	open     bool
	total    bridge.Usage
	calls    map[string]begun
	lastCall string
	numbered int
	fault    *bridge.Error // the runner's last error
	stderr   string        // its last words
}

type begun struct {
	call bridge.ToolCall
	at   time.Time
}

// tell passes an event on and keeps what belongs into the history.
func (t *turn) tell(ev bridge.Event) error {
	switch e := ev.(type) {
	case bridge.MessageDone:
		t.session.mu.Lock()
		t.session.history = append(t.session.history, ev)
		t.session.said = append(t.session.said, said{"assistant", e.Text})
		t.session.mu.Unlock()
	case bridge.ToolStarted, bridge.ToolFinished:
		t.session.mu.Lock()
		t.session.history = append(t.session.history, ev)
		t.session.mu.Unlock()
	default:
	}
	if t.left || !t.yield(ev) {
		t.left = true
		return errReaderLeft
	}
	return nil
}

// follow reads the runner to its end, and ends it where it must not go on.
func (t *turn) follow(p *process) error {
	err := t.read(p)
	endC, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 10*time.Second)
	defer cancel()
	if err == nil { // it has closed its streams, and has a moment to go by itself
		select {
		case <-p.group.Done():
		case <-time.After(endWithin):
		case <-t.ctx.Done():
			err = context.Cause(t.ctx)
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
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

// exited says how the runner ended: code 0 is success.
func (t *turn) exited(p *process) error {
	code, signal := p.group.Exit()
	if code == 0 && signal == "" {
		return t.end(bridge.EndDone)
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

func (t *turn) end(reason bridge.EndReason) error {
	return t.tell(bridge.TurnEnded{Reason: reason, Usage: t.total, Duration: time.Since(t.began)})
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
		t.total = t.total.Add(l.usage)
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
	return t.tell(bridge.MessageDone{Message: t.id(), Text: text, Model: t.total.Model})
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
	if d := t.before(c); d.Verdict != bridge.Allow {
		if err := t.tell(bridge.ToolFinished{CallID: c.ID, Name: c.Name, Code: "denied", Error: d.Reason}); err != nil {
			return err
		}
		return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the runner used %s, which is denied: %s", c.Name, d.Reason),
			Remedy: "the runner was ended; use the SDK, which stops such calls before they happen: unset ABP_COPILOT_TRANSPORT"}
	}
	return nil
}

func (t *turn) before(c bridge.ToolCall) (d bridge.Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = bridge.Decision{Reason: fmt.Sprintf("the guard failed: %v", r)}
		}
	}()
	gate := t.session.spec.Gate
	if gate == nil {
		return bridge.Decision{Reason: "nobody is there to allow it"}
	}
	return gate.Before(bridge.WithWaiting(t.ctx, t.waiting), c)
}

// waiting makes a question of the gate visible in the turn.
func (t *turn) waiting(r bridge.PermissionRequest) func(bridge.Decision) {
	t.numbered++
	r.ID = fmt.Sprintf("gate-%d", t.numbered)
	_ = t.tell(bridge.PermissionAsked{Request: r}) // a reader who left is noticed at once
	return func(d bridge.Decision) {
		_ = t.tell(bridge.PermissionDecided{RequestID: r.ID, CallID: r.CallID, Decision: d})
	}
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
	gate := t.session.spec.Gate
	switch {
	case l.failed:
		out.Error = l.text
		if gate != nil {
			gate.Failed(t.ctx, b.call, l.text)
		}
	case gate != nil:
		clean, err := t.after(b.call, l.text)
		if err != nil {
			out.OK, out.Error = false, "[withheld: "+err.Error()+"]"
		}
		out.Result = clean
	default:
		out.Result = l.text
	}
	return t.tell(out)
}

func (t *turn) after(c bridge.ToolCall, text string) (clean string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the guard failed: %v", r)
		}
	}()
	out, err := t.session.spec.Gate.After(t.ctx, c, map[string]any{"textResultForLlm": text})
	if err != nil {
		return "", err
	}
	m, _ := out.(map[string]any)
	clean, ok := m["textResultForLlm"].(string)
	if !ok {
		return "", errors.New("the guard returned nothing")
	}
	return clean, nil
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
	return t.end(bridge.EndPartial)
}
