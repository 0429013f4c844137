package load

// modelName is the model that all clients request.
const modelName = "rehearsal-1"

// fault is an error of OpenAI's APIs.
type fault struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// completions is the protocol of POST /v1/chat/completions.
type completions struct{}

func (completions) name() string { return "completions" }
func (completions) path() string { return "/v1/chat/completions" }

func (completions) encode(q *question) any {
	var list []any
	if q.system != "" {
		list = append(list, object{"role": "system", "content": q.system})
	}
	for _, m := range q.messages {
		o := object{"role": m.role, "content": m.text}
		if m.id != "" {
			o["tool_call_id"] = m.id
		}
		var calls []any
		for _, c := range m.calls {
			calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.args}})
		}
		if calls != nil {
			o["tool_calls"] = calls
		}
		list = append(list, o)
	}
	body := object{"model": modelName, "messages": list, "stream": q.stream}
	if q.most > 0 {
		body["max_completion_tokens"] = q.most
	}
	var tools []any
	for _, t := range q.tools {
		tools = append(tools, object{"type": "function", "function": object{"name": t.name, "description": t.description, "parameters": anything}})
	}
	if tools != nil {
		body["tools"] = tools
	}
	return body
}

type completionCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (completions) event(r *reply, _ string, data []byte) {
	if string(data) == "[DONE]" {
		r.ended = true
		return
	}
	v := decode[struct {
		ID      string `json:"id"`
		Error   *fault `json:"error"`
		Choices []struct {
			Delta struct {
				Content   string           `json:"content"`
				ToolCalls []completionCall `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
	}](r, data)
	if v.Error != nil {
		r.fault = v.Error.Code
		return
	}
	r.id = v.ID
	for _, choice := range v.Choices {
		r.text += choice.Delta.Content
		for _, c := range choice.Delta.ToolCalls {
			for c.Index >= len(r.calls) {
				r.calls = append(r.calls, call{})
			}
			at := &r.calls[c.Index]
			at.id, at.name, at.args = at.id+c.ID, at.name+c.Function.Name, at.args+c.Function.Arguments
		}
	}
}

func (completions) whole(r *reply, body []byte) {
	v := decode[struct {
		ID      string `json:"id"`
		Choices []struct {
			Message struct {
				Content   string           `json:"content"`
				ToolCalls []completionCall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}](r, body)
	r.id = v.ID
	for _, choice := range v.Choices {
		r.text += choice.Message.Content
		for _, c := range choice.Message.ToolCalls {
			r.calls = append(r.calls, call{c.ID, c.Function.Name, c.Function.Arguments})
		}
	}
}

func (completions) refused(r *reply, body []byte) {
	r.fault = decode[struct {
		Error fault `json:"error"`
	}](r, body).Error.Code
}

// responses is the protocol of POST /v1/responses.
type responses struct{}

func (responses) name() string { return "responses" }
func (responses) path() string { return "/v1/responses" }

func (responses) encode(q *question) any {
	var items []any
	for _, m := range q.messages {
		switch {
		case m.role == "tool":
			items = append(items, object{"type": "function_call_output", "call_id": m.id, "output": m.text})
			continue
		case m.role == "assistant" && m.text != "":
			items = append(items, object{"type": "message", "role": "assistant", "content": []any{object{"type": "output_text", "text": m.text}}})
		case m.role == "user":
			items = append(items, object{"role": "user", "content": m.text})
		}
		for _, c := range m.calls {
			items = append(items, object{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.args})
		}
	}
	body := object{"model": modelName, "input": items, "stream": q.stream}
	if q.most > 0 {
		body["max_output_tokens"] = q.most
	}
	if q.system != "" {
		body["instructions"] = q.system
	}
	if q.previous != "" {
		body["previous_response_id"] = q.previous
	}
	var tools []any
	for _, t := range q.tools {
		tools = append(tools, object{"type": "function", "name": t.name, "description": t.description, "parameters": anything})
	}
	if tools != nil {
		body["tools"] = tools
	}
	return body
}

// responseBody is a response without streaming.
type responseBody struct {
	ID     string `json:"id"`
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"output"`
}

func (r *reply) take(b *responseBody) {
	r.id = b.ID
	for _, o := range b.Output {
		if o.Type == "function_call" {
			r.calls = append(r.calls, call{o.CallID, o.Name, o.Arguments})
		}
	}
}

func (responses) event(r *reply, name string, data []byte) {
	v := decode[struct {
		Type     string       `json:"type"`
		Delta    string       `json:"delta"`
		Code     string       `json:"code"`
		Response responseBody `json:"response"`
	}](r, data)
	if v.Type != name {
		r.fault = "the event " + name + " is of the type " + v.Type
		return
	}
	switch name {
	case "response.output_text.delta":
		r.text += v.Delta
	case "error":
		r.fault = v.Code
	case "response.failed":
		r.ended = true
	case "response.completed", "response.incomplete":
		r.ended = true
		r.take(&v.Response)
	}
}

func (responses) whole(r *reply, body []byte) {
	v := decode[responseBody](r, body)
	r.take(&v)
	for _, o := range v.Output {
		for _, c := range o.Content {
			r.text += c.Text
		}
	}
}

func (responses) refused(r *reply, body []byte) { completions{}.refused(r, body) }
