package contract

import (
	"fmt"
	"strconv"
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

var kinds = []Kind{RunStarted, RunCompleted, AssistantDelta, AssistantMessage, ToolCall, ToolResult, FileChanged, CommandExecuted, Warning, Failure}

// Event is something that happened in a run. Which fields count depends on
// its kind.
type Event struct {
	At   Time
	Kind Kind

	Message   string  // run_started, run_completed, warning, error
	Text      string  // assistant_delta, assistant_message
	Tool      string  // tool_call, tool_result
	ToolUse   *string // tool_call, tool_result
	Parent    *string // tool_call
	Input     any     // tool_call
	Output    any     // tool_result
	IsError   bool    // tool_result
	Path      string  // file_changed
	Summary   string  // file_changed
	Command   string  // command_executed
	ExitCode  *int32  // command_executed
	Preview   *string // command_executed
	ErrorCode *ErrorCode

	// Ext is what does not fit; nil leaves it out.
	Ext Object
}

// fields of a kind that must be there, besides the time.
var needed = map[Kind][]string{
	RunStarted: {"message"}, RunCompleted: {"message"}, Warning: {"message"}, Failure: {"message"},
	AssistantDelta: {"text"}, AssistantMessage: {"text"}, ToolCall: {"tool_name", "input"}, ToolResult: {"tool_name", "output", "is_error"},
	FileChanged: {"path", "summary"}, CommandExecuted: {"command"},
}

// set reads a field of the event's kind; others are dropped.
func (e *Event) set(name string, v any) (known bool, err error) {
	known = true
	switch {
	case name == "message" && (e.Kind == RunStarted || e.Kind == RunCompleted || e.Kind == Warning || e.Kind == Failure):
		err = text(&e.Message)(v)
	case name == "error_code" && e.Kind == Failure:
		err = maybe(&e.ErrorCode, errorCode)(v)
	case name == "text" && (e.Kind == AssistantDelta || e.Kind == AssistantMessage):
		err = text(&e.Text)(v)
	case name == "tool_name" && (e.Kind == ToolCall || e.Kind == ToolResult):
		err = text(&e.Tool)(v)
	case name == "tool_use_id" && (e.Kind == ToolCall || e.Kind == ToolResult):
		err = maybe(&e.ToolUse, text)(v)
	case name == "parent_tool_use_id" && e.Kind == ToolCall:
		err = maybe(&e.Parent, text)(v)
	case name == "input" && e.Kind == ToolCall:
		e.Input = v
	case name == "output" && e.Kind == ToolResult:
		e.Output = v
	case name == "is_error" && e.Kind == ToolResult:
		err = flag(&e.IsError)(v)
	case name == "path" && e.Kind == FileChanged:
		err = text(&e.Path)(v)
	case name == "summary" && e.Kind == FileChanged:
		err = text(&e.Summary)(v)
	case name == "command" && e.Kind == CommandExecuted:
		err = text(&e.Command)(v)
	case name == "exit_code" && e.Kind == CommandExecuted:
		err = maybe(&e.ExitCode, signed)(v)
	case name == "output_preview" && e.Kind == CommandExecuted:
		err = maybe(&e.Preview, text)(v)
	default:
		known = false
	}
	return known, err
}

// event reads an event. Receipts are made of them, so this is the one
// structure that is read by hand.
func (r reader) event(to *Event) func(any) error {
	return func(v any) error {
		o, ok := v.(Object)
		if !ok {
			return unexpected(v, "struct AgentEvent")
		}
		// Its members are kept until the kind is known, so all must be sound.
		if err := sound(v); err != nil {
			return err
		}
		if err := to.head(o); err != nil {
			return err
		}
		for i, m := range o {
			known, err := to.set(m.Key, m.Value)
			switch {
			case err != nil:
				return in(m.Key, err)
			case known && o[:i].has(m.Key):
				return fmt.Errorf("duplicate field `%s`", m.Key)
			}
		}
		for _, name := range needed[to.Kind] {
			if !o.has(name) {
				return fmt.Errorf("missing field `%s`", name)
			}
		}
		return nil
	}
}

func (o Object) has(key string) bool {
	for i := range o {
		if o[i].Key == key {
			return true
		}
	}
	return false
}

// head reads what every event has.
func (e *Event) head(o Object) error {
	for i, m := range o {
		var err error
		switch m.Key {
		case "ts":
			err = moment(&e.At)(m.Value)
		case "type":
			s, ok := m.Value.(string)
			if !ok {
				return in("type", unexpected(m.Value, "variant identifier"))
			}
			err = variant(&e.Kind, kinds)(s)
		case "ext":
			if m.Value != nil {
				err = mapping(&e.Ext)(m.Value)
			}
		default:
			continue
		}
		if err != nil {
			return in(m.Key, err)
		}
		if o[:i].has(m.Key) {
			return fmt.Errorf("duplicate field `%s`", m.Key)
		}
	}
	for _, name := range []string{"ts", "type"} {
		if !o.has(name) {
			return fmt.Errorf("missing field `%s`", name)
		}
	}
	return nil
}

func (e *Event) value() any {
	out := append(make(record, 0, 7), Member{"ts", e.At.String()}, Member{"type", string(e.Kind)})
	switch e.Kind {
	case RunStarted, RunCompleted, Warning:
		out = append(out, Member{"message", e.Message})
	case Failure:
		out = append(out, Member{"message", e.Message})
		if e.ErrorCode != nil {
			out = append(out, Member{"error_code", string(*e.ErrorCode)})
		}
	case AssistantDelta, AssistantMessage:
		out = append(out, Member{"text", e.Text})
	case ToolCall:
		out = append(out, Member{"tool_name", e.Tool}, Member{"tool_use_id", orNull(e.ToolUse)}, Member{"parent_tool_use_id", orNull(e.Parent)}, Member{"input", e.Input})
	case ToolResult:
		out = append(out, Member{"tool_name", e.Tool}, Member{"tool_use_id", orNull(e.ToolUse)}, Member{"output", e.Output}, Member{"is_error", e.IsError})
	case FileChanged:
		out = append(out, Member{"path", e.Path}, Member{"summary", e.Summary})
	case CommandExecuted:
		out = append(out, Member{"command", e.Command}, Member{"exit_code", orNull(e.ExitCode)}, Member{"output_preview", orNull(e.Preview)})
	}
	if e.Ext != nil {
		out = append(out, Member{"ext", e.Ext})
	}
	return out
}

// appendCanonical writes what value holds with its keys in order. A test holds
// the two together.
func (e *Event) appendCanonical(to []byte) []byte {
	to = append(to, '{')
	key := func(name string) {
		if to[len(to)-1] != '{' {
			to = append(to, ',')
		}
		to = append(append(append(to, '"'), name...), '"', ':')
	}
	str := func(name, s string) {
		key(name)
		to = AppendString(to, s)
	}
	option := func(name string, s *string) {
		key(name)
		if s == nil {
			to = append(to, "null"...)
		} else {
			to = AppendString(to, *s)
		}
	}
	ext := func() {
		if e.Ext != nil {
			key("ext")
			to = appendValue(to, e.Ext, true)
		}
	}
	switch e.Kind {
	case RunStarted, RunCompleted, Warning, Failure:
		if e.Kind == Failure && e.ErrorCode != nil {
			str("error_code", string(*e.ErrorCode))
		}
		ext()
		str("message", e.Message)
	case AssistantDelta, AssistantMessage:
		ext()
		str("text", e.Text)
	case ToolCall:
		ext()
		key("input")
		to = appendValue(to, e.Input, true)
		option("parent_tool_use_id", e.Parent)
		str("tool_name", e.Tool)
		option("tool_use_id", e.ToolUse)
	case ToolResult:
		ext()
		key("is_error")
		to = strconv.AppendBool(to, e.IsError)
		key("output")
		to = appendValue(to, e.Output, true)
		str("tool_name", e.Tool)
		option("tool_use_id", e.ToolUse)
	case FileChanged:
		ext()
		str("path", e.Path)
		str("summary", e.Summary)
	case CommandExecuted:
		str("command", e.Command)
		key("exit_code")
		to = appendValue(to, orNull(e.ExitCode), true)
		ext()
		option("output_preview", e.Preview)
	}
	key("ts")
	to = append(e.At.append(append(to, '"')), '"')
	str("type", string(e.Kind))
	return append(to, '}')
}
