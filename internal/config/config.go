// Package config turns flags, the environment, a .env file and config.yaml into
// one validated Config that knows where each value came from. It reads no other
// files, starts nothing, defines no flags and does not change the environment.
// internal/cli and the public package call Load once and pass the result on.
package config

import (
	"log/slog"
	"path/filepath"
	"strconv"
	"time"
)

// Config is every setting in force. It does not change after Load, so it may
// be shared between goroutines.
type Config struct {
	Home            string // absolute; where the bridge keeps its own files
	GitHubToken     Secret
	Demo            bool   // the demo model answers, whoever is logged in
	CLIPath         string // absolute, or a bare name to look up on PATH; "" for none
	Model           string // used when a caller names no model; "" leaves the choice to the runtime
	ReasoningEffort string // "" leaves the choice to the model
	LogLevel        LogLevel
	AuditLogDir     string // absolute
	AuditKeepDays   int    // the age past which closed segments of it are deleted; 0 keeps them
	GitHubMCP       string
	ProjectContext  string // added to every prompt
	MaxRetries      int
	Sandbox         string // whether programs are confined: "auto", "require" or "off"

	BYOK             BYOK
	RequestHeaders   map[string]Secret // sent with every request to the model
	OpenClaw         OpenClaw
	ABP              ABP
	Engine           Engine
	Sessions         Sessions
	Serve            Serve
	Facade           Facade
	Languages        map[string]Language // over the built-in settings of the language of that name
	Tasks            map[string]string   // commands for the shell, by name
	MCPServers       map[string]MCPServer
	Telemetry        Telemetry
	InfiniteSessions InfiniteSessions

	origins map[string]Origin
	dotenv  dotenvReport
	unknown []string // see UnknownVariables

	variables map[string]Secret // that servers refer to
}

// Sessions says how long the sessions that can be resumed are kept.
type Sessions struct {
	KeepDays int // since the last use; 0 is for ever
	// Timelines is how many days timelines are kept, or "off"; "" is KeepDays.
	Timelines string
	Keep      int // how many, the newest; 0 is all
}

// TimelineDays is how many days the timelines of sessions are kept, 0 for ever;
// keep is false if they end with their process.
func (s Sessions) TimelineDays() (days int, keep bool) {
	switch s.Timelines {
	case timelinesOff:
		return 0, false
	case "":
		return s.KeepDays, true
	}
	days, _ = strconv.Atoi(s.Timelines) // it was checked
	return days, true
}

// timelinesOff is the value of sessions.timelines that keeps none.
const timelinesOff = "off"

// isTimelines says whether a text is a value of sessions.timelines.
func isTimelines(s string) bool {
	n, err := strconv.Atoi(s)
	return s == timelinesOff || s == "" || err == nil && n >= 0 && n <= 36500
}

// BYOK is a model provider of the user's own. It is in use if Provider is set;
// then Model and BaseURL are set too.
type BYOK struct {
	Provider        Provider
	APIKey          Secret
	BearerToken     Secret            // goes before APIKey
	Headers         map[string]Secret // sent with every request
	WireModel       string            // what the provider calls the model; "" for the same
	MaxInputTokens  int               // of a request; 0 for the runtime's default
	MaxOutputTokens int               // likewise
	BaseURL         string            // without a trailing slash
	Model           string
	WireAPI         string // "completions", "responses", or "" for the provider's default
	AzureAPIVersion string // "" for Azure's versionless route
}

// Provider is a kind of model provider.
type Provider string

// The providers.
const (
	ProviderOpenAI    Provider = "openai" // and everything that speaks its API
	ProviderAzure     Provider = "azure"
	ProviderAnthropic Provider = "anthropic"
	ProviderOllama    Provider = "ollama"
)

// OpenClaw says how to reach OpenClaw's gateway.
type OpenClaw struct {
	Host         string // a name or an address, IPv6 without brackets
	Port         int
	GatewayToken Secret
	Agent        string // whose memory is meant; "" for the only or main one
	Memory       string // whether agent sessions get the memory: "auto", "on" or "off"
}

// ABP configures the Agent Backplane sidecar.
type ABP struct {
	Transport            Transport // Protocol is already taken into account
	Protocol             string    // the old name of Transport: "acp", "legacy" or ""
	Runner               string    // absolute, or a bare name to look up on PATH
	Cmd                  string    // likewise
	Args                 []string  // nil if unset, which is not the same as empty
	ACPURL               string    // tcp://host:port
	ACPPort              int       // 0 if unset
	ACPArgs              []string  // nil if unset
	AllowAlwaysTools     []string
	MaxInlineOutputBytes int
}

// Transport is the way in which Copilot is reached.
type Transport string

// The transports. Auto tries the others in this order.
const (
	TransportAuto   Transport = "auto"
	TransportSDK    Transport = "sdk"
	TransportACP    Transport = "acp"
	TransportLegacy Transport = "legacy"
)

// Engine holds the bounds that the engine works within.
type Engine struct {
	IdleTimeout     time.Duration
	TotalTimeout    time.Duration // 0 for none
	ApprovalTimeout time.Duration
	MaxConcurrent   int
	QueueLimit      int // 0: none may wait
}

// Serve says where `serve` listens and who may come in.
type Serve struct {
	Addr  string
	Port  int      // 0: a free one, the same each time
	Token Secret   // "" lets in every caller, on loopback only
	Hosts []string // further names that clients reach this machine by
	// DrainTimeout is how long running requests may continue when the server is
	// told to stop; 0: not at all.
	DrainTimeout time.Duration
}

// Facade tunes the HTTP APIs.
type Facade struct {
	Aliases         map[string]string // model names of the user's own making
	UnknownModel    string            // "error" or "default"
	HistoryBytes    int               // 0 for no limit
	HistoryTurns    int               // 0 for no limit
	Conversations   int
	ConversationTTL time.Duration
	ToolTTL         time.Duration
}

// Telemetry is passed on to the runtime. It is in use if ExporterType is set.
type Telemetry struct {
	OTLPEndpoint   string
	FilePath       string // absolute
	ExporterType   Exporter
	SourceName     string
	CaptureContent bool
}

// Exporter is a way to export telemetry.
type Exporter string

// The exporters.
const (
	ExporterOTLP Exporter = "otlp-http"
	ExporterFile Exporter = "file"
)

// InfiniteSessions says when the runtime compacts a session's context. A nil
// or zero field leaves the runtime's default.
type InfiniteSessions struct {
	Enabled             *bool
	BackgroundThreshold float64
	BufferThreshold     float64
}

// LogLevel is how much the bridge logs.
type LogLevel string

// The log levels.
const (
	LogDebug   LogLevel = "debug"
	LogInfo    LogLevel = "info"
	LogWarning LogLevel = "warning"
	LogError   LogLevel = "error"
	LogNone    LogLevel = "none"
	LogAll     LogLevel = "all"
)

// Slog returns the lowest level to log, and whether to log at all.
func (l LogLevel) Slog() (level slog.Level, enabled bool) {
	levels := map[LogLevel]slog.Level{LogAll: slog.LevelDebug - 4, LogDebug: slog.LevelDebug, LogWarning: slog.LevelWarn,
		LogError: slog.LevelError, LogNone: slog.LevelError + 4}
	return levels[l], l != LogNone // LevelInfo is zero, for LogInfo and the zero Config
}

// Path joins elem onto the bridge's home.
func (c *Config) Path(elem ...string) string {
	return filepath.Join(append([]string{c.Home}, elem...)...)
}

// Source is a kind of place that values come from.
type Source string

// The sources, weakest first.
const (
	SourceDefault     Source = "default"
	SourceFile        Source = "file"
	SourceDotEnv      Source = "dotenv"
	SourceEnvironment Source = "environment"
	SourceFlag        Source = "flag"
)

// Origin is where a value came from. Where is a position ("config.yaml:3",
// ".env:2"), the variable's name, the flag's key, or "" for a default.
type Origin struct {
	Source  Source `json:"source"`
	Where   string `json:"where,omitempty"`
	Trusted bool   `json:"trusted,omitempty"` // of a .env file: the user trusts it
}

// String says it to people: "environment", ".env:2, trusted".
func (o Origin) String() string {
	switch {
	case o.Trusted:
		return o.Where + ", trusted"
	case o.Source == SourceFile || o.Source == SourceDotEnv:
		return o.Where
	}
	return string(o.Source)
}

// Origin returns where the setting called key got its value; the zero Origin
// if there is no such setting.
func (c *Config) Origin(key string) Origin { return c.origins[key] }

// Setting is one setting in force, fit to be shown: a secret's value is
// replaced by a mark that does not even tell its length.
type Setting struct {
	Key         string `json:"key"`
	Env         string `json:"env"`
	Value       string `json:"value"`
	Secret      bool   `json:"secret,omitempty"`
	Origin      Origin `json:"origin"`
	Description string `json:"description"`
	// NotTaken is where a .env file would have given another value, if it
	// were trusted; "" for nowhere.
	NotTaken string `json:"not_taken,omitempty"`
}

// Show returns every setting, in the order of Keys.
func (c *Config) Show() []Setting {
	var all []Setting
	for _, s := range settings(c) {
		all = append(all, Setting{
			Key: s.key, Env: s.env, Value: s.text(), Secret: s.secret(),
			Origin: c.Origin(s.key), Description: s.about, NotTaken: c.dotenv.notTaken[s.env],
		})
	}
	return all
}

// Value returns a setting as a user would write it, a secret unmasked: only for
// handing it on to a program that needs it.
func (c *Config) Value(key string) string {
	s := find(settings(c), key)
	switch {
	case s == nil:
		return ""
	case s.secret():
		return s.reveal()
	}
	return s.text()
}

// secretHeader is the length from which the value of a header may be a secret: a
// shorter one is a word, which logs may well contain.
const secretHeader = 16

// Secrets returns every secret value in force, so that logs can be scrubbed.
func (c *Config) Secrets() []string {
	var all []string
	for _, s := range settings(c) {
		if s.secret() && s.yaml == scalarOnly && s.reveal() != "" {
			all = append(all, s.reveal())
		}
	}
	for _, headers := range []map[string]Secret{c.BYOK.Headers, c.RequestHeaders} {
		for _, value := range headers {
			if len(value) >= secretHeader {
				all = append(all, string(value))
			}
		}
	}
	for _, s := range c.Servers() {
		all = append(all, s.literals()...)
	}
	return all
}
