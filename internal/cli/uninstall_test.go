package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	brewed := filepath.Join(dir, "Cellar", "copilot-bridge", "1.0.0", "bin", "copilot-bridge")
	for program, want := range map[string]string{
		brewed: "installed with Homebrew: " + brewed + "\nupgrade it so:\n  brew update && brew upgrade copilot-bridge\n",
		filepath.Join(dir, ".vscode", "extensions", "copilot-bridge.copilot-bridge-1.0.0", "bin", "copilot-bridge"): "part of the extension of VS Code",
		os.Args[0]: "built from source: " + os.Args[0] + "\nupgrade it so:\n  git pull && make build, in the checkout\n",
	} {
		w := newWorld(t)
		w.Executable = program
		if code := w.run("upgrade"); code != 0 || !strings.Contains(w.out.String(), want) {
			t.Errorf("%s: %d, %q, %s", program, code, w.out, w.err)
		}
	}
}

// The real dpkg says whose a program is.
func TestUpgradePackage(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		return // not a Debian
	}
	w := newWorld(t)
	w.Executable = dpkg
	file := "dpkg_VERSION_" + runtime.GOOS + "_" + runtime.GOARCH + ".deb"
	if code := w.run("upgrade", "--json"); code != 0 || !strings.Contains(w.out.String(), `"how":"installed with the Debian package dpkg"`) ||
		!strings.Contains(w.out.String(), "then: sudo apt install ./"+file) || !strings.Contains(w.out.String(), `"remove":"sudo apt remove dpkg"`) {
		t.Errorf("%d, %q, %s", code, w.out, w.err)
	}
}

func TestUninstall(t *testing.T) {
	w := newWorld(t)
	home := filepath.Join(w.home, ".copilot-bridge")
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(home, name))
		return err == nil
	}
	for _, name := range []string{"runtime/1.0/copilot", "cache/x", "state.json", "serve.token", "serves/serve-1.log", "config.yaml", "policy.yaml", "sessions/1.json", "audit/log", "mine.txt"} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want int, args ...string) string {
		t.Helper()
		w.out, w.err = &buffer{}, &buffer{}
		w.Stdout, w.Stderr = w.out, w.err
		if code := w.run(append([]string{"uninstall"}, args...)...); code != want {
			t.Fatalf("%q: exit code %d, want %d: %s", args, code, want, w.err)
		}
		return w.out.String()
	}
	if got := run(0, "--dry-run"); !strings.Contains(got, "to be removed:\nfile  ~/.copilot-bridge/cache\nfile  ~/.copilot-bridge/runtime\n") ||
		!strings.Contains(got, "is kept, without --all: audit, config.yaml, policy.yaml, sessions in ~/.copilot-bridge\n") || !strings.Contains(got, "the program itself is built from source; remove it with: rm '") {
		t.Errorf("dry run: %s", got)
	}
	run(2) // nobody can be asked
	if want := "copilot-bridge: uninstall needs --yes where nobody can be asked\n  → see `copilot-bridge uninstall --help`\n"; w.err.String() != want {
		t.Errorf("it says %q", w.err)
	}
	if !exists("runtime") {
		t.Fatal("it was removed without a yes")
	}
	run(0, "--yes")
	for name, want := range map[string]bool{"runtime": false, "cache": false, "state.json": false, "serve.token": false, "serves": false, "config.yaml": true, "policy.yaml": true, "sessions": true, "audit": true, "mine.txt": true} {
		if exists(name) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
	run(0, "--yes", "--all")
	left, err := os.ReadDir(home)
	if err != nil || len(left) != 1 || left[0].Name() != "mine.txt" { // which is not ours
		t.Errorf("left: %v, %v", left, err)
	}
	if got := run(0, "--yes", "--all"); !strings.HasPrefix(got, "there is nothing to remove\n") {
		t.Errorf("a second time: %s", got)
	}
}

func TestUninstallTakesTheBridgeOutOfClients(t *testing.T) {
	w := newWorld(t)
	settings := filepath.Join(w.home, ".cursor", "mcp.json")
	if code := w.run("register", "cursor"); code != 0 {
		t.Fatalf("register cursor: %s", w.err)
	}
	if _, err := os.Stat(settings); err != nil {
		t.Fatal(err)
	}
	if code := w.run("uninstall", "--yes", "--all"); code != 0 || !strings.Contains(w.out.String(), "registration  ~/.cursor/mcp.json\n") {
		t.Fatalf("uninstall: %s%s", w.out, w.err)
	}
	for _, name := range []string{settings, filepath.Join(w.home, ".copilot-bridge")} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}
