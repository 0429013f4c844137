package contract

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

// members are the fields of a kind, for reading.
func (e *Event) members() []field {
	switch e.Kind {
	case RunStarted, RunCompleted, Warning:
		return []field{{"message", always, text(&e.Message)}}
	case Failure:
		return []field{{"message", always, text(&e.Message)}, {"error_code", optional, maybe(&e.ErrorCode, errorCode)}}
	case AssistantDelta, AssistantMessage:
		return []field{{"text", always, text(&e.Text)}}
	case ToolCall:
		return []field{{"tool_name", always, text(&e.Tool)}, {"tool_use_id", optional, maybe(&e.ToolUse, text)},
			{"parent_tool_use_id", optional, maybe(&e.Parent, text)}, {"input", always, anything(&e.Input)}}
	case ToolResult:
		return []field{{"tool_name", always, text(&e.Tool)}, {"tool_use_id", optional, maybe(&e.ToolUse, text)},
			{"output", always, anything(&e.Output)}, {"is_error", always, flag(&e.IsError)}}
	case FileChanged:
		return []field{{"path", always, text(&e.Path)}, {"summary", always, text(&e.Summary)}}
	case CommandExecuted:
		return []field{{"command", always, text(&e.Command)}, {"exit_code", optional, maybe(&e.ExitCode, signed)},
			{"output_preview", optional, maybe(&e.Preview, text)}}
	}
	return nil
}

func (r reader) event(to *Event) func(any) error {
	return func(v any) error {
		// Its members are kept until the kind is known, so all must be sound.
		if err := sound(v); err != nil {
			return err
		}
		kind := func(v any) error {
			s, ok := v.(string)
			if !ok {
				return unexpected(v, "variant identifier")
			}
			return variant(&to.Kind, kinds)(s)
		}
		ext := func(v any) error {
			if v == nil {
				to.Ext = nil
				return nil
			}
			return mapping(&to.Ext)(v)
		}
		if err := r.structure(v, "AgentEvent", field{"ts", always, moment(&to.At)}, field{"type", always, kind}, field{"ext", optional, ext}); err != nil {
			return err
		}
		return r.structure(v, "AgentEvent", to.members()...)
	}
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
