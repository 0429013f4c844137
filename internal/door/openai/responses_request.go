package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// responseRequest is the body of POST /v1/responses, as far as the bridge
// looks at it. What is kept raw is echoed in the answer as it came.
type responseRequest struct {
	Model              string          `json:"model"`
	Input              responseInput   `json:"input"`
	Instructions       *string         `json:"instructions"`
	PreviousResponseID string          `json:"previous_response_id"`
	Tools              json.RawMessage `json:"tools"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	ParallelToolCalls  *bool           `json:"parallel_tool_calls"`
	Text               json.RawMessage `json:"text"`
	Reasoning          struct {
		Effort  *string `json:"effort"`
		Summary *string `json:"summary"`
	} `json:"reasoning"`
	Stream   bool           `json:"stream"`
	Store    *bool          `json:"store"`
	Include  []string       `json:"include"`
	Metadata map[string]any `json:"metadata"`

	// Not possible here.
	Background   bool            `json:"background"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
	TopLogprobs  int             `json:"top_logprobs"`

	// Without effect, but echoed.
	MaxOutputTokens  *int64   `json:"max_output_tokens"`
	MaxToolCalls     *int64   `json:"max_tool_calls"`
	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	Truncation       string   `json:"truncation"`
	User             *string  `json:"user"`
	SafetyIdentifier *string  `json:"safety_identifier"`
	PromptCacheKey   *string  `json:"prompt_cache_key"`
}

// responseInput is a text, which is the user's, or a list of items.
type responseInput struct {
	given bool
	text  string
	items []responseItem
}

func (in *responseInput) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		in.given = true
		return wire.Unmarshal(data, &in.text)
	case wire.Array:
		in.given = true
		return wire.Unmarshal(data, &in.items)
	default:
		return wire.Expected(data, "a string or an array")
	}
}

// responseItem is an item of the input. Which fields count depends on its
// type; those whose kind does too are read when it is known.
type responseItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Status    string          `json:"status"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Author    string          `json:"author"`
	Content   json.RawMessage `json:"content"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Action    json.RawMessage `json:"action"`
	Operation json.RawMessage `json:"operation"`
	Output    json.RawMessage `json:"output"`
	Tools     json.RawMessage `json:"tools"`
}

// kind is the item's type; messages and references may leave it out.
func (it *responseItem) kind() string {
	switch {
	case it.Type != "":
		return it.Type
	case it.Role != "":
		return "message"
	case it.ID != "":
		return "item_reference"
	default:
		return ""
	}
}

// stored reports whether a later request may refer to the answer.
func (q *responseRequest) stored() bool { return q.Store == nil || *q.Store }

// check refuses what the bridge cannot do and a client could not do without.
func (q *responseRequest) check() error {
	switch {
	case q.Model == "":
		return wire.At("model", "is required: GET /v1/models lists what there is")
	case q.Background:
		return wire.At("background", "answers cannot be made in the background: leave it out and use stream")
	case given(q.Conversation):
		return wire.At("conversation", "conversations are not kept here: use previous_response_id, or send the whole history as input")
	case given(q.Prompt):
		return wire.At("prompt", "prompt templates are not kept here: send the text as instructions and input")
	case q.TopLogprobs > 0:
		return wire.At("top_logprobs", "log probabilities are not available: leave it out")
	case slices.Contains(q.Include, "message.output_text.logprobs"):
		return wire.At("include", "log probabilities are not available: leave message.output_text.logprobs out")
	case !q.Input.given:
		return wire.At("input", "is required: a string or an array of items")
	default:
		return nil
	}
}

// given reports whether a raw field holds anything.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// responseFormat is text.format.
type responseFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

// apply puts the format that the client wants into c.
func (f responseFormat) apply(c *bridge.Chat) error {
	switch f.Type {
	case "", "text":
	case "json_object":
		c.JSON = true
	case "json_schema":
		if f.Name == "" {
			return wire.At("text.format.name", "is required with json_schema")
		}
		if wire.KindOf(f.Schema) != wire.Object {
			return wire.At("text.format.schema", "expected an object that is a JSON schema")
		}
		c.ResponseFormat = &bridge.ResponseFormat{Name: f.Name, Description: f.Description, Schema: f.Schema, Strict: f.Strict}
	default:
		return wire.At("text.format.type", "expected text, json_object or json_schema, got %q", f.Type)
	}
	return nil
}

// chat translates the request; the tools are how the answer's calls are
// translated back. The model is not looked up yet.
func (q *responseRequest) chat() (bridge.Chat, *responseTools, error) {
	c := bridge.Chat{Door: "responses", Whole: !q.Stream, Previous: q.PreviousResponseID}
	if err := q.check(); err != nil {
		return c, nil, err
	}
	var text struct {
		Format responseFormat `json:"format"`
	}
	if given(q.Text) {
		if err := wire.Unmarshal(q.Text, &text); err != nil {
			return c, nil, wire.Within("text", err)
		}
	}
	if err := text.Format.apply(&c); err != nil {
		return c, nil, err
	}
	tools, err := q.tools()
	if err != nil {
		return c, nil, err
	}
	in := responseHistory{tools: tools, request: q}
	if err := in.read(); err != nil {
		return c, nil, err
	}
	c.Messages = in.messages
	if in.previous != "" {
		c.Previous = in.previous
	}
	if q.Instructions != nil && *q.Instructions != "" {
		in.system = append([]string{*q.Instructions}, in.system...)
	}
	c.System = strings.Join(in.system, "\n\n")
	if c.Tools, c.Choice, err = tools.choose(q.ToolChoice); err != nil {
		return c, nil, err
	}
	c.OneCall = q.ParallelToolCalls != nil && !*q.ParallelToolCalls
	return c, tools, nil
}

// tools gathers the tools of the request and those that its items bring in.
func (q *responseRequest) tools() (*responseTools, error) {
	t := &responseTools{calls: map[string]responseTool{}, names: map[toolName]string{}}
	if err := t.declare("tools", q.Tools); err != nil {
		return nil, err
	}
	for i := range q.Input.items {
		it := &q.Input.items[i]
		if kind := it.kind(); kind == "additional_tools" || kind == "tool_search_output" {
			if err := t.declare(at(i)+".tools", it.Tools); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}
