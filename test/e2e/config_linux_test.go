package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is typed for a secret is not shown. Ctrl-C ends the question.
func TestSecretIsTypedUnseen(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm"}
	x := atTerminalWith(t, env, t.TempDir(), "config", "set", "serve.token", "-")
	x.waitFor("serve.token: ")
	x.typeKeys("sk-hidden-hidden\n")
	x.checkExit(0)
	data, err := os.ReadFile(filepath.Join(home, ".copilot-bridge", "config.yaml"))
	if err != nil || string(data) != "serve.token: sk-hidden-hidden\n" || strings.Contains(x.screen.String(), "sk-hidden") {
		t.Errorf("%q %v:\n%s", data, err, x.screen)
	}
	x = atTerminalWith(t, env, t.TempDir(), "config", "set", "serve.token", "-")
	x.waitFor("serve.token: ")
	x.typeKeys(ctrC)
	x.checkExit(130)
}

// An editor has the terminal. What is refused can be edited again.
func TestEditorHasTheTerminal(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	editor := filepath.Join(home, "ed.sh")
	script := "#!/bin/sh\n[ -t 0 ] || exit 9\nprintf 'setting: '\nread line </dev/tty\nprintf '%s\\n' \"$line\" > \"$1\"\n"
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	x := atTerminalWith(t, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "EDITOR=" + editor}, t.TempDir(), "config", "edit")
	x.waitFor("setting: ")
	x.typeKeys("serve.prot: 9\n")
	x.waitFor(`unknown key "serve.prot"; did you mean "serve.port"?`)
	x.waitFor("Edit it again? [y/N] ")
	x.typeKeys("y\n")
	x.waitFor("setting: ")
	x.typeKeys("serve.port: 9\n")
	x.waitFor("saved: ~/.copilot-bridge/config.yaml")
	x.checkExit(0)
}
