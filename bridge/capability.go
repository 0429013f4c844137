package bridge

// Capability is something that an agent may be able to do, under the name by
// which orchestrators ask for it.
type Capability string

// The capabilities.
const (
	CapStreaming        Capability = "streaming"
	CapToolRead         Capability = "tool_read"
	CapToolWrite        Capability = "tool_write"
	CapToolEdit         Capability = "tool_edit"
	CapToolBash         Capability = "tool_bash"
	CapToolGlob         Capability = "tool_glob"
	CapToolGrep         Capability = "tool_grep"
	CapToolWebSearch    Capability = "tool_web_search"
	CapToolWebFetch     Capability = "tool_web_fetch"
	CapToolAskUser      Capability = "tool_ask_user"
	CapStructuredOutput Capability = "structured_output_json_schema"
	CapHooksPre         Capability = "hooks_pre_tool_use"
	CapHooksPost        Capability = "hooks_post_tool_use"
	CapSessionResume    Capability = "session_resume"
	CapSessionFork      Capability = "session_fork"
	CapCheckpointing    Capability = "checkpointing"
	CapMCPClient        Capability = "mcp_client"
	CapMCPServer        Capability = "mcp_server"
)

// AllCapabilities lists them in a fixed order.
func AllCapabilities() []Capability {
	return []Capability{CapStreaming, CapToolRead, CapToolWrite, CapToolEdit, CapToolBash, CapToolGlob, CapToolGrep, CapToolWebSearch,
		CapToolWebFetch, CapToolAskUser, CapStructuredOutput, CapHooksPre, CapHooksPost, CapSessionResume, CapSessionFork,
		CapCheckpointing, CapMCPClient, CapMCPServer}
}

// SupportLevel says how well an agent does something. The zero value is not at
// all.
type SupportLevel int

// The levels. A restricted ability exists but is switched off.
const (
	SupportNone SupportLevel = iota
	SupportRestricted
	SupportEmulated
	SupportNative
)

// Support is a level and, where it is restricted, why.
type Support struct {
	Level  SupportLevel
	Reason string
}
