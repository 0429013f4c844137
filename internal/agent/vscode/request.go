package vscode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/editor"
)

// request is the conversation so far. mu is held. VS Code has no system role:
// the system text is the user's first message, under a heading.
func (s *session) request(model string, mustCall bool) editor.ChatRequest {
	r := editor.ChatRequest{Model: model, Messages: slices.Clone(s.messages), ToolMode: editor.ToolAuto, Justification: justification}
	if text := strings.TrimSpace(s.spec.System.Text); text != "" {
		system := editor.Message{Role: editor.RoleUser, Parts: []editor.Part{{Type: editor.PartText, Text: "[SYSTEM]\n" + text}}}
		r.Messages = slices.Insert(r.Messages, 0, system)
	}
	for _, t := range s.spec.Tools {
		r.Tools = append(r.Tools, editor.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	if mustCall && len(r.Tools) == 1 {
		r.ToolMode = editor.ToolRequired // with several the prompt says it in words
	}
	return r
}

func (s *session) offers(name string) bool {
	return slices.ContainsFunc(s.spec.Tools, func(t bridge.ToolSpec) bool { return t.Name == name })
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
