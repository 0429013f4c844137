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

func (responses) begin(model string) []event {
	return []event{{"response.created", map[string]any{"response": response(model, "in_progress", []any{}, reply{})}}}
}

// item is a part as an item of the output.
func (responses) item(p part) map[string]any {
	switch p.kind {
	case partReasoning:
		return map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{map[string]any{"type": "summary_text", "text": p.text}}}
	case partCall:
		return map[string]any{"type": "function_call", "id": "fc_" + p.call.ID, "call_id": p.call.ID, "name": p.call.Function.Name, "arguments": p.text, "status": "completed"}
	default:
		return map[string]any{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []any{textPart(p.text)}}
	}
}

// named is an event about an item.
func (f responses) named(i int, p part, name string, data map[string]any) event {
	data["output_index"], data["item_id"] = i, f.item(p)["id"]
	return event{name, data}
}

func (f responses) start(i int, p part) []event {
	out := []event{f.named(i, p, "response.output_item.added", map[string]any{"item": f.item(p)})}
	if p.kind == partText {
		out = append(out, f.named(i, p, "response.content_part.added", map[string]any{"content_index": 0, "part": textPart("")}))
	}
	return out
}

func (f responses) grow(i int, p part, more string) []event {
	switch p.kind {
	case partReasoning:
		return []event{f.named(i, p, "response.reasoning_summary_text.delta", map[string]any{"summary_index": 0, "delta": more})}
	case partCall:
		return []event{f.named(i, p, "response.function_call_arguments.delta", map[string]any{"delta": more})}
	default:
		return []event{f.named(i, p, "response.output_text.delta", map[string]any{"content_index": 0, "delta": more})}
	}
}

func (f responses) stop(i int, p part) []event {
	var out []event
	switch p.kind {
	case partReasoning:
		out = append(out, f.named(i, p, "response.reasoning_summary_text.done", map[string]any{"summary_index": 0, "text": p.text}))
	case partCall:
		out = append(out, f.named(i, p, "response.function_call_arguments.done", map[string]any{"arguments": p.text}))
	default:
		out = append(out, f.named(i, p, "response.output_text.done", map[string]any{"content_index": 0, "text": p.text}),
			f.named(i, p, "response.content_part.done", map[string]any{"content_index": 0, "part": textPart(p.text)}))
	}
	return append(out, f.named(i, p, "response.output_item.done", map[string]any{"item": f.item(p)}))
}

func (responses) end(model string, r reply) []event {
	if r.Choices[0].Finish == "length" {
		whole := response(model, "incomplete", responseItems(r), r)
		whole["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
		return []event{{"response.incomplete", map[string]any{"response": whole}}}
	}
	return []event{{"response.completed", map[string]any{"response": response(model, "completed", responseItems(r), r)}}}
}
