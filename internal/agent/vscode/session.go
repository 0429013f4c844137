package vscode

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// conversation is a session: all of its messages, sent with every request.
type conversation struct {
	*session.Base
	agent *Agent

	mu       sync.Mutex
	model    string
	messages []editor.Message
	history  []bridge.Event
	parked   map[string]chan bridge.ToolResult
	steered  []editor.Part // said while the turn runs, for its next request
	requests int
}

func (s *conversation) Send(ctx context.Context, p bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return s.Run(ctx, p, func(_ context.Context, t *session.Turn, p bridge.Prompt) error {
		s.mu.Lock()
		s.steered = nil
		said, told := len(s.messages), len(s.history)
		s.mu.Unlock()
		err := (&turn{Turn: t, session: s, mustCall: p.MustCall}).run(p)
		s.mu.Lock()
		clear(s.parked)
		if err != nil {
			// A turn that failed leaves the conversation: no model takes calls
			// without results, or a question without an answer.
			s.messages, s.history = s.messages[:said:said], s.history[:told:told]
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		return t.End(bridge.EndDone)
	})
}

// Resolve answers a parked call.
func (s *conversation) Resolve(_ context.Context, requestID string, r bridge.ToolResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.parked[requestID]
	if !ok {
		return session.NoCall(requestID)
	}
	delete(s.parked, requestID)
	ch <- r // there is room for the one that is awaited
	return nil
}

// Steer adds to what the turn tells the model next, beside the results of
// tools.
func (s *conversation) Steer(_ context.Context, p bridge.Prompt) error {
	parts, err := userParts(p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parked) == 0 {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "no call is parked in this session"}
	}
	s.steered = append(s.steered, parts...)
	return nil
}

// SetModel names another model for the turns to come. The editor chooses the
// effort.
func (s *conversation) SetModel(_ context.Context, model, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = model
	return nil
}

// History returns the events since the session was opened or reset.
func (s *conversation) History(context.Context) ([]bridge.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history), nil
}

// Reset forgets the conversation.
func (s *conversation) Reset(context.Context) error {
	if s.Running() != nil {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "a turn is running in this session"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages, s.history = nil, nil
	return nil
}

// Current says whether the editor is still there.
func (s *conversation) Current() bool {
	select {
	case <-s.agent.opts.Editor.Done():
		return false
	default:
		return true
	}
}

// request is the conversation so far. mu is held. VS Code has no system role:
// the system text is the user's first message, under a heading.
func (s *conversation) request(model string, mustCall bool) editor.ChatRequest {
	r := editor.ChatRequest{Model: model, Messages: slices.Clone(s.messages), ToolMode: editor.ToolAuto, Justification: justification}
	if text := strings.TrimSpace(s.Spec.System.Text); text != "" {
		system := editor.Message{Role: editor.RoleUser, Parts: []editor.Part{{Type: editor.PartText, Text: "[SYSTEM]\n" + text}}}
		r.Messages = slices.Insert(r.Messages, 0, system)
	}
	for _, t := range s.Spec.Tools {
		r.Tools = append(r.Tools, editor.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	if mustCall && len(r.Tools) == 1 {
		r.ToolMode = editor.ToolRequired // with several the prompt says it in words
	}
	return r
}

func (s *conversation) offers(name string) bool {
	return slices.ContainsFunc(s.Spec.Tools, func(t bridge.ToolSpec) bool { return t.Name == name })
}

// userParts is a prompt as parts of the user's message. A schema for the answer
// has no parameter in VS Code, so it is told in words.
func userParts(p bridge.Prompt) ([]editor.Part, error) {
	text := p.Text
	if f := p.ResponseFormat; f != nil {
		text += "\n\nAnswer with JSON that fits this JSON schema and nothing else, without a code fence:\n" + string(f.Schema)
	}
	parts := []editor.Part{{Type: editor.PartText, Text: text}}
	for _, a := range p.Attachments {
		switch kind, _, _ := strings.Cut(a.MIME, "/"); {
		case a.Path != "":
			return nil, unsupported("read files of this machine; send their contents")
		case kind == "image":
			parts = append(parts, editor.Part{Type: editor.PartData, MIME: a.MIME, Base64: a.Data})
		case kind == "text" || a.MIME == "application/json":
			parts = append(parts, editor.Part{Type: editor.PartText, Text: fmt.Sprintf("[%s]\n%s", a.Name, a.Data)})
		default:
			return nil, unsupported("be shown files of type " + a.MIME)
		}
	}
	return parts, nil
}

func hasImage(parts []editor.Part) bool {
	return slices.ContainsFunc(parts, func(p editor.Part) bool { return p.Type == editor.PartData })
}

func argumentJSON(args any) json.RawMessage {
	if args == nil {
		return json.RawMessage("{}")
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return json.RawMessage("{}") // they came as JSON
	}
	return raw
}
