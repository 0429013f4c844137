//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// standIn is a program that takes an editor's arguments and keeps a list of
// extensions as it does.
const standIn = `#!/bin/sh
case "$1" in
--list-extensions) cat "$LIST" 2>/dev/null || true ;;
--install-extension) [ -f "$2" ] && echo Copilot-Bridge.copilot-bridge > "$LIST" || { echo "no file $2" >&2; exit 1; } ;;
--uninstall-extension) rm "$LIST" ;;
*) exit 9 ;;
esac
[ -z "$COPILOT_BRIDGE_TOKEN" ] || { echo "it sees the token" >&2; exit 1; }
`

func TestRegisterVSCode(t *testing.T) {
	w := newWorld(t)
	bin := t.TempDir()
	w.Environ = []string{"PATH=" + bin + ":/usr/bin:/bin", "LIST=" + filepath.Join(w.home, "list"), "COPILOT_BRIDGE_TOKEN=0123456789"}
	vsix := filepath.Join(w.Dir, "x.vsix")
	if err := os.WriteFile(vsix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		w.out, w.err = &buffer{}, &buffer{}
		w.Stdout, w.Stderr = w.out, w.err
		if code := w.run(args...); code != want {
			t.Errorf("%q: exit code %d: %s%s", args, code, w.out, w.err)
		}
		return w.out.String() + w.err.String()
	}
	if said := run(exitFailed, "register", "vscode", "--vsix", "x.vsix"); !strings.Contains(said, "Extensions view") {
		t.Errorf("without an editor: %s", said)
	}
	if err := os.WriteFile(filepath.Join(bin, "codium"), []byte(standIn), 0o700); err != nil {
		t.Fatal(err)
	}
	if said := run(exitFailed, "register", "vscode"); !strings.Contains(said, "--vsix") {
		t.Errorf("without a file: %s", said)
	}
	run(exitFailed, "register", "vscode", "--vsix", "none.vsix")
	if said := run(0, "register", "vscode", "--vsix", "x.vsix", "--json"); !strings.Contains(said, `"installed":true,"before":false`) || !strings.Contains(said, "codium") {
		t.Errorf("said %s", said)
	}
	if said := run(0, "register", "vscode", "--vsix", "x.vsix"); !strings.Contains(said, "Bridge: Enable") {
		t.Errorf("said %s", said)
	}
	if said := run(0, "unregister", "vscode"); !strings.Contains(said, "removed") {
		t.Errorf("said %s", said)
	}
	if said := run(0, "unregister", "vscode"); !strings.Contains(said, "not installed") {
		t.Errorf("said %s", said)
	}
	run(exitFailed, "register", "vscode", "--vsix", "x.vsix", "--editor", "emacs")
	// Beside the program, and in the bridge's home.
	for _, dir := range []string{filepath.Join(w.home, ".copilot-bridge", "vscode"), filepath.Join(w.home, "bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, vsixName()), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.Executable = filepath.Join(w.home, "bin", "copilot-bridge")
		if said := run(0, "register", "vscode", "--json"); !strings.Contains(said, filepath.Join(dir, vsixName())) {
			t.Errorf("said %s", said)
		}
	}
}
