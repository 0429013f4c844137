package openai

import (
	"encoding/json"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// chatRequest is the body of POST /v1/chat/completions, as far as the bridge
// looks at it. What is not here is ignored.
type chatRequest struct {
	Model             string         `json:"model"`
	Messages          []chatMessage  `json:"messages"`
	Tools             []chatTool     `json:"tools"`
	ToolChoice        chatToolChoice `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	Functions         []chatFunction `json:"functions"`     // before there were tools
	FunctionCall      functionChoice `json:"function_call"` // likewise
	ResponseFormat    *chatFormat    `json:"response_format"`
	ReasoningEffort   string         `json:"reasoning_effort"`
	Stop              stopList       `json:"stop"`
	Stream            bool           `json:"stream"`
	StreamOptions     struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N           *int     `json:"n"`
	Logprobs    bool     `json:"logprobs"`
	TopLogprobs int      `json:"top_logprobs"`
	Modalities  []string `json:"modalities"`
}

type chatMessage struct {
	Role         string        `json:"role"`
	Content      chatContent   `json:"content"`
	Refusal      string        `json:"refusal"`
	ToolCalls    []chatCall    `json:"tool_calls"`
	ToolCallID   string        `json:"tool_call_id"`
	FunctionCall *functionCall `json:"function_call"`
}

// chatContent is a string, a list of parts, or null.
type chatContent struct {
	text  string
	parts []chatPart
}

func (c *chatContent) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		return wire.Unmarshal(data, &c.text)
	case wire.Array:
		return wire.Unmarshal(data, &c.parts)
	default:
		return wire.Expected(data, "a string or an array")
	}
}

type chatPart struct {
	Type     string   `json:"type"`
	Text     string   `json:"text"`
	Refusal  string   `json:"refusal"`
	ImageURL imageURL `json:"image_url"`
	File     struct {
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
		Name string `json:"filename"`
	} `json:"file"`
}

// imageURL is an object with a url; some clients send the URL alone.
type imageURL string

func (u *imageURL) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		return wire.Unmarshal(data, (*string)(u))
	case wire.Object:
		var object struct {
			URL string `json:"url"`
		}
		err := wire.Unmarshal(data, &object)
		*u = imageURL(object.URL)
		return err
	default:
		return wire.Expected(data, "an object")
	}
}

// chatCall is a tool call in a message of the assistant's.
type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
	Custom   struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

type functionCall struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// arguments are JSON inside a string; some clients send the JSON itself.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		return wire.Unmarshal(data, (*string)(a))
	case wire.Object:
		*a = arguments(data)
		return nil
	default:
		return wire.Expected(data, "a string that holds JSON")
	}
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

// chatToolChoice is a word, here its Type, or an object.
type chatToolChoice struct {
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	Allowed struct {
		Mode  string     `json:"mode"`
		Tools []chatTool `json:"tools"`
	} `json:"allowed_tools"`
}

func (c *chatToolChoice) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		return wire.Unmarshal(data, &c.Type)
	case wire.Object:
		type object chatToolChoice // without this method
		return wire.Unmarshal(data, (*object)(c))
	default:
		return wire.Expected(data, "a string or an object")
	}
}

// functionChoice is what tool_choice was before: "none", "auto", or an object
// with a name.
type functionChoice struct {
	Mode string `json:"-"`
	Name string `json:"name"`
}

func (c *functionChoice) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		return wire.Unmarshal(data, &c.Mode)
	case wire.Object:
		type object functionChoice
		return wire.Unmarshal(data, (*object)(c))
	default:
		return wire.Expected(data, "a string or an object")
	}
}

type chatFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      bool            `json:"strict"`
	} `json:"json_schema"`
}

// stopList is one stop sequence or several.
type stopList []string

func (s *stopList) UnmarshalJSON(data []byte) error {
	switch wire.KindOf(data) {
	case wire.Null:
		return nil
	case wire.String:
		var one string
		err := wire.Unmarshal(data, &one)
		*s = stopList{one}
		return err
	case wire.Array:
		return wire.Unmarshal(data, (*[]string)(s))
	default:
		return wire.Expected(data, "a string or an array")
	}
}
