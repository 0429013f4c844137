package acpwire

// Each message reads and writes its unknown fields too; see Rest. Those whose
// required fields depend on their type say so here.

// UnmarshalJSON keeps unknown fields.
func (c *ContentBlock) UnmarshalJSON(b []byte) error {
	type plain ContentBlock
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ContentBlock) MarshalJSON() ([]byte, error) {
	type plain ContentBlock
	var need []must
	switch c.Type {
	case ContentText:
		need = []must{{"text", `""`}}
	case ContentImage, ContentAudio:
		need = []must{{"data", `""`}, {"mimeType", `""`}}
	case ContentResourceLink:
		need = []must{{"name", `""`}, {"uri", `""`}}
	}
	return marshal(plain(c), c.Rest, need...)
}

// UnmarshalJSON keeps unknown fields.
func (c *Resource) UnmarshalJSON(b []byte) error {
	type plain Resource
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Resource) MarshalJSON() ([]byte, error) {
	type plain Resource
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ToolContent) UnmarshalJSON(b []byte) error {
	type plain ToolContent
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ToolContent) MarshalJSON() ([]byte, error) {
	type plain ToolContent
	if c.Type == ToolContentDiff {
		return marshal(plain(c), c.Rest, must{"path", `""`}, must{"newText", `""`})
	}
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Location) UnmarshalJSON(b []byte) error {
	type plain Location
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Location) MarshalJSON() ([]byte, error) {
	type plain Location
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ToolCall) UnmarshalJSON(b []byte) error {
	type plain ToolCall
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type plain ToolCall
	if c.Type == UpdateToolCall {
		return marshal(plain(c), c.Rest, must{"title", `""`})
	}
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Implementation) UnmarshalJSON(b []byte) error {
	type plain Implementation
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Implementation) MarshalJSON() ([]byte, error) {
	type plain Implementation
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *InitializeRequest) UnmarshalJSON(b []byte) error {
	type plain InitializeRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c InitializeRequest) MarshalJSON() ([]byte, error) {
	type plain InitializeRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ClientCapabilities) UnmarshalJSON(b []byte) error {
	type plain ClientCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ClientCapabilities) MarshalJSON() ([]byte, error) {
	type plain ClientCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *AuthCapabilities) UnmarshalJSON(b []byte) error {
	type plain AuthCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c AuthCapabilities) MarshalJSON() ([]byte, error) {
	type plain AuthCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *FSCapabilities) UnmarshalJSON(b []byte) error {
	type plain FSCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c FSCapabilities) MarshalJSON() ([]byte, error) {
	type plain FSCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ElicitationAbleness) UnmarshalJSON(b []byte) error {
	type plain ElicitationAbleness
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ElicitationAbleness) MarshalJSON() ([]byte, error) {
	type plain ElicitationAbleness
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *InitializeResponse) UnmarshalJSON(b []byte) error {
	type plain InitializeResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c InitializeResponse) MarshalJSON() ([]byte, error) {
	type plain InitializeResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *AgentCapabilities) UnmarshalJSON(b []byte) error {
	type plain AgentCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c AgentCapabilities) MarshalJSON() ([]byte, error) {
	type plain AgentCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *AgentAuth) UnmarshalJSON(b []byte) error {
	type plain AgentAuth
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c AgentAuth) MarshalJSON() ([]byte, error) {
	type plain AgentAuth
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PromptCapabilities) UnmarshalJSON(b []byte) error {
	type plain PromptCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PromptCapabilities) MarshalJSON() ([]byte, error) {
	type plain PromptCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *MCPCapabilities) UnmarshalJSON(b []byte) error {
	type plain MCPCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c MCPCapabilities) MarshalJSON() ([]byte, error) {
	type plain MCPCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *SessionCapabilities) UnmarshalJSON(b []byte) error {
	type plain SessionCapabilities
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SessionCapabilities) MarshalJSON() ([]byte, error) {
	type plain SessionCapabilities
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *AuthMethod) UnmarshalJSON(b []byte) error {
	type plain AuthMethod
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c AuthMethod) MarshalJSON() ([]byte, error) {
	type plain AuthMethod
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *AuthenticateRequest) UnmarshalJSON(b []byte) error {
	type plain AuthenticateRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c AuthenticateRequest) MarshalJSON() ([]byte, error) {
	type plain AuthenticateRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *MCPServer) UnmarshalJSON(b []byte) error {
	type plain MCPServer
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c MCPServer) MarshalJSON() ([]byte, error) {
	type plain MCPServer
	if c.Type == "" {
		return marshal(plain(c), c.Rest, must{"command", `""`}, must{"args", `[]`}, must{"env", `[]`})
	}
	return marshal(plain(c), c.Rest, must{"url", `""`}, must{"headers", `[]`})
}

// UnmarshalJSON keeps unknown fields.
func (c *NameVal) UnmarshalJSON(b []byte) error {
	type plain NameVal
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c NameVal) MarshalJSON() ([]byte, error) {
	type plain NameVal
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *NewSessionRequest) UnmarshalJSON(b []byte) error {
	type plain NewSessionRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c NewSessionRequest) MarshalJSON() ([]byte, error) {
	type plain NewSessionRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *NewSessionResponse) UnmarshalJSON(b []byte) error {
	type plain NewSessionResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c NewSessionResponse) MarshalJSON() ([]byte, error) {
	type plain NewSessionResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Modes) UnmarshalJSON(b []byte) error {
	type plain Modes
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Modes) MarshalJSON() ([]byte, error) {
	type plain Modes
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Mode) UnmarshalJSON(b []byte) error {
	type plain Mode
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Mode) MarshalJSON() ([]byte, error) {
	type plain Mode
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ConfigOption) UnmarshalJSON(b []byte) error {
	type plain ConfigOption
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ConfigOption) MarshalJSON() ([]byte, error) {
	type plain ConfigOption
	if c.Type == "select" {
		return marshal(plain(c), c.Rest, must{"options", `[]`})
	}
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ConfigChoice) UnmarshalJSON(b []byte) error {
	type plain ConfigChoice
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ConfigChoice) MarshalJSON() ([]byte, error) {
	type plain ConfigChoice
	if c.Group != "" {
		return marshal(plain(c), c.Rest, must{"options", `[]`})
	}
	return marshal(plain(c), c.Rest, must{"value", `""`})
}

// UnmarshalJSON keeps unknown fields.
func (c *SessionRef) UnmarshalJSON(b []byte) error {
	type plain SessionRef
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SessionRef) MarshalJSON() ([]byte, error) {
	type plain SessionRef
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ListSessionsRequest) UnmarshalJSON(b []byte) error {
	type plain ListSessionsRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ListSessionsRequest) MarshalJSON() ([]byte, error) {
	type plain ListSessionsRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ListSessionsResponse) UnmarshalJSON(b []byte) error {
	type plain ListSessionsResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ListSessionsResponse) MarshalJSON() ([]byte, error) {
	type plain ListSessionsResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *SessionInfo) UnmarshalJSON(b []byte) error {
	type plain SessionInfo
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SessionInfo) MarshalJSON() ([]byte, error) {
	type plain SessionInfo
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *SetModeRequest) UnmarshalJSON(b []byte) error {
	type plain SetModeRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SetModeRequest) MarshalJSON() ([]byte, error) {
	type plain SetModeRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *SetModelRequest) UnmarshalJSON(b []byte) error {
	type plain SetModelRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SetModelRequest) MarshalJSON() ([]byte, error) {
	type plain SetModelRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *SetConfigOptionRequest) UnmarshalJSON(b []byte) error {
	type plain SetConfigOptionRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SetConfigOptionRequest) MarshalJSON() ([]byte, error) {
	type plain SetConfigOptionRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *SetConfigOptionResponse) UnmarshalJSON(b []byte) error {
	type plain SetConfigOptionResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c SetConfigOptionResponse) MarshalJSON() ([]byte, error) {
	type plain SetConfigOptionResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PromptRequest) UnmarshalJSON(b []byte) error {
	type plain PromptRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PromptRequest) MarshalJSON() ([]byte, error) {
	type plain PromptRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PromptResponse) UnmarshalJSON(b []byte) error {
	type plain PromptResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PromptResponse) MarshalJSON() ([]byte, error) {
	type plain PromptResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Usage) UnmarshalJSON(b []byte) error {
	type plain Usage
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Usage) MarshalJSON() ([]byte, error) {
	type plain Usage
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *CancelRequest) UnmarshalJSON(b []byte) error {
	type plain CancelRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c CancelRequest) MarshalJSON() ([]byte, error) {
	type plain CancelRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Chunk) UnmarshalJSON(b []byte) error {
	type plain Chunk
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Chunk) MarshalJSON() ([]byte, error) {
	type plain Chunk
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Plan) UnmarshalJSON(b []byte) error {
	type plain Plan
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	c.Type = UpdatePlan
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PlanEntry) UnmarshalJSON(b []byte) error {
	type plain PlanEntry
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PlanEntry) MarshalJSON() ([]byte, error) {
	type plain PlanEntry
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Commands) UnmarshalJSON(b []byte) error {
	type plain Commands
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Commands) MarshalJSON() ([]byte, error) {
	type plain Commands
	c.Type = UpdateCommands
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Command) UnmarshalJSON(b []byte) error {
	type plain Command
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Command) MarshalJSON() ([]byte, error) {
	type plain Command
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *CommandInput) UnmarshalJSON(b []byte) error {
	type plain CommandInput
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c CommandInput) MarshalJSON() ([]byte, error) {
	type plain CommandInput
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *CurrentMode) UnmarshalJSON(b []byte) error {
	type plain CurrentMode
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c CurrentMode) MarshalJSON() ([]byte, error) {
	type plain CurrentMode
	c.Type = UpdateMode
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ConfigUpdate) UnmarshalJSON(b []byte) error {
	type plain ConfigUpdate
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ConfigUpdate) MarshalJSON() ([]byte, error) {
	type plain ConfigUpdate
	c.Type = UpdateConfig
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *InfoUpdate) UnmarshalJSON(b []byte) error {
	type plain InfoUpdate
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c InfoUpdate) MarshalJSON() ([]byte, error) {
	type plain InfoUpdate
	c.Type = UpdateInfo
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *UsageUpdate) UnmarshalJSON(b []byte) error {
	type plain UsageUpdate
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c UsageUpdate) MarshalJSON() ([]byte, error) {
	type plain UsageUpdate
	c.Type = UpdateUsage
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Cost) UnmarshalJSON(b []byte) error {
	type plain Cost
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Cost) MarshalJSON() ([]byte, error) {
	type plain Cost
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Notice) UnmarshalJSON(b []byte) error {
	type plain Notice
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Notice) MarshalJSON() ([]byte, error) {
	type plain Notice
	c.Type = UpdateNotice
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *Compaction) UnmarshalJSON(b []byte) error {
	type plain Compaction
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c Compaction) MarshalJSON() ([]byte, error) {
	type plain Compaction
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PermissionRequest) UnmarshalJSON(b []byte) error {
	type plain PermissionRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PermissionRequest) MarshalJSON() ([]byte, error) {
	type plain PermissionRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PermissionOption) UnmarshalJSON(b []byte) error {
	type plain PermissionOption
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PermissionOption) MarshalJSON() ([]byte, error) {
	type plain PermissionOption
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PermissionResponse) UnmarshalJSON(b []byte) error {
	type plain PermissionResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PermissionResponse) MarshalJSON() ([]byte, error) {
	type plain PermissionResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *PermissionOutcome) UnmarshalJSON(b []byte) error {
	type plain PermissionOutcome
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c PermissionOutcome) MarshalJSON() ([]byte, error) {
	type plain PermissionOutcome
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ReadTextFileRequest) UnmarshalJSON(b []byte) error {
	type plain ReadTextFileRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ReadTextFileRequest) MarshalJSON() ([]byte, error) {
	type plain ReadTextFileRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ReadTextFileResponse) UnmarshalJSON(b []byte) error {
	type plain ReadTextFileResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ReadTextFileResponse) MarshalJSON() ([]byte, error) {
	type plain ReadTextFileResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *WriteTextFileRequest) UnmarshalJSON(b []byte) error {
	type plain WriteTextFileRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c WriteTextFileRequest) MarshalJSON() ([]byte, error) {
	type plain WriteTextFileRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *CreateTerminalRequest) UnmarshalJSON(b []byte) error {
	type plain CreateTerminalRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c CreateTerminalRequest) MarshalJSON() ([]byte, error) {
	type plain CreateTerminalRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *TerminalRef) UnmarshalJSON(b []byte) error {
	type plain TerminalRef
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c TerminalRef) MarshalJSON() ([]byte, error) {
	type plain TerminalRef
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *TerminalOutputResponse) UnmarshalJSON(b []byte) error {
	type plain TerminalOutputResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c TerminalOutputResponse) MarshalJSON() ([]byte, error) {
	type plain TerminalOutputResponse
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *TerminalExitStatus) UnmarshalJSON(b []byte) error {
	type plain TerminalExitStatus
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c TerminalExitStatus) MarshalJSON() ([]byte, error) {
	type plain TerminalExitStatus
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ElicitRequest) UnmarshalJSON(b []byte) error {
	type plain ElicitRequest
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ElicitRequest) MarshalJSON() ([]byte, error) {
	type plain ElicitRequest
	return marshal(plain(c), c.Rest)
}

// UnmarshalJSON keeps unknown fields.
func (c *ElicitResponse) UnmarshalJSON(b []byte) error {
	type plain ElicitResponse
	return unmarshal(b, (*plain)(c), &c.Rest)
}

// MarshalJSON writes them again.
func (c ElicitResponse) MarshalJSON() ([]byte, error) {
	type plain ElicitResponse
	return marshal(plain(c), c.Rest)
}
