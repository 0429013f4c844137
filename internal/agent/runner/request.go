package runner

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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

func (s *session) request(p bridge.Prompt) ([]byte, error) {
	switch {
	case p.ResponseFormat != nil:
		return nil, unsupported("be bound to a response format")
	case len(p.Headers) > 0:
		return nil, unsupported("send headers to the model's provider")
	case p.Mode != "":
		return nil, unsupported("switch to mode " + p.Mode)
	}
	spec := s.spec
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
	r := request{RequestID: newID(), Prompt: p.Text, WorkspaceRoot: spec.WorkingDir, SystemMessage: spec.System.Text,
		Context: order.Context, Policy: order.Policy, AvailableTools: spec.AvailableTools, ExcludedTools: spec.ExcludedTools, Streaming: true,
		RawRequest: spec.WorkOrder, Env: order.Config.Env, SessionID: s.id}
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
