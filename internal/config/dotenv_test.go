package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDotEnvRefusesWhatIsDangerous(t *testing.T) {
	refused := map[string]string{
		"COPILOT_CLI_PATH":      "/x",
		"COPILOT_BRIDGE_HOME":   "/x",
		"COPILOT_AUDIT_LOG_DIR": "/x",
		"ABP_COPILOT_CMD":       "x", "ABP_COPILOT_RUNNER": "x", "ABP_COPILOT_ARGS": "x", "ABP_COPILOT_ACP_ARGS": "x",
		"ABP_COPILOT_ACP_URL":                       "tcp://h:1",
		"ABP_COPILOT_PERMISSION_ALLOW_ALWAYS_TOOLS": "Bash",
		"COPILOT_BRIDGE_OTEL_ENDPOINT":              "http://h",
		"COPILOT_BRIDGE_ADDR":                       "0.0.0.0",
		"COPILOT_BRIDGE_PORT":                       "80",
		"COPILOT_BRIDGE_TOKEN":                      "t",
		"COPILOT_BRIDGE_HOSTS":                      "h",
		"COPILOT_BRIDGE_OTEL_FILE":                  "/x",
		"COPILOT_BRIDGE_LANGUAGES":                  `{"go":{}}`,
		"COPILOT_BRIDGE_TASKS":                      "a=b",
		"COPILOT_BRIDGE_OTEL_CAPTURE_CONTENT":       "true",
	}
	for _, s := range settings() {
		if _, ok := refused[s.env]; ok != (s.dotenv == never) {
			t.Errorf("%s: refused in .env is %v, want %v", s.env, s.dotenv == never, ok)
		}
	}
	for name, value := range refused {
		t.Run(name, func(t *testing.T) {
			where := "the environment or in config.yaml"
			if name == "COPILOT_BRIDGE_HOME" {
				where = "the environment"
			}
			want := name + " (from .env:1): is not taken from a .env file, which may have come with untrusted code; set it in " + where
			w := world{dotenv: name + "=" + value + "\n"}
			if got := w.fail(t).Message; got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			// Somebody who has exported the file has decided for themselves.
			w.env = []string{name + "=" + value}
			w.mustLoad(t)
		})
	}
}

func TestDotEnvCannotRedirectKeys(t *testing.T) {
	const refusal = ", because it decides where your key would be sent; set it in the environment or in config.yaml"
	const (
		urlRefused  = "COPILOT_BYOK_BASE_URL (from .env:1): is taken from a .env file only together with COPILOT_BYOK_API_KEY" + refusal
		hostRefused = "OPENCLAW_HOST (from .env:1): is taken from a .env file only together with OPENCLAW_GATEWAY_TOKEN" + refusal
		url         = "COPILOT_BYOK_BASE_URL=https://x.example\n"
		rest        = "COPILOT_BYOK_PROVIDER=openai\nCOPILOT_BYOK_MODEL=m\n"
		key         = "COPILOT_BYOK_API_KEY=mine\n"
		host        = "OPENCLAW_HOST=x.example\n"
		token       = "OPENCLAW_GATEWAY_TOKEN=mine\n"
	)
	tests := []struct {
		name string
		w    world
		want string
	}{
		{"URL and key", world{dotenv: url + key + rest}, ""},
		{"URL alone", world{dotenv: url + rest}, urlRefused},
		{"key from the environment", world{dotenv: url + rest, env: []string{"COPILOT_BYOK_API_KEY=users"}}, urlRefused},
		{"key from the environment over that of the file", world{dotenv: url + key + rest, env: []string{"COPILOT_BYOK_API_KEY=users"}}, urlRefused},
		{"key from config.yaml", world{dotenv: url + rest, file: "byok.api_key: users\n"}, urlRefused},
		{"empty key", world{dotenv: url + rest + "COPILOT_BYOK_API_KEY=\n", file: "byok.api_key: users\n"}, urlRefused},
		{"URL from the environment", world{dotenv: url + rest, env: []string{"COPILOT_BYOK_BASE_URL=https://y.example"}}, ""},
		{"host and token", world{dotenv: host + token}, ""},
		{"host alone", world{dotenv: host}, hostRefused},
		{"host with the user's token", world{dotenv: host, file: "openclaw.gateway_token: users\n"}, hostRefused},
		{"port", world{dotenv: "OPENCLAW_PORT=1\n"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				tt.w.mustLoad(t)
			} else if got := tt.w.fail(t).Message; got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
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
	t.Run("too large", func(t *testing.T) {
		w := world{dotenv: strings.Repeat("#\n", maxFile)}
		if got, want := w.fail(t).Message, filepath.Join(w.dir, ".env")+": is larger than 64 KiB"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
	t.Run("wrong line", func(t *testing.T) {
		w := world{dotenv: "COPILOT_LOG_LEVEL=loud\nsecret words\nCOPILOT_MAX_RETRIES=x\n", env: []string{"COPILOT_BYOK_MODEL=m"}}
		want := filepath.Join(w.dir, ".env") + ":2: is not of the form NAME=value, or has a quote that is not closed\n" +
			`COPILOT_LOG_LEVEL="loud" (from .env:1): must be one of debug, info, warning, error, none, all`
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
		{"wrong name", "A=1\nB-C=\"x\"\nD=\"4\"\n", map[string]located{"A": {"1", 1}}, 2},
		{"NUL", "A=1\nB=\x00\n", nil, 2},
		{"endless quote", "A=1\nB=\"\n" + strings.Repeat("\\\"\n", maxStatement+5), map[string]located{"A": {"1", 1}}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, bad := parseDotEnv([]byte(tt.text))
			if bad != tt.bad || !maps.Equal(got, tt.want) {
				t.Errorf("parsed %+v, wrong line %d\nwant   %+v, wrong line %d", got, bad, tt.want, tt.bad)
			}
		})
	}
}
