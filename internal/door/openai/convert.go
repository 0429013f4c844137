package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// chat returns the request in the domain's words. Dropped are the kinds of
// tools that only OpenAI itself could run.
func (r *chatRequest) chat(m bridge.ChatModel) (c bridge.Chat, dropped []string, err error) {
	c = bridge.Chat{Door: "openai", Profile: m.Profile, Model: m.ID, Effort: r.ReasoningEffort, Whole: !r.Stream}
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
	return c, dropped, r.format(&c)
}

// check refuses what would change the answer's meaning if it were ignored.
func (r *chatRequest) check() error {
	switch {
	case r.N != nil && *r.N != 1:
		return wire.At("n", "expected 1, got %d: Copilot gives one answer to a request", *r.N)
	case r.Logprobs:
		return wire.At("logprobs", "Copilot does not tell log probabilities")
	case r.TopLogprobs > 0:
		return wire.At("top_logprobs", "Copilot does not tell log probabilities")
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

// checkEffort holds an effort against what the model is known to take, or, if
// it says nothing about that, against what there is at all.
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

// tools fills in the tools and what is said about their use.
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
	if r.legacy() {
		return dropped, r.functionChoice(c)
	}
	return dropped, r.toolChoice(c)
}

// legacy reports whether the client speaks of functions, not of tools, and so
// wants the answer in these words.
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
	case "", "auto":
		return nil
	case "none":
		c.Choice.Mode = bridge.ToolNone
		return nil
	case "required":
		return require(c, "tool_choice")
	case "function":
		return choose(c, choice.Function.Name, "tool_choice.function.name")
	case "allowed_tools":
		return r.allow(c)
	default:
		return wire.At("tool_choice", "expected none, auto, required, a function or allowed_tools, got %q", choice.Type)
	}
}

func (r *chatRequest) functionChoice(c *bridge.Chat) error {
	switch r.FunctionCall.Mode {
	case "", "auto":
	case "none":
		c.Choice.Mode = bridge.ToolNone
	default:
		return wire.At("function_call", "expected none, auto or a function, got %q", r.FunctionCall.Mode)
	}
	if r.FunctionCall.Name == "" {
		return nil
	}
	return choose(c, r.FunctionCall.Name, "function_call.name")
}

func require(c *bridge.Chat, path string) error {
	if len(c.Tools) == 0 {
		return wire.At(path, "a tool is required, but the request declares no function")
	}
	c.Choice.Mode = bridge.ToolRequired
	return nil
}

func choose(c *bridge.Chat, name, path string) error {
	if !offers(c, name) {
		return wire.At(path, "%q is not among the functions that the request declares", name)
	}
	c.Choice = bridge.ToolChoice{Mode: bridge.ToolNamed, Name: name}
	return nil
}

// allow leaves only the tools that the client allows for this answer.
func (r *chatRequest) allow(c *bridge.Chat) error {
	var names []string
	for i, t := range r.ToolChoice.Allowed.Tools {
		if t.Type != "function" && t.Type != "" {
			continue
		}
		if !offers(c, t.Function.Name) {
			return wire.At(fmt.Sprintf("tool_choice.allowed_tools.tools[%d].function.name", i),
				"%q is not among the functions that the request declares", t.Function.Name)
		}
		names = append(names, t.Function.Name)
	}
	c.Tools = slices.DeleteFunc(c.Tools, func(t bridge.ToolSpec) bool { return !slices.Contains(names, t.Name) })
	switch r.ToolChoice.Allowed.Mode {
	case "", "auto":
		return nil
	case "required":
		return require(c, "tool_choice.allowed_tools")
	default:
		return wire.At("tool_choice.allowed_tools.mode", "expected auto or required, got %q", r.ToolChoice.Allowed.Mode)
	}
}

// format fills in what the answer must look like.
func (r *chatRequest) format(c *bridge.Chat) error {
	if r.ResponseFormat == nil {
		return nil
	}
	switch r.ResponseFormat.Type {
	case "", "text":
		return nil
	case "json_object":
		c.JSON = true
		return nil
	case "json_schema":
	default:
		return wire.At("response_format.type", "expected text, json_object or json_schema, got %q", r.ResponseFormat.Type)
	}
	s := r.ResponseFormat.JSONSchema
	switch {
	case s == nil:
		return wire.At("response_format.json_schema", "expected an object with a name and a schema")
	case s.Name == "":
		return wire.At("response_format.json_schema.name", "a schema needs a name")
	case wire.KindOf(s.Schema) != wire.Object:
		return wire.At("response_format.json_schema.schema", "expected a JSON schema, which is an object")
	}
	c.ResponseFormat = &bridge.ResponseFormat{Name: s.Name, Description: s.Description, Schema: s.Schema, Strict: s.Strict}
	return nil
}

// toolArgs reads the arguments of a call. What is not JSON stays text: the
// model wrote it, and the client has dealt with it.
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
