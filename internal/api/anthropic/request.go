package anthropic

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// request is the body of both endpoints. Other fields are ignored.
type request struct {
	Model         *string       `json:"model"`
	MaxTokens     *int64        `json:"max_tokens"`
	Messages      []message     `json:"messages"`
	System        content       `json:"system"`
	Tools         []tool        `json:"tools"`
	ToolChoice    *toolChoice   `json:"tool_choice"`
	Thinking      *thinking     `json:"thinking"`
	StopSequences []string      `json:"stop_sequences"`
	Stream        bool          `json:"stream"`
	OutputConfig  *outputConfig `json:"output_config"`
	OutputFormat  *outputFormat `json:"output_format"`
	Thread        *thread       `json:"thread"`

	// Refused if they hold anything.
	Container  any              `json:"container"`
	Compaction any              `json:"compaction"`
	MCPServers []map[string]any `json:"mcp_servers"`
}

type message struct {
	Role         string        `json:"role"`
	Content      content       `json:"content"`
	OutputConfig *outputConfig `json:"output_config"` // of a system message: from here on
}

type outputConfig struct {
	Effort string        `json:"effort"`
	Format *outputFormat `json:"format"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type thinking struct {
	Type    string `json:"type"`
	Budget  *int64 `json:"budget_tokens"`
	Display string `json:"display"`
}

type thread struct {
	Type string `json:"type"`
}

type tool struct {
	Type        string         `json:"type"` // "" and custom are the client's own
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      map[string]any `json:"input_schema"`
	Deferred    bool           `json:"defer_loading"`
}

type toolChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	OneCall bool   `json:"disable_parallel_tool_use"`
}

// content is a string, which is one text block, or a list of blocks. Results of
// Anthropic's own tools are objects, which are not read.
type content struct {
	blocks []block
	object bool
}

// UnmarshalJSONFrom reads either form.
func (c *content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '"':
		c.blocks = []block{{Type: "text"}}
		return wire.Forms{String: &c.blocks[0].Text}.Decode(dec)
	case '{':
		c.object = true
		return dec.SkipValue()
	default:
		return wire.Forms{String: &c.blocks, Array: &c.blocks}.Decode(dec)
	}
}

// block is any kind of content block: which fields are set depends on Type.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`

	Source  source `json:"source"` // image, document, search_result
	Title   string `json:"title"`
	Context string `json:"context"`

	ID    string `json:"id"` // tool_use
	Name  string `json:"name"`
	Input any    `json:"input"`

	ToolUseID string  `json:"tool_use_id"` // tool_result
	Content   content `json:"content"`     // and others
	IsError   bool    `json:"is_error"`

	ToolName string      `json:"tool_name"` // tool_reference
	Tool     *toolChange `json:"tool"`      // tool_addition, tool_removal
}

// toolChange names or defines a tool that is added or removed by a message.
type toolChange struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	Definition *tool  `json:"definition"`
}

// source has the bytes of an image or a document, or the name of a search result.
type source struct {
	sourceFields
	name string
}

type sourceFields struct {
	Type      string  `json:"type"`
	MediaType string  `json:"media_type"`
	Data      string  `json:"data"`
	Content   content `json:"content"`
}

// UnmarshalJSONFrom reads either form.
func (s *source) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return wire.Forms{String: &s.name, Object: &s.sourceFields}.Decode(dec)
}

// purpose is what a request is read for.
type purpose int

const (
	needsAnswer purpose = iota
	justCount           // what only matters for an answer may be missing
)

// prompt is a translated request. Its chat has no model, profile and effort yet.
type prompt struct {
	chat     bridge.Chat
	model    string // as the client calls it
	stops    []string
	stream   bool
	thinking display
	effort   effort
	dropped  []string // tools that nobody here can run
}

// prompt checks the request and translates it. Errors name the JSON path.
func (r *request) prompt(why purpose) (*prompt, error) {
	if r.Model == nil || *r.Model == "" {
		return nil, wire.At("model", "the name of a model is required")
	}
	switch {
	case r.Thread == nil || r.Thread.Type == "create":
	case r.Thread.Type == "continue":
		// Conversations are recognised by their messages, not by threads.
		return nil, threadLost{&bridge.Error{Code: bridge.CodeNotFound, Message: "The thread is not known here", Remedy: "Send the whole conversation."}}
	default:
		return nil, wire.At("thread.type", `expected "create" or "continue", got %.64q`, r.Thread.Type)
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
	p.chat.System, p.chat.Messages = strings.Join(d.system, between), d.messages
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

// answerable reads the fields that only an answer needs, and refuses some.
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
	p.chat.MaxTokens, p.stops = *r.MaxTokens, r.StopSequences
	for i, s := range r.StopSequences {
		if s == "" {
			return wire.At(index("stop_sequences", i), "a stop sequence must not be empty")
		}
	}
	return nil
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

// display is what a client sees of the model's thinking.
type display int

const (
	hidden  display = iota // no thinking blocks at all
	omitted                // blocks without text
	shown
)

// signature ends every thinking block. Clients send it back unread.
const signature = "Y29waWxvdC1icmlkZ2U="

// effort is how hard the model has to think; "" leaves it to the model.
type effort string

// levels are all efforts that models are known to have, the least first.
func levels() []string { return []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} }

func known(level string) bool { return slices.Contains(levels(), level) }

// of is the effort of this model's that comes nearest, the lower one of two.
func (e effort) of(m bridge.Model) string {
	all := levels()
	want := slices.Index(all, string(e))
	if want < 0 {
		return ""
	}
	best, distance := "", len(all)
	for i, level := range all {
		if !slices.Contains(m.ReasoningEfforts, level) {
			continue
		}
		if d := max(want-i, i-want); d < distance {
			best, distance = level, d
		}
	}
	if want == 0 && distance > 0 {
		// The model cannot turn thinking off, so it gets its default.
		return ""
	}
	return best
}

// thought reads the thinking's budget, the request's effort and the turn's effort.
func (r *request) thought(turn string) (display, effort, error) {
	show, want := hidden, effort("")
	if t := r.Thinking; t != nil {
		switch t.Type {
		case "enabled":
			if t.Budget == nil {
				return 0, "", wire.At("thinking.budget_tokens", "the field is required")
			}
			show, want = shown, forBudget(*t.Budget)
		case "adaptive", "between_tools":
			show = shown
		case "disabled":
			want = "none"
		default:
			return 0, "", wire.At("thinking.type", `expected "enabled", "adaptive", "between_tools" or "disabled", got %.64q`, t.Type)
		}
		if show == shown && t.Display == "omitted" {
			show = omitted
		}
	}
	if c := r.OutputConfig; c != nil && c.Effort != "" {
		if !known(c.Effort) {
			return 0, "", wire.At("output_config.effort", `expected "low", "medium", "high", "xhigh" or "max", got %.64q`, c.Effort)
		}
		want = effort(c.Effort)
	}
	if turn != "" {
		want = effort(turn)
	}
	return show, want, nil
}

// forBudget is the effort that spends about so many tokens on thinking.
func forBudget(tokens int64) effort {
	switch {
	case tokens < 4096:
		return "low"
	case tokens < 16384:
		return "medium"
	default:
		return "high"
	}
}

// format returns the schema that the answer has to follow, if any.
func (r *request) format() (*bridge.ResponseFormat, error) {
	path, f := "output_format", r.OutputFormat
	if r.OutputConfig != nil && r.OutputConfig.Format != nil {
		path, f = "output_config.format", r.OutputConfig.Format
	}
	if f == nil {
		return nil, nil
	}
	if f.Type != "json_schema" {
		return nil, wire.At(path+".type", `expected "json_schema", got %.64q`, f.Type)
	}
	if wire.KindOf(f.Schema) != wire.Object {
		return nil, wire.At(path+".schema", "a JSON schema is required")
	}
	var schema any
	if err := wire.Unmarshal(f.Schema, &schema); err != nil {
		return nil, wire.Within(path+".schema", err)
	}
	return &bridge.ResponseFormat{Name: "output", Schema: f.Schema, Strict: exact(schema)}, nil
}

// exact reports whether strict providers would take a schema: they insist that
// objects list all their properties as required and allow no others. Other schemas
// are followed as well as the provider can.
func exact(schema any) bool {
	switch v := schema.(type) {
	case map[string]any:
		if properties, ok := v["properties"].(map[string]any); ok || v["type"] == "object" {
			required, _ := v["required"].([]any)
			if v["additionalProperties"] != false || len(required) != len(properties) {
				return false
			}
		}
		for _, part := range v {
			if !exact(part) {
				return false
			}
		}
	case []any:
		for _, part := range v {
			if !exact(part) {
				return false
			}
		}
	}
	return true
}
