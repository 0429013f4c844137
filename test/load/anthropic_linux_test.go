package load

import (
	"cmp"
	"encoding/json"
)

// messages is the protocol of POST /v1/messages.
type messages struct{}

func (messages) name() string { return "messages" }
func (messages) path() string { return "/v1/messages" }

func (messages) encode(q *question) any {
	var list []any
	for i, m := range q.messages {
		var parts []any
		if m.role == "tool" {
			if i > 0 && q.messages[i-1].role == "tool" {
				continue // already sent with the first one
			}
			for _, x := range q.messages[i:] {
				if x.role != "tool" {
					break
				}
				parts = append(parts, object{"type": "tool_result", "tool_use_id": x.id, "content": x.text})
			}
			list = append(list, object{"role": "user", "content": parts})
			continue
		}
		if m.text != "" {
			parts = append(parts, object{"type": "text", "text": m.text})
		}
		for _, c := range m.calls {
			parts = append(parts, object{"type": "tool_use", "id": c.id, "name": c.name, "input": json.RawMessage(c.args)})
		}
		list = append(list, object{"role": m.role, "content": parts})
	}
	body := object{"model": modelName, "max_tokens": cmp.Or(q.most, 1000), "messages": list, "stream": q.stream}
	if q.system != "" {
		body["system"] = q.system
	}
	var tools []any
	for _, t := range q.tools {
		tools = append(tools, object{"name": t.name, "description": t.description, "input_schema": anything})
	}
	if tools != nil {
		body["tools"] = tools
	}
	return body
}

func (messages) event(r *reply, name string, data []byte) {
	v := decode[struct {
		Type    string `json:"type"`
		Error   fault  `json:"error"`
		Message struct {
			ID string `json:"id"`
		} `json:"message"`
		Block struct {
			Type string `json:"type"`
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"content_block"`
		Delta struct {
			Text    string `json:"text"`
			Partial string `json:"partial_json"`
		} `json:"delta"`
	}](r, data)
	if v.Type != name {
		r.fault = "the event " + name + " is of the type " + v.Type
		return
	}
	switch name {
	case "message_start":
		r.id = v.Message.ID
	case "content_block_start":
		if v.Block.Type == "tool_use" {
			r.calls = append(r.calls, call{id: v.Block.ID, name: v.Block.Name})
		}
	case "content_block_delta":
		r.text += v.Delta.Text
		if v.Delta.Partial != "" && len(r.calls) > 0 {
			r.calls[len(r.calls)-1].args += v.Delta.Partial
		}
	case "error":
		r.fault, r.ended = v.Error.Type, true
	case "message_stop":
		r.ended = true
	}
}

func (messages) whole(r *reply, body []byte) {
	v := decode[struct {
		ID      string `json:"id"`
		Content []struct {
			Type  string          `json:"type"`
			Text  string          `json:"text"`
			ID    string          `json:"id"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"content"`
	}](r, body)
	r.id = v.ID
	for _, c := range v.Content {
		if c.Type == "tool_use" {
			r.calls = append(r.calls, call{c.ID, c.Name, string(c.Input)})
			continue
		}
		r.text += c.Text
	}
}

func (messages) refused(r *reply, body []byte) {
	r.fault = decode[struct {
		Error fault `json:"error"`
	}](r, body).Error.Type
}
