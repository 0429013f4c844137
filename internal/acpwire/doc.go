// Package acpwire is the Agent Client Protocol on the wire: a JSON-RPC 2.0
// peer over newline-delimited JSON, and the messages of protocol version 1.
// The agent that drives an ACP program and the door that is one share it; it
// knows nothing of sessions, policies or processes.
//
// The messages keep what they do not know: every struct has a Rest with the
// fields that this version has no name for ("_meta" among them), an update of
// an unknown kind is an UnknownUpdate, and both are written again as they
// came. So a message can be read, looked at and passed on without loss.
package acpwire

// ProtocolVersion is what this package speaks.
const ProtocolVersion = 1

// The methods and notifications, by their standard names.
const (
	MethodInitialize      = "initialize"
	MethodAuthenticate    = "authenticate"
	MethodLogout          = "logout"
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

	NotifyUpdate         = "session/update"
	NotifyElicitComplete = "elicitation/complete"

	// NotifyCancelRequest goes either way; Conn handles it by itself.
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
