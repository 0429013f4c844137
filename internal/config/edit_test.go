package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Only the lines of the setting change, in every way of writing it.
func TestChangedKeepsTheRest(t *testing.T) {
	for name, tt := range map[string]struct {
		before string
		change []Change
		after  string
	}{
		"new file":              {"", []Change{{"model", "gpt-5"}}, "model: gpt-5\n"},
		"comments only":         {"# mine\n", []Change{{"model", "gpt-5"}}, "# mine\nmodel: gpt-5\n"},
		"scalar with a comment": {"# top\nmodel: gpt-4   # my \"model\"\ndemo: true\n", []Change{{"model", "gpt-5"}}, "# top\nmodel: gpt-5   # my \"model\"\ndemo: true\n"},
		"no end of line":        {"demo: true", []Change{{"model", "m"}}, "demo: true\nmodel: m\n"},
		"nested": {"serve:\n  # inner\n  port: 8788 # c\n  \"addr\": '127.0.0.1'\n\nmodel: m\n", []Change{{"serve.port", "9"}, {"serve.addr", "::1"}},
			"serve:\n  # inner\n  port: 9 # c\n  addr: ::1\n\nmodel: m\n"},
		"nested, new":          {"serve:\n  hosts:\n  - a # x\n\n  - b\n# model\nmodel: m\n", []Change{{"serve.port", "9"}}, "serve:\n  hosts:\n  - a # x\n\n  - b\n  port: 9\n# model\nmodel: m\n"},
		"empty group":          {"serve:\nmodel: m\n", []Change{{"serve.port", "9"}}, "serve:\n  port: 9\nmodel: m\n"},
		"dotted, new":          {"serve.addr: ::1 # a\nmodel: m\n", []Change{{"serve.port", "9"}}, "serve.addr: ::1 # a\nserve.port: 9\nmodel: m\n"},
		"on one line":          {"facade: {aliases: {a: b}, unknown_model: error} # fl\n", []Change{{"facade.unknown_model", "default"}}, "facade: {aliases: {a: b}, unknown_model: default} # fl\n"},
		"on one line, new":     {"facade: {unknown_model: error}\n", []Change{{"facade.conversations", "3"}}, "facade: {conversations: 3, unknown_model: error}\n"},
		"block text":           {"project_context: |\n  one # no comment\n  two\nmodel: m\n", []Change{{"project_context", "three\nfour"}}, "project_context: \"three\\nfour\"\nmodel: m\n"},
		"mapping":              {"tasks:\n  a: b # lost with it\n\n# next\nmodel: m\n", []Change{{"tasks", `{"lint": "npm run lint"}`}}, "tasks: {\"lint\": \"npm run lint\"}\n\n# next\nmodel: m\n"},
		"list":                 {"", []Change{{"serve.hosts", "a,b"}}, "serve.hosts: a,b\n"},
		"needs quotes":         {"", []Change{{"model", "a: b # c"}}, "model: \"a: b # c\"\n"},
		"looks like a boolean": {"", []Change{{"model", "yes"}, {"byok.model", "null"}}, "model: yes\nbyok.model: \"null\"\n"},
		"unset":                {"model: m # why\n", []Change{{"model", ""}}, "model: # why\n"},
		"below its explanation": {"# Port; a number\n# serve.port: 8788\n\n# model:\n", []Change{{"serve.port", "9"}, {"model", "m"}},
			"# Port; a number\n# serve.port: 8788\nserve.port: 9\n\n# model:\nmodel: m\n"},
		"mends what is wrong": {"serve.port: abc\nmodel: m\n", []Change{{"serve.port", "9"}}, "serve.port: 9\nmodel: m\n"},
		"Windows' lines":      {"\xef\xbb\xbfmodel: a\r\ndemo: true\r\n", []Change{{"model", "b"}}, "\xef\xbb\xbfmodel: b\r\ndemo: true\r\n"},
		"relative path":       {"", []Change{{"telemetry.file", "out.json"}}, "telemetry.file: /dir/out.json\n"},
		"absolute path":       {"", []Change{{"audit_log_dir", "/var/log/x"}}, "audit_log_dir: /var/log/x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Changed(Options{Dir: "/dir", HomeDir: "/me"}, "config.yaml", []byte(tt.before), tt.change)
			if err != nil || string(got) != tt.after {
				t.Errorf("%v\n got %q\nwant %q", err, got, tt.after)
			}
		})
	}
}

func TestChangedRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		before     string
		key, value string
		want       string
	}{
		"unknown":        {"", "serve.prot", "9", `there is no setting "serve.prot"; remedy: did you mean serve.port?`},
		"far off":        {"", "zzzzzzzz", "9", "there is no setting \"zzzzzzzz\"; remedy: see `copilot-bridge config show` for all settings"},
		"last part only": {"", "port", "9", `there is no setting "port"; remedy: did you mean openclaw.port?`},
		"group":          {"", "serve", "9", "serve is a group of settings; remedy: name one of them, such as serve.addr"},
		"wrong value":    {"", "serve.port", "many", `serve.port="many": must be a whole number from 0 to 65535; remedy: Nothing was written.`},
		"wrong secret":   {"", "serve.token", "a\nb", "serve.token (hidden): must be one line of printable ASCII characters; remedy: Nothing was written."},
		"home":           {"", "home", "/x", "home cannot be set in the file that it helps to find; remedy: set COPILOT_BRIDGE_HOME in the environment"},
		"no YAML":        {"a: [\n", "model", "m", "config.yaml:1: this is not valid YAML: sequence end token ']' not found; remedy: Correct it with `copilot-bridge config edit`."},
		"one flow":       {"{model: a}\n", "model", "m", "model is set in a form that cannot be changed in place; remedy: Change it with `copilot-bridge config edit`."},
		"flow in flow":   {"facade: {aliases: {a: b}}\n", "facade.aliases", "c=d", "facade.aliases is set in a form that cannot be changed in place; remedy: Change it with `copilot-bridge config edit`."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Changed(Options{Dir: "/work"}, "config.yaml", []byte(tt.before), []Change{{tt.key, tt.value}})
			if e := bridge.AsError(err); err == nil || e.Message+"; remedy: "+e.Remedy != tt.want {
				t.Errorf("got %q", e.Message+"; remedy: "+e.Remedy)
			}
		})
	}
}

// Every setting of the template can be switched on as it stands there.
func TestTemplate(t *testing.T) {
	text := string(Template())
	on := ""
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			if key, _, ok := strings.Cut(rest, ":"); ok && find(settings(&Config{}), key) != nil && !strings.HasPrefix(key, "byok.") { // which need a provider
				line = rest
			}
		}
		on += line
	}
	home := t.TempDir()
	for name, file := range map[string]string{"as it is": text, "switched on": on} {
		cfg, err := Load(Options{Dir: home, HomeDir: home, File: &file})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, k := range Keys() {
			if k.InFile && !strings.Contains(text, "\n# "+k.Key+":") {
				t.Errorf("%s is missing", k.Key)
			}
			if s := find(settings(cfg), k.Key); name == "switched on" && s.fallback != "" && !strings.HasPrefix(k.Key, "byok.") && cfg.Origin(k.Key).Source != SourceFile {
				t.Errorf("%s is from %v", k.Key, cfg.Origin(k.Key))
			}
		}
	}
}

// A refused change leaves the file, and a link to it stays one.
func TestRewrite(t *testing.T) {
	home := t.TempDir()
	target := filepath.Join(home, "dotfiles.yaml")
	o := Options{Dir: home, HomeDir: home, Environ: []string{"COPILOT_BRIDGE_HOME=" + home}}
	path := filepath.Join(home, "config.yaml")
	if err := os.WriteFile(target, []byte("demo: true # keep\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	set := func(changes ...Change) (*Config, error) {
		return Rewrite(context.Background(), o, func(path string, old []byte) ([]byte, error) { return Changed(o, path, old, changes) })
	}
	if _, err := set(Change{"byok.provider", "openai"}); err == nil || !strings.Contains(err.Error(), "COPILOT_BYOK_MODEL: must be set") {
		t.Errorf("half a provider: %v", err)
	}
	cfg, err := set(Change{"byok.provider", "ollama"}, Change{"byok.model", "qwen3"})
	if err != nil || cfg.BYOK.Model != "qwen3" {
		t.Errorf("%v %v", cfg, err)
	}
	data, err := os.ReadFile(target)
	if info, failed := os.Stat(target); err != nil || failed != nil || info.Mode().Perm() != 0o600 ||
		string(data) != "demo: true # keep\nbyok.provider: ollama\nbyok.model: qwen3\n" {
		t.Errorf("%q %v %v", data, err, info.Mode())
	}
	if at, err := os.Readlink(path); err != nil || at != target {
		t.Errorf("the link is gone: %v", err)
	}
}

func TestUnknownVariables(t *testing.T) {
	home := t.TempDir()
	cfg, err := Load(Options{Dir: home, HomeDir: home, Environ: []string{"COPILOT_BRIDGE_PROT=1", "COPILOT_BRIDGE_DEPTH=1", "COPILOT_BRIDGE_BINARY=/x", "COPILOT_BRIDGE_EMPTY=",
		"COPILOT_BRIDGE_SOMETHING_ELSE=secret", "COPILOT_BRIDGE_PORT=9", "COPILOT_OTHER=1"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "COPILOT_BRIDGE_PROT is no variable of copilot-bridge, and has no effect; did you mean COPILOT_BRIDGE_PORT?\n" +
		"COPILOT_BRIDGE_SOMETHING_ELSE is no variable of copilot-bridge, and has no effect"
	if got := strings.Join(cfg.UnknownVariables(), "\n"); got != want {
		t.Errorf("got %s", got)
	}
}
