package runner

import (
	"encoding/json"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// said kinds of a runner's lines.
const (
	kindDelta   = "assistant_delta"
	kindMessage = "assistant_message"
	kindCall    = "tool_call"
	kindResult  = "tool_result"
	kindWarning = "warning"
	kindError   = "error"
	kindUsage   = "usage"
)

// line is a line of a runner's, normalised.
type line struct {
	kind   string
	text   string // delta, message, warning, error, result
	call   bridge.ToolCall
	failed bool // of a result
	status int  // of an error
	usage  bridge.Usage
}

// fields are the names that runners use for the same things.
type fields struct {
	Type      string          `json:"type"`
	Kind      string          `json:"kind"`
	T         string          `json:"t"`
	Event     json.RawMessage `json:"event"`
	Text      *string         `json:"text"`
	Delta     *string         `json:"delta"`
	Content   json.RawMessage `json:"content"`
	Message   json.RawMessage `json:"message"`
	ToolName  string          `json:"tool_name"`
	Tool      string          `json:"tool"`
	Name      string          `json:"name"`
	ToolUseID string          `json:"tool_use_id"`
	ID        string          `json:"id"`
	Parent    string          `json:"parent_tool_use_id"`
	Input     any             `json:"input"`
	Args      any             `json:"args"`
	Arguments any             `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Result    json.RawMessage `json:"result"`
	IsError   bool            `json:"is_error"`
	Error     json.RawMessage `json:"error"`
	Status    int             `json:"status"`
	Usage     *usage          `json:"usage"`
	usage
}

// usage is counted in the names of several providers.
type usage struct {
	Input      int64   `json:"input_tokens"`
	Output     int64   `json:"output_tokens"`
	Prompt     int64   `json:"prompt_tokens"`
	Completion int64   `json:"completion_tokens"`
	CacheRead  int64   `json:"cache_read_tokens"`
	CacheWrite int64   `json:"cache_write_tokens"`
	Cost       float64 `json:"estimated_cost_usd"`
	Model      string  `json:"model"`
}

// normalise reads a line. What is no event of a known kind is the assistant's
// words, whatever it is.
func normalise(raw string) line {
	words := line{kind: kindDelta, text: raw + "\n"}
	if !strings.HasPrefix(strings.TrimSpace(raw), "{") {
		return words
	}
	var f fields
	if json.Unmarshal([]byte(raw), &f) != nil {
		return words
	}
	if f.T == "event" && f.Event != nil { // in the Agent Backplane's envelope
		inner := fields{}
		if json.Unmarshal(f.Event, &inner) != nil {
			return words
		}
		f = inner
	}
	kind := f.Type
	if kind == "" {
		kind = f.Kind
	}
	out := line{kind: kind}
	switch kind {
	case kindDelta, kindMessage:
		out.text = first(f.Text, f.Delta, asText(f.Content), asText(f.Message))
	case kindCall:
		out.call = bridge.ToolCall{ID: either(f.ToolUseID, f.ID), Name: either(f.ToolName, f.Tool, f.Name), Parent: f.Parent, Args: f.Input}
		if out.call.Args == nil {
			out.call.Args = f.Args
		}
		if out.call.Args == nil {
			out.call.Args = f.Arguments
		}
	case kindResult:
		out.call = bridge.ToolCall{ID: either(f.ToolUseID, f.ID), Name: either(f.ToolName, f.Tool, f.Name)}
		out.text = first(asText(f.Output), asText(f.Result), asText(f.Content), f.Text, asText(f.Error))
		out.failed = f.IsError || len(f.Error) > 0 && string(f.Error) != "null" && string(f.Error) != "false"
	case kindWarning:
		out.text = first(asText(f.Message), f.Text, asText(f.Content))
	case kindError:
		out.text, out.status = first(asText(f.Message), asText(f.Error), f.Text), f.Status
	case kindUsage:
		u := f.usage
		if f.Usage != nil {
			u = *f.Usage
		}
		out.usage = bridge.Usage{Model: u.Model, Calls: 1, InputTokens: u.Input + u.Prompt, OutputTokens: u.Output + u.Completion,
			CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Cost: u.Cost}
	default:
		return words
	}
	return out
}

// asText is a JSON value as text: a text itself, anything else as it stands.
func asText(raw json.RawMessage) *string {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return &s
}

func first(texts ...*string) string {
	for _, t := range texts {
		if t != nil {
			return *t
		}
	}
	return ""
}

func either(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
