package config

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

func TestErrorTexts(t *testing.T) {
	const (
		url    = "must be an http or https URL with a host and without user, query or fragment"
		noUser = "must not contain a user name or password, which would show up in logs"
	)
	tests := []struct {
		name string
		w    world
		want string
	}{
		{
			"environment", world{env: []string{"COPILOT_LOG_LEVEL=loud"}},
			`COPILOT_LOG_LEVEL="loud" (from environment): must be one of debug, info, warning, error, none, all`,
		},
		{
			"flag", world{flags: map[string]string{"max_retries": "11"}},
			`max_retries="11" (from flag): must be a whole number from 0 to 10`,
		},
		{
			"file", world{file: "openclaw:\n  port: 70000\n"},
			`openclaw.port="70000" (from config.yaml:2): must be a port number from 1 to 65535`,
		},
		{
			"dotenv", world{dotenv: "\nexport OPENCLAW_PORT=x\n"},
			`OPENCLAW_PORT="x" (from .env:2, trusted): must be a port number from 1 to 65535`,
		},
		{
			"secret", world{env: []string{"COPILOT_GITHUB_TOKEN=a\nb"}},
			`COPILOT_GITHUB_TOKEN (hidden) (from environment): must be one line of printable ASCII characters`,
		},
		{
			"all at once", world{env: []string{"COPILOT_MAX_RETRIES=x", "COPILOT_LOG_LEVEL=y"}, file: "abp.acp_port: 0\n", flags: map[string]string{"modl": "z"}},
			`modl: is no setting; did you mean "model"?` + "\n" +
				`COPILOT_LOG_LEVEL="y" (from environment): must be one of debug, info, warning, error, none, all` + "\n" +
				`COPILOT_MAX_RETRIES="x" (from environment): must be a whole number from 0 to 10` + "\n" +
				`abp.acp_port="0" (from config.yaml:1): must be a port number from 1 to 65535`,
		},
		{
			"only what is in force is judged", world{env: []string{"COPILOT_LOG_LEVEL=loud", "COPILOT_MAX_RETRIES=1"}, file: "max_retries: x\n"},
			`COPILOT_LOG_LEVEL="loud" (from environment): must be one of debug, info, warning, error, none, all`,
		},
		{
			"long value", world{env: []string{"COPILOT_LOG_LEVEL=" + strings.Repeat("é", 1000)}},
			`COPILOT_LOG_LEVEL="` + strings.Repeat("é", 80) + `…" (from environment): must be one of debug, info, warning, error, none, all`,
		},
		{
			"quote", world{env: []string{"ABP_COPILOT_ARGS=a 'b"}},
			`ABP_COPILOT_ARGS="a 'b" (from environment): has a quote (') that is not closed`,
		},
		{
			"backslash", world{env: []string{`ABP_COPILOT_ARGS=a\`}},
			`ABP_COPILOT_ARGS="a\\" (from environment): ends in a backslash that has nothing to escape`,
		},
		{
			"user in URL", world{env: []string{"COPILOT_BRIDGE_OTEL_ENDPOINT=https://me:pw@h"}},
			"COPILOT_BRIDGE_OTEL_ENDPOINT (hidden) (from environment): " + noUser,
		},
		{
			"user in what is no URL", world{env: []string{"COPILOT_BRIDGE_OTEL_ENDPOINT=https://me:pw@h h"}},
			"COPILOT_BRIDGE_OTEL_ENDPOINT (hidden) (from environment): " + url,
		},
		{
			"key in URL", world{env: []string{"COPILOT_BRIDGE_OTEL_ENDPOINT=https://h?key=pw"}},
			"COPILOT_BRIDGE_OTEL_ENDPOINT (hidden) (from environment): " + url,
		},
		{
			"plain wrong URL", world{env: []string{"COPILOT_BRIDGE_OTEL_ENDPOINT=localhost"}},
			`COPILOT_BRIDGE_OTEL_ENDPOINT="localhost" (from environment): ` + url,
		},
		{
			"secret in the wrong variable", world{env: []string{"COPILOT_GITHUB_TOKEN=ghp_12345678", "COPILOT_LOG_LEVEL=ghp_12345678"}},
			"COPILOT_LOG_LEVEL (hidden) (from environment): must be one of debug, info, warning, error, none, all",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.w.fail(t).Message; got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestRemedy(t *testing.T) {
	w := world{
		flags:  map[string]string{"max_retries": "x"},
		env:    []string{"COPILOT_LOG_LEVEL=x", "COPILOT_BYOK_PROVIDER=ollama"},
		dotenv: "OPENCLAW_PORT=x\n", file: "abp.acp_port: x\n",
	}
	got := w.fail(t).Remedy
	file := filepath.Join(w.home, ".copilot-bridge", "config.yaml")
	want := "Correct this in the environment; on the command line; in " + filepath.Join(w.dir, ".env") +
		"; in " + file + "; in the environment or in " + file + "."
	if got != want {
		t.Errorf("remedy:\n%s\nwant:\n%s", got, want)
	}
	if _, err := Load(Options{Dir: t.TempDir()}); err == nil {
		t.Error("no error without any home")
	}
}

func TestBYOK(t *testing.T) {
	const b = "COPILOT_BYOK_"
	tests := []struct {
		env  string // without the prefix
		url  string // in force
		want string // or the error
	}{
		{env: "PROVIDER=openai MODEL=m API_KEY=k", url: "https://api.openai.com/v1"},
		{env: "PROVIDER=anthropic MODEL=m API_KEY=k", url: "https://api.anthropic.com"},
		{env: "PROVIDER=ollama MODEL=m", url: "http://127.0.0.1:11434/v1"},
		{env: "PROVIDER=openai MODEL=m BASE_URL=http://127.0.0.1:1/v1", url: "http://127.0.0.1:1/v1"},
		{env: "PROVIDER=anthropic MODEL=m BASE_URL=https://x", url: "https://x"},
		{env: "PROVIDER=azure MODEL=m API_KEY=k BASE_URL=https://x.example", url: "https://x.example"},
		{env: "PROVIDER=anthropic MODEL=m API_KEY=k BASE_URL=https://x.example/", url: "https://x.example"},

		{env: "PROVIDER=openai", want: b + "MODEL: must be set, because the provider is openai\n" +
			b + "API_KEY: must be set, because the provider is openai"},
		{env: "PROVIDER=openai MODEL=m BASE_URL=https://API.openai.com/v1/", want: b + "API_KEY: must be set, because the provider is openai"},
		{env: "PROVIDER=azure MODEL=m API_KEY=k", want: b + "BASE_URL: must be set, because the provider is azure"},
		{env: "PROVIDER=azure MODEL=m BASE_URL=https://x", want: b + "API_KEY: must be set, because the provider is azure"},
		{env: "PROVIDER=anthropic MODEL=m", want: b + "API_KEY: must be set, because the provider is anthropic"},
		{env: "PROVIDER=ollama", want: b + "MODEL: must be set, because the provider is ollama"},
		{env: "BASE_URL=http://x MODEL=m", want: b + "PROVIDER: must be set to one of openai, azure, anthropic, ollama, because " +
			b + "BASE_URL and " + b + "MODEL are set"},
		{env: "API_KEY=k BASE_URL=http://x MODEL=m", want: b + "PROVIDER: must be set to one of openai, azure, anthropic, ollama, because " +
			b + "API_KEY, " + b + "BASE_URL and " + b + "MODEL are set"},
		{env: "WIRE_API=responses", want: b + "PROVIDER: must be set to one of openai, azure, anthropic, ollama, because " + b + "WIRE_API is set"},
		// What follows from a value that is wrong itself is not reported too.
		{env: "PROVIDER=x", want: b + `PROVIDER="x" (from environment): must be one of openai, azure, anthropic, ollama`},
		{env: "PROVIDER=azure MODEL=m API_KEY=k BASE_URL=x", want: b + `BASE_URL="x" (from environment): must be an http or https URL with a host and without user, query or fragment`},
	}
	for _, tt := range tests {
		t.Run(tt.env, func(t *testing.T) {
			var w world
			for _, v := range strings.Fields(tt.env) {
				w.env = append(w.env, b+v)
			}
			if tt.want != "" {
				if got := w.fail(t).Message; got != tt.want {
					t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
				}
				return
			}
			if got := w.mustLoad(t).BYOK.BaseURL; got != tt.url {
				t.Errorf("base URL %q, want %q", got, tt.url)
			}
		})
	}
}

func TestOtherCrossChecks(t *testing.T) {
	const inf, otel = "COPILOT_BRIDGE_INFINITE_SESSIONS_", "COPILOT_BRIDGE_OTEL_"
	tests := []struct {
		name, file, want string
	}{
		{"thresholds", "infinite_sessions: {background_threshold: 0.9, buffer_threshold: 0.9}",
			`infinite_sessions.background_threshold="0.9" (from config.yaml:1): must be below infinite_sessions.buffer_threshold, which is 0.9`},
		{"background against the default", "infinite_sessions.background_threshold: 0.95",
			`infinite_sessions.background_threshold="0.95" (from config.yaml:1): must be below infinite_sessions.buffer_threshold, which is 0.95`},
		{"buffer against the default", "infinite_sessions.buffer_threshold: 0.8",
			`infinite_sessions.buffer_threshold="0.8" (from config.yaml:1): must be above infinite_sessions.background_threshold, which is 0.8`},
		{"no endpoint", "telemetry: {exporter: otlp-http, file: f}", otel + "ENDPOINT: must be set, because the exporter is otlp-http"},
		{"no file", "telemetry: {exporter: file}", otel + "FILE: must be set, because the exporter is file"},
		{"which", "telemetry: {file: f, otlp_endpoint: http://h}", otel + "EXPORTER: must be set to one of otlp-http, file, because both a file and an endpoint are set"},
		{"fine", "infinite_sessions: {background_threshold: 0.5}\ntelemetry: {file: f}", ""},
		{"fine too", "infinite_sessions: {buffer_threshold: 1}\ntelemetry: {otlp_endpoint: http://h}", ""},
	}
	exporters := map[string]Exporter{"fine": ExporterFile, "fine too": ExporterOTLP}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := world{file: tt.file}
			if tt.want != "" {
				if got := w.fail(t).Message; got != tt.want {
					t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
				}
				return
			}
			if got := w.mustLoad(t).Telemetry.ExporterType; got != exporters[tt.name] {
				t.Errorf("exporter %q", got)
			}
		})
	}
}

func TestOldNameOfTransport(t *testing.T) {
	w := world{env: []string{"ABP_COPILOT_PROTOCOL=acp"}}
	cfg := w.mustLoad(t)
	if cfg.ABP.Transport != TransportACP || cfg.Origin("abp.transport").Where != "ABP_COPILOT_PROTOCOL" {
		t.Errorf("transport %q from %+v", cfg.ABP.Transport, cfg.Origin("abp.transport"))
	}
	w = world{env: []string{"ABP_COPILOT_PROTOCOL=acp"}, file: "abp.transport: auto\n"}
	if cfg := w.mustLoad(t); cfg.ABP.Transport != TransportAuto {
		t.Errorf("transport %q although it is set to auto", cfg.ABP.Transport)
	}
}

// Whatever else is wrong and wherever the secrets stand, no error and no
// listing shows one.
func TestNoSecretShows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		const letters = "abcdefghijkLMNOPQRSTUVWXYZ0123456789-_.~+/=!$%&*\"\\: #"
		b := make([]byte, 12+rng.IntN(30))
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return "s" + string(b) + "s"
	}
	table := settings(&Config{})
	failed := 0
	for range 400 {
		w := world{
			flags: map[string]string{},
			env:   []string{"COPILOT_BYOK_PROVIDER=openai", "COPILOT_BYOK_MODEL=m"},
		}
		var secrets []string
		put := func(s *setting, value string) {
			switch rng.IntN(4) {
			case 0:
				w.flags[s.key] = value
			case 1:
				w.env = append(w.env, s.env+"="+value)
			case 2:
				w.dotenv += s.env + "='" + value + "'\n"
			case 3:
				w.file += s.key + ": '" + value + "'\n"
			}
		}
		for _, s := range table {
			if !s.secret() {
				continue
			}
			secret := random()
			if len(secrets) > 0 && rng.IntN(4) == 0 {
				secret += "\x01" // a secret that is wrong itself
			}
			if value := secret; s.yaml == textMapping {
				pair, err := json.Marshal(map[string]string{"X-Key": value})
				if err != nil {
					t.Fatal(err)
				}
				put(&s, string(pair))
			} else if s.yaml == anyMapping {
				servers, err := json.Marshal(map[string]any{"s": map[string]any{"command": "c", "env": map[string]string{"KEY": value}}})
				if err != nil {
					t.Fatal(err)
				}
				put(&s, string(servers))
			} else {
				put(&s, value)
			}
			secrets = append(secrets, strings.TrimSuffix(secret, "\x01"))
		}
		// A secret in the wrong place is recognised if it can also be read from
		// the right one; where any text will do, it stays what it is.
		pasted := false
		for range rng.IntN(3) {
			s := table[rng.IntN(len(table))]
			if s.secret() || strings.Contains(w.file, s.key+":") {
				continue
			}
			switch rng.IntN(4) {
			case 0:
				pasted = true
				put(&s, "https://user:"+secrets[0]+"@host")
			case 1:
				pasted = true
				put(&s, secrets[0])
			default:
				put(&s, "☹")
			}
		}
		damage := rng.IntN(6)
		if pasted {
			damage = -1
		}
		switch damage {
		case 0:
			w.file += "byok: [\n"
		case 1:
			w.dotenv += "junk " + secrets[1] + "\n"
		case 2:
			w.file += "unknown: '" + secrets[2] + "'\n"
		case 3:
			w.dotenv += "COPILOT_GITHUB_TOKEN=\"" + strings.ReplaceAll(secrets[2], `"`, "_") + "\n"
		}
		cfg, err := w.load(t)
		var out string
		if err != nil {
			failed++
			out = fmt.Sprintf("%v %+v", err, err)
		} else if !pasted {
			out = fmt.Sprintf("%+v %+v", cfg.Show(), cfg)
		}
		for _, secret := range secrets {
			if strings.Contains(out, secret) || strings.Contains(out, strings.Trim(quote(secret), `"`)) {
				t.Fatalf("secret %q shows in:\n%s\nflags %q\nenv %q\n.env:\n%s\nfile:\n%s", secret, out, w.flags, w.env, w.dotenv, w.file)
			}
		}
	}
	if failed < 100 || failed == 400 {
		t.Errorf("%d of 400 failed to load: the test does not try both sides", failed)
	}
}
