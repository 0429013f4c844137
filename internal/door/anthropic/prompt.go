package anthropic

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// purpose is what a request is read for.
type purpose int

const (
	needsAnswer purpose = iota
	justCount           // what only matters for an answer may be missing
)

// prompt is a request, understood. What depends on the model is still open:
// its chat has no model, profile and effort.
type prompt struct {
	chat      bridge.Chat
	model     string // as the client calls it
	maxTokens int64
	stops     []string
	stream    bool
	thinking  display
	effort    effort
	dropped   []string // tools that nobody here can run
}

// prompt checks the request and translates it. Errors name the JSON path.
func (r *request) prompt(why purpose) (*prompt, error) {
	if r.Model == nil || *r.Model == "" {
		return nil, wire.At("model", "the name of a model is required")
	}
	if err := r.Thread.check(); err != nil {
		return nil, err
	}
	if len(r.Messages) == 0 {
		return nil, wire.At("messages", "at least one message is required")
	}
	p := &prompt{model: *r.Model, stream: r.Stream}
	if why == needsAnswer {
		if err := r.answerable(p); err != nil {
			return nil, err
		}
	}
	d, err := r.dialogue(why)
	if err != nil {
		return nil, err
	}
	p.chat.System, p.chat.Messages = d.systemText(), d.finished()
	if err := r.offer(p, d.changes); err != nil {
		return nil, err
	}
	if p.chat.ResponseFormat, err = r.format(); err != nil {
		return nil, err
	}
	if p.thinking, p.effort, err = r.thought(d.effort); err != nil {
		return nil, err
	}
	return p, nil
}

// answerable reads what only an answer needs, and refuses what the bridge has
// no counterpart for.
func (r *request) answerable(p *prompt) error {
	switch {
	case r.MaxTokens == nil:
		return wire.At("max_tokens", "the field is required")
	case *r.MaxTokens < 0:
		return wire.At("max_tokens", "expected 0 or more, got %d", *r.MaxTokens)
	case len(r.MCPServers) > 0:
		return wire.At("mcp_servers", "the bridge does not connect to MCP servers for its clients: call them yourself and offer their tools in tools")
	case !empty(r.Container):
		return wire.At("container", "there are no containers here")
	case !empty(r.Compaction):
		return wire.At("compaction", "the bridge does not summarise conversations: ask for a summary in a message")
	}
	p.maxTokens, p.stops = *r.MaxTokens, r.StopSequences
	for i, s := range r.StopSequences {
		if s == "" {
			return wire.At(index("stop_sequences", i), "a stop sequence must not be empty")
		}
	}
	return nil
}

// check lets threads begin but not go on: what was said is recognised by what
// was said, and needs no name. Clients that hear of a thread which is not known
// send the whole conversation instead, by themselves.
func (t *thread) check() error {
	if t == nil {
		return nil
	}
	switch t.Type {
	case "create":
		return nil
	case "continue":
		return threadLost{&bridge.Error{Code: bridge.CodeNotFound, Message: "The thread is not known here", Remedy: "Send the whole conversation."}}
	default:
		return wire.At("thread.type", `expected "create" or "continue", got %s`, quote(t.Type))
	}
}

// empty reports whether a field that is refused says nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		for _, field := range v {
			if list, ok := field.([]any); field != nil && (!ok || len(list) > 0) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// index is the path of a list's element.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// quote shows a value that the client chose.
func quote(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(quoted)
}
