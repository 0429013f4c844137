package githubtest

import "encoding/json"

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) decode(raw []byte) (b chatBody, err error) {
	var q struct {
		Model        string
		Stream       bool
		Instructions string
		Input        []struct {
			Type, Role, Name, Arguments string
			CallID                      string `json:"call_id"`
			Content, Output             json.RawMessage
		}
		Tools []struct {
			Type, Name, Description string
			Parameters              json.RawMessage
		}
		Choice any `json:"tool_choice"`
		Text   struct {
			Format struct {
				Type, Name string
				Schema     json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return b, err
	}
	b = chatBody{Model: q.Model, Stream: q.Stream, Choice: q.Choice}
	if q.Instructions != "" {
		b.Messages = append(b.Messages, message{Role: "system", Content: q.Instructions})
	}
	for _, item := range q.Input {
		switch item.Type {
		case "message", "":
			b.Messages = append(b.Messages, message{Role: item.Role, Content: plain(item.Content)})
		case "function_call":
			b.call(newCall(item.CallID, item.Name, item.Arguments))
		case "function_call_output":
			b.Messages = append(b.Messages, message{Role: "tool", ToolCallID: item.CallID, Content: plain(item.Output)})
		}
	}
	for _, t := range q.Tools {
		if t.Type == "function" {
			b.Tools = append(b.Tools, function(t.Name, t.Description, t.Parameters))
		}
	}
	if f := q.Text.Format; f.Type == "json_schema" {
		b.Format = map[string]any{"type": f.Type, "json_schema": map[string]any{"name": f.Name, "schema": f.Schema}}
	}
	return b, nil
}

// plain is the text of a content: of a string, or of all its text parts. Images
// stay, for the demo model counts them.
func plain(raw json.RawMessage) any {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []map[string]any
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	return parts
}

func (responses) refuse(text string) any {
	return map[string]any{"error": map[string]any{"message": text, "type": "error", "code": nil}}
}

func responseItems(r reply) []any {
	items := []any{}
	m := r.Choices[0].Message
	if m.Reasoning != "" {
		items = append(items, map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{map[string]any{"type": "summary_text", "text": m.Reasoning}}})
	}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		items = append(items, map[string]any{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []any{textPart(m.Content)}})
	}
	for _, c := range m.ToolCalls {
		items = append(items, map[string]any{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Function.Name, "arguments": c.Function.Arguments, "status": "completed"})
	}
	return items
}

func textPart(text string) any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

func (responses) document(model string, r reply) any {
	return response(model, "completed", responseItems(r), r)
}

func response(model, status string, items []any, r reply) map[string]any {
	u := r.Usage
	return map[string]any{"id": "resp_1", "object": "response", "created_at": 1767225600, "status": status, "model": model, "output": items, "usage": map[string]any{
		"input_tokens": u.Prompt, "input_tokens_details": map[string]int{"cached_tokens": u.Details.Cached},
		"output_tokens": u.Completion, "output_tokens_details": map[string]int{"reasoning_tokens": 0}, "total_tokens": u.Prompt + u.Completion,
	}}
}

func (responses) events(model string, r reply) []event {
	items := responseItems(r)
	out := []event{{"response.created", map[string]any{"response": response(model, "in_progress", []any{}, r)}}}
	for i, item := range items {
		whole, _ := item.(map[string]any)
		add := func(name string, data map[string]any) {
			data["output_index"], data["item_id"] = i, whole["id"]
			out = append(out, event{name, data})
		}
		add("response.output_item.added", map[string]any{"item": whole})
		switch whole["type"] {
		case "message":
			text := r.Choices[0].Message.Content
			add("response.content_part.added", map[string]any{"content_index": 0, "part": textPart("")})
			add("response.output_text.delta", map[string]any{"content_index": 0, "delta": text})
			add("response.output_text.done", map[string]any{"content_index": 0, "text": text})
			add("response.content_part.done", map[string]any{"content_index": 0, "part": textPart(text)})
		case "function_call":
			add("response.function_call_arguments.delta", map[string]any{"delta": whole["arguments"]})
			add("response.function_call_arguments.done", map[string]any{"arguments": whole["arguments"]})
		case "reasoning":
			text := r.Choices[0].Message.Reasoning
			add("response.reasoning_summary_text.delta", map[string]any{"summary_index": 0, "delta": text})
			add("response.reasoning_summary_text.done", map[string]any{"summary_index": 0, "text": text})
		}
		add("response.output_item.done", map[string]any{"item": whole})
	}
	return append(out, event{"response.completed", map[string]any{"response": response(model, "completed", items, r)}})
}
