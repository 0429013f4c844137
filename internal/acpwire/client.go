package acpwire

import "encoding/json"

// PermissionRequest asks whether a tool call may run.
type PermissionRequest struct {
	SessionID string                 `json:"sessionId"`
	ToolCall  ToolCall               `json:"toolCall"`
	Options   List[PermissionOption] `json:"options"`
}

// The kinds of answers.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// PermissionOption is an answer that the agent offers.
type PermissionOption struct {
	OptionID string `json:"optionId"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
}

// PermissionResponse is the answer.
type PermissionResponse struct {
	Outcome PermissionOutcome `json:"outcome"`
}

// PermissionOutcome is the option that was chosen, or that the turn is over.
type PermissionOutcome struct {
	Outcome  string `json:"outcome"` // selected, cancelled
	OptionID string `json:"optionId,omitzero"`
}

// Selected chooses an option.
func Selected(optionID string) PermissionResponse {
	return PermissionResponse{Outcome: PermissionOutcome{Outcome: "selected", OptionID: optionID}}
}

// Cancelled says that the turn is over without a decision.
func Cancelled() PermissionResponse {
	return PermissionResponse{Outcome: PermissionOutcome{Outcome: "cancelled"}}
}

// ReadTextFileRequest asks for a file, or Limit lines of it from Line on,
// which counts from 1.
type ReadTextFileRequest struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`
	Line      *int   `json:"line,omitzero"`
	Limit     *int   `json:"limit,omitzero"`
}

// ReadTextFileResponse is what the file holds.
type ReadTextFileResponse struct {
	Content string `json:"content"`
}

// WriteTextFileRequest replaces a file.
type WriteTextFileRequest struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`
	Content   string `json:"content"`
}

// CreateTerminalRequest starts a command.
type CreateTerminalRequest struct {
	SessionID       string    `json:"sessionId"`
	Command         string    `json:"command"`
	Args            []string  `json:"args,omitzero"`
	Env             []NameVal `json:"env,omitzero"`
	Cwd             string    `json:"cwd,omitzero"`
	OutputByteLimit *int64    `json:"outputByteLimit,omitzero"`
}

// TerminalRef names a terminal; without a session it answers terminal/create.
type TerminalRef struct {
	SessionID  string `json:"sessionId,omitzero"`
	TerminalID string `json:"terminalId"`
}

// TerminalOutputResponse is what a terminal has shown so far.
type TerminalOutputResponse struct {
	Output     string              `json:"output"`
	Truncated  bool                `json:"truncated"`
	ExitStatus *TerminalExitStatus `json:"exitStatus,omitzero"`
}

// TerminalExitStatus is how a command ended; it answers
// terminal/wait_for_exit too.
type TerminalExitStatus struct {
	ExitCode *int    `json:"exitCode,omitzero"`
	Signal   *string `json:"signal,omitzero"`
}

// ElicitRequest asks the user for something: by a form, or at a URL.
type ElicitRequest struct {
	Message         string          `json:"message"`
	Mode            string          `json:"mode"` // form, url
	SessionID       string          `json:"sessionId,omitzero"`
	ToolCallID      string          `json:"toolCallId,omitzero"`
	RequestID       json.RawMessage `json:"requestId,omitzero"`
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
	ElicitationID   string          `json:"elicitationId,omitzero"`
	URL             string          `json:"url,omitzero"`
}

// ElicitResponse is the answer: accept, decline or cancel.
type ElicitResponse struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitzero"`
}
