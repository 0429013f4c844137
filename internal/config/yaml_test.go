package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFile(t *testing.T) {
	w := world{file: `# comment
byok:
  provider: openai   # comment
  model: "gpt 5"
  base_url: http://127.0.0.1:8080/v1
openclaw.port: 1234
openclaw: {host: gateway}
engine:
    idle_timeout: 90s
    total_timeout: 0
abp:
  args:
    - --acp
    - "two words"
  acp_args: --acp --stdio
  permission_allow_always_tools: [Write, Bash]
infinite_sessions: {enabled: false, buffer_threshold: 1.0}
project_context: |
  first

  second
max_retries: "2"
model: >-
  folded
  name
log_level:
facade:
  aliases:
    gpt-4o: my-model
    claude-3.5: agent/my-model
`}
	cfg := w.mustLoad(t)
	if a := cfg.Facade.Aliases; len(a) != 2 || a["gpt-4o"] != "my-model" || a["claude-3.5"] != "agent/my-model" {
		t.Errorf("aliases %v", a)
	}
	for _, tt := range []struct {
		got  any
		want string
		key  string
		at   string
	}{
		{cfg.BYOK.Provider, "openai", "byok.provider", "config.yaml:3"},
		{cfg.BYOK.Model, "gpt 5", "byok.model", "config.yaml:4"},
		{cfg.OpenClaw.Port, "1234", "openclaw.port", "config.yaml:6"},
		{cfg.OpenClaw.Host, "gateway", "openclaw.host", "config.yaml:7"},
		{cfg.Engine.IdleTimeout, "1m30s", "engine.idle_timeout", "config.yaml:9"},
		{cfg.Engine.TotalTimeout, "0s", "engine.total_timeout", "config.yaml:10"},
		{cfg.ABP.Args, `["--acp","two words"]`, "abp.args", "config.yaml:12"},
		{cfg.ABP.ACPArgs, `["--acp","--stdio"]`, "abp.acp_args", "config.yaml:15"},
		{cfg.ABP.AllowAlwaysTools, `["Write","Bash"]`, "abp.permission_allow_always_tools", "config.yaml:16"},
		{cfg.InfiniteSessions.Enabled, "false", "infinite_sessions.enabled", "config.yaml:17"},
		{cfg.InfiniteSessions.BufferThreshold, "1", "infinite_sessions.buffer_threshold", "config.yaml:17"},
		{cfg.ProjectContext, "first\n\nsecond\n", "project_context", "config.yaml:18"},
		{cfg.MaxRetries, "2", "max_retries", "config.yaml:22"},
		{cfg.Model, "folded name", "model", "config.yaml:23"},
		{cfg.LogLevel, "info", "log_level", ""},
	} {
		shown := find(settings(cfg), tt.key).text()
		if shown != tt.want || cfg.Origin(tt.key).Where != tt.at {
			t.Errorf("%s = %v, shown as %q, from %q; want %q from %q", tt.key, tt.got, shown, cfg.Origin(tt.key).Where, tt.want, tt.at)
		}
	}
}

func TestFileLanguages(t *testing.T) {
	w := world{file: `tasks:
  lint: golangci-lint run ./...
  "check all": make check
languages:
  go:
    command: [gopls, -remote=auto]
    formatter: [./bin/gofumpt]
    formatter_first: true
    tab_size: 4
    settings:
      gopls: {staticcheck: true, buildFlags: ["-tags=x"], limit: 1.5, none: ~}
  zig: {command: [zls], extensions: [.zig], initialization_options: {a: "1"}, runs_code: true}
`}
	cfg := w.mustLoad(t)
	want := map[string]Language{
		"go": {Command: []string{"gopls", "-remote=auto"}, Formatter: []string{cfg.Path("bin", "gofumpt")}, FormatterFirst: true, TabSize: 4,
			Settings: map[string]any{"gopls": map[string]any{"staticcheck": true, "buildFlags": []any{"-tags=x"}, "limit": 1.5, "none": nil}}},
		"zig": {Command: []string{"zls"}, Extensions: []string{".zig"}, InitializationOptions: map[string]any{"a": "1"}, RunsCode: true},
	}
	if !reflect.DeepEqual(cfg.Languages, want) {
		t.Errorf("got  %+v\nwant %+v", cfg.Languages, want)
	}
	if len(cfg.Tasks) != 2 || cfg.Tasks["lint"] != "golangci-lint run ./..." || cfg.Tasks["check all"] != "make check" {
		t.Errorf("tasks %v", cfg.Tasks)
	}
	if o := cfg.Origin("languages"); o.Where != "config.yaml:4" {
		t.Errorf("from %+v", o)
	}
}

// Errors about a language use the names of the file.
func TestFileLanguageFaults(t *testing.T) {
	for file, want := range map[string]string{
		"languages: gopls\n":                        `must be a mapping from languages to their servers, such as {"go": {`,
		"languages: [go]\n":                         `must be a mapping from languages to their servers`,
		"languages: {go: gopls}\n":                  `"go": must be a mapping with some of command, extensions,`,
		"languages: {go: {command: gopls}}\n":       `"go": command must be a list with a program and its arguments, such as ["gopls"]`,
		"languages: {go: {command: []}}\n":          `"go": command must be a list`,
		"languages: {go: {comand: [gopls]}}\n":      `"go": there is no "comand"; there are command,`,
		"languages: {go: {extensions: ['*.go']}}\n": `"go": extensions must be a list such as [".go"], and "*.go" is not`,
		"languages: {go: {tab_size: 99}}\n":         `"go": tab_size must be a whole number up to 16`,
		"languages: {go: {formatter_first: [1]}}\n": `"go": formatter_first must be true or false`,
		"languages: {go: {command: [a]}, go: {}}\n": `must be a mapping from languages`,
		"languages: {go: {settings: &x {}}}\n":      `must be a mapping from languages`,
		"tasks: {lint: [make]}\n":                   `tasks must be a JSON object such as {"lint": "npm run lint"}`,
		"tasks: make\n":                             `must be a JSON object such as {"lint": "npm run lint"}, or pairs such as "lint=npm run lint"`,
	} {
		e := (&world{file: file}).fail(t)
		if !strings.Contains(e.Message, want) || !strings.Contains(e.Message, "config.yaml:1") || strings.Contains(e.Message, "\n") {
			t.Errorf("%s gave %s\nwant %s", file, e.Message, want)
		}
	}
}

func TestFileFaults(t *testing.T) {
	tests := []struct{ name, file, want string }{ // FILE stands for the path
		{"unknown", "\nbyok:\n  providr: x\n", `FILE:3: unknown key "byok.providr"; did you mean "byok.provider"?`},
		{"unknown group", "bring:\n  own: x\n  key: y\n", `FILE:2: unknown key "bring.own"` + "\n" + `FILE:3: unknown key "bring.key"`},
		{"hyphen", "log-level: info\n", `FILE:1: unknown key "log-level"; did you mean "log_level"?`},
		{"without its group", "idle_timeout: 1s\n", `FILE:1: unknown key "idle_timeout"; did you mean "engine.idle_timeout"?`},
		{"variable", "COPILOT_LOG_LEVEL: info\n", `FILE:1: unknown key "COPILOT_LOG_LEVEL"; did you mean "log_level"?`},
		{"nothing like it", "1: x\n", `FILE:1: unknown key "1"`},
		{"unknown and null", "foo:\n", `FILE:1: unknown key "foo"`},
		{"unknown and empty", "foo: {}\n", `FILE:1: unknown key "foo"`},
		{"group as a value", "byok: openai\n", `FILE:1: byok is a group; set what is in it, such as byok.provider`},
		{"group as a list", "byok:\n  - openai\n", `FILE:1: byok is a group; set what is in it, such as byok.provider`},
		{"value as a group", "model: {a: b}\n", `FILE:1: model must be one line of text`},
		{"list for one value", "model: [a]\n", `FILE:1: model must be one line of text`},
		{"lists in a list", "abp.acp_args: [[a]]\n", `FILE:1: abp.acp_args must be a JSON array of texts such as ["--acp", "--stdio"], or words separated by spaces with quotes closed`},
		{"null in a list", "abp.permission_allow_always_tools: [a, null]\n", `FILE:1: abp.permission_allow_always_tools must be a JSON array of names such as ["Write", "Bash"], or names separated by commas or spaces`},
		{"secret as a group", "github_token: {ghp_secret: x}\n", `FILE:1: github_token must be one line of printable ASCII characters`},
		{"twice", "model: a\nmodel: b\n", `FILE:2: model is set twice; the first time is on line 1`},
		{"twice in two ways", "byok: {provider: ollama, model: a}\nbyok.model: b\n", `FILE:2: byok.model is set twice; the first time is on line 1`},
		{"home", "home: /x\n", `FILE:1: home cannot be set in the file that it helps to find; set COPILOT_BRIDGE_HOME in the environment`},
		{"list at the top", "- a\n", `FILE:1: there must be a mapping of settings, such as: log_level: debug`},
		{"text at the top", "\nlog_level=debug\n", `FILE:2: there must be a mapping of settings, such as: log_level: debug`},
		{"two documents", "model: a\n---\nmodel: b\n", `FILE:3: there must be one document only`},
		{"alias", "model: &m a\nbyok: *m\n", "FILE:1: model must be one line of text\nFILE:2: byok is a group; set what is in it, such as byok.provider"},
		{"merge", "<<: {model: a}\n", `FILE:1: keys must be plain names`},
		{"syntax", "model: a\nbyok: [x\n", `FILE:2: this is not valid YAML: sequence end token ']' not found`},
		{"syntax with a secret", "byok:\n  api_key: \"sk-secret\\q\"\n", `FILE:2: this is not valid YAML: found unknown escape character 'q'`},
		{"indentation", "byok:\n  model: a\n model: b\n", `FILE:3: this is not valid YAML: value is not allowed in this context`},
		{"a syntax error hides the rest", "byok:\n  model: a\n  model\n", `FILE:3: this is not valid YAML: non-map value is specified`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := world{file: tt.file}
			got := w.fail(t).Message
			file := filepath.Join(w.home, ".copilot-bridge", "config.yaml")
			if want := strings.ReplaceAll(tt.want, "FILE", file); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestFileWithoutSettings(t *testing.T) {
	for _, file := range []string{"\n", "# only a comment\n", "---\n", "~\n", "{}\n", "\ufeffmodel: a\n", "byok:\nengine: {}\n"} {
		w := world{file: file}
		if _, err := w.load(t); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	w := world{dir: t.TempDir(), home: t.TempDir(), env: []string{"COPILOT_BYOK_MODEL=m"}}
	file := filepath.Join(w.home, ".copilot-bridge", "config.yaml")
	if err := os.MkdirAll(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := w.fail(t).Message; !strings.HasPrefix(got, file+": cannot be read: ") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}
