package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cases are the values that each setting takes (and what Show makes of them)
// and those that it turns down. DIR and HOME stand for the directories.
var cases = map[string]struct {
	with []string // variables that must be set as well
	good map[string]string
	bad  []string
}{
	"home":             {good: map[string]string{"~": "HOME", "~/x": "HOME/x", "x/../y": "DIR/y"}, bad: []string{"a\tb"}},
	"github_token":     {good: map[string]string{"ghp_x": mark}, bad: []string{"a\nb", "schlüssel", "a\x7fb", "\xff"}},
	"demo":             {good: map[string]string{"true": "true", "0": "false"}, bad: []string{"yes", "2"}},
	"cli_path":         {good: map[string]string{"copilot": "copilot", "./copilot": "DIR/copilot", "~/c": "HOME/c", "~other": "~other"}, bad: []string{"a\nb", "a/b\x01"}},
	"model":            {good: map[string]string{"gpt-5": "gpt-5", "vendor/model:tag": "vendor/model:tag"}, bad: []string{"a\nb", "\xff"}},
	"reasoning_effort": {good: same("low", "medium", "high", "xhigh", "max"), bad: []string{"none", "HIGH", "1"}},
	"log_level":        {good: same("debug", "info", "warning", "error", "none", "all"), bad: []string{"loud", "warn", "INFO"}},
	"audit_keep_days":  {good: map[string]string{"0": "0", "365": "365"}, bad: []string{"-1", "36501", "1d", "x"}},
	"audit_log_dir":    {good: map[string]string{"~/audit": "HOME/audit", "a": "DIR/a"}, bad: []string{"a\nb"}},
	"project_context":  {good: same(" any\n\ttext “at all” "), bad: []string{"\xff"}},
	"max_retries":      {good: map[string]string{"0": "0", "10": "10"}, bad: []string{"11", "-1", "+1", "three", "1.0", "1_0", "0x1", "3 4", "99999999999999999999"}},
	"github_mcp":       {good: map[string]string{"off": "off", "read-only": "read-only", "on": "on"}, bad: []string{"true", "readonly"}},
	"sandbox":          {good: map[string]string{"auto": "auto", "require": "require", "off": "off"}, bad: []string{"on", "true", "always"}},
	"byok.provider": {with: []string{"COPILOT_BYOK_MODEL=m", "COPILOT_BYOK_API_KEY=k", "COPILOT_BYOK_BASE_URL=http://x"},
		good: same("openai", "azure", "anthropic", "ollama"), bad: []string{"OpenAI", "gemini"}},
	"byok.api_key": {with: []string{"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_MODEL=m"},
		good: map[string]string{"sk-x": mark}, bad: []string{"a\r\nX-Header: b"}},
	"byok.bearer_token": {with: []string{"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_MODEL=m"},
		good: map[string]string{"ey.x": mark}, bad: []string{"a\r\nX-Header: b"}},
	"byok.headers": {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"},
		good: map[string]string{"X-Team=tools": `{"X-Team":"` + mark + `"}`, `{"X-A":"b c","x-b":"d"}`: `{"X-A":"` + mark + `","x-b":"` + mark + `"}`},
		bad:  []string{"X-Team", "X Team=a", "X-Team=", "X:Y=a", `{"X-A":"b\r\nX-C: d"}`, `{"X-A":"é"}`, `{"X-A":7}`, "a=b,a=c"}},
	"request_headers":        {good: map[string]string{"X-Team=tools": `{"X-Team":"` + mark + `"}`}, bad: []string{"X-Team", "a b"}},
	"byok.wire_model":        {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"}, good: same("my-deployment"), bad: []string{"a\nb"}},
	"byok.max_input_tokens":  {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"}, good: same("0", "64000"), bad: []string{"-1", "x", "100000001"}},
	"byok.max_output_tokens": {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"}, good: same("0", "4096"), bad: []string{"-1", "x", "100000001"}},
	"byok.base_url": {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"},
		good: map[string]string{"http://h": "http://h", "https://h:1/v1//": "https://h:1/v1", "HTTP://[::1]:80/@x": "HTTP://[::1]:80/@x"},
		bad: []string{"h", "h:80", "ftp://h", "http://", "http:h", "http:///v1", "http://h:0", "http://h:65536", "http://h:", "http://h:x", "http://a b",
			"http://u:p@h", "http://u@h", "http://h?k=v", "http://h?", "http://h#f", "http://h#", "http://[::1", "://h", "http://%zz"}},
	"byok.model": {with: []string{"COPILOT_BYOK_PROVIDER=ollama"}, good: same("llama3:8b"), bad: []string{"a\nb"}},
	"byok.wire_api": {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"},
		good: same("completions", "responses"), bad: []string{"chat"}},
	"byok.azure_api_version": {with: []string{"COPILOT_BYOK_PROVIDER=ollama", "COPILOT_BYOK_MODEL=m"},
		good: same("2024-10-21", "2025-04-01-preview", "v1"), bad: []string{"-", "a b", "a&b=c"}},
	"openclaw.host": {good: map[string]string{"localhost": "localhost", "a-b.example": "a-b.example", "[::1]": "::1", "fe80::1%eth0": "fe80::1%eth0", "10.0.0.1": "10.0.0.1"},
		bad: []string{"http://h", "h:1", "h/", "u@h", "-h", "h.", "a b", "[h]", "[::1"}},
	"openclaw.port":          {good: same("1", "65535"), bad: []string{"0", "65536", "-1", "http", "1e3"}},
	"openclaw.gateway_token": {good: map[string]string{"t o": mark}, bad: []string{"a\tb"}},
	"openclaw.agent":         {good: map[string]string{"main": "main"}, bad: []string{"a\nb"}},
	"openclaw.memory":        {good: map[string]string{"off": "off"}, bad: []string{"yes"}},
	"abp.transport":          {good: same("auto", "sdk", "acp", "legacy"), bad: []string{"tcp"}},
	"abp.protocol":           {good: same("acp", "legacy"), bad: []string{"sdk", "auto"}},
	"abp.runner":             {good: map[string]string{"./bin/runner": "DIR/bin/runner", "runner": "runner", "..": "DIR/.."}, bad: []string{"a\nb"}},
	"abp.cmd":                {good: map[string]string{"copilot": "copilot"}, bad: []string{"a\nb"}},
	"abp.args":               {good: map[string]string{`["a","b c",""]`: `["a","b c",""]`, "[]": "[]", `a 'b c' ""`: `["a","b c",""]`}, bad: []string{`["a"`, `["a",]`, `[1]`, `[null]`, `["a\u0000"]`, `a "b`, `a\`}},
	"abp.acp_url":            {good: map[string]string{"tcp://127.0.0.1:3000": "tcp://127.0.0.1:3000", "tcp://[::1]:3/": "tcp://[::1]:3"}, bad: []string{"http://h:1", "tcp://h", "tcp://h:0", "tcp://h:1/x", "tcp://u:p@h:1", "h:1", "tcp://h:1?x"}},
	"abp.acp_port":           {good: same("3000"), bad: []string{"0", "65536"}},
	"abp.acp_args":           {good: map[string]string{"--acp --stdio": `["--acp","--stdio"]`}, bad: []string{"'"}},
	"abp.permission_allow_always_tools": {good: map[string]string{`["Write","Bash"]`: `["Write","Bash"]`, "Write, Bash": `["Write","Bash"]`, "[]": "[]"},
		bad: []string{`[""]`, ",", `"`, `{"a":1}x"`}},
	"abp.max_inline_output_bytes": {good: same("0", "8192", "2097152"), bad: []string{"-1", "2097153", "8k"}},
	"engine.idle_timeout":         {good: map[string]string{"90s": "1m30s", "1h30m": "1h30m0s"}, bad: []string{"0", "0s", "-1s", "300", "5 m", "soon", "9999999h"}},
	"engine.total_timeout":        {good: map[string]string{"0": "0s", "0s": "0s", "1ms": "1ms"}, bad: []string{"-1s", "300", "none"}},
	"engine.approval_timeout":     {good: map[string]string{"10m": "10m0s"}, bad: []string{"0", "-5m"}},
	"engine.max_concurrent":       {good: same("0", "65536"), bad: []string{"-1", "65537", "many"}},
	"sessions.timelines":          {good: same("", "off", "0", "36500"), bad: []string{"-1", "36501", "on"}},
	"sessions.keep_days":          {good: same("0", "36500"), bad: []string{"-1", "36501", "30d"}},
	"sessions.keep":               {good: same("0", "10000000"), bad: []string{"-1", "10000001"}},
	"engine.queue_limit":          {good: same("0", "65536"), bad: []string{"65537", "-1"}},
	"serve.addr":                  {good: map[string]string{"0.0.0.0": "0.0.0.0", "[::1]": "::1"}, bad: []string{"http://h", "h:1"}},
	"serve.port":                  {good: same("0", "8788"), bad: []string{"-1", "65536"}},
	"serve.token":                 {good: map[string]string{"t": mark}, bad: []string{"a\tb"}},
	"serve.hosts":                 {good: map[string]string{"a.example b.example": `["a.example","b.example"]`}, bad: []string{`[""]`}},
	"serve.drain_timeout":         {good: map[string]string{"0": "0s", "1m": "1m0s"}, bad: []string{"-1s", "30"}},
	"facade.aliases": {good: map[string]string{"a=b, c=agent/d": `{"a":"b","c":"agent/d"}`, `{"a":"b=c"}`: `{"a":"b=c"}`},
		bad: []string{"a", "a=b a=c", "=b", "a=", `{"a":1}`, `{"a"`, `{"a":""}`, "a=\"b"}},
	"languages": {good: map[string]string{
		`{"go":{"command":["gopls","-v"],"tab_size":4}}`: `{"go":{"command":["gopls","-v"],"tab_size":4}}`,
		`{"zig": {"command": ["zls"], "extensions": [".zig", "build.zon"], "formatter": ["zig", "fmt", "--stdin"], "formatter_first": true, "settings": {"a": {"b": [1]}}}}`: `{"zig":{"command":["zls"],"extensions":[".zig","build.zon"],"formatter":["zig","fmt","--stdin"],"formatter_first":true,"settings":{"a":{"b":[1]}}}}`,
		`{}`: `{}`},
		bad: []string{"go", "[]", "null", `{"go":"gopls"}`, `{"go":{"command":"gopls"}}`, `{"go":{"comand":["gopls"]}}`, `{"go":{"command":[]}}`, `{"go":{"command":[""]}}`,
			`{"go":{"extensions":["*.go"]}}`, `{"go":{"tab_size":-1}}`, `{"go":{"tab_size":"2"}}`, `{"":{}}`, `{"a b":{}}`, `{"go":{"settings":[1]}}`, `{"go":{"command":["a\u0000"]}}`}},
	"mcp_servers": {good: map[string]string{
		`{"d": {"url": "https://h/${KEY}", "headers": {"X-Key": "v"}}}`:                                               `{"d":{"url":"https://h/${KEY}","headers":{"X-Key":"` + mark + `"}}}`,
		`{"s_1": {"type":"stdio", "command": "npx", "args": ["-y", "a b"], "env": {"T": "${T:-x}"}, "tools": ["a"]}}`: `{"s_1":{"type":"stdio","command":"npx","args":["-y","a b"],"env":{"T":"` + mark + `"},"tools":["a"]}}`,
		`{}`: `{}`},
		bad: []string{"x", "[]", "null", `{"a b":{"command":"c"}}`, `{"s":"c"}`, `{"s":{}}`, `{"s":{"command":"c","url":"http://h"}}`, `{"s":{"url":"h"}}`, `{"s":{"url":"http://u:p@h"}}`,
			`{"s":{"url":"http://h","args":["x"]}}`, `{"s":{"command":"c","headers":{"a":"b"}}}`, `{"s":{"command":"c","type":"sse"}}`, `{"s":{"command":"c","env":{"A=":"b"}}}`,
			`{"s":{"comand":"c"}}`, `{"s":{"command":"c","args":"x"}}`, `{"s":{"url":"http://h","headers":{"A B":"c"}}}`}},
	"tasks": {good: map[string]string{`{"lint":"npm run lint"}`: `{"lint":"npm run lint"}`, `"lint=npm run lint", t=make`: `{"lint":"npm run lint","t":"make"}`},
		bad: []string{"lint", `{"lint":["npm"]}`, `{"lint":""}`}},
	"facade.unknown_model":    {good: same("error", "default"), bad: []string{"first"}},
	"facade.history_bytes":    {good: same("0", "1024"), bad: []string{"-1"}},
	"facade.history_turns":    {good: same("0", "3"), bad: []string{"-1"}},
	"facade.conversations":    {good: same("1", "64"), bad: []string{"0"}},
	"facade.conversation_ttl": {good: map[string]string{"1m": "1m0s"}, bad: []string{"0"}},
	"facade.tool_ttl":         {good: map[string]string{"1m": "1m0s"}, bad: []string{"0"}},
	"telemetry.otlp_endpoint": {good: same("http://localhost:4318"), bad: []string{"localhost:4318", "http://u:p@h"}},
	"telemetry.file":          {good: map[string]string{"t.jsonl": "DIR/t.jsonl"}, bad: []string{"a\nb"}},
	"telemetry.exporter": {with: []string{"COPILOT_BRIDGE_OTEL_FILE=f", "COPILOT_BRIDGE_OTEL_ENDPOINT=http://h"},
		good: same("otlp-http", "file"), bad: []string{"otlp"}},
	"telemetry.source":          {good: same("my app"), bad: []string{"a\nb"}},
	"telemetry.capture_content": {good: map[string]string{"true": "true", "0": "false", "TRUE": "true"}, bad: []string{"yes", "2"}},
	"infinite_sessions.enabled": {good: map[string]string{"true": "true", "false": "false"}, bad: []string{"on"}},
	"infinite_sessions.background_threshold": {with: []string{"COPILOT_BRIDGE_INFINITE_SESSIONS_BUFFER_THRESHOLD=1"},
		good: map[string]string{"0.5": "0.5", ".25": "0.25", "1e-1": "0.1"}, bad: []string{"0", "1", "1.1", "-0.5", "NaN", "Inf", "80%"}},
	"infinite_sessions.buffer_threshold": {with: []string{"COPILOT_BRIDGE_INFINITE_SESSIONS_BACKGROUND_THRESHOLD=0.1"},
		good: map[string]string{"1": "1", "0.9": "0.9"}, bad: []string{"0", "2", "nan", "half"}},
}

// same is for values that are shown as they are written.
func same(values ...string) map[string]string {
	m := map[string]string{}
	for _, v := range values {
		m[v] = v
	}
	return m
}

func TestValues(t *testing.T) {
	for _, s := range settings(&Config{}) {
		c, ok := cases[s.key]
		if !ok || len(c.good) == 0 || len(c.bad) == 0 {
			t.Errorf("%s has no good and bad values in this test", s.key)
			continue
		}
		t.Run(s.key, func(t *testing.T) {
			for value, want := range c.good {
				w := world{env: append(slices.Clone(c.with), s.env+"="+value)}
				cfg, err := w.load(t)
				if err != nil {
					t.Errorf("%q: %v", value, err)
					continue
				}
				if strings.HasPrefix(want, "DIR") || strings.HasPrefix(want, "HOME") {
					want = filepath.Clean(strings.NewReplacer("DIR", w.dir, "HOME", w.home).Replace(want))
				}
				if got := find(settings(cfg), s.key).text(); got != want {
					t.Errorf("%q became %q, want %q", value, got, want)
				}
			}
			for _, value := range c.bad {
				w := world{env: append(slices.Clone(c.with), s.env+"="+value)}
				e := w.fail(t)
				if !strings.HasPrefix(e.Message, s.env) || !strings.Contains(e.Message, " (from environment): ") || strings.Contains(e.Message, "\n") {
					t.Errorf("%q: %s", value, e.Message)
				}
			}
		})
	}
	if len(cases) != len(settings(&Config{})) {
		t.Errorf("%d cases for %d settings", len(cases), len(settings(&Config{})))
	}
}

func TestSpaceAroundValues(t *testing.T) {
	w := world{env: []string{
		"COPILOT_GITHUB_TOKEN= ghp_x\n", "COPILOT_BRIDGE_MODEL= gpt-5 ", "COPILOT_MAX_RETRIES= 2\t", "COPILOT_LOG_LEVEL= ",
		"COPILOT_PROJECT_CONTEXT= kept ",
	}}
	cfg := w.mustLoad(t)
	if string(cfg.GitHubToken) != "ghp_x" || cfg.Model != "gpt-5" || cfg.MaxRetries != 2 || cfg.LogLevel != LogInfo || cfg.ProjectContext != " kept " {
		t.Errorf("token %q, model %q, retries %d, level %q, context %q",
			string(cfg.GitHubToken), cfg.Model, cfg.MaxRetries, cfg.LogLevel, cfg.ProjectContext)
	}
}

func TestTable(t *testing.T) {
	keys, vars := map[string]bool{}, map[string]bool{}
	for _, k := range Keys() {
		if keys[k.Key] || vars[k.Env] || k.Key == "" || k.Env == "" || k.Description == "" || k.Allowed == "" {
			t.Errorf("%+v is incomplete or has the name of another", k)
		}
		keys[k.Key], vars[k.Env] = true, true
		for _, v := range k.Values {
			if err := find(settings(&Config{}), k.Key).set(v, place{}); err != nil {
				t.Errorf("%s lists %q but refuses it: %v", k.Key, v, err)
			}
		}
	}
	// A group must not be a setting as well: nested YAML could not tell them apart.
	for key := range keys {
		if group, _, ok := strings.Cut(key, "."); ok && keys[group] {
			t.Errorf("%s is a setting and a group", group)
		}
	}
}
