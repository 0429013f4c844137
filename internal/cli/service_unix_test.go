//go:build unix

package cli

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// hostile is a path with all that is special in the files of services.
const hostile = `/tmp/a b"c%h$HOME\d&<e>`

// systemd itself reads the unit, and finds in it the words that were put there.
func TestUnit(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there is no systemd
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "my bridge") // systemd takes no other special characters here
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "copilot-bridge.service")
	text := unit([]string{program, "serve", "--workspace=" + hostile}, dir, filepath.Join(dir, "log"), [][2]string{{"PATH", "/usr/bin:/a b%"}})
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := exec.Command("systemd-analyze", "verify", "--user", "--man=no", file)
	verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "copilot-bridge.service:") {
		t.Errorf("systemd-analyze: %v\n%s\n%s", err, out, text)
	}
	if want := `"--workspace=/tmp/a b\"c%%h$$HOME\\d&<e>"` + "\n"; !strings.Contains(text, want) {
		t.Errorf("the unit lacks %s:\n%s", want, text)
	}
	for _, line := range []string{`Environment="PATH=/usr/bin:/a b%%"`, "Restart=on-failure", "UMask=0077", "StandardError=append:" + filepath.Join(dir, "log"), "WantedBy=default.target"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s:\n%s", line, text)
		}
	}
}

// The plist is XML, with a value for each key, and the words that were put there.
func TestPlist(t *testing.T) {
	text := plist([]string{"/bin/copilot-bridge", "serve", "--workspace=" + hostile}, "/w", "/log", [][2]string{{"PATH", "/a&b"}})
	var names, words []string
	var inside string
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
		case xml.EndElement:
			inside = ""
		case xml.CharData:
			switch inside {
			case "key":
				names = append(names, string(token))
			case "string":
				words = append(words, string(token))
			}
		}
	}
	if want := []string{"Label", "ProgramArguments", "EnvironmentVariables", "PATH", "WorkingDirectory", "StandardErrorPath", "RunAtLoad", "KeepAlive", "SuccessfulExit", "ExitTimeOut", "Umask"}; !slices.Equal(names, want) {
		t.Errorf("the keys are %q", names)
	}
	if want := []string{launchdLabel, "/bin/copilot-bridge", "serve", "--workspace=" + hostile, "/a&b", "/w", "/log"}; !slices.Equal(words, want) {
		t.Errorf("the values are %q", words)
	}
}

// Where there is no systemd at all nothing is written.
func TestServiceWithoutSystemd(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // a test must not load an agent of launchd
	}
	w := newWorld(t)
	w.Environ = append(w.Environ, "PATH="+t.TempDir())
	const want = "copilot-bridge: nothing was installed: a service needs the program systemctl, which this system does not have\n  → have `copilot-bridge serve --detach` started when you log in, such as by your shell's profile\n"
	if code := w.run("service", "install"); code != exitFailed || w.err.String() != want {
		t.Errorf("install: %d, %s", code, w.err)
	}
	if _, err := os.Stat(filepath.Join(w.home, ".config")); err == nil {
		t.Error("the unit was written")
	}
}

// Without a systemd to start it the unit is there, and the error says how to go on.
func TestServiceCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // a test must not load an agent of launchd
	}
	w := newWorld(t)
	w.Environ = append(w.Environ, "GH_TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345", "COPILOT_BRIDGE_TOKEN=correct-horse-battery")
	file := filepath.Join(w.home, ".config/systemd/user/copilot-bridge.service")
	if code := w.run("service", "status"); code != 0 || w.out.String() != "not installed; install it with: copilot-bridge service install\n" {
		t.Errorf("status: %d, %q, %s", code, w.out, w.err)
	}
	if code := w.run("service", "install", "--dry-run", "--port", "8790"); code != 0 || !strings.Contains(w.out.String(), `"--port=8790"`) {
		t.Errorf("dry run: %d, %q, %s", code, w.out, w.err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the dry run has written the unit")
	}
	code := w.run("service", "install")
	if told := w.err.String(); code != exitFailed || !strings.Contains(told, "the service was written to ~/.config/systemd/user/copilot-bridge.service, and could not be started: `systemctl --user daemon-reload`: ") ||
		!strings.HasSuffix(told, "  → run this in a login session of your own: systemctl --user daemon-reload && systemctl --user enable copilot-bridge.service && systemctl --user restart copilot-bridge.service\n") {
		t.Errorf("install: %d, %s", code, told)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "ghp_") || strings.Contains(string(text), "correct-horse") || !strings.Contains(string(text), w.Dir) {
		t.Errorf("the unit is %s, %v", text, err)
	}
	w.out = &buffer{}
	w.Stdout = w.out
	if code := w.run("service", "status", "--json"); code != 0 || !strings.Contains(w.out.String(), `"installed":true`) || !strings.Contains(w.out.String(), `"running":null`) {
		t.Errorf("status: %d, %q", code, w.out)
	}
	for _, want := range []string{"✓ removed the service ~/.config/systemd/user/copilot-bridge.service\n", "no service is installed; nothing was changed\n"} {
		w.out = &buffer{}
		w.Stdout = w.out
		if code := w.run("service", "uninstall"); code != 0 || w.out.String() != want {
			t.Errorf("uninstall: %d, %q, want %q", code, w.out, want)
		}
	}
}

func TestServiceElsewhere(t *testing.T) {
	w := newWorld(t)
	p, stop := newProgram(w.Env, func(error) {})
	defer stop()
	cfg, err := p.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.serviceOn("darwin", cfg); err != nil || s.file != filepath.Join(w.home, "Library/LaunchAgents", launchdLabel+".plist") {
		t.Errorf("on macOS: %+v, %v", s, err)
	}
	_, err = p.serviceOn("windows", cfg)
	if e := bridge.AsError(err); e == nil || e.Message != "there are services for Linux (systemd) and macOS (launchd) only" || e.Remedy != "have the Task Scheduler start `copilot-bridge serve` when you log on" {
		t.Errorf("on Windows: %v", err)
	}
}

// A pipe in place of another program's settings is told, and not waited for.
func TestMCPImportOfAPipe(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.home, ".claude.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.run("mcp", "import"); code != 2 || w.err.String() != "copilot-bridge: "+file+": is a named pipe, not a file\n  → correct or move that file, and try again\n" {
		t.Errorf("%d, %s", code, w.err)
	}
}
