package runner

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// request is what a runner reads: the adapter's contract, and two fields more
// for runners that can go on with a conversation.
type request struct {
	RequestID       string          `json:"request_id"`
	Prompt          string          `json:"prompt"`
	WorkspaceRoot   string          `json:"workspace_root"`
	Model           string          `json:"model,omitempty"`
	ReasoningEffort string          `json:"reasoningEffort,omitempty"`
	SystemMessage   string          `json:"systemMessage,omitempty"`
	Context         json.RawMessage `json:"context"`
	Policy          json.RawMessage `json:"policy"`
	AvailableTools  []string        `json:"availableTools,omitempty"`
	ExcludedTools   []string        `json:"excludedTools,omitempty"`
	MCPServers      map[string]any  `json:"mcpServers,omitempty"`
	Streaming       bool            `json:"streaming"`
	RawRequest      json.RawMessage `json:"raw_request"`
	Env             json.RawMessage `json:"env,omitempty"`
	SessionID       string          `json:"session_id"`
	History         []said          `json:"history"`
}

// said is a message of an earlier turn.
type said struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// fileRefs are the attachments that have a place on disk.
type fileRefs struct {
	Files    []string  `json:"files"`
	Snippets []snippet `json:"snippets"`
}

type snippet struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

func (s *conversation) request(p bridge.Prompt) ([]byte, error) {
	switch {
	case p.ResponseFormat != nil:
		return nil, unsupported("be bound to a response format")
	case len(p.Headers) > 0:
		return nil, unsupported("send headers to the model's provider")
	case p.Mode != "" && p.Mode != bridge.ModeInteractive:
		return nil, unsupported("switch to mode " + p.Mode)
	}
	spec := s.Spec
	var order struct {
		Context json.RawMessage `json:"context"`
		Policy  json.RawMessage `json:"policy"`
		Config  struct {
			Env json.RawMessage `json:"env"`
		} `json:"config"`
	}
	if spec.WorkOrder != nil {
		if err := json.Unmarshal(spec.WorkOrder, &order); err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the work order is not understood", Cause: err}
		}
	}
	if order.Context == nil {
		refs := fileRefs{Files: []string{}, Snippets: []snippet{}}
		for _, a := range p.Attachments {
			if a.Path != "" {
				refs.Files = append(refs.Files, a.Path)
				continue
			}
			refs.Snippets = append(refs.Snippets, snippet{a.Name, string(a.Data)})
		}
		b, err := json.Marshal(refs)
		if err != nil {
			return nil, err
		}
		order.Context = b
	}
	if order.Policy == nil {
		order.Policy = json.RawMessage("{}")
	}
	r := request{RequestID: session.NewID(), Prompt: p.Text, WorkspaceRoot: spec.WorkingDir, SystemMessage: spec.System.Text,
		Context: order.Context, Policy: order.Policy, AvailableTools: spec.AvailableTools, ExcludedTools: spec.ExcludedTools, Streaming: true,
		RawRequest: spec.WorkOrder, Env: order.Config.Env, SessionID: s.ID()}
	s.mu.Lock()
	r.Model, r.ReasoningEffort, r.History = s.model, s.effort, append([]said{}, s.said...)
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(spec.MCPServers)) {
		m := spec.MCPServers[name]
		if r.MCPServers == nil {
			r.MCPServers = map[string]any{}
		}
		server := map[string]any{"command": m.Command, "args": m.Args, "env": m.Env}
		if m.URL != "" {
			server = map[string]any{"type": "http", "url": m.URL, "headers": m.Headers}
		}
		r.MCPServers[name] = server
	}
	if r.RawRequest == nil {
		r.RawRequest = json.RawMessage("null")
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

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

// normalise reads a line. A line of no known kind is the assistant's
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
