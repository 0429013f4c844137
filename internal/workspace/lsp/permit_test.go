package lsp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// executables puts programs into a directory.
func executables(t *testing.T, dir string, names ...string) string {
	t.Helper()
	for _, name := range names {
		write(t, dir, name, "#!/bin/sh\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func startOf(t *testing.T, m *Manager, path string) (server, formatter Start) {
	t.Helper()
	to, err := m.target(path)
	if err != nil {
		t.Fatal(err)
	}
	server, _ = m.startOf(to.language, to.server)
	formatter, _ = m.formatter(to)
	return server, formatter
}

func TestProgramsOfTheWorkspaceAreNotTaken(t *testing.T) {
	dir := t.TempDir()
	bin := executables(t, filepath.Join(dir, "bin"), "gopls", "gofmt")
	env := []string{"PATH=" + bin}
	m := New(dir, Options{Env: env})
	if server, formatter := startOf(t, m, "a.go"); server.Program.Path != "" || formatter.Program.Path != "" {
		t.Errorf("got %+v, %+v", server, formatter)
	}
	if _, _, err := m.Format(t.Context(), "a.go", "package a\n"); bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(bridge.AsError(err).Remedy, "go install") {
		t.Errorf("got %v", err)
	}
	// A server named by its path is used, but is not known as harmless.
	m = New(dir, Options{Env: env, Servers: map[string]Server{"go": {Command: []string{filepath.Join(bin, "gopls")}}}})
	if server, _ := startOf(t, m, "a.go"); server.Program.Path == "" || server.Harmless || !strings.Contains(server.Program.Line(), bin) {
		t.Errorf("configured: %+v", server)
	}
}

// Only a server with a known name and known arguments needs no consent, and only
// as long as nothing but the user decides which program it is.
func TestHarmless(t *testing.T) {
	dir, apart := t.TempDir(), t.TempDir()
	bin := executables(t, filepath.Join(apart, "bin"), "gopls", "gofmt", "rustfmt", "rust-analyzer", "ruff", "pylsp", "taplo", "prettier", "mise", "gone")
	shims := executables(t, filepath.Join(apart, "shims"), "stylua", "go")
	if err := os.Symlink(filepath.Join(bin, "mise"), filepath.Join(bin, "shfmt")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file              string
		own               map[string]Server
		server, formatter bool
	}{
		"gopls and gofmt":        {"a.go", nil, true, true},
		"rust":                   {"a.rs", nil, false, true},
		"pylsp":                  {"a.py", nil, false, true},
		"a server that fetches":  {"a.toml", nil, false, true},
		"behind a shim":          {"a.lua", nil, false, false},
		"a link to a manager":    {"a.sh", nil, false, false},
		"other arguments":        {"a.go", map[string]Server{"go": {Command: []string{"gopls", "-rpc.trace"}, Formatter: []string{"gofmt", "-r", "a->b"}}}, false, false},
		"own settings":           {"a.go", map[string]Server{"go": {Settings: map[string]any{"gopls": 1}}}, true, true},
		"other options":          {"a.go", map[string]Server{"go": {InitializationOptions: map[string]any{"x": 1}}}, false, true},
		"by its path":            {"a.go", map[string]Server{"go": {Command: []string{filepath.Join(bin, "gopls")}}}, true, true},
		"another's name":         {"a.go", map[string]Server{"go": {Command: []string{"gone"}, Formatter: []string{"prettier", "--stdin-filepath", "{file}"}}}, false, false},
		"said to run code":       {"a.go", map[string]Server{"go": {RunsCode: true}}, false, true},
		"known by its own table": {"a.x", map[string]Server{"x": {Command: []string{"gopls"}, Formatter: []string{"gofmt"}, Extensions: []string{".x"}}}, false, false},
	} {
		m := New(dir, Options{Env: []string{"PATH=" + bin + string(filepath.ListSeparator) + shims, "HOME=" + apart}, Servers: tt.own})
		server, formatter := startOf(t, m, tt.file)
		if server.Harmless != tt.server || formatter.Harmless != tt.formatter || formatter.Program.Path == "" {
			t.Errorf("%s: server %t (%s), formatter %t (%s)", name, server.Harmless, server.Program.Path, formatter.Harmless, formatter.Program.Path)
		}
	}
}

// Files of the workspace choose neither toolchains nor downloads.
func TestPinned(t *testing.T) {
	home := t.TempDir()
	write(t, home, ".rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"nightly-x\"\n")
	m := New(t.TempDir(), Options{Env: []string{"PATH=" + executables(t, filepath.Join(home, "bin"), "rustfmt", "gopls"), "HOME=" + home,
		"GOFLAGS=-tags=x", "GOPROXY=https://proxy.example", "GOPRIVATE=*", "NODE_OPTIONS=--require=./x.js"}})
	_, rustfmt := startOf(t, m, "a.rs")
	gopls, _ := startOf(t, m, "a.go")
	for name, want := range map[string]string{"RUSTUP_TOOLCHAIN": "nightly-x", "GOPROXY": "off", "GONOPROXY": "none", "GOTOOLCHAIN": "local", "GOFLAGS": "-tags=x -buildvcs=false", "NODE_OPTIONS": ""} {
		for _, start := range []Start{rustfmt, gopls} {
			if got := program.Variable(start.Program.Env, name); got != want {
				t.Errorf("%s: %s is %q", start.Program.Path, name, got)
			}
		}
	}
}

// Whatever is started is asked about before, a server once for as long as it
// runs.
func TestPermit(t *testing.T) {
	asked, allow := 0, false
	m, _ := fake(t, "normal", func(o *Options, _ *Server) {
		o.Permit = func(_ context.Context, s Start) error {
			if asked++; s.Language != "fake" || s.Formatter || len(s.Program.Args) < 2 || s.Harmless {
				t.Errorf("asked about %+v", s)
			}
			if !allow {
				return &bridge.Error{Code: bridge.CodeDenied, Message: "no"}
			}
			return nil
		}
	})
	if _, err := m.Symbols(t.Context(), "a.fake"); bridge.CodeOf(err) != bridge.CodeDenied || asked != 1 || len(m.Stats()) > 0 && m.Stats()[0].Starts > 0 {
		t.Errorf("%v, asked %d times, %+v", err, asked, m.Stats())
	}
	allow = true
	for range 3 {
		if _, err := m.Symbols(t.Context(), "a.fake"); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// Where the server may not start a formatter will do, if that may.
func TestFormatterWhereTheServerMayNotStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	formatters := false
	m, _ := fake(t, "normal", func(o *Options, s *Server) {
		s.Formatter = []string{self, "fake-formatter", "upper"}
		o.Permit = func(_ context.Context, s Start) error {
			if s.Formatter && formatters {
				return nil
			}
			return &bridge.Error{Code: bridge.CodeDenied, Message: "no"}
		}
	})
	if got, _, err := m.Format(t.Context(), "a.fake", "x\n"); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Errorf("%q, %v", got, err)
	}
	formatters = true
	if got, _, err := m.Format(t.Context(), "a.fake", "x\n"); err != nil || got != "X\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTypeScriptNeedsItsOwnLibrary(t *testing.T) {
	dir, apart := t.TempDir(), t.TempDir()
	write(t, dir, "node_modules/typescript/lib/tsserver.js", "evil")
	executables(t, filepath.Join(dir, "bin"), "tsserver", "tsc")
	m := New(dir, Options{Env: []string{"PATH=" + executables(t, apart, "typescript-language-server") + string(filepath.ListSeparator) + filepath.Join(dir, "bin")}})
	_, _, err := m.Organize(t.Context(), "a.ts", "x")
	if bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(bridge.AsError(err).Remedy, "typescript@5") {
		t.Errorf("got %v", err)
	}
}

func TestSecretsAreNotPassedOn(t *testing.T) {
	got := strings.Join(task.PlainEnviron([]string{
		"PATH=x", "GITHUB_TOKEN=1", "MY_API_KEY=2", "COPILOT_X=3", "db_password=4", "HOME=y", "AWS_SECRET_ACCESS_KEY=5", "OPENCLAW_Z=6", "GOFLAGS=z",
	}), " ")
	if got != "PATH=x HOME=y GOFLAGS=z" {
		t.Errorf("got %s", got)
	}
}
