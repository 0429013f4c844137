package anthropic

import (
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// request is the body of both endpoints. Fields that are ignored are not
// here.
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

// content is a string or a list of blocks; a string is one text block. Results
// of Anthropic's own tools have an object there, which is not looked into.
type content struct {
	blocks []block
	object bool
}

// UnmarshalJSON reads either form.
func (c *content) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.String:
		c.blocks = []block{{Type: "text"}}
		return wire.Unmarshal(data, &c.blocks[0].Text)
	case wire.Array:
		return wire.Unmarshal(data, &c.blocks)
	case wire.Object:
		c.object = true
		return nil
	case wire.Null:
		return nil
	default:
		return wire.Expected(data, "a string or an array")
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

// toolChange names a tool that comes or goes in the course of a conversation,
// or defines it.
type toolChange struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	Definition *tool  `json:"definition"`
}

// source is where the bytes of an image or a document are. A search result's
// is just a name.
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

// UnmarshalJSON reads either form.
func (s *source) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.String:
		return wire.Unmarshal(data, &s.name)
	case wire.Object:
		return wire.Unmarshal(data, &s.sourceFields)
	case wire.Null:
		return nil
	default:
		return wire.Expected(data, "an object or a string")
	}
}
