package contract

import (
	"reflect"
	"slices"
)

// Kind is the type of an event.
type Kind string

// The kinds of events.
const (
	RunStarted       Kind = "run_started"
	RunCompleted     Kind = "run_completed"
	AssistantDelta   Kind = "assistant_delta"
	AssistantMessage Kind = "assistant_message"
	ToolCall         Kind = "tool_call"
	ToolResult       Kind = "tool_result"
	FileChanged      Kind = "file_changed"
	CommandExecuted  Kind = "command_executed"
	Warning          Kind = "warning"
	Failure          Kind = "error"
)

// members are those of each kind besides ts, type and ext.
var members = []struct {
	kind  Kind
	names []string
}{
	{RunStarted, []string{"message"}},
	{RunCompleted, []string{"message"}},
	{AssistantDelta, []string{"text"}},
	{AssistantMessage, []string{"text"}},
	{ToolCall, []string{"tool_name", "tool_use_id", "parent_tool_use_id", "input"}},
	{ToolResult, []string{"tool_name", "tool_use_id", "output", "is_error"}},
	{FileChanged, []string{"path", "summary"}},
	{CommandExecuted, []string{"command", "exit_code", "output_preview"}},
	{Warning, []string{"message"}},
	{Failure, []string{"message", "error_code"}},
}

// Event is something that happened in a run. Its kind tells which fields count.
type Event struct {
	At   Time `abp:"ts"`
	Kind Kind `abp:"type"`

	Message   string     `abp:"message"`
	ErrorCode *ErrorCode `abp:"error_code,omit"`
	Text      string     `abp:"text"`
	Tool      string     `abp:"tool_name"`
	ToolUse   *string    `abp:"tool_use_id"`
	Parent    *string    `abp:"parent_tool_use_id"`
	Input     any        `abp:"input"`
	Output    any        `abp:"output"`
	IsError   bool       `abp:"is_error"`
	Path      string     `abp:"path"`
	Summary   string     `abp:"summary"`
	Command   string     `abp:"command"`
	ExitCode  *int32     `abp:"exit_code"`
	Preview   *string    `abp:"output_preview"`

	// Ext is what does not fit; nil leaves it out.
	Ext Object `abp:"ext,omit"`
}

var (
	eventType  = reflect.TypeFor[Event]()
	eventKinds = func() (out []string) {
		for _, m := range members {
			out = append(out, string(m.kind))
		}
		return out
	}()
	// headOnly is read first: the kind says which members follow.
	headOnly        = structureOf(eventType, "ts", "type", "ext")
	eventStructures = func() map[Kind]*structure {
		out := map[Kind]*structure{}
		for _, m := range members {
			out[m.kind] = structureOf(eventType, append(slices.Clone(m.names), "ts", "type", "ext")...)
		}
		return out
	}()
)

func (k *Kind) read(_ reader, v any) error {
	s, ok := v.(string)
	switch {
	case !ok:
		return unexpected(v, "variant identifier")
	case !slices.Contains(eventKinds, s):
		return unknown(s, eventKinds)
	}
	*k = Kind(s)
	return nil
}

func (e *Event) read(r reader, v any) error {
	// ABP keeps all members until it knows the kind, so all must be sound.
	if err := sound(v); err != nil {
		return err
	}
	to := reflect.ValueOf(e).Elem()
	if err := r.readStruct(v, to, headOnly); err != nil {
		return err
	}
	return r.readStruct(v, to, eventStructures[e.Kind])
}
