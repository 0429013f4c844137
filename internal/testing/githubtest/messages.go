package githubtest

import (
	"encoding/json"
	"strings"
)

// messages is Anthropic's Messages API.
type messages struct{}

type block struct {
	Type, Text, ID, Name string
	Input, Content       json.RawMessage
	ToolUseID            string `json:"tool_use_id"`
}

// blocks reads a content, which may also be a string.
func blocks(raw json.RawMessage) ([]block, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}, nil
	}
	var out []block
	return out, json.Unmarshal(raw, &out)
}

// joinText is the text of all text blocks.
func joinText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	all, err := blocks(raw)
	var parts []string
	for _, b := range all {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n\n"), err
}

func (messages) decode(raw []byte) (b chatBody, err error) {
	var q struct {
		Model    string
		Stream   bool
		System   json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return b, err
	}
	b = chatBody{Model: q.Model, Stream: q.Stream}
	system, err := joinText(q.System)
	if err != nil {
		return b, err
	}
	if system != "" {
		b.Messages = append(b.Messages, message{Role: "system", Content: system})
	}
	for _, m := range q.Messages {
		all, err := blocks(m.Content)
		if err != nil {
			return b, err
		}
		for _, p := range all {
			switch p.Type {
			case "text":
				b.Messages = append(b.Messages, message{Role: m.Role, Content: p.Text})
			case "tool_use":
				b.call(newCall(p.ID, p.Name, string(p.Input)))
			case "tool_result":
				text, err := joinText(p.Content)
				if err != nil {
					return b, err
				}
				b.Messages = append(b.Messages, message{Role: "tool", ToolCallID: p.ToolUseID, Content: text})
			}
		}
	}
	for _, t := range q.Tools {
		b.Tools = append(b.Tools, function(t.Name, t.Description, t.Schema))
	}
	return b, nil
}

func (messages) refuse(text string) any {
	return map[string]any{"type": "error", "error": map[string]any{"type": "api_error", "message": text}}
}

func (messages) document(model string, r reply) any {
	content := []any{}
	m := r.Choices[0].Message
	if m.Content != "" {
		content = append(content, map[string]any{"type": "text", "text": m.Content})
	}
	for _, c := range m.ToolCalls {
		content = append(content, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Function.Name, "input": json.RawMessage(c.Function.Arguments)})
	}
	return map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": stopReason(r), "stop_sequence": nil, "usage": messageUsage(r)}
}

func messageUsage(r reply) map[string]any {
	return map[string]any{"input_tokens": r.Usage.Prompt - r.Usage.Details.Cached, "cache_read_input_tokens": r.Usage.Details.Cached, "cache_creation_input_tokens": 0, "output_tokens": r.Usage.Completion}
}

func stopReason(r reply) string {
	switch r.Choices[0].Finish {
	case "tool_calls":
		return "tool_use"
	case "length":
		return "max_tokens"
	}
	return "end_turn"
}

func (messages) begin(model string) []event {
	return []event{{"message_start", map[string]any{"message": map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": messageUsage(reply{})}}}}
}

func (messages) start(i int, p part) []event {
	block := map[string]any{"type": "text", "text": ""}
	switch p.kind {
	case partReasoning:
		block = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
	case partCall:
		block = map[string]any{"type": "tool_use", "id": p.call.ID, "name": p.call.Function.Name, "input": map[string]any{}}
	default:
	}
	return []event{{"content_block_start", map[string]any{"index": i, "content_block": block}}}
}

func (messages) grow(i int, p part, more string) []event {
	delta := map[string]any{"type": "text_delta", "text": more}
	switch p.kind {
	case partReasoning:
		delta = map[string]any{"type": "thinking_delta", "thinking": more}
	case partCall:
		delta = map[string]any{"type": "input_json_delta", "partial_json": more}
	default:
	}
	return []event{{"content_block_delta", map[string]any{"index": i, "delta": delta}}}
}

func (messages) stop(i int, _ part) []event {
	return []event{{"content_block_stop", map[string]any{"index": i}}}
}

func (messages) end(_ string, r reply) []event {
	return []event{{"message_delta", map[string]any{"delta": map[string]any{"stop_reason": stopReason(r), "stop_sequence": nil}, "usage": messageUsage(r)}}, {"message_stop", map[string]any{}}}
}
