package acpwire

import "encoding/json"

// Implementation names a program.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
}

// Able is an ability that is there if it is not nil, and has no details (yet).
type Able map[string]json.RawMessage

// InitializeRequest begins a connection.
type InitializeRequest struct {
	ProtocolVersion int                `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"clientCapabilities"`
	ClientInfo      *Implementation    `json:"clientInfo,omitzero"`
}

// ClientCapabilities are what a client serves.
type ClientCapabilities struct {
	FS          FSCapabilities       `json:"fs,omitzero"`
	Terminal    bool                 `json:"terminal,omitzero"`
	Session     json.RawMessage      `json:"session,omitzero"`
	Elicitation *ElicitationAbleness `json:"elicitation,omitzero"`
}

// FSCapabilities are the file methods that a client serves.
type FSCapabilities struct {
	Read  bool `json:"readTextFile,omitzero"`
	Write bool `json:"writeTextFile,omitzero"`
}

// ElicitationAbleness are the ways in which a client asks its user.
type ElicitationAbleness struct {
	Form Able `json:"form,omitzero"`
	URL  Able `json:"url,omitzero"`
}

// InitializeResponse says who answers and what it can do.
type InitializeResponse struct {
	ProtocolVersion int               `json:"protocolVersion"`
	Capabilities    AgentCapabilities `json:"agentCapabilities"`
	AuthMethods     List[AuthMethod]  `json:"authMethods"`
	AgentInfo       *Implementation   `json:"agentInfo,omitzero"`
}

// AgentCapabilities are what an agent can do.
type AgentCapabilities struct {
	LoadSession bool                `json:"loadSession"`
	Prompt      PromptCapabilities  `json:"promptCapabilities"`
	MCP         MCPCapabilities     `json:"mcpCapabilities"`
	Session     SessionCapabilities `json:"sessionCapabilities"`
}

// PromptCapabilities are the content types, besides text and links, that a
// prompt may hold.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

// MCPCapabilities are the kinds of MCP servers, besides stdio, that can be
// passed on.
type MCPCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

// SessionCapabilities are the optional session methods.
type SessionCapabilities struct {
	List                  Able `json:"list,omitzero"`
	Delete                Able `json:"delete,omitzero"`
	Resume                Able `json:"resume,omitzero"`
	Close                 Able `json:"close,omitzero"`
	AdditionalDirectories Able `json:"additionalDirectories,omitzero"`
}

// AuthMethod is a way to log in.
type AuthMethod struct {
	Type        string            `json:"type,omitzero"`
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitzero"`
	Args        []string          `json:"args,omitzero"` // terminal
	Env         map[string]string `json:"env,omitzero"`  // terminal
	Meta        json.RawMessage   `json:"_meta,omitzero"`
}

// Login is the command with which some agents let a person log in, in
// "_meta"; nil if there is none.
func (m AuthMethod) Login() []string {
	var meta struct {
		Terminal struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"terminal-auth"`
	}
	if json.Unmarshal(m.Meta, &meta) != nil || meta.Terminal.Command == "" {
		return nil
	}
	return append([]string{meta.Terminal.Command}, meta.Terminal.Args...)
}

// AuthenticateRequest chooses a way to log in.
type AuthenticateRequest struct {
	MethodID string `json:"methodId"`
}

// MCPServer is a tool server for a session. Without a Type it is a program.
type MCPServer struct {
	Type    string    `json:"type,omitzero"` // "", http, sse
	Name    string    `json:"name"`
	Command string    `json:"command,omitzero"`
	Args    []string  `json:"args,omitzero"`
	Env     []NameVal `json:"env,omitzero"`
	URL     string    `json:"url,omitzero"`
	Headers []NameVal `json:"headers,omitzero"`
}

// NameVal is an environment variable or a header.
type NameVal struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NewSessionRequest opens a session; with a SessionID it loads or resumes one.
type NewSessionRequest struct {
	SessionID   string          `json:"sessionId,omitzero"`
	Cwd         string          `json:"cwd"`
	Directories []string        `json:"additionalDirectories,omitzero"`
	MCPServers  List[MCPServer] `json:"mcpServers"`
	Meta        json.RawMessage `json:"_meta,omitzero"`
}

// NewSessionResponse answers all three; the SessionID only for a new one.
type NewSessionResponse struct {
	SessionID     string         `json:"sessionId,omitzero"`
	Modes         *Modes         `json:"modes,omitzero"`
	ConfigOptions []ConfigOption `json:"configOptions,omitzero"`
}

// Modes are an agent's modes and the present one.
type Modes struct {
	Current   string     `json:"currentModeId"`
	Available List[Mode] `json:"availableModes"`
}

// Mode is one of them. Ids are the agent's own.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
}

// ConfigOption is something about a session that can be chosen.
type ConfigOption struct {
	Type        string         `json:"type"` // select, boolean
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Category    string         `json:"category,omitzero"` // mode, model, thought_level, …
	Current     any            `json:"currentValue"`      // a text, or true or false
	Options     []ConfigChoice `json:"options,omitzero"`
}

// ConfigChoice is a value of an option, or with a Group a list of them.
type ConfigChoice struct {
	Value       string         `json:"value,omitzero"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Group       string         `json:"group,omitzero"`
	Options     []ConfigChoice `json:"options,omitzero"`
}

// SessionRef names a session: session/close, session/delete, session/cancel.
type SessionRef struct {
	SessionID string `json:"sessionId"`
}

// ListSessionsRequest asks for a page of the sessions.
type ListSessionsRequest struct {
	Cwd    string `json:"cwd,omitzero"`
	Cursor string `json:"cursor,omitzero"`
}

// ListSessionsResponse is that page.
type ListSessionsResponse struct {
	Sessions   List[SessionInfo] `json:"sessions"`
	NextCursor string            `json:"nextCursor,omitzero"`
}

// SessionInfo describes a stored session.
type SessionInfo struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	Title     string `json:"title,omitzero"`
	UpdatedAt string `json:"updatedAt,omitzero"` // RFC 3339
}

// SetModeRequest switches the mode.
type SetModeRequest struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

// SetModelRequest switches the model; see MethodSetModel.
type SetModelRequest struct {
	SessionID string `json:"sessionId"`
	ModelID   string `json:"modelId"`
}

// SetConfigOptionRequest chooses a value.
type SetConfigOptionRequest struct {
	SessionID string `json:"sessionId"`
	ConfigID  string `json:"configId"`
	Type      string `json:"type,omitzero"` // "boolean" if the value is one
	Value     any    `json:"value"`
}

// SetConfigOptionResponse has all options as they are then.
type SetConfigOptionResponse struct {
	ConfigOptions List[ConfigOption] `json:"configOptions"`
}

// PromptRequest begins a turn.
type PromptRequest struct {
	SessionID string             `json:"sessionId"`
	Prompt    List[ContentBlock] `json:"prompt"`
}

// Why a turn ended.
const (
	StopEndTurn         = "end_turn"
	StopMaxTokens       = "max_tokens"
	StopMaxTurnRequests = "max_turn_requests"
	StopRefusal         = "refusal"
	StopCancelled       = "cancelled"
)

// PromptResponse ends a turn. Usage is not in the stable schema, but sent.
type PromptResponse struct {
	StopReason string `json:"stopReason"`
	Usage      *Usage `json:"usage,omitzero"`
}

// Usage counts the tokens of a turn.
type Usage struct {
	Input       int64  `json:"inputTokens"`
	Output      int64  `json:"outputTokens"`
	Total       int64  `json:"totalTokens"`
	Thought     *int64 `json:"thoughtTokens,omitzero"`
	CachedRead  *int64 `json:"cachedReadTokens,omitzero"`
	CachedWrite *int64 `json:"cachedWriteTokens,omitzero"`
}
