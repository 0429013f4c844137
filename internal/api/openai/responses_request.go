package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// responseRequest is the body of POST /v1/responses. Other fields are ignored
// with a notice. Raw fields are echoed in the answer as they came.
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

	MaxOutputTokens *int64 `json:"max_output_tokens"`

	// Without effect, but echoed.
	MaxToolCalls     *int64   `json:"max_tool_calls"`
	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	Truncation       string   `json:"truncation"`
	User             *string  `json:"user"`
	SafetyIdentifier *string  `json:"safety_identifier"`
	PromptCacheKey   *string  `json:"prompt_cache_key"`

	Unknown jsontext.Value `json:",unknown"`
}

// ignored names the fields without effect that a client may have counted on.
func (q *responseRequest) ignored() []string {
	names := wire.Members(q.Unknown)
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"temperature", q.Temperature != nil}, {"top_p", q.TopP != nil}, {"max_tool_calls", q.MaxToolCalls != nil},
		{"include[message.output_text.logprobs]", slices.Contains(q.Include, "message.output_text.logprobs")},
	} {
		if f.given {
			names = append(names, f.name)
		}
	}
	return names
}

// responseInput is a text, which is the user's, or a list of items.
type responseInput struct {
	given bool
	text  string
	items []responseItem
}

func (in *responseInput) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	in.given = dec.PeekKind() != 'n'
	return wire.Forms{String: &in.text, Array: &in.items}.Decode(dec)
}

// responseItem is an item of the input. Its type tells which fields count, and what
// the raw ones hold.
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
	case !q.Input.given:
		return wire.At("input", "is required: a string or an array of items")
	default:
		return nil
	}
}

// given reports whether a raw field holds anything.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// chat translates the request, except for the model. The tools translate calls back.
func (q *responseRequest) chat() (bridge.Chat, *responseTools, error) {
	c := bridge.Chat{Door: "responses", Whole: !q.Stream, Previous: q.PreviousResponseID, MaxTokens: bound(q.MaxOutputTokens)}
	if err := q.check(); err != nil {
		return c, nil, err
	}
	var text struct {
		Format struct {
			Type string `json:"type"`
			schema
		} `json:"format"`
	}
	if err := raw("text", q.Text, &text); err != nil {
		return c, nil, err
	}
	if err := setFormat(&c, text.Format.Type, &text.Format.schema, "text.format.type", "text.format"); err != nil {
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
	c.Tools, c.OneCall = tools.specs, q.ParallelToolCalls != nil && !*q.ParallelToolCalls
	return c, tools, tools.choose(&c, q.ToolChoice)
}

// tools gathers the tools of the request and those that its items bring in.
func (q *responseRequest) tools() (*responseTools, error) {
	t := newResponseTools()
	if err := t.declare("", "tools", q.Tools); err != nil {
		return nil, err
	}
	for i := range q.Input.items {
		it := &q.Input.items[i]
		if kind := it.kind(); kind == "additional_tools" || kind == "tool_search_output" {
			if err := t.declare("", at(i)+".tools", it.Tools); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// The values of a status, of a response and of an item.
const (
	statusRunning    = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// incompleteness says why a response is not all that it could be.
type incompleteness struct {
	Reason string `json:"reason"` // max_output_tokens or content_filter
}

// responseObject is the answer as a whole.
type responseObject struct {
	ID                 string          `json:"id"`
	Object             string          `json:"object"`
	CreatedAt          int64           `json:"created_at"`
	CompletedAt        *int64          `json:"completed_at"`
	Status             string          `json:"status"`
	Background         bool            `json:"background"`
	Error              *responseError  `json:"error"`
	IncompleteDetails  *incompleteness `json:"incomplete_details"`
	Instructions       *string         `json:"instructions"`
	MaxOutputTokens    *int64          `json:"max_output_tokens"`
	MaxToolCalls       *int64          `json:"max_tool_calls"`
	Model              string          `json:"model"`
	Output             []any           `json:"output"`
	ParallelToolCalls  bool            `json:"parallel_tool_calls"`
	PreviousResponseID *string         `json:"previous_response_id"`
	PromptCacheKey     *string         `json:"prompt_cache_key"`
	Reasoning          map[string]any  `json:"reasoning"`
	SafetyIdentifier   *string         `json:"safety_identifier"`
	ServiceTier        string          `json:"service_tier"`
	Store              bool            `json:"store"`
	Temperature        float64         `json:"temperature"`
	Text               json.RawMessage `json:"text"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	Tools              json.RawMessage `json:"tools"`
	TopLogprobs        int             `json:"top_logprobs"`
	TopP               float64         `json:"top_p"`
	Truncation         string          `json:"truncation"`
	Usage              *responseUsage  `json:"usage"`
	User               *string         `json:"user"`
	Metadata           map[string]any  `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	InputDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int64 `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`
}

func newUsage(u bridge.Usage) *responseUsage {
	out := &responseUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	out.InputDetails.CachedTokens = u.CacheRead
	out.InputDetails.CacheWriteTokens = u.CacheWrite
	out.OutputDetails.ReasoningTokens = u.ReasoningTokens
	return out
}

// The items of an answer.
type (
	messageItem struct {
		ID      string       `json:"id"`
		Type    string       `json:"type"`
		Status  string       `json:"status"`
		Role    string       `json:"role"`
		Content []outputText `json:"content"`
	}
	outputText struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
	}
	reasoningItem struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Summary   []summaryText   `json:"summary"`
		Encrypted json.RawMessage `json:"encrypted_content,omitempty"` // null if it was asked for: there is none
		Status    string          `json:"status,omitempty"`
	}
	summaryText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	// callItem is a call of any kind of tool.
	callItem struct {
		ID        string  `json:"id"`
		Type      string  `json:"type"`
		Status    string  `json:"status"`
		CallID    string  `json:"call_id"`
		Name      string  `json:"name,omitempty"`
		Namespace string  `json:"namespace,omitempty"`
		Execution string  `json:"execution,omitempty"`
		Arguments any     `json:"arguments,omitempty"` // a text of functions, a value of searches
		Input     *string `json:"input,omitempty"`     // of custom tools
	}
)

// newText is a part of a message.
func newText(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

// object is the empty answer: the request's fields and the API's defaults.
func (q *responseRequest) object(id string, created int64) responseObject {
	o := responseObject{
		ID: id, Object: "response", CreatedAt: created, Status: statusRunning,
		Instructions: q.Instructions, MaxOutputTokens: q.MaxOutputTokens, MaxToolCalls: q.MaxToolCalls,
		Model: q.Model, Output: []any{}, ParallelToolCalls: q.ParallelToolCalls == nil || *q.ParallelToolCalls,
		PreviousResponseID: orNull(q.PreviousResponseID), PromptCacheKey: q.PromptCacheKey,
		Reasoning:        map[string]any{"effort": q.Reasoning.Effort, "summary": q.Reasoning.Summary},
		SafetyIdentifier: q.SafetyIdentifier, ServiceTier: "default", Store: q.stored(),
		Temperature: 1, Text: json.RawMessage(`{"format":{"type":"text"}}`),
		ToolChoice: json.RawMessage(`"auto"`), Tools: json.RawMessage(`[]`), TopP: 1,
		Truncation: cmp.Or(q.Truncation, "disabled"), User: q.User, Metadata: q.Metadata,
	}
	if q.Temperature != nil {
		o.Temperature = *q.Temperature
	}
	if q.TopP != nil {
		o.TopP = *q.TopP
	}
	if given(q.Text) {
		o.Text = q.Text
	}
	if given(q.ToolChoice) {
		o.ToolChoice = q.ToolChoice
	}
	if given(q.Tools) {
		o.Tools = q.Tools
	}
	if o.Metadata == nil {
		o.Metadata = map[string]any{}
	}
	return o
}

const responsePrefix = "resp_"

// itemID names an item of an answer, so that responseOf can tell which.
func itemID(prefix, response string, index int) string {
	return prefix + "_" + strings.TrimPrefix(response, responsePrefix) + "_" + strconv.Itoa(index)
}

// responseOf tells which answer an item belongs to, if it has an id of ours.
func responseOf(item string) (string, bool) {
	_, rest, ok := strings.Cut(item, "_")
	i := strings.LastIndexByte(rest, '_')
	if !ok || i <= 0 {
		return "", false
	}
	if _, err := strconv.ParseUint(rest[i+1:], 10, 31); err != nil {
		return "", false
	}
	return responsePrefix + rest[:i], true
}
