package config

import "cmp"

// setting is one row of the table that loading, validation, Show, Keys and the
// command line are driven by.
type setting struct {
	key      string // in config.yaml and Options.Flags
	env      string
	fallback string // default value, written as a user would; "" for none
	about    string
	kind
}

// noFile: the home cannot be set in a file, because the files are found there.
func (s *setting) noFile() bool { return s.key == "home" }

// settings returns the table for the fields of c. Its order is the order of
// Show and of the documentation.
func settings(c *Config) []setting {
	byok, claw, abp, engine, serve, facade := &c.BYOK, &c.OpenClaw, &c.ABP, &c.Engine, &c.Serve, &c.Facade
	otel, infinite := &c.Telemetry, &c.InfiniteSessions
	return []setting{
		{"home", "COPILOT_BRIDGE_HOME", "", "Directory of the bridge's own files, including config.yaml",
			path(&c.Home).derivedFrom("~/.copilot-bridge")},
		{"github_token", "COPILOT_GITHUB_TOKEN", "", "GitHub token to use instead of the login stored on this machine", secret(&c.GitHubToken)},
		{"demo", "COPILOT_BRIDGE_DEMO", "false", "Whether the built-in demo model answers, which needs no account", boolean(&c.Demo)},
		{"cli_path", "COPILOT_CLI_PATH", "", "Copilot runtime or CLI to run instead of the bridge's own install", program(&c.CLIPath)},
		{"model", "COPILOT_BRIDGE_MODEL", "", "Model to use when the caller names none", oneLine(&c.Model)},
		{"reasoning_effort", "COPILOT_BRIDGE_REASONING_EFFORT", "", "Reasoning effort for models that support it",
			oneOf(&c.ReasoningEffort, "low", "medium", "high", "xhigh", "max")},
		{"log_level", "COPILOT_LOG_LEVEL", "info", "How much to log on standard error",
			oneOf(&c.LogLevel, LogDebug, LogInfo, LogWarning, LogError, LogNone, LogAll)},
		{"audit_log_dir", "COPILOT_AUDIT_LOG_DIR", "", "Directory of the audit log",
			path(&c.AuditLogDir).derivedFrom("audit in the bridge's home")},
		{"audit_keep_days", "COPILOT_AUDIT_KEEP_DAYS", "0", "Days after which closed segments of the audit log are deleted; 0 keeps all",
			whole(&c.AuditKeepDays, 0, 36500)},
		{"project_context", "COPILOT_PROJECT_CONTEXT", "", "Text to add to every prompt", prose(&c.ProjectContext)},
		{"max_retries", "COPILOT_MAX_RETRIES", "3", "Most retries after a rate limit or a temporary failure", whole(&c.MaxRetries, 0, 10)},
		{"github_mcp", "COPILOT_BRIDGE_GITHUB_MCP", "read-only",
			"GitHub's MCP server in agents' sessions: none (off), its tools that read (read-only), all of them (on)",
			oneOf(&c.GitHubMCP, "off", "read-only", "on")},
		{"sandbox", "COPILOT_BRIDGE_SANDBOX", "auto",
			"Confine programs with the operating system: where possible (auto), always or not at all (require), never (off)",
			oneOf(&c.Sandbox, "auto", "require", "off")},

		{"request_headers", "COPILOT_BRIDGE_REQUEST_HEADERS", "", "HTTP headers for the requests of every turn to the model, whoever provides it", headers(&c.RequestHeaders)},

		{"byok.provider", "COPILOT_BYOK_PROVIDER", "", "Your own model provider, instead of GitHub's models",
			oneOf(&byok.Provider, ProviderOpenAI, ProviderAzure, ProviderAnthropic, ProviderOllama)},
		{"byok.api_key", "COPILOT_BYOK_API_KEY", "", "The provider's API key", secret(&byok.APIKey)},
		{"byok.bearer_token", "COPILOT_BYOK_BEARER_TOKEN", "", "The provider's bearer token; it goes before the API key", secret(&byok.BearerToken)},
		{"byok.headers", "COPILOT_BYOK_HEADERS", "", "HTTP headers for every request to the provider", headers(&byok.Headers)},
		{"byok.base_url", "COPILOT_BYOK_BASE_URL", "", "The provider's base URL",
			httpURL(&byok.BaseURL).derivedFrom("the provider's public or local URL; none for azure")},
		{"byok.model", "COPILOT_BYOK_MODEL", "", "The provider's model", oneLine(&byok.Model)},
		{"byok.wire_model", "COPILOT_BYOK_WIRE_MODEL", "", "What the provider calls the model, such as the name of a deployment",
			oneLine(&byok.WireModel).derivedFrom("byok.model")},
		{"byok.max_input_tokens", "COPILOT_BYOK_MAX_INPUT_TOKENS", "0", "Most tokens that an agent's request may have before its context is compacted; 0 for the runtime's default",
			whole(&byok.MaxInputTokens, 0, 100_000_000)},
		{"byok.max_output_tokens", "COPILOT_BYOK_MAX_OUTPUT_TOKENS", "0", "How many tokens the runtime takes the model to answer with at most; 0 for its default",
			whole(&byok.MaxOutputTokens, 0, 100_000_000)},
		{"byok.wire_api", "COPILOT_BYOK_WIRE_API", "", "Which API to call, where the provider has two", oneOf(&byok.WireAPI, "completions", "responses")},
		{"byok.azure_api_version", "COPILOT_BYOK_AZURE_API_VERSION", "", "Azure API version", azureVersion(&byok.AzureAPIVersion)},

		{"openclaw.host", "OPENCLAW_HOST", "127.0.0.1", "Host of OpenClaw's gateway", host(&claw.Host)},
		{"openclaw.port", "OPENCLAW_PORT", "18789", "Port of OpenClaw's gateway", port(&claw.Port)},
		{"openclaw.gateway_token", "OPENCLAW_GATEWAY_TOKEN", "", "Token for OpenClaw's gateway", secret(&claw.GatewayToken)},
		{"openclaw.agent", "COPILOT_BRIDGE_OPENCLAW_AGENT", "", "OpenClaw agent whose memory to use, where there are several",
			oneLine(&claw.Agent).derivedFrom("the only or main one")},
		{"openclaw.memory", "COPILOT_BRIDGE_OPENCLAW_MEMORY", "auto",
			"Whether Copilot's agent sessions can read OpenClaw's memory; auto: if OpenClaw is found", oneOf(&claw.Memory, "auto", "on", "off")},

		{"abp.transport", "ABP_COPILOT_TRANSPORT", string(TransportAuto), "How Copilot is reached; auto tries sdk, acp and legacy in turn",
			oneOf(&abp.Transport, TransportAuto, TransportSDK, TransportACP, TransportLegacy)},
		{"abp.protocol", "ABP_COPILOT_PROTOCOL", "", "Older name of abp.transport; used only where that is unset", oneOf(&abp.Protocol, "acp", "legacy")},
		{"abp.runner", "ABP_COPILOT_RUNNER", "", "Legacy runner: a program that reads one JSON request and writes events", program(&abp.Runner)},
		{"abp.cmd", "ABP_COPILOT_CMD", "", "ACP agent to start, or the command to run if there is no runner", program(&abp.Cmd)},
		{"abp.args", "ABP_COPILOT_ARGS", "", "Arguments of abp.cmd", arguments(&abp.Args)},
		{"abp.acp_url", "ABP_COPILOT_ACP_URL", "", "ACP server that is already running", tcpURL(&abp.ACPURL)},
		{"abp.acp_port", "ABP_COPILOT_ACP_PORT", "", "Port of an ACP server on this machine; one is started if none listens there", port(&abp.ACPPort)},
		{"abp.acp_args", "ABP_COPILOT_ACP_ARGS", "", "Arguments to start the ACP server with", arguments(&abp.ACPArgs)},
		{"abp.permission_allow_always_tools", "ABP_COPILOT_PERMISSION_ALLOW_ALWAYS_TOOLS", "",
			"Tools that need no consent where the policy would ask for it", names(&abp.AllowAlwaysTools)},
		// The upper bound keeps an event inside the protocol's line of 16 MiB
		// even if every byte needs a six-byte JSON escape.
		{"abp.max_inline_output_bytes", "ABP_COPILOT_MAX_INLINE_OUTPUT_BYTES", "8192", "Tool output longer than this goes to a file",
			whole(&abp.MaxInlineOutputBytes, 0, 2<<20)},

		{"engine.idle_timeout", "COPILOT_BRIDGE_IDLE_TIMEOUT", "5m", "How long a turn may be silent", duration(&engine.IdleTimeout)},
		{"engine.total_timeout", "COPILOT_BRIDGE_TOTAL_TIMEOUT", "1h", "How long a turn may last; 0 for no limit", durationOrZero(&engine.TotalTimeout)},
		{"engine.approval_timeout", "COPILOT_BRIDGE_APPROVAL_TIMEOUT", "5m", "How long to wait for a person's approval before it is a denial",
			duration(&engine.ApprovalTimeout)},
		{"engine.max_concurrent", "COPILOT_BRIDGE_MAX_CONCURRENT", "0",
			"Most turns at a time; 0 for as many as the machine's memory and processors allow", whole(&engine.MaxConcurrent, 0, 65536)},
		{"engine.queue_limit", "COPILOT_BRIDGE_QUEUE_LIMIT", "64",
			"Most turns that may wait to start; further callers are told that the bridge is busy", whole(&engine.QueueLimit, 0, 65536)},

		{"sessions.keep_days", "COPILOT_BRIDGE_SESSIONS_KEEP_DAYS", "90", "Days to keep a session after its last use, unless it is pinned; 0 for ever",
			whole(&c.Sessions.KeepDays, 0, 36500)},
		{"sessions.keep", "COPILOT_BRIDGE_SESSIONS_KEEP", "1000", "How many of the sessions used last are kept, besides pinned ones; 0 for all",
			whole(&c.Sessions.Keep, 0, 10_000_000)},
		{"sessions.timelines", "COPILOT_BRIDGE_SESSIONS_TIMELINES", "", "Days to keep what agents' sessions did, for the dashboard; 0 for ever, off to keep nothing after the process",
			matching(&c.Sessions.Timelines, "off or a whole number from 0 to 36500", isTimelines).derivedFrom("sessions.keep_days")},

		{"serve.addr", "COPILOT_BRIDGE_ADDR", "127.0.0.1", "Address to listen on; anything but loopback needs a token", host(&serve.Addr)},
		{"serve.port", "COPILOT_BRIDGE_PORT", "8788", "Port to listen on; 0 picks a free one and remembers it", whole(&serve.Port, 0, 65535)},
		{"serve.token", "COPILOT_BRIDGE_TOKEN", "", "Token that clients must present, as a bearer token or API key", secret(&serve.Token)},
		{"serve.hosts", "COPILOT_BRIDGE_HOSTS", "", "Further host names that clients reach this machine by, such as a reverse proxy's", names(&serve.Hosts)},
		{"serve.drain_timeout", "COPILOT_BRIDGE_DRAIN_TIMEOUT", "30s",
			"How long running requests may continue when the server is told to stop; 0 ends them at once", durationOrZero(&serve.DrainTimeout)},
		{"facade.aliases", "COPILOT_BRIDGE_ALIASES", "", "Your own model names: the name that clients use, and the model or agent/model it stands for",
			pairs(&facade.Aliases, "gpt-4o", "my-model")},
		{"facade.unknown_model", "COPILOT_BRIDGE_UNKNOWN_MODEL", "default", "What an unknown model name leads to: the default model, or an error",
			oneOf(&facade.UnknownModel, "default", "error")},
		{"facade.history_bytes", "COPILOT_BRIDGE_HISTORY_BYTES", "0", "How many bytes of a conversation to replay to a fresh session; 0 for no limit",
			whole(&facade.HistoryBytes, 0, 64<<20)},
		{"facade.history_turns", "COPILOT_BRIDGE_HISTORY_TURNS", "0", "How many turns of a conversation to replay to a fresh session; 0 for no limit",
			whole(&facade.HistoryTurns, 0, 1_000_000)},
		{"facade.conversations", "COPILOT_BRIDGE_CONVERSATIONS", "64", "How many conversations are kept ready for their next message",
			whole(&facade.Conversations, 1, 10_000)},
		{"facade.conversation_ttl", "COPILOT_BRIDGE_CONVERSATION_TTL", "30m", "How long a conversation is kept ready", duration(&facade.ConversationTTL)},
		{"facade.tool_ttl", "COPILOT_BRIDGE_TOOL_TTL", "10m", "How long a client may take to answer a call of its own tool", duration(&facade.ToolTTL)},

		{"languages", "COPILOT_BRIDGE_LANGUAGES", "", "Your own language servers and formatters, by language, over the built-in ones", languages(&c.Languages)},
		{"tasks", "COPILOT_BRIDGE_TASKS", "", "Commands that clients of the tool bus may run by name, if the policy allows them",
			pairs(&c.Tasks, "lint", "npm run lint")},

		{"mcp_servers", "COPILOT_BRIDGE_MCP_SERVERS", "", "MCP servers for Copilot's agent sessions, by name; see copilot-bridge mcp add", mcpServers(&c.MCPServers)},

		{"telemetry.otlp_endpoint", "COPILOT_BRIDGE_OTEL_ENDPOINT", "", "OTLP endpoint for traces with the runtime's own spans; OTEL_EXPORTER_OTLP_ENDPOINT is for the bridge's alone", httpURL(&otel.OTLPEndpoint)},
		{"telemetry.file", "COPILOT_BRIDGE_OTEL_FILE", "", "File for the runtime's own spans", path(&otel.FilePath)},
		{"telemetry.exporter", "COPILOT_BRIDGE_OTEL_EXPORTER", "", "Which of the two to use",
			oneOf(&otel.ExporterType, ExporterOTLP, ExporterFile).derivedFrom("the one that is set")},
		{"telemetry.source", "COPILOT_BRIDGE_OTEL_SOURCE", "", "Source name in the runtime's spans", oneLine(&otel.SourceName)},
		{"telemetry.capture_content", "COPILOT_BRIDGE_OTEL_CAPTURE_CONTENT", "false", "Whether the runtime's spans include the text of prompts and answers",
			boolean(&otel.CaptureContent)},

		{"infinite_sessions.enabled", "COPILOT_BRIDGE_INFINITE_SESSIONS_ENABLED", "", "Whether the runtime compacts a long session's context",
			optionalBoolean(&infinite.Enabled).derivedFrom("the runtime's")},
		{"infinite_sessions.background_threshold", "COPILOT_BRIDGE_INFINITE_SESSIONS_BACKGROUND_THRESHOLD", "",
			"Part of the context in use at which compaction starts in the background", fraction(&infinite.BackgroundThreshold).derivedFrom("the runtime's")},
		{"infinite_sessions.buffer_threshold", "COPILOT_BRIDGE_INFINITE_SESSIONS_BUFFER_THRESHOLD", "",
			"Part of the context in use at which the session waits for compaction", fraction(&infinite.BufferThreshold).derivedFrom("the runtime's")},
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
	for _, s := range settings(&Config{}) {
		all = append(all, Key{
			Key: s.key, Env: s.env, Description: s.about, Allowed: s.allowed, Values: s.values,
			Default: cmp.Or(s.fallback, s.derived), Secret: s.secret(), InFile: !s.noFile(),
		})
	}
	return all
}

func find(table []setting, key string) *setting {
	for i := range table {
		if table[i].key == key {
			return &table[i]
		}
	}
	return nil
}
