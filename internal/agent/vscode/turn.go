package vscode

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// justification is what VS Code shows when it asks the user for consent.
const justification = "Programs on this machine use Copilot through the Copilot Bridge."

// maxLost is how often in a row a model may call nothing but tools that it was
// not offered.
const maxLost = 3

// turn is one run of Send, on the caller's goroutine.
type turn struct {
	*session.Turn
	session  *conversation
	mustCall bool
}

// say adds a message to the conversation, and what a history has of it.
func (t *turn) say(m editor.Message, events ...bridge.Event) {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
	s.history = append(s.history, events...)
}

// run asks the model, has its calls answered, and asks again until it makes no
// more calls.
func (t *turn) run(p bridge.Prompt) error {
	parts, err := userParts(p)
	if err != nil {
		return err
	}
	t.session.mu.Lock()
	model := t.session.model
	t.session.mu.Unlock()
	model, known, err := t.session.agent.model(t.Ctx, model)
	if err != nil {
		return err
	}
	if hasImage(parts) && known.ID != "" && !known.Vision {
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the model " + model + " takes no images", Remedy: "choose one that does"}
	}
	t.say(editor.Message{Role: editor.RoleUser, Parts: parts}, bridge.UserSaid{Text: p.Text})
	for lost := 0; ; {
		calls, err := t.ask(model)
		if err != nil {
			return err
		}
		if len(calls) == 0 {
			break
		}
		own, err := t.answer(calls)
		if err != nil {
			return err
		}
		if lost++; own {
			lost = 0
		}
		if lost == maxLost {
			return &bridge.Error{Code: bridge.CodeProvider, Message: "the model goes on calling tools that it does not have"}
		}
		t.mustCall = false
	}
	return nil
}

// ask makes one request of the model and passes its answer on.
func (t *turn) ask(model string) ([]bridge.ToolCall, error) {
	s := t.session
	if err := t.Emit(bridge.ModelCalled{Model: model}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests++
	r := reply{turn: t, id: fmt.Sprintf("%s-m%d", s.ID(), s.requests), usage: bridge.Usage{Model: model, Calls: 1}}
	request := s.request(model, t.mustCall)
	s.mu.Unlock()
	for part, err := range s.agent.opts.Editor.Chat(t.Ctx, request, s.agent.opts.Idle) {
		if err != nil {
			if t.Ctx.Err() == nil {
				s.agent.health.failed(err)
			}
			return nil, err
		}
		if err := r.take(part); err != nil {
			return nil, err
		}
	}
	s.agent.health.answered()
	t.Usage = t.Usage.Add(r.usage)
	if err := t.Emit(bridge.UsageReported{Usage: r.usage}); err != nil {
		return nil, err
	}
	done := bridge.MessageDone{Message: r.id, Text: r.text.String(), Reasoning: r.thoughts.String(), Model: model, Calls: r.calls}
	t.say(r.message(), done)
	return r.calls, t.Emit(done)
}

// reply is an answer of the model as it comes.
type reply struct {
	turn     *turn
	id       string
	text     strings.Builder
	thoughts strings.Builder
	calls    []bridge.ToolCall
	usage    bridge.Usage
}

func (r *reply) take(p editor.Part) error {
	switch p.Type {
	case editor.PartText:
		r.text.WriteString(p.Text)
		return r.turn.Emit(bridge.TextDelta{Message: r.id, Text: p.Text})
	case editor.PartThinking:
		r.thoughts.WriteString(p.Text)
		return r.turn.Emit(bridge.ReasoningDelta{ID: r.id, Text: p.Text})
	case editor.PartToolCall:
		var args any
		if len(p.Input) > 0 {
			if err := json.Unmarshal(p.Input, &args); err != nil {
				return &bridge.Error{Code: bridge.CodeProvider, Message: "the arguments of a call of " + p.Name + " are not JSON", Cause: err}
			}
		}
		id := p.CallID
		if id == "" {
			id = fmt.Sprintf("%s-c%d", r.id, len(r.calls)+1)
		}
		r.calls = append(r.calls, bridge.ToolCall{ID: id, Name: p.Name, Args: args})
	case editor.PartUsage:
		r.usage.InputTokens, r.usage.OutputTokens = p.InputTokens, p.OutputTokens
	case editor.PartData:
		return r.turn.Emit(bridge.Other{Name: "vscode.data", Data: map[string]any{"mime": p.MIME, "bytes": len(p.Base64)}})
	case editor.PartToolResult: // models have none
	}
	return nil
}

// message is the answer as later requests tell it. Thoughts are left out: the
// API has no place for them.
func (r *reply) message() editor.Message {
	m := editor.Message{Role: editor.RoleAssistant}
	if r.text.Len() > 0 || len(r.calls) == 0 {
		m.Parts = append(m.Parts, editor.Part{Type: editor.PartText, Text: r.text.String()})
	}
	for _, c := range r.calls {
		m.Parts = append(m.Parts, editor.Part{Type: editor.PartToolCall, CallID: c.ID, Name: c.Name, Input: argumentJSON(c.Args)})
	}
	return m
}

// answer has calls answered by the caller, all of them at once, and tells the
// model. It reports whether any was of a tool that there is.
func (t *turn) answer(calls []bridge.ToolCall) (own bool, err error) {
	s := t.session
	waits := make([]chan bridge.ToolResult, len(calls))
	requests := make([]string, len(calls))
	s.mu.Lock()
	for i, c := range calls {
		if s.offers(c.Name) {
			s.requests++
			requests[i], waits[i] = fmt.Sprintf("%s-r%d", s.ID(), s.requests), make(chan bridge.ToolResult, 1)
			s.parked[requests[i]] = waits[i]
			own = true
		}
	}
	s.mu.Unlock()
	for i, c := range calls {
		if waits[i] == nil {
			continue
		}
		if err := t.Emit(bridge.ToolStarted{Call: c}); err != nil {
			return own, err
		}
		if err := t.Emit(bridge.ToolRequested{RequestID: requests[i], Call: c}); err != nil {
			return own, err
		}
	}
	m := editor.Message{Role: editor.RoleUser}
	for i, c := range calls {
		r := bridge.ToolResult{Text: "there is no tool " + c.Name, Failed: true}
		if waits[i] != nil {
			select {
			case r = <-waits[i]:
			case <-t.Ctx.Done():
				return own, context.Cause(t.Ctx)
			}
			if err := t.Emit(bridge.ToolFinished{CallID: c.ID, Name: c.Name, OK: !r.Failed, Result: r.Text}); err != nil {
				return own, err
			}
		}
		m.Parts = append(m.Parts, editor.Part{Type: editor.PartToolResult, CallID: c.ID, Text: r.Text, Failed: r.Failed})
	}
	s.mu.Lock()
	m.Parts = append(m.Parts, s.steered...)
	s.steered = nil
	s.mu.Unlock()
	t.say(m)
	return own, nil
}
