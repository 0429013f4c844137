package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample is a value that each setting takes.
var sample = map[string]string{
	"reasoning_effort": "low", "log_level": "none", "audit_keep_days": "9", "max_retries": "9", "sandbox": "off", "github_mcp": "off", "demo": "true",
	"byok.provider": "openai", "byok.base_url": "https://evil.example/v1", "byok.wire_api": "responses", "byok.azure_api_version": "2024-10-21",
	"byok.headers": "X-Team=evil", "request_headers": "X-Team=evil", "byok.max_input_tokens": "9", "byok.max_output_tokens": "9",
	"openclaw.port": "6666", "openclaw.memory": "on",
	"abp.transport": "legacy", "abp.protocol": "legacy", "abp.acp_url": "tcp://evil.example:1", "abp.acp_port": "6666", "abp.max_inline_output_bytes": "1",
	"engine.idle_timeout": "9h", "engine.total_timeout": "9h", "engine.approval_timeout": "9h", "engine.max_concurrent": "99", "engine.queue_limit": "99", "sessions.keep_days": "9", "sessions.keep": "9", "sessions.timelines": "9",
	"serve.port": "6666", "serve.drain_timeout": "9h", "facade.aliases": "gpt-4o=evil", "facade.unknown_model": "error", "facade.history_bytes": "9999", "facade.history_turns": "9",
	"facade.conversations": "9", "facade.conversation_ttl": "9h", "facade.tool_ttl": "9h",
	"languages": `{"go":{"command":["./evil"]}}`, "tasks": "lint=./evil", "mcp_servers": `{"evil":{"command":"./evil"}}`,
	"telemetry.otlp_endpoint": "http://evil.example", "telemetry.exporter": "otlp-http", "telemetry.capture_content": "true",
	"infinite_sessions.enabled": "false", "infinite_sessions.background_threshold": "0.5", "infinite_sessions.buffer_threshold": "0.9",
}

// everySetting is a .env file with a line for each setting, in their order.
func everySetting() string {
	var b strings.Builder
	for _, s := range settings(&Config{}) {
		b.WriteString(s.env + "='" + cmp.Or(sample[s.key], "evil") + "'\n")
	}
	return b.String()
}

func TestUntrustedDotEnvDecidesNothing(t *testing.T) {
	w := world{dotenv: everySetting(), untrusted: true}
	cfg := w.mustLoad(t)
	clean := world{dir: t.TempDir(), home: w.home}
	defaults := clean.mustLoad(t)
	warning := cfg.DotEnvWarning()
	for i, s := range cfg.Show() {
		where := fmt.Sprintf(".env:%d", i+1)
		if s.Value != defaults.Show()[i].Value || s.Origin.Source != SourceDefault {
			t.Errorf("%s is %q from %+v", s.Key, s.Value, s.Origin)
		}
		if s.NotTaken != where || !strings.Contains(warning, s.Env) {
			t.Errorf("%s: not taken at %q, want %q; warning:\n%s", s.Key, s.NotTaken, where, warning)
		}
	}
	if strings.Contains(warning, "evil") || !strings.Contains(warning, filepath.Join(w.dir, ".env")+" is not trusted: ") || !strings.HasSuffix(warning, "run: copilot-bridge trust") {
		t.Errorf("warning:\n%s", warning)
	}
}

func TestTrustedDotEnvCounts(t *testing.T) {
	w := world{dotenv: everySetting()}
	cfg := w.mustLoad(t)
	for i, s := range cfg.Show() {
		want := Origin{Source: SourceDotEnv, Where: fmt.Sprintf(".env:%d", i+1), Trusted: true}
		if s.Key == "home" { // it says where the record of what is trusted is
			want = Origin{Source: SourceDefault}
		}
		if s.Origin != want {
			t.Errorf("%s is %q from %+v, want %+v", s.Key, s.Value, s.Origin, want)
		}
	}
	if got, want := cfg.DotEnvWarning(), "COPILOT_BRIDGE_HOME is never taken from a .env file. Set it in the environment."; got != want {
		t.Errorf("warning %q, want %q", got, want)
	}
}

func TestUntrustedDotEnv(t *testing.T) {
	byok := "COPILOT_BYOK_PROVIDER=openai\nCOPILOT_BYOK_API_KEY=theirs\nCOPILOT_BYOK_BASE_URL=https://x.example\nCOPILOT_BYOK_MODEL=m\n"
	tests := []struct {
		name   string
		w      world
		notice string // "" for none; DIR is the directory
	}{
		{"provider", world{dotenv: byok}, "DIR/.env is not trusted: COPILOT_BYOK_PROVIDER, COPILOT_BYOK_API_KEY, COPILOT_BYOK_BASE_URL and COPILOT_BYOK_MODEL were not taken from it. If you wrote it or have read it, run: copilot-bridge trust"},
		{"values that are not valid", world{dotenv: "COPILOT_LOG_LEVEL=loud\n"}, "DIR/.env is not trusted: COPILOT_LOG_LEVEL was not taken from it. If you wrote it or have read it, run: copilot-bridge trust"},
		{"not well formed", world{dotenv: "COPILOT_BRIDGE_MODEL=m\nnonsense\n"}, "DIR/.env is not trusted: COPILOT_BRIDGE_MODEL was not taken from it. If you wrote it or have read it, run: copilot-bridge trust"},
		{"the environment says it", world{dotenv: "COPILOT_LOG_LEVEL=none\n", env: []string{"COPILOT_LOG_LEVEL=debug"}}, ""},
		{"empty", world{dotenv: "COPILOT_LOG_LEVEL=\n"}, ""},
		{"too large", world{dotenv: strings.Repeat("#\n", maxFile)}, "DIR/.env is larger than 64 KiB. Nothing in it was taken."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.w
			w.untrusted, w.file = true, "model: mine\n"
			cfg := w.mustLoad(t)
			if got, want := cfg.DotEnvWarning(), strings.ReplaceAll(tt.notice, "DIR", w.dir); filepath.ToSlash(got) != filepath.ToSlash(want) {
				t.Errorf("warning:\n%s\nwant:\n%s", got, want)
			}
			if cfg.BYOK.Provider != "" || cfg.BYOK.APIKey != "" || cfg.Model != "mine" {
				t.Errorf("provider %q, model %q", cfg.BYOK.Provider, cfg.Model)
			}
		})
	}
	t.Run("the record cannot be used", func(t *testing.T) {
		broken := errors.New("broken")
		dir := t.TempDir()
		write(t, filepath.Join(dir, ".env"), byok)
		_, err := Load(Options{Dir: dir, HomeDir: t.TempDir(), Trusted: func(string, string, []byte) (bool, error) { return true, broken }})
		if !errors.Is(err, broken) {
			t.Errorf("Load: %v", err)
		}
	})
	t.Run("nobody to ask", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ".env"), byok)
		cfg, err := Load(Options{Dir: dir, HomeDir: t.TempDir()})
		if err != nil || cfg.BYOK.Provider != "" {
			t.Errorf("Load: %v, %v", cfg, err)
		}
	})
}

func TestReadDotEnv(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".env")
	write(t, file, "OTHER=1\nCOPILOT_BYOK_API_KEY=sk-secret\nCOPILOT_BYOK_PROVIDER=openai\nCOPILOT_BYOK_BASE_URL=https://me:sk-secret@x.example\nCOPILOT_LOG_LEVEL=\n")
	d, err := ReadDotEnv(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range d.Settings {
		got = append(got, s.Origin.Where+" "+s.Env+" "+s.Value)
	}
	want := []string{".env:2 COPILOT_BYOK_API_KEY ••••••", ".env:3 COPILOT_BYOK_PROVIDER openai", ".env:4 COPILOT_BYOK_BASE_URL (not valid)"}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	write(t, file, "OTHER=1\n")
	if d, err := ReadDotEnv(dir, ""); d != nil || err != nil {
		t.Errorf("of another program: %v, %v", d, err)
	}
	write(t, file, "COPILOT_LOG_LEVEL=debug\nnonsense\n")
	if _, err := ReadDotEnv(dir, ""); err == nil || !strings.Contains(err.Error(), file+":2: is not of the form") {
		t.Errorf("not well formed: %v", err)
	}
}

func TestDotEnvFile(t *testing.T) {
	t.Run("not in the process's environment", func(t *testing.T) {
		before := os.Environ()
		w := world{dotenv: "COPILOT_BRIDGE_MODEL=m\n"}
		if cfg := w.mustLoad(t); cfg.Model != "m" {
			t.Errorf("model %q", cfg.Model)
		}
		if !slices.Equal(before, os.Environ()) {
			t.Error("the environment has changed")
		}
	})
	t.Run("in the working directory only", func(t *testing.T) {
		w := world{}
		w.dir, w.home = t.TempDir(), t.TempDir()
		write(t, filepath.Join(w.dir, ".env"), "COPILOT_BRIDGE_MODEL=above\n")
		write(t, filepath.Join(w.home, ".env"), "COPILOT_BRIDGE_MODEL=home\n")
		w.dir = filepath.Join(w.dir, "below")
		if err := os.Mkdir(w.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if cfg := w.mustLoad(t); cfg.Model != "" {
			t.Errorf("model %q", cfg.Model)
		}
	})
	t.Run("of another program", func(t *testing.T) {
		w := world{dotenv: "this is no .env at all\n\"\n\x00"}
		w.mustLoad(t)
	})
	t.Run("directory", func(t *testing.T) {
		w := world{dir: t.TempDir(), home: t.TempDir()}
		write(t, filepath.Join(w.dir, ".env", "bin", "python"), "COPILOT_BRIDGE_MODEL=m")
		w.mustLoad(t)
	})
	t.Run("open quote", func(t *testing.T) {
		w := world{dotenv: "A=1\nB=\"x\nCOPILOT_BRIDGE_MODEL=m\nC=\"y\"\nD=\"\n"}
		if got := w.fail(t).Message; !strings.HasSuffix(got, ".env:2: "+badStatement) {
			t.Error(got)
		}
	})
	t.Run("wrong line", func(t *testing.T) {
		w := world{dotenv: "COPILOT_LOG_LEVEL=loud\nsecret words\nCOPILOT_MAX_RETRIES=x\n", env: []string{"COPILOT_BYOK_MODEL=m"}}
		want := filepath.Join(w.dir, ".env") + ":2: is not of the form NAME=value, or has a quote that is not closed\n" +
			`COPILOT_LOG_LEVEL="loud" (from .env:1, trusted): must be one of debug, info, warning, error, none, all`
		if got := strings.Replace(w.fail(t).Message, w.dir+string(filepath.Separator), "", 1); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestParseDotEnv(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]located
		bad        int
	}{
		{"empty", "", nil, 0},
		{"plain", "A=1\nexport B = two words # comment\n\n# C=3\nD: yes\nE=\n", map[string]located{
			"A": {"1", 1}, "B": {"two words", 2}, "D": {"yes", 5}, "E": {"", 6}}, 0},
		{"no end of line", "A=1\nB=2", map[string]located{"A": {"1", 1}, "B": {"2", 2}}, 0},
		{"windows", "\ufeffA=1\r\nB=\"2\"\r\n", map[string]located{"A": {"1", 1}, "B": {"2", 2}}, 0},
		{"dollars are literal", "K=1\nA=a$K$$\nB=\"b${K}\\$\"\nC='$K'\n", map[string]located{
			"K": {"1", 1}, "A": {"a$K$$", 2}, "B": {"b${K}$", 3}, "C": {"$K", 4}}, 0},
		{"lines", "A=\"one\ntwo\n\n'three\" # c\nB='x'\n", map[string]located{"A": {"one\ntwo\n\n'three", 1}, "B": {"x", 5}}, 0},
		{"last wins", "A=1\nA=2\n", map[string]located{"A": {"2", 2}}, 0},
		{"no sign", "A=1\nB\nC=3\n", map[string]located{"A": {"1", 1}}, 2},
		{"no sign at the end", "A=1\nB", map[string]located{"A": {"1", 1}}, 2},
		{"open quote", "A=1\n\nB=\"x\nC=3\n", map[string]located{"A": {"1", 1}}, 3},
		{"open quote that a later one closes", "A=1\nB=\"x\nexport COPILOT_BRIDGE_MODEL = m\nC=\"\n", map[string]located{"A": {"1", 1}}, 2},
		{"a setting in a comment after a quote", "B='x' # COPILOT_BRIDGE_MODEL=m\nC=3\n", map[string]located{"B": {"x", 1}, "C": {"3", 2}}, 0},
		{"a name within lines", "B=\"set\nthe COPILOT_BRIDGE_MODEL=m\nnow=\"\n", map[string]located{"B": {"set\nthe COPILOT_BRIDGE_MODEL=m\nnow=", 1}}, 0},
		{"wrong name", "A=1\nB-C=\"x\"\nD=\"4\"\n", map[string]located{"A": {"1", 1}}, 2},
		{"NUL", "A=1\nB=\x00\n", nil, 2},
		{"endless quote", "A=1\nB=\"\n" + strings.Repeat("\\\"\n", maxStatement+5), map[string]located{"A": {"1", 1}}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, bad := parseDotEnv([]byte(tt.text), settings(&Config{}))
			if bad != tt.bad || !maps.Equal(got, tt.want) {
				t.Errorf("parsed %+v, wrong line %d\nwant   %+v, wrong line %d", got, bad, tt.want, tt.bad)
			}
		})
	}
}
