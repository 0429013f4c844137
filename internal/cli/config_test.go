package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (w *world) file() string { return filepath.Join(w.home, ".copilot-bridge", "config.yaml") }

func (w *world) config(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(w.file())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestConfigSetAndGet(t *testing.T) {
	w := newWorld(t)
	if code := w.run("config", "set", "serve.port", "9000", "model", "gpt-5"); code != 0 ||
		w.err.String() != "✓ serve.port is set to 9000 in ~/.copilot-bridge/config.yaml\n✓ model is set to gpt-5 in ~/.copilot-bridge/config.yaml\n" {
		t.Errorf("exit %d, %s", code, w.err)
	}
	w.Stdin = strings.NewReader("sk-1234567890\n")
	if code := w.run("config", "set", "serve.token", "-"); code != 0 || !strings.HasSuffix(w.err.String(), "✓ serve.token is set in ~/.copilot-bridge/config.yaml\n") {
		t.Errorf("exit %d, %s", code, w.err)
	}
	if got := w.config(t); got != "serve.port: 9000\nmodel: gpt-5\nserve.token: sk-1234567890\n" && got != "serve.port: 9000\nserve.token: sk-1234567890\nmodel: gpt-5\n" {
		t.Errorf("file %q", got)
	}
	if code := w.run("config", "get", "serve.port"); code != 0 || w.out.String() != "9000\n" {
		t.Errorf("exit %d, %s", code, w.out)
	}
	w.Environ = append(w.Environ, "COPILOT_BRIDGE_MODEL=other")
	if code := w.run("config", "set", "model", "gpt-6"); code != 0 || !strings.HasSuffix(w.err.String(), "! it has no effect here: COPILOT_BRIDGE_MODEL goes before the file\n") {
		t.Errorf("exit %d, %s", code, w.err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tt := range []struct{ args, file, stdin, want string }{
		{"set serve.prot 9", "", "", "copilot-bridge: there is no setting \"serve.prot\"\n  → did you mean serve.port?\n"},
		{"set serve.port", "", "", "copilot-bridge: `copilot-bridge config set` accepts pairs of a key and a value; got 1 argument\n  → see `copilot-bridge config set --help`\n"},
		{"set serve.port many", "", "", "copilot-bridge: serve.port=\"many\": must be a whole number from 0 to 65535\n  → nothing was written\n"},
		{"set serve.token abc", "", "", "copilot-bridge: serve.token is a secret: others can see the arguments of a command, and the shell keeps them\n" +
			"  → give - as the value and the secret on standard input, such as `copilot-bridge config set serve.token - < FILE`\n"},
		{"set serve.token -", "", "\n", "copilot-bridge: standard input is empty, and was to hold serve.token\n  → to unset it give \"\" as the value\n"},
		{"set serve.token - model -", "", "x", "copilot-bridge: only one value can be read from standard input: serve.token or model\n  → see `copilot-bridge config set --help`\n"},
		{"set byok.provider ollama", "", "", "copilot-bridge: byok.model: must be set, because the provider is ollama\n" +
			"  → nothing was written. Set what belongs together in one command, or use `copilot-bridge config edit`.\n"},
		{"set model m", "serve.port: x\n", "", "copilot-bridge: serve.port=\"x\" (from config.yaml:1): must be a whole number from 0 to 65535\n" +
			"  → nothing was written. Set what belongs together in one command, or use `copilot-bridge config edit`.\n"},
		{"get serve.prot", "", "", "copilot-bridge: there is no setting \"serve.prot\"\n  → did you mean serve.port?\n"},
		{"get serve.token", "", "", "copilot-bridge: serve.token is a secret, which is not printed\n  → `copilot-bridge config show` says where it comes from\n"},
		{"init", "model: m\n", "", "copilot-bridge: FILE exists already, and was not changed\n  → change it with `copilot-bridge config edit` or `copilot-bridge config set`\n"},
	} {
		w := newWorld(t)
		w.Stdin = strings.NewReader(tt.stdin)
		if tt.file != "" {
			write(t, w.file(), tt.file)
		}
		code := w.run(append([]string{"config"}, strings.Fields(tt.args)...)...)
		if got := strings.ReplaceAll(w.err.String(), w.file(), "FILE"); code != 2 || got != tt.want {
			t.Errorf("%s: exit %d\n got %q\nwant %q", tt.args, code, got, tt.want)
		}
		if data, err := os.ReadFile(w.file()); tt.file != string(data) {
			t.Errorf("%s: the file is %q %v", tt.args, data, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfigInit(t *testing.T) {
	w := newWorld(t)
	if code := w.run("config", "init"); code != 0 || w.err.String() != "✓ written: ~/.copilot-bridge/config.yaml\n" {
		t.Fatalf("exit %d, %s", code, w.err)
	}
	if code := w.run("config", "set", "serve.port", "9000"); code != 0 || !strings.Contains(w.config(t), "\n# serve.port: 8788\nserve.port: 9000\n") {
		t.Errorf("exit %d, %s", code, w.config(t))
	}
}

// The editor is a script: the first version is refused, the second one saved.
func TestConfigEdit(t *testing.T) {
	w := newWorld(t)
	write(t, w.file(), "model: old\n")
	editor := filepath.Join(w.home, "editor")
	script := "#!/bin/sh\nif [ -e " + w.home + "/again ]; then echo 'model: new # mine' > \"$2\"; else echo 'mdoel: new' > \"$2\"; touch " + w.home + "/again; fi\n"
	write(t, editor, script)
	if err := os.Chmod(editor, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Environ = append(w.Environ, "EDITOR="+editor+" --wait")
	draft := strings.TrimSuffix(w.file(), ".yaml") + ".draft.yaml"
	refused := "copilot-bridge: " + w.file() + ":1: unknown key \"mdoel\"; did you mean \"model\"?\n"
	code := w.run("config", "edit")
	if want := refused + "copilot-bridge: the configuration is not valid; the old one stays in force\n  → your version is in " + draft + "\n"; code != 2 || w.err.String() != want {
		t.Errorf("exit %d\n got %q\nwant %q", code, w.err, want)
	}
	if data, err := os.ReadFile(draft); w.config(t) != "model: old\n" || string(data) != "mdoel: new\n" || err != nil {
		t.Errorf("%q %q %v", w.config(t), data, err)
	}
	if err := os.Remove(filepath.Join(w.home, "again")); err != nil {
		t.Fatal(err)
	}
	w.err, w.Stdin = &buffer{}, strings.NewReader("y\n")
	w.Stderr = w.err
	w.terminals(w.Stdin, w.Stderr)
	if code := w.run("config", "edit"); code != 0 || w.config(t) != "model: new # mine\n" || !strings.Contains(w.err.String(), "Edit it again? [y/N] ") || !strings.Contains(w.err.String(), "✓ saved: ~/.copilot-bridge/config.yaml") {
		t.Errorf("exit %d, %s", code, w.err)
	}
	if _, err := os.Stat(draft); err == nil {
		t.Error("the draft is left")
	}
	for _, tt := range []struct{ editor, want string }{
		{"true", "Nothing was changed.\n"},
		{"false", "copilot-bridge: the editor false failed: exit status 1\n  → set VISUAL or EDITOR to another one. What you have saved is in " + draft + ".\n"},
		{"nonesuch -w", "copilot-bridge: VISUAL names nonesuch, which was not found\n  → set VISUAL to an editor that is installed\n"},
	} {
		w := &world{Env: w.Env, out: &buffer{}, err: &buffer{}, home: w.home}
		w.Stdout, w.Stderr, w.IsTerminal = w.out, w.err, nil
		w.Environ = append(w.Environ, "VISUAL="+tt.editor)
		if w.run("config", "edit"); w.err.String() != tt.want {
			t.Errorf("%s: %q", tt.editor, w.err)
		}
	}
}

func TestConfigCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"config set serve.p": "serve.port\tPort to listen on", "config set log_level ": "debug\n", "config set log_level debug sess": "sessions.keep\t",
		"config get hom": "home\tDirectory",
	} {
		w := newWorld(t)
		if w.run(append([]string{"__complete"}, strings.Split(args, " ")...)...); !strings.Contains(w.out.String(), want) {
			t.Errorf("%s: %s", args, w.out)
		}
	}
}

func TestUnknownVariable(t *testing.T) {
	w := newWorld(t)
	w.Environ = append(w.Environ, "COPILOT_BRIDGE_MDOEL=x")
	if code := w.run("config", "get", "model"); code != 0 || w.err.String() != "! COPILOT_BRIDGE_MDOEL is no variable of copilot-bridge, and has no effect; did you mean COPILOT_BRIDGE_MODEL?\n" {
		t.Errorf("exit %d, %s", code, w.err)
	}
}
