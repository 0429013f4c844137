package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// world is a user's machine: what each source holds.
type world struct {
	flags  map[string]string
	env    []string
	dotenv string // "" for no file
	file   string // config.yaml in the default home; "" for no file

	untrusted bool // the .env file

	dir, home string // filled in by load
}

func (w *world) load(t testing.TB) (*Config, error) {
	t.Helper()
	if w.dir == "" {
		w.dir, w.home = t.TempDir(), t.TempDir()
	}
	if w.dotenv != "" {
		write(t, filepath.Join(w.dir, ".env"), w.dotenv)
	}
	if w.file != "" {
		write(t, filepath.Join(w.home, ".copilot-bridge", "config.yaml"), w.file)
	}
	return Load(Options{Flags: w.flags, Environ: w.env, Dir: w.dir, HomeDir: w.home,
		Trusted: func(home, file string, data []byte) (bool, error) {
			if home == "" || file != filepath.Join(w.dir, ".env") || string(data) != w.dotenv {
				t.Errorf("asked about %s with home %q and %q", file, home, data)
			}
			return !w.untrusted, nil
		}})
}

func (w *world) mustLoad(t testing.TB) *Config {
	t.Helper()
	cfg, err := w.load(t)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return cfg
}

// fail loads and returns the error that Load must give.
func (w *world) fail(t testing.TB) *bridge.Error {
	t.Helper()
	cfg, err := w.load(t)
	var e *bridge.Error
	if !errors.As(err, &e) || cfg != nil {
		t.Fatalf("Load = %v, %v; want no Config and a *bridge.Error", cfg, err)
	}
	if e.Code != bridge.CodeInvalid || e.Remedy == "" {
		t.Errorf("code %q, remedy %q; want %q and a remedy", e.Code, e.Remedy, bridge.CodeInvalid)
	}
	return e
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPrecedence(t *testing.T) {
	w := world{
		flags:  map[string]string{"model": "from-flag"},
		env:    []string{"COPILOT_BRIDGE_MODEL=from-env"},
		dotenv: "# comment\nCOPILOT_BRIDGE_MODEL=from-dotenv\n",
		file:   "\n\nmodel: from-file\n",
	}
	steps := []struct {
		want   string
		origin Origin
		remove func()
	}{
		{"from-flag", Origin{Source: SourceFlag, Where: "model"}, func() { w.flags = nil }},
		{"from-env", Origin{Source: SourceEnvironment, Where: "COPILOT_BRIDGE_MODEL"}, func() { w.env = nil }},
		{"from-dotenv", Origin{Source: SourceDotEnv, Where: ".env:2", Trusted: true}, func() { w.dotenv = "#\n" }},
		{"from-file", Origin{Source: SourceFile, Where: "config.yaml:3"}, func() { w.file = "#\n" }},
		{"", Origin{Source: SourceDefault, Where: ""}, func() {}},
	}
	for _, step := range steps {
		cfg := w.mustLoad(t)
		if cfg.Model != step.want || cfg.Origin("model") != step.origin {
			t.Errorf("model %q from %+v; want %q from %+v", cfg.Model, cfg.Origin("model"), step.want, step.origin)
		}
		step.remove()
	}
}

func TestEmptyCountsAsUnset(t *testing.T) {
	w := world{
		flags:  map[string]string{"log_level": ""},
		env:    []string{"COPILOT_LOG_LEVEL=", "COPILOT_CLI_PATH="},
		dotenv: "COPILOT_LOG_LEVEL=\"\"\nCOPILOT_CLI_PATH=\n",
		file:   "log_level: debug\ncli_path: ~\nbyok:\n",
	}
	cfg := w.mustLoad(t)
	if cfg.LogLevel != LogDebug || cfg.Origin("log_level").Source != SourceFile {
		t.Errorf("log level %q from %+v; want debug from the file", cfg.LogLevel, cfg.Origin("log_level"))
	}
	if cfg.CLIPath != "" || cfg.Origin("cli_path").Source != SourceDefault {
		t.Errorf("cli path %q from %+v; want none", cfg.CLIPath, cfg.Origin("cli_path"))
	}
}

func TestLastOfDuplicateVariablesWins(t *testing.T) {
	w := world{env: []string{"COPILOT_MAX_RETRIES=1", "COPILOT_MAX_RETRIES=2"}}
	if got := w.mustLoad(t).MaxRetries; got != 2 {
		t.Errorf("retries = %d, want 2", got)
	}
}

func TestDefaults(t *testing.T) {
	w := world{}
	cfg := w.mustLoad(t)
	for _, s := range settings(&Config{}) {
		if got := cfg.Origin(s.key); got != (Origin{Source: SourceDefault}) {
			t.Errorf("%s comes from %+v", s.key, got)
		}
	}
	home := filepath.Join(w.home, ".copilot-bridge")
	want := &Config{
		Home: home, LogLevel: LogInfo, AuditLogDir: filepath.Join(home, "audit"), MaxRetries: 3, Sandbox: "auto", GitHubMCP: "read-only",
		OpenClaw: OpenClaw{Host: "127.0.0.1", Port: 18789, Memory: "auto"},
		ABP:      ABP{Transport: TransportAuto, MaxInlineOutputBytes: 8192},
		Engine: Engine{
			IdleTimeout: 5 * time.Minute, TotalTimeout: time.Hour, ApprovalTimeout: 5 * time.Minute,
			QueueLimit: 64,
		},
		Sessions: Sessions{KeepDays: 90, Keep: 1000},
		Serve:    Serve{Addr: "127.0.0.1", Port: 8788, DrainTimeout: 30 * time.Second},
		Facade:   Facade{UnknownModel: "default", Conversations: 64, ConversationTTL: 30 * time.Minute, ToolTTL: 10 * time.Minute},
		origins:  cfg.origins, variables: map[string]Secret{},
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("Load = %+v\nwant   %+v", cfg, want)
	}
	if entries, err := os.ReadDir(w.home); err != nil || len(entries) > 0 {
		t.Errorf("Load left %v in the home directory (%v)", entries, err)
	}
}

// Every variable ends up in its own field, and in no other.
func TestEveryField(t *testing.T) {
	w := world{env: []string{
		"COPILOT_BRIDGE_HOME=~/state", "COPILOT_GITHUB_TOKEN=ghp_1", "COPILOT_BRIDGE_DEMO=true", "COPILOT_CLI_PATH=~/bin/copilot",
		"COPILOT_BRIDGE_MODEL=m1", "COPILOT_BRIDGE_REASONING_EFFORT=xhigh", "COPILOT_LOG_LEVEL=all",
		"COPILOT_AUDIT_LOG_DIR=logs", "COPILOT_AUDIT_KEEP_DAYS=365", "COPILOT_PROJECT_CONTEXT= two\nlines ", "COPILOT_MAX_RETRIES=0", "COPILOT_BRIDGE_SANDBOX=require", "COPILOT_BRIDGE_GITHUB_MCP=off",
		"COPILOT_BYOK_PROVIDER=azure", "COPILOT_BYOK_API_KEY=key", "COPILOT_BYOK_BASE_URL=https://x.example/",
		"COPILOT_BYOK_BEARER_TOKEN=bear", "COPILOT_BYOK_HEADERS=X-Key=a-secret-of-16-bytes,X-Team=tools", "COPILOT_BYOK_WIRE_MODEL=w", "COPILOT_BYOK_MAX_INPUT_TOKENS=11", "COPILOT_BYOK_MAX_OUTPUT_TOKENS=12",
		"COPILOT_BRIDGE_REQUEST_HEADERS=X-Turn=a-turns-own-secret",
		"COPILOT_BYOK_MODEL=m2", "COPILOT_BYOK_WIRE_API=responses", "COPILOT_BYOK_AZURE_API_VERSION=2024-10-21",
		"OPENCLAW_HOST=::1", "OPENCLAW_PORT=1", "OPENCLAW_GATEWAY_TOKEN=gate", "COPILOT_BRIDGE_OPENCLAW_AGENT=main", "COPILOT_BRIDGE_OPENCLAW_MEMORY=off",
		"ABP_COPILOT_TRANSPORT=sdk", "ABP_COPILOT_PROTOCOL=legacy", "ABP_COPILOT_RUNNER=./bin/runner",
		"ABP_COPILOT_CMD=copilot", `ABP_COPILOT_ARGS=["agent","--acp"]`, "ABP_COPILOT_ACP_URL=tcp://127.0.0.1:3000",
		"ABP_COPILOT_ACP_PORT=3001", "ABP_COPILOT_ACP_ARGS=--acp '--log dir'",
		`ABP_COPILOT_PERMISSION_ALLOW_ALWAYS_TOOLS=["Write","Bash"]`, "ABP_COPILOT_MAX_INLINE_OUTPUT_BYTES=10",
		"COPILOT_BRIDGE_IDLE_TIMEOUT=1s", "COPILOT_BRIDGE_TOTAL_TIMEOUT=0", "COPILOT_BRIDGE_APPROVAL_TIMEOUT=2s",
		"COPILOT_BRIDGE_MAX_CONCURRENT=3", "COPILOT_BRIDGE_QUEUE_LIMIT=0", "COPILOT_BRIDGE_SESSIONS_KEEP_DAYS=7", "COPILOT_BRIDGE_SESSIONS_KEEP=8", "COPILOT_BRIDGE_SESSIONS_TIMELINES=off",
		"COPILOT_BRIDGE_ADDR=0.0.0.0", "COPILOT_BRIDGE_PORT=0", "COPILOT_BRIDGE_TOKEN=tok", "COPILOT_BRIDGE_HOSTS=a.example", "COPILOT_BRIDGE_DRAIN_TIMEOUT=5s",
		"COPILOT_BRIDGE_ALIASES=a=b", "COPILOT_BRIDGE_UNKNOWN_MODEL=error", "COPILOT_BRIDGE_HISTORY_BYTES=2048",
		"COPILOT_BRIDGE_HISTORY_TURNS=3", "COPILOT_BRIDGE_CONVERSATIONS=5", "COPILOT_BRIDGE_CONVERSATION_TTL=3s", "COPILOT_BRIDGE_TOOL_TTL=4s",
		`COPILOT_BRIDGE_LANGUAGES={"go":{"command":["./gopls"]}}`, `COPILOT_BRIDGE_TASKS={"lint":"make lint"}`,
		`COPILOT_BRIDGE_MCP_SERVERS={"s":{"command":"./run","args":["-x"],"env":{"K":"a-servers-own-secret","R":"${A_LONG_REFERENCE:-}"}}}`,
		"COPILOT_BRIDGE_OTEL_ENDPOINT=http://localhost:4318", "COPILOT_BRIDGE_OTEL_FILE=/tmp/t.jsonl",
		"COPILOT_BRIDGE_OTEL_EXPORTER=file", "COPILOT_BRIDGE_OTEL_SOURCE=src", "COPILOT_BRIDGE_OTEL_CAPTURE_CONTENT=true",
		"COPILOT_BRIDGE_INFINITE_SESSIONS_ENABLED=false",
		"COPILOT_BRIDGE_INFINITE_SESSIONS_BACKGROUND_THRESHOLD=0.5",
		"COPILOT_BRIDGE_INFINITE_SESSIONS_BUFFER_THRESHOLD=0.75",
	}}
	cfg := w.mustLoad(t)
	for _, s := range settings(&Config{}) {
		if got := cfg.Origin(s.key); got != (Origin{Source: SourceEnvironment, Where: s.env}) {
			t.Errorf("%s comes from %+v; add the variable to this test", s.key, got)
		}
	}
	off := false
	want := &Config{
		Home: filepath.Join(w.home, "state"), GitHubToken: "ghp_1", Demo: true, CLIPath: filepath.Join(w.home, "bin", "copilot"),
		Model: "m1", ReasoningEffort: "xhigh", LogLevel: LogAll, AuditLogDir: filepath.Join(w.dir, "logs"), AuditKeepDays: 365, Sandbox: "require", GitHubMCP: "off",
		Languages: map[string]Language{"go": {Command: []string{filepath.Join(w.dir, "gopls")}}}, Tasks: map[string]string{"lint": "make lint"},
		MCPServers:     map[string]MCPServer{"s": {Command: filepath.Join(w.dir, "run"), Args: []string{"-x"}, Env: map[string]Secret{"K": "a-servers-own-secret", "R": "${A_LONG_REFERENCE:-}"}}},
		ProjectContext: " two\nlines ",
		RequestHeaders: map[string]Secret{"X-Turn": "a-turns-own-secret"},
		BYOK: BYOK{
			BearerToken: "bear", Headers: map[string]Secret{"X-Key": "a-secret-of-16-bytes", "X-Team": "tools"}, WireModel: "w", MaxInputTokens: 11, MaxOutputTokens: 12,
			Provider: ProviderAzure, APIKey: "key", BaseURL: "https://x.example", Model: "m2",
			WireAPI: "responses", AzureAPIVersion: "2024-10-21",
		},
		OpenClaw: OpenClaw{Host: "::1", Port: 1, GatewayToken: "gate", Agent: "main", Memory: "off"},
		ABP: ABP{
			Transport: TransportSDK, Protocol: "legacy", Runner: filepath.Join(w.dir, "bin", "runner"), Cmd: "copilot",
			Args: []string{"agent", "--acp"}, ACPURL: "tcp://127.0.0.1:3000", ACPPort: 3001,
			ACPArgs: []string{"--acp", "--log dir"}, AllowAlwaysTools: []string{"Write", "Bash"}, MaxInlineOutputBytes: 10,
		},
		Engine:   Engine{IdleTimeout: time.Second, ApprovalTimeout: 2 * time.Second, MaxConcurrent: 3},
		Sessions: Sessions{KeepDays: 7, Timelines: "off", Keep: 8},
		Serve:    Serve{Addr: "0.0.0.0", Token: "tok", Hosts: []string{"a.example"}, DrainTimeout: 5 * time.Second},
		Facade: Facade{Aliases: map[string]string{"a": "b"}, UnknownModel: "error", HistoryBytes: 2048, HistoryTurns: 3, Conversations: 5,
			ConversationTTL: 3 * time.Second, ToolTTL: 4 * time.Second},
		Telemetry: Telemetry{
			OTLPEndpoint: "http://localhost:4318", FilePath: abs(t, "/tmp/t.jsonl", w.dir), ExporterType: ExporterFile,
			SourceName: "src", CaptureContent: true,
		},
		InfiniteSessions: InfiniteSessions{Enabled: &off, BackgroundThreshold: 0.5, BufferThreshold: 0.75},
		origins:          cfg.origins,
		variables:        map[string]Secret{},
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("Load = %+v\nwant   %+v", cfg, want)
	}
	if got, want := cfg.Secrets(), []string{"ghp_1", "key", "bear", "gate", "tok", "a-secret-of-16-bytes", "a-turns-own-secret", "a-servers-own-secret"}; !slices.Equal(got, want) {
		t.Errorf("Secrets = %q, want %q", got, want)
	}
	// A text from Value means the same elsewhere.
	var handed []string
	for _, s := range settings(&Config{}) {
		handed = append(handed, s.env+"="+cfg.Value(s.key))
	}
	if got := (&world{env: handed}).mustLoad(t); !reflect.DeepEqual(got, want) {
		t.Errorf("handed on = %+v\nwant      %+v", got, want)
	}
	if got := cfg.Value("nonesuch"); got != "" {
		t.Errorf("%q", got)
	}
}

// abs is how a slash path of these tests comes out where paths have drives.
func abs(t *testing.T, file, dir string) string {
	t.Helper()
	if file = filepath.FromSlash(file); filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

func TestHome(t *testing.T) {
	t.Run("the file moves with it", func(t *testing.T) {
		elsewhere := t.TempDir()
		write(t, filepath.Join(elsewhere, "config.yaml"), "model: moved\ncli_path: bin/copilot\n")
		w := world{env: []string{"COPILOT_BRIDGE_HOME=" + elsewhere}, file: "model: stayed\n"}
		cfg := w.mustLoad(t)
		if cfg.Model != "moved" || cfg.Home != elsewhere || cfg.Path("a", "b") != filepath.Join(elsewhere, "a", "b") {
			t.Errorf("model %q, home %q, path %q", cfg.Model, cfg.Home, cfg.Path("a", "b"))
		}
		if want := filepath.Join(elsewhere, "bin", "copilot"); cfg.CLIPath != want {
			t.Errorf("a path in the file became %q, want %q", cfg.CLIPath, want)
		}
	})
	t.Run("relative", func(t *testing.T) {
		w := world{flags: map[string]string{"home": "state"}}
		if cfg := w.mustLoad(t); cfg.Home != filepath.Join(w.dir, "state") {
			t.Errorf("home = %q", cfg.Home)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		_, err := Load(Options{Dir: t.TempDir(), Environ: []string{"COPILOT_CLI_PATH=~/x", "COPILOT_BYOK_MODEL=m"}})
		want := "COPILOT_BRIDGE_HOME: must be set, because your home directory is not known\n" +
			`COPILOT_CLI_PATH="~/x" (from environment): must not begin with ~, because your home directory is not known`
		if err == nil || err.Error() != want {
			t.Errorf("Load: %v\nwant: %s", err, want)
		}
	})
	t.Run("relative user home", func(t *testing.T) {
		t.Chdir(t.TempDir())
		cfg, err := Load(Options{HomeDir: "."})
		if err != nil || !filepath.IsAbs(cfg.Home) {
			t.Errorf("Load = %+v, %v; want an absolute home", cfg, err)
		}
	})
}

func TestShow(t *testing.T) {
	w := world{
		env:  []string{"COPILOT_GITHUB_TOKEN=ghp_abcdef", "COPILOT_BYOK_PROVIDER=ollama"},
		file: "byok.model: llama\nabp: {args: [a, 'b c', 7]}\n",
	}
	cfg := w.mustLoad(t)
	shown := map[string]Setting{}
	for _, s := range cfg.Show() {
		shown[s.Key] = s
	}
	for key, want := range map[string]Setting{
		"github_token":         {Value: "••••••", Secret: true, Origin: Origin{Source: SourceEnvironment, Where: "COPILOT_GITHUB_TOKEN"}},
		"byok.api_key":         {Value: "", Secret: true, Origin: Origin{Source: SourceDefault}},
		"byok.base_url":        {Value: "http://127.0.0.1:11434/v1", Origin: Origin{Source: SourceDefault}},
		"byok.model":           {Value: "llama", Origin: Origin{Source: SourceFile, Where: "config.yaml:1"}},
		"abp.args":             {Value: `["a","b c","7"]`, Origin: Origin{Source: SourceFile, Where: "config.yaml:2"}},
		"abp.acp_port":         {Value: "", Origin: Origin{Source: SourceDefault}},
		"engine.total_timeout": {Value: "1h0m0s", Origin: Origin{Source: SourceDefault}},
	} {
		got := shown[key]
		if got.Value != want.Value || got.Secret != want.Secret || got.Origin != want.Origin {
			t.Errorf("%s shown as %+v, want %+v", key, got, want)
		}
	}
	data, err := json.Marshal(shown["byok.model"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"key":"byok.model","env":"COPILOT_BYOK_MODEL","value":"llama",` +
		`"origin":{"source":"file","where":"config.yaml:1"},"description":"The provider's model"}`
	if string(data) != want {
		t.Errorf("JSON = %s\nwant   %s", data, want)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	w := world{env: []string{"COPILOT_GITHUB_TOKEN=hunter2hunter2"}}
	cfg := w.mustLoad(t)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", cfg)
		fmt.Fprintf(&out, verb+"\n", *cfg)
		fmt.Fprintf(&out, verb+"\n", cfg.GitHubToken)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("start", "config", cfg, "token", cfg.GitHubToken)
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(data)
	if hex := fmt.Sprintf("%x", "hunter2"); strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), hex) {
		t.Errorf("the secret shows:\n%s", out.String())
	}
	if got := string(cfg.GitHubToken); got != "hunter2hunter2" {
		t.Errorf("string(secret) = %q", got)
	}
}

func TestLogLevelSlog(t *testing.T) {
	for level, want := range map[LogLevel]slog.Level{
		LogAll: slog.LevelDebug - 4, LogDebug: slog.LevelDebug, LogInfo: slog.LevelInfo,
		LogWarning: slog.LevelWarn, LogError: slog.LevelError, "": slog.LevelInfo,
	} {
		if got, enabled := level.Slog(); got != want || !enabled {
			t.Errorf("%q: %v, %v; want %v, true", level, got, enabled, want)
		}
	}
	if level, enabled := LogNone.Slog(); enabled || level <= slog.LevelError {
		t.Errorf("none: %v, %v; want nothing logged", level, enabled)
	}
}

// The error says what to do, as that of Load does.
func TestFilePathWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if os.Remove(dir) != nil {
		return // Windows keeps a directory in use
	}
	_, err := FilePath(Options{Dir: "."})
	if e := bridge.AsError(err); e == nil || e.Message != "the current directory does not exist any more" || e.Remedy != "change into a directory that exists" {
		t.Errorf("%v", err)
	}
}
