package openai

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

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
	functionCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
		Arguments string `json:"arguments"`
	}
	customCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
		Input     string `json:"input"`
	}
	searchCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Execution string `json:"execution"`
		Arguments any    `json:"arguments"`
	}
)

// newText is a part of a message.
func newText(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

// object is the answer before anything is in it: what the client asked for,
// with the API's defaults.
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
		Truncation: firstOf(q.Truncation, "disabled"), User: q.User, Metadata: q.Metadata,
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
