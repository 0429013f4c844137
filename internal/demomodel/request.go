package demomodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Request is one chat-completions request as it came. It is shared between
// the journal and the callers, so it is read-only.
type Request struct {
	Path         string
	Header       http.Header // without Authorization
	Raw          []byte      // the body
	Model        string
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	Messages     []Message
	Tools        []Tool
	ToolChoice   string // "", "auto", "none", "required", or the name of the forced tool
	Format       Format
}

// Message is one message of a request. Content is the text of all text parts.
type Message struct {
	Role       string
	Content    string
	Images     int
	ToolCalls  []Call
	ToolCallID string // of a tool message: the call it answers
}

// Call is a tool call that an assistant message made.
type Call struct {
	ID        string
	Name      string
	Arguments string // JSON text, as the model wrote it
}

// Tool is an offered tool. Tools that are not functions have no name.
type Tool struct {
	Type        string
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema, may be nil
}

// Format is the response_format of a request; Type is "" if there was none.
type Format struct {
	Type   string // text, json_object or json_schema
	Name   string
	Schema json.RawMessage
}

// System returns the text of the system and developer messages.
func (r *Request) System() string {
	var parts []string
	for _, m := range r.Messages {
		if m.Role == "system" || m.Role == "developer" {
			parts = append(parts, m.Content)
		}
	}
	return strings.Join(parts, "\n\n")
}

// LastUser returns what the user said last, without the tags that the runtime
// puts around it.
func (r *Request) LastUser() string { return r.turn().user }

// ToolResults returns the contents of the tool messages that answer the last
// assistant message, in the order of its calls.
func (r *Request) ToolResults() []string {
	t := r.turn()
	if len(t.rounds) == 0 {
		return nil
	}
	return t.rounds[len(t.rounds)-1].results
}

// ToolNames returns the names of the function tools that are offered.
func (r *Request) ToolNames() []string {
	var names []string
	for _, t := range r.Tools {
		if t.Name != "" {
			names = append(names, t.Name)
		}
	}
	return names
}

// The wire types are decoded in one pass, since every turn of a benchmark pays
// for it. What clients write differently is any.
type wireRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages   []wireMessage `json:"messages"`
	Tools      []wireTool    `json:"tools"`
	ToolChoice any           `json:"tool_choice"`
	Format     wireFormat    `json:"response_format"`
}

type wireMessage struct {
	Role       string `json:"role"`
	Content    any    `json:"content"`
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments any    `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type wireTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type wireFormat struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// decodeRequest reads a body; raw is kept, not copied. Fields of a wrong type
// count as absent: clients list tools that are not functions, and send more
// than this model needs.
func decodeRequest(raw []byte) (*Request, error) {
	var w wireRequest
	if err := json.Unmarshal(raw, &w); err != nil {
		if mismatch := (*json.UnmarshalTypeError)(nil); !errors.As(err, &mismatch) {
			return nil, fmt.Errorf("the body is not a chat completion request: %w", err)
		}
	}
	if len(w.Messages) == 0 {
		return nil, errors.New("the request has no messages")
	}
	r := &Request{Raw: raw, Model: w.Model, Stream: w.Stream, IncludeUsage: w.StreamOptions.IncludeUsage}
	if r.Model == "" {
		r.Model = ModelID
	}
	r.Messages = make([]Message, len(w.Messages))
	for i := range w.Messages {
		r.Messages[i] = w.Messages[i].message()
	}
	r.Tools = make([]Tool, len(w.Tools))
	for i := range w.Tools {
		f := &w.Tools[i].Function
		r.Tools[i] = Tool{Type: w.Tools[i].Type, Name: f.Name, Description: f.Description, Parameters: f.Parameters}
	}
	r.ToolChoice = toolChoice(w.ToolChoice)
	r.Format = Format{Type: w.Format.Type, Name: w.Format.Schema.Name, Schema: w.Format.Schema.Schema}
	return r, nil
}

func (w *wireMessage) message() Message {
	m := Message{Role: w.Role, ToolCallID: w.ToolCallID}
	switch c := w.Content.(type) {
	case string:
		m.Content = c
	case []any:
		m.Content, m.Images = joinParts(c)
	}
	for _, c := range w.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, Call{ID: c.ID, Name: c.Function.Name, Arguments: arguments(c.Function.Arguments)})
	}
	return m
}

func joinParts(parts []any) (text string, images int) {
	var b strings.Builder
	for _, p := range parts {
		part, ok := p.(map[string]any)
		if !ok {
			continue
		}
		if t, ok := part["type"].(string); ok && strings.Contains(t, "image") {
			images++
		}
		if t, ok := part["text"].(string); ok {
			b.WriteString(t)
		}
	}
	return b.String(), images
}

// arguments are JSON in a string, but some clients send the JSON itself.
func arguments(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil || v == nil {
		return ""
	}
	return string(b)
}

func toolChoice(v any) string {
	switch c := v.(type) {
	case string:
		return c
	case map[string]any:
		if f, ok := c["function"].(map[string]any); ok {
			name, _ := f["name"].(string)
			return name
		}
	}
	return ""
}

func (r *Request) callIDs() map[string]bool {
	ids := make(map[string]bool)
	for i := range r.Messages {
		for _, c := range r.Messages[i].ToolCalls {
			ids[c.ID] = true
		}
	}
	return ids
}
