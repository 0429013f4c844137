package bridge

import (
	"encoding/json"
	"time"
)

// Profile says how much of Copilot a session gets.
type Profile string

const (
	// ProfileChat is the caller's messages and tools only: no built-in tools,
	// no project instructions, no access to the machine.
	ProfileChat Profile = "chat"
	// ProfileAgent is Copilot's own tools in a working directory, under a Gate.
	ProfileAgent Profile = "agent"
)

// SessionSpec describes a session to open or to resume. The zero value of a
// field means "the agent's default". Specs are read-only once handed over.
type SessionSpec struct {
	// ID names a new session; the agent chooses one if it is empty.
	ID              string
	Profile         Profile
	Model           string
	ReasoningEffort string
	System          SystemText
	// Instructions are the workspace's and the user's own, as a Gate gives
	// them: they are added to the system text, also to that of sub-agents.
	Instructions string
	WorkingDir   string
	// Tools are run by the caller: a call arrives as ToolRequested and waits
	// until Session.Resolve answers it.
	Tools []ToolSpec
	// AvailableTools, when not nil, are the only tools offered, by
	// source-qualified name ("builtin:bash", "custom:*", "mcp:server-tool").
	AvailableTools []string
	ExcludedTools  []string
	MCPServers     map[string]MCPServer
	Infinite       *InfiniteSession
	// Provider replaces the agent's own model provider for this session.
	Provider *Provider
	// Headers go with every request to the model's provider; those of a Prompt
	// with the same name count instead.
	Headers map[string]string
	// Shared lets a session be resumed that another program has open. What
	// both say then is not known to the other: it is for reading alone.
	Shared bool
	// MaxAICredits bounds what the session may spend; 0 means no bound.
	MaxAICredits float64
	// Raw asks for every event as the agent's own runtime words it, as an
	// Other (see RawPrefix) before what it was translated to. Pieces of text
	// are left out: only the translation hides a secret that is spread over
	// several of them. An agent that has no such words ignores it.
	Raw bool
	// Gate decides about tools. A session without one is refused every
	// permission it asks for: nothing is allowed by omission.
	Gate Gate
	// Confinement bounds the programs that the session runs, its sub-agents'
	// and MCP servers' included; nil where there is no sandbox, and where the
	// Gate is a Confiner, which is asked instead. An agent that cannot hold it
	// refuses the session.
	Confinement *Confinement
	// WorkOrder is the Agent Backplane's order behind the session, as it came,
	// for an agent that hands it on; nil elsewhere.
	WorkOrder json.RawMessage
	// Person answers questions; without one the agent is not offered the
	// means to ask them.
	Person Person
}

// SystemText is added to, or replaces, the agent's own system message.
type SystemText struct {
	Text    string
	Replace bool
}

// InfiniteSession tunes how a long conversation is compacted. Thresholds are
// fractions of the context window; zero means the runtime's default.
type InfiniteSession struct {
	Enabled             bool
	BackgroundThreshold float64
	BufferThreshold     float64
}

// Provider is where the model's words come from when it is not GitHub.
type Provider struct {
	Kind            string // openai, azure, anthropic, ollama
	BaseURL         string
	APIKey          string // secret
	BearerToken     string // secret; goes before APIKey
	WireAPI         string // completions or responses; "" = the kind's default
	AzureAPIVersion string
	Headers         map[string]string // secret; sent with every request
	// WireModel is what the provider calls the model; "" = as the session does.
	WireModel string
	// MaxInputTokens and MaxOutputTokens are limits of the model, by which the
	// runtime compacts an agent's context; 0 = the runtime's defaults. Runtime
	// 1.0.14 sends neither to the provider. A chat is not held to the first: its
	// client shortens the conversation itself.
	MaxInputTokens, MaxOutputTokens int
}

// MCPServer is a tool server that the session may use. Command and URL
// exclude each other.
type MCPServer struct {
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	URL     string
	Headers map[string]string
	Tools   []string // nil = all
	Timeout time.Duration
	// Own: it is a part of the bridge or of the user's configuration, and no
	// caller brought it along. It is not confined, and left out where the agent
	// cannot use it.
	Own bool
}

// Prompt is one message to a session.
type Prompt struct {
	Text        string
	Attachments []Attachment
	// ResponseFormat, if set, binds the answer to a JSON schema for this turn.
	ResponseFormat *ResponseFormat
	// Headers go with this turn's requests to the model's provider.
	Headers map[string]string
	// MustCall asks for a call of one of the caller's tools. It is for agents
	// that have a parameter for that; the text says it too.
	MustCall bool
	// Mode is the mode in which the agent works from this turn on: one of
	// the Mode constants, or "" to leave it as it is.
	Mode string
	// By is where a person said it, if that is not the caller, such as
	// "dashboard". It is for the record.
	By string
}

// The modes of an agent.
const (
	ModeInteractive = "interactive" // it works, and asks where the policy says so
	ModePlan        = "plan"        // it makes a plan before anything is changed
	ModeAutopilot   = "autopilot"   // it goes on until it says that the task is done
)

// Attachment is something that goes along with a prompt: a file, a directory,
// or bytes. Exactly one of Path and Data is set.
type Attachment struct {
	Name      string
	Path      string
	Directory bool
	Data      []byte
	MIME      string
}

// ResponseFormat is a JSON schema that the provider is asked to follow.
type ResponseFormat struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Strict      bool
}

// SessionInfo describes a stored session.
type SessionInfo struct {
	ID         string    `json:"id"`
	Title      string    `json:"title,omitempty"`
	WorkingDir string    `json:"working_dir,omitempty"`
	Started    time.Time `json:"started,omitzero"`
	Modified   time.Time `json:"modified,omitzero"`
}

// Model is one entry of an agent's list of models.
type Model struct {
	ID               string   `json:"id"`
	Name             string   `json:"name,omitempty"`
	Vision           bool     `json:"vision,omitempty"`
	ReasoningEfforts []string `json:"reasoning_efforts,omitempty"`
	DefaultEffort    string   `json:"default_effort,omitempty"`
	ContextTokens    int      `json:"context_tokens,omitempty"`
	PromptTokens     int      `json:"prompt_tokens,omitempty"`
	OutputTokens     int      `json:"output_tokens,omitempty"`
	// Vendor is who makes the model, and Created when, in seconds since 1970.
	// Only providers tell them, not GitHub.
	Vendor  string `json:"vendor,omitempty"`
	Created int64  `json:"created,omitempty"`
	// Multiplier is how many premium requests a turn costs; nil is not known.
	Multiplier *float64 `json:"multiplier,omitempty"`
	// Policy says whether the account may use the model: enabled, disabled or
	// unconfigured; "" is not known.
	Policy string `json:"policy,omitempty"`
}

// AgentStatus says whether an agent could answer now, and as whom.
type AgentStatus struct {
	Agent           string `json:"agent"`
	RuntimeVersion  string `json:"runtime_version,omitempty"`
	ProtocolVersion int    `json:"protocol_version,omitempty"`
	Authenticated   bool   `json:"authenticated"`
	AuthType        string `json:"auth_type,omitempty"`
	Login           string `json:"login,omitempty"`
	Host            string `json:"host,omitempty"`
	Message         string `json:"message,omitempty"`
	// Failure is why nothing could answer now, as far as the agent knows.
	Failure *Error `json:"failure,omitempty"`
}
