package config

import (
	"cmp"
	"time"
)

// setting is one row of the table that loading, validation, Show and Keys are
// driven by.
type setting struct {
	key      string // in config.yaml and Options.Flags
	env      string
	about    string
	fallback string // default value, written as a user would; "" for none
	derived  string // how the default comes about, where it is not a fixed text
	noFile   bool   // in no file, because it says where the files are
	binding
}

// settings returns the table. Its order is the order of Show and of the docs.
func settings() []setting {
	return []setting{
		{
			key: "home", env: "COPILOT_BRIDGE_HOME", noFile: true,
			about:   "Directory of the bridge's own files, config.yaml among them",
			derived: "~/.copilot-bridge",
			binding: path().into(func(c *Config) *string { return &c.Home }),
		},
		{
			key: "github_token", env: "COPILOT_GITHUB_TOKEN",
			about:   "GitHub token to use Copilot with, in place of the login that is stored on this machine",
			binding: secretLine(func(c *Config) *Secret { return &c.GitHubToken }),
		},
		{
			key: "cli_path", env: "COPILOT_CLI_PATH",
			about:   "Copilot runtime or CLI to run, in place of the bridge's own install",
			binding: program().into(func(c *Config) *string { return &c.CLIPath }),
		},
		{
			key: "model", env: "COPILOT_BRIDGE_MODEL",
			about:   "Model to use when the caller names none",
			binding: oneLine().into(func(c *Config) *string { return &c.Model }),
		},
		{
			key: "reasoning_effort", env: "COPILOT_BRIDGE_REASONING_EFFORT",
			about:   "Reasoning effort to ask of models that have such a choice",
			binding: oneOf("low", "medium", "high", "xhigh", "max").into(func(c *Config) *string { return &c.ReasoningEffort }),
		},
		{
			key: "log_level", env: "COPILOT_LOG_LEVEL", fallback: "info",
			about: "How much to log on standard error",
			binding: oneOf(LogDebug, LogInfo, LogWarning, LogError, LogNone, LogAll).
				into(func(c *Config) *LogLevel { return &c.LogLevel }),
		},
		{
			key: "audit_log_dir", env: "COPILOT_AUDIT_LOG_DIR",
			about:   "Directory of the audit log",
			derived: "audit in the bridge's home",
			binding: path().into(func(c *Config) *string { return &c.AuditLogDir }),
		},
		{
			key: "project_context", env: "COPILOT_PROJECT_CONTEXT",
			about:   "Text to add to every prompt",
			binding: prose().into(func(c *Config) *string { return &c.ProjectContext }),
		},
		{
			key: "max_retries", env: "COPILOT_MAX_RETRIES", fallback: "3",
			about:   "Most retries after a rate limit or a passing failure",
			binding: whole(0, 10).into(func(c *Config) *int { return &c.MaxRetries }),
		},
		{
			key: "sandbox", env: "COPILOT_BRIDGE_SANDBOX", fallback: "off",
			about:   "Whether the operating system confines programs: where it can, or nothing starts without, or never",
			binding: oneOf("auto", "require", "off").into(func(c *Config) *string { return &c.Sandbox }),
		},

		{
			key: "byok.provider", env: "COPILOT_BYOK_PROVIDER",
			about: "Model provider of your own to use in place of GitHub's models",
			binding: oneOf(ProviderOpenAI, ProviderAzure, ProviderAnthropic, ProviderOllama).
				into(func(c *Config) *Provider { return &c.BYOK.Provider }),
		},
		{
			key: "byok.api_key", env: "COPILOT_BYOK_API_KEY",
			about:   "The provider's API key",
			binding: secretLine(func(c *Config) *Secret { return &c.BYOK.APIKey }),
		},
		{
			key: "byok.base_url", env: "COPILOT_BYOK_BASE_URL",
			about:   "The provider's base URL",
			derived: "the provider's public or local URL; none for azure",
			binding: httpURL().into(func(c *Config) *string { return &c.BYOK.BaseURL }),
		},
		{
			key: "byok.model", env: "COPILOT_BYOK_MODEL",
			about:   "The provider's model",
			binding: oneLine().into(func(c *Config) *string { return &c.BYOK.Model }),
		},
		{
			key: "byok.wire_api", env: "COPILOT_BYOK_WIRE_API",
			about:   "Which of its APIs to call, where the provider has two",
			binding: oneOf("completions", "responses").into(func(c *Config) *string { return &c.BYOK.WireAPI }),
		},
		{
			key: "byok.azure_api_version", env: "COPILOT_BYOK_AZURE_API_VERSION",
			about:   "API version to ask of Azure",
			binding: version().into(func(c *Config) *string { return &c.BYOK.AzureAPIVersion }),
		},

		{
			key: "openclaw.host", env: "OPENCLAW_HOST", fallback: "127.0.0.1",
			about:   "Host of OpenClaw's gateway",
			binding: host().into(func(c *Config) *string { return &c.OpenClaw.Host }),
		},
		{
			key: "openclaw.port", env: "OPENCLAW_PORT", fallback: "18789",
			about:   "Port of OpenClaw's gateway",
			binding: port().into(func(c *Config) *int { return &c.OpenClaw.Port }),
		},
		{
			key: "openclaw.gateway_token", env: "OPENCLAW_GATEWAY_TOKEN",
			about:   "Token for OpenClaw's gateway",
			binding: secretLine(func(c *Config) *Secret { return &c.OpenClaw.GatewayToken }),
		},
		{
			key: "openclaw.agent", env: "COPILOT_BRIDGE_OPENCLAW_AGENT",
			about:   "Agent of OpenClaw whose memory is meant, where there are several",
			derived: "the only or main one",
			binding: oneLine().into(func(c *Config) *string { return &c.OpenClaw.Agent }),
		},
		{
			key: "openclaw.memory", env: "COPILOT_BRIDGE_OPENCLAW_MEMORY", fallback: "auto",
			about:   "Whether Copilot's agent sessions can read OpenClaw's memory; auto: if OpenClaw is found",
			binding: oneOf("auto", "on", "off").into(func(c *Config) *string { return &c.OpenClaw.Memory }),
		},

		{
			key: "abp.transport", env: "ABP_COPILOT_TRANSPORT", fallback: string(TransportAuto),
			about: "How Copilot is reached; auto tries sdk, acp and legacy in turn",
			binding: oneOf(TransportAuto, TransportSDK, TransportACP, TransportLegacy).
				into(func(c *Config) *Transport { return &c.ABP.Transport }),
		},
		{
			key: "abp.protocol", env: "ABP_COPILOT_PROTOCOL",
			about:   "Older name of abp.transport; counts only where that is unset",
			binding: oneOf("acp", "legacy").into(func(c *Config) *string { return &c.ABP.Protocol }),
		},
		{
			key: "abp.runner", env: "ABP_COPILOT_RUNNER",
			about:   "Legacy runner: a program that reads one JSON request and writes events",
			binding: program().into(func(c *Config) *string { return &c.ABP.Runner }),
		},
		{
			key: "abp.cmd", env: "ABP_COPILOT_CMD",
			about:   "ACP agent to start, or the command to run if there is no runner",
			binding: program().into(func(c *Config) *string { return &c.ABP.Cmd }),
		},
		{
			key: "abp.args", env: "ABP_COPILOT_ARGS",
			about:   "Arguments of abp.cmd",
			binding: arguments().into(func(c *Config) *[]string { return &c.ABP.Args }),
		},
		{
			key: "abp.acp_url", env: "ABP_COPILOT_ACP_URL",
			about:   "ACP server that is already running",
			binding: tcpURL().into(func(c *Config) *string { return &c.ABP.ACPURL }),
		},
		{
			key: "abp.acp_port", env: "ABP_COPILOT_ACP_PORT",
			about:   "Port of an ACP server on this machine; one is started if nobody listens there",
			binding: port().into(func(c *Config) *int { return &c.ABP.ACPPort }),
		},
		{
			key: "abp.acp_args", env: "ABP_COPILOT_ACP_ARGS",
			about:   "Arguments to start the ACP server with",
			binding: arguments().into(func(c *Config) *[]string { return &c.ABP.ACPArgs }),
		},
		{
			key: "abp.permission_allow_always_tools", env: "ABP_COPILOT_PERMISSION_ALLOW_ALWAYS_TOOLS",
			about:   "Tools that need no consent where the policy would ask for it",
			binding: names().into(func(c *Config) *[]string { return &c.ABP.AllowAlwaysTools }),
		},
		{
			// The upper bound keeps an event inside the protocol's line of
			// 16 MiB even if every byte needs a six-byte JSON escape.
			key: "abp.max_inline_output_bytes", env: "ABP_COPILOT_MAX_INLINE_OUTPUT_BYTES", fallback: "8192",
			about:   "Tool output longer than this goes to a file",
			binding: whole(0, 2<<20).into(func(c *Config) *int { return &c.ABP.MaxInlineOutputBytes }),
		},

		{
			key: "engine.idle_timeout", env: "COPILOT_BRIDGE_IDLE_TIMEOUT", fallback: "5m",
			about:   "How long a turn may be silent",
			binding: duration(false).into(func(c *Config) *time.Duration { return &c.Engine.IdleTimeout }),
		},
		{
			key: "engine.total_timeout", env: "COPILOT_BRIDGE_TOTAL_TIMEOUT", fallback: "1h",
			about:   "How long a turn may last; 0 for no limit",
			binding: duration(true).into(func(c *Config) *time.Duration { return &c.Engine.TotalTimeout }),
		},
		{
			key: "engine.approval_timeout", env: "COPILOT_BRIDGE_APPROVAL_TIMEOUT", fallback: "5m",
			about:   "How long to wait for a person's approval before it is a denial",
			binding: duration(false).into(func(c *Config) *time.Duration { return &c.Engine.ApprovalTimeout }),
		},
		{
			key: "engine.max_concurrent", env: "COPILOT_BRIDGE_MAX_CONCURRENT", fallback: "8",
			about:   "Most turns at a time",
			binding: whole(1, 1024).into(func(c *Config) *int { return &c.Engine.MaxConcurrent }),
		},
		{
			key: "engine.queue_limit", env: "COPILOT_BRIDGE_QUEUE_LIMIT", fallback: "64",
			about:   "Most turns that may wait for their start; past that callers are told that the bridge is busy",
			binding: whole(0, 65536).into(func(c *Config) *int { return &c.Engine.QueueLimit }),
		},

		{
			key: "serve.addr", env: "COPILOT_BRIDGE_ADDR", fallback: "127.0.0.1",
			about:   "Address to listen on; anything but loopback needs a token",
			binding: host().into(func(c *Config) *string { return &c.Serve.Addr }),
		},
		{
			key: "serve.port", env: "COPILOT_BRIDGE_PORT", fallback: "8788",
			about:   "Port to listen on; 0 picks a free one and remembers it",
			binding: whole(0, 65535).into(func(c *Config) *int { return &c.Serve.Port }),
		},
		{
			key: "serve.token", env: "COPILOT_BRIDGE_TOKEN",
			about:   "Token that every client has to show, as a bearer token or API key",
			binding: secretLine(func(c *Config) *Secret { return &c.Serve.Token }),
		},
		{
			key: "serve.hosts", env: "COPILOT_BRIDGE_HOSTS",
			about:   "Further host names that clients reach this machine by, such as a reverse proxy's",
			binding: names().into(func(c *Config) *[]string { return &c.Serve.Hosts }),
		},
		{
			key: "facade.aliases", env: "COPILOT_BRIDGE_ALIASES",
			about:   "Model names of your own: what clients say, and the model or agent/model that it means",
			binding: pairs("gpt-4o", "my-model").into(func(c *Config) *map[string]string { return &c.Facade.Aliases }),
		},
		{
			key: "facade.unknown_model", env: "COPILOT_BRIDGE_UNKNOWN_MODEL", fallback: "error",
			about:   "What a model name that nobody knows leads to: an error, or the default model",
			binding: oneOf("error", "default").into(func(c *Config) *string { return &c.Facade.UnknownModel }),
		},
		{
			key: "facade.history_bytes", env: "COPILOT_BRIDGE_HISTORY_BYTES", fallback: "262144",
			about:   "How much of a conversation a fresh session is told",
			binding: whole(1024, 64<<20).into(func(c *Config) *int { return &c.Facade.HistoryBytes }),
		},
		{
			key: "facade.history_turns", env: "COPILOT_BRIDGE_HISTORY_TURNS", fallback: "0",
			about:   "How many turns of a conversation a fresh session is told; 0 for no limit",
			binding: whole(0, 1_000_000).into(func(c *Config) *int { return &c.Facade.HistoryTurns }),
		},
		{
			key: "facade.conversations", env: "COPILOT_BRIDGE_CONVERSATIONS", fallback: "64",
			about:   "How many conversations are kept ready for their next message",
			binding: whole(1, 10_000).into(func(c *Config) *int { return &c.Facade.Conversations }),
		},
		{
			key: "facade.conversation_ttl", env: "COPILOT_BRIDGE_CONVERSATION_TTL", fallback: "30m",
			about:   "How long a conversation is kept ready",
			binding: duration(false).into(func(c *Config) *time.Duration { return &c.Facade.ConversationTTL }),
		},
		{
			key: "facade.tool_ttl", env: "COPILOT_BRIDGE_TOOL_TTL", fallback: "10m",
			about:   "How long a client may take to answer a call of its own tool",
			binding: duration(false).into(func(c *Config) *time.Duration { return &c.Facade.ToolTTL }),
		},

		{
			key: "languages", env: "COPILOT_BRIDGE_LANGUAGES",
			about:   "Language servers and formatters of your own, by language, over the built-in ones",
			binding: languages().into(func(c *Config) *map[string]Language { return &c.Languages }),
		},
		{
			key: "tasks", env: "COPILOT_BRIDGE_TASKS",
			about:   "Commands that clients of the tool bus may run by name, if the policy allows them",
			binding: pairs("lint", "npm run lint").into(func(c *Config) *map[string]string { return &c.Tasks }),
		},

		{
			key: "telemetry.otlp_endpoint", env: "COPILOT_BRIDGE_OTEL_ENDPOINT",
			about:   "OTLP endpoint to send the runtime's telemetry to",
			binding: httpURL().into(func(c *Config) *string { return &c.Telemetry.OTLPEndpoint }),
		},
		{
			key: "telemetry.file", env: "COPILOT_BRIDGE_OTEL_FILE",
			about:   "File to write the runtime's telemetry to",
			binding: path().into(func(c *Config) *string { return &c.Telemetry.FilePath }),
		},
		{
			key: "telemetry.exporter", env: "COPILOT_BRIDGE_OTEL_EXPORTER",
			about:   "Which of the two to use",
			derived: "whichever is set",
			binding: oneOf(ExporterOTLP, ExporterFile).into(func(c *Config) *Exporter { return &c.Telemetry.ExporterType }),
		},
		{
			key: "telemetry.source", env: "COPILOT_BRIDGE_OTEL_SOURCE",
			about:   "Name that telemetry is recorded under",
			binding: oneLine().into(func(c *Config) *string { return &c.Telemetry.SourceName }),
		},
		{
			key: "telemetry.capture_content", env: "COPILOT_BRIDGE_OTEL_CAPTURE_CONTENT", fallback: "false",
			about:   "Whether telemetry holds the texts of prompts and answers",
			binding: boolean().into(func(c *Config) *bool { return &c.Telemetry.CaptureContent }),
		},

		{
			key: "infinite_sessions.enabled", env: "COPILOT_BRIDGE_INFINITE_SESSIONS_ENABLED",
			about:   "Whether the runtime compacts a long session's context",
			derived: "the runtime's",
			binding: optional(boolean()).into(func(c *Config) **bool { return &c.InfiniteSessions.Enabled }),
		},
		{
			key: "infinite_sessions.background_threshold", env: "COPILOT_BRIDGE_INFINITE_SESSIONS_BACKGROUND_THRESHOLD",
			about:   "Part of the context in use at which compaction starts in the background",
			derived: "the runtime's",
			binding: fraction().into(func(c *Config) *float64 { return &c.InfiniteSessions.BackgroundThreshold }),
		},
		{
			key: "infinite_sessions.buffer_threshold", env: "COPILOT_BRIDGE_INFINITE_SESSIONS_BUFFER_THRESHOLD",
			about:   "Part of the context in use at which the session waits for compaction",
			derived: "the runtime's",
			binding: fraction().into(func(c *Config) *float64 { return &c.InfiniteSessions.BufferThreshold }),
		},
	}
}

// Key describes a setting, for the documentation and for shell completion.
type Key struct {
	Key         string   `json:"key"`
	Env         string   `json:"env"`
	Description string   `json:"description"`
	Allowed     string   `json:"allowed"`           // follows "must be"
	Values      []string `json:"values,omitempty"`  // every value, where they can be listed
	Default     string   `json:"default,omitempty"` // a value, or how it comes about
	Secret      bool     `json:"secret,omitempty"`
	InFile      bool     `json:"in_file"` // config.yaml and a trusted .env file may give it
}

// Keys describes every setting.
func Keys() []Key {
	var all []Key
	for _, s := range settings() {
		all = append(all, Key{
			Key: s.key, Env: s.env, Description: s.about, Allowed: s.allowed, Values: s.values,
			Default: cmp.Or(s.fallback, s.derived), Secret: s.secret(),
			InFile: !s.noFile,
		})
	}
	return all
}

func (s *setting) secret() bool { return s.reveal != nil }
