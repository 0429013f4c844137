package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// chatRequest is the body of POST /v1/chat/completions. Other fields are ignored
// with a notice.
type chatRequest struct {
	Model             string         `json:"model"`
	Messages          []chatMessage  `json:"messages"`
	Tools             []chatTool     `json:"tools"`
	ToolChoice        chatToolChoice `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	Functions         []chatFunction `json:"functions"`     // before there were tools
	FunctionCall      chatToolChoice `json:"function_call"` // likewise
	ResponseFormat    *chatFormat    `json:"response_format"`
	ReasoningEffort   string         `json:"reasoning_effort"`
	Stop              stopList       `json:"stop"`
	MaxTokens         *int64         `json:"max_completion_tokens"`
	OldMaxTokens      *int64         `json:"max_tokens"` // its older name
	Stream            bool           `json:"stream"`
	StreamOptions     struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N          *int     `json:"n"`
	Modalities []string `json:"modalities"`

	Unknown jsontext.Value `json:",unknown"`
}

type chatMessage struct {
	Role         string        `json:"role"`
	Content      content       `json:"content"`
	Refusal      string        `json:"refusal"`
	ToolCalls    []chatCall    `json:"tool_calls"`
	ToolCallID   string        `json:"tool_call_id"`
	FunctionCall *functionCall `json:"function_call"`
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

func (a *arguments) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var object jsontext.Value
	err := wire.Forms{String: (*string)(a), Object: &object}.Decode(dec)
	if object != nil {
		*a = arguments(object)
	}
	return err
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

// chatToolChoice is a word, here its Type, or an object, as function_call was.
type chatToolChoice struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	Allowed struct {
		Mode  string     `json:"mode"`
		Tools []chatTool `json:"tools"`
	} `json:"allowed_tools"`
}

// UnmarshalJSONFrom reads either form.
func (c *chatToolChoice) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type object chatToolChoice // without this method
	return wire.Forms{String: &c.Type, Object: (*object)(c)}.Decode(dec)
}

type chatFormat struct {
	Type       string  `json:"type"`
	JSONSchema *schema `json:"json_schema"`
}

// schema is a JSON schema with its name.
type schema struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

// stopList is one stop sequence or several.
type stopList []string

func (s *stopList) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var one *string
	err := wire.Forms{String: &one, Array: (*[]string)(s)}.Decode(dec)
	if one != nil {
		*s = stopList{*one}
	}
	return err
}

// chat translates the request. Dropped are the kinds of tools that run nowhere.
func (r *chatRequest) chat(m bridge.ChatModel) (c bridge.Chat, dropped []string, err error) {
	c = bridge.Chat{Door: "openai", Profile: m.Profile, Model: m.ID, Worker: m.Worker, Effort: r.ReasoningEffort, Whole: !r.Stream, MaxTokens: bound(r.MaxTokens, r.OldMaxTokens)}
	if err := r.check(); err != nil {
		return c, nil, err
	}
	if err := checkEffort("reasoning_effort", c.Effort, m); err != nil {
		return c, nil, err
	}
	if c.System, c.Messages, err = conversation(r.Messages); err != nil {
		return c, nil, err
	}
	if dropped, err = r.tools(&c); err != nil {
		return c, nil, err
	}
	if f := r.ResponseFormat; f != nil {
		err = setFormat(&c, f.Type, f.JSONSchema, "response_format.type", "response_format.json_schema")
	}
	return c, dropped, err
}

// bound is the first bound that is given. 0 and -1 from clients mean none.
func bound(given ...*int64) int64 {
	for _, n := range given {
		if n != nil {
			return max(0, *n)
		}
	}
	return 0
}

// maxStops is how many stop sequences the API allows.
const maxStops = 4

// check refuses what would change the answer's meaning if it were ignored.
func (r *chatRequest) check() error {
	switch {
	case r.N != nil && *r.N != 1:
		return wire.At("n", "expected 1, got %d: Copilot gives one answer to a request", *r.N)
	case slices.Contains(r.Modalities, "audio"):
		return wire.At("modalities", "Copilot answers in text, not in audio")
	case len(r.Stop) > maxStops:
		return wire.At("stop", "expected at most %d sequences, got %d", maxStops, len(r.Stop))
	}
	for i, s := range r.Stop {
		if s == "" {
			return wire.At(fmt.Sprintf("stop[%d]", i), "a stop sequence cannot be empty")
		}
	}
	return nil
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// checkEffort refuses an effort that the model, or no model at all, has.
func checkEffort(path, effort string, m bridge.ChatModel) error {
	known := m.ReasoningEfforts
	if len(known) == 0 {
		known = efforts
	}
	if effort == "" || slices.Contains(known, effort) {
		return nil
	}
	return wire.At(path, "%s takes %s, not %q", m.Name, strings.Join(known, ", "), effort)
}

// tools fills in the tools and the choice among them.
func (r *chatRequest) tools(c *bridge.Chat) (dropped []string, err error) {
	for i, t := range r.Tools {
		if t.Type != "function" && t.Type != "" {
			dropped = append(dropped, t.Type)
			continue
		}
		if err := addTool(c, t.Function, fmt.Sprintf("tools[%d].function", i)); err != nil {
			return nil, err
		}
	}
	if len(r.Tools) == 0 {
		for i, f := range r.Functions {
			if err := addTool(c, f, fmt.Sprintf("functions[%d]", i)); err != nil {
				return nil, err
			}
		}
	}
	c.OneCall = r.legacy() || r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	switch {
	case !r.legacy():
		return dropped, r.toolChoice(c)
	case r.FunctionCall.Name != "":
		return dropped, chooseTool(c, "function_call.name", r.FunctionCall.Name)
	default:
		return dropped, chooseMode(c, "function_call", r.FunctionCall.Type)
	}
}

// legacy reports whether the client uses functions instead of tools.
func (r *chatRequest) legacy() bool { return len(r.Tools) == 0 && len(r.Functions) > 0 }

func addTool(c *bridge.Chat, f chatFunction, path string) error {
	if f.Name == "" {
		return wire.At(path+".name", "a function needs a name")
	}
	if offers(c, f.Name) {
		return wire.At(path+".name", "%q is declared twice", f.Name)
	}
	if f.Parameters == nil {
		f.Parameters = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	c.Tools = append(c.Tools, bridge.ToolSpec{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	return nil
}

func offers(c *bridge.Chat, name string) bool {
	return slices.ContainsFunc(c.Tools, func(t bridge.ToolSpec) bool { return t.Name == name })
}

func (r *chatRequest) toolChoice(c *bridge.Chat) error {
	choice := r.ToolChoice
	switch choice.Type {
	case "function":
		return chooseTool(c, "tool_choice.function.name", choice.Function.Name)
	case "allowed_tools":
		var names []string
		for i, t := range choice.Allowed.Tools {
			if t.Type != "function" && t.Type != "" {
				continue
			}
			if !offers(c, t.Function.Name) {
				return unknownTool(fmt.Sprintf("tool_choice.allowed_tools.tools[%d].function.name", i), t.Function.Name)
			}
			names = append(names, t.Function.Name)
		}
		keepTools(c, names)
		path := "tool_choice.allowed_tools"
		if choice.Allowed.Mode != "required" {
			path += ".mode"
		}
		return chooseMode(c, path, choice.Allowed.Mode)
	default:
		return chooseMode(c, "tool_choice", choice.Type)
	}
}

// chooseMode applies a word for whether the model must call a tool.
func chooseMode(c *bridge.Chat, path, mode string) error {
	switch mode {
	case "", "auto":
	case "none":
		c.Choice.Mode = bridge.ToolNone
	case "required":
		if len(c.Tools) == 0 {
			return wire.At(path, "a tool call is required, but the request declares no function that can be called")
		}
		c.Choice.Mode = bridge.ToolRequired
	default:
		return wire.At(path, "expected none, auto, required or a tool that the request declares, got %q", mode)
	}
	return nil
}

// chooseTool has the model call a certain tool.
func chooseTool(c *bridge.Chat, path, name string) error {
	if !offers(c, name) {
		return unknownTool(path, name)
	}
	c.Choice = bridge.ToolChoice{Mode: bridge.ToolNamed, Name: name}
	return nil
}

func unknownTool(path, name string) error {
	return wire.At(path, "%q is not among the tools that the request declares", name)
}

// keepTools removes the tools that are not named.
func keepTools(c *bridge.Chat, names []string) {
	c.Tools = slices.DeleteFunc(c.Tools, func(t bridge.ToolSpec) bool { return !slices.Contains(names, t.Name) })
}

// setFormat sets the answer's format. The paths are of the type and the schema.
func setFormat(c *bridge.Chat, kind string, s *schema, typePath, path string) error {
	switch kind {
	case "", "text":
		return nil
	case "json_object":
		c.JSON = true
		return nil
	case "json_schema":
	default:
		return wire.At(typePath, "expected text, json_object or json_schema, got %q", kind)
	}
	switch {
	case s == nil:
		return wire.At(path, "expected an object with a name and a schema")
	case s.Name == "":
		return wire.At(path+".name", "is required: a schema needs a name")
	case wire.KindOf(s.Schema) != wire.Object:
		return wire.At(path+".schema", "expected an object that is a JSON schema")
	}
	c.ResponseFormat = (*bridge.ResponseFormat)(s)
	return nil
}

// toolArgs reads the arguments of a call. The model may write text that is not JSON.
func toolArgs(s arguments) any {
	if strings.TrimSpace(string(s)) == "" {
		return map[string]any{}
	}
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return string(s)
	}
	return v
}
