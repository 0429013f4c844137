// Package acpwire has the messages of the Agent Client Protocol, version 1, and
// its connection: JSON-RPC 2.0, one message a line. It knows nothing of
// sessions, policies or processes. internal/agent/acp, which drives an ACP
// program, and internal/api/acp, which serves ACP, share it.
package acpwire

import (
	"encoding/json"
	"io"

	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// ProtocolVersion is what this package speaks.
const ProtocolVersion = 1

// The methods and notifications, by their standard names.
const (
	MethodInitialize      = "initialize"
	MethodAuthenticate    = "authenticate"
	MethodSessionNew      = "session/new"
	MethodSessionLoad     = "session/load"
	MethodSessionResume   = "session/resume"
	MethodSessionList     = "session/list"
	MethodSessionDelete   = "session/delete"
	MethodSessionClose    = "session/close"
	MethodSessionPrompt   = "session/prompt"
	MethodSetMode         = "session/set_mode"
	MethodSetConfigOption = "session/set_config_option"
	// MethodSetModel is not in the standard, but Copilot and others have it.
	MethodSetModel = "session/set_model"

	NotifyCancel = "session/cancel"

	MethodRequestPermission = "session/request_permission"
	MethodReadTextFile      = "fs/read_text_file"
	MethodWriteTextFile     = "fs/write_text_file"
	MethodTerminalCreate    = "terminal/create"
	MethodTerminalOutput    = "terminal/output"
	MethodTerminalWait      = "terminal/wait_for_exit"
	MethodTerminalKill      = "terminal/kill"
	MethodTerminalRelease   = "terminal/release"
	MethodElicit            = "elicitation/create"

	NotifyUpdate = "session/update"

	// NotifyCancelRequest goes either way; jsonrpc handles it.
	NotifyCancelRequest = "$/cancel_request"
)

// Old returns the name that a method had before the standard, for agents that
// do not know the new one, or "".
func Old(method string) string {
	switch method {
	case MethodInitialize:
		return "initializeClient"
	case MethodSessionNew:
		return "session/newClient"
	case MethodSessionLoad:
		return "session/loadClient"
	case MethodSessionPrompt:
		return "session/promptClient"
	}
	return ""
}

// The error codes that the protocol adds to those of JSON-RPC.
const (
	CodeAuthRequired     = -32000
	CodeResourceNotFound = -32002
)

// maxLine bounds a message, in bytes.
const maxLine = 32 << 20

// NewConn returns a connection that Run brings to life. If r and w can be
// closed, Run closes them at the end.
func NewConn(r io.Reader, w io.Writer, h jsonrpc.Handler, o jsonrpc.Options) *jsonrpc.Conn {
	o.CancelMethod, o.CancelField = NotifyCancelRequest, "requestId"
	return jsonrpc.New(jsonrpc.NewLines(r, w, maxLine), h, o)
}

// Required fields that may be empty depend on a message's type. These methods
// write them; a field of the outer struct replaces the embedded one.

// MarshalJSON writes the text of a text block even if it is empty.
func (c ContentBlock) MarshalJSON() ([]byte, error) {
	type plain ContentBlock
	if c.Type != ContentText || c.Text != "" {
		return json.Marshal(plain(c))
	}
	return json.Marshal(struct {
		plain
		Text string `json:"text"`
	}{plain(c), c.Text})
}

// MarshalJSON writes the new text of a diff even if it is empty.
func (c ToolContent) MarshalJSON() ([]byte, error) {
	type plain ToolContent
	if c.Type != ToolContentDiff || c.NewText != "" {
		return json.Marshal(plain(c))
	}
	return json.Marshal(struct {
		plain
		NewText string `json:"newText"`
	}{plain(c), c.NewText})
}

// MarshalJSON writes the title of a new tool call even if it is empty.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type plain ToolCall
	if c.Type != UpdateToolCall || c.Title != "" {
		return json.Marshal(plain(c))
	}
	return json.Marshal(struct {
		plain
		Title string `json:"title"`
	}{plain(c), c.Title})
}

// MarshalJSON writes the arguments and the environment of a program, and the
// headers of an HTTP server, even if there are none.
func (m MCPServer) MarshalJSON() ([]byte, error) {
	type plain MCPServer
	if m.Type != "" {
		m.Headers = some(m.Headers)
	} else {
		m.Args, m.Env = some(m.Args), some(m.Env)
	}
	return json.Marshal(plain(m))
}

// MarshalJSON writes the choices of a select option even if there are none.
func (o ConfigOption) MarshalJSON() ([]byte, error) {
	type plain ConfigOption
	if o.Type == "select" {
		o.Options = some(o.Options)
	}
	return json.Marshal(plain(o))
}

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// List is a list that the schema requires: without elements it is written as
// [], not as null.
type List[T any] []T

// MarshalJSON writes a list, never null.
func (l List[T]) MarshalJSON() ([]byte, error) { return json.Marshal(some([]T(l))) }
