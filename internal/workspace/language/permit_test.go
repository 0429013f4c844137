package language

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

func TestProgramsOfTheWorkspaceAreNotTaken(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bin/gopls", "#!/bin/sh\n")
	write(t, dir, "bin/gofmt", "#!/bin/sh\n")
	look := func(name string) (string, error) {
		if name == "gopls" || name == "gofmt" || filepath.IsAbs(name) {
			return filepath.Join(dir, "bin", filepath.Base(name)), nil
		}
		return "", errors.New("no")
	}
	m := New(dir, Options{LookPath: look})
	if info, ok := m.Describe("a.go"); !ok || info.Language != "go" || info.Command != nil || info.Formatter != nil {
		t.Errorf("got %+v", info)
	}
	if _, _, err := m.Format(t.Context(), "a.go", "package a\n"); bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(bridge.AsError(err).Remedy, "go install") {
		t.Errorf("got %v", err)
	}
	m = New(dir, Options{LookPath: look, Servers: map[string]Server{"go": {Command: []string{"gopls"}}}})
	if info, _ := m.Describe("a.go"); len(info.Command) != 1 {
		t.Errorf("configured: %+v", info)
	}
	if info, _ := m.Describe("a.rs"); !info.RunsCode {
		t.Errorf("rust: %+v", info)
	}
}

// A server that may run code of the project is asked about before it starts,
// once for as long as it runs.
func TestPermit(t *testing.T) {
	asked, allow := 0, false
	m, _ := fake(t, "normal", func(o *Options, s *Server) {
		s.RunsCode = true
		o.Permit = func(_ context.Context, i Info) error {
			if asked++; i.Language != "fake" || len(i.Command) < 2 || !i.RunsCode {
				t.Errorf("asked about %+v", i)
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

// Without the server a formatter that runs nothing of the project will do.
func TestFormatterWhereTheServerMayNotStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, _ := fake(t, "normal", func(o *Options, s *Server) {
		s.RunsCode, s.Formatter = true, []string{self, "fake-formatter", "upper"}
		o.Permit = func(context.Context, Info) error { return &bridge.Error{Code: bridge.CodeDenied, Message: "no"} }
	})
	if got, _, err := m.Format(t.Context(), "a.fake", "x\n"); err != nil || got != "X\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTypeScriptNeedsItsOwnLibrary(t *testing.T) {
	dir, apart := t.TempDir(), t.TempDir()
	write(t, dir, "node_modules/typescript/lib/tsserver.js", "evil")
	write(t, apart, "typescript-language-server", "#!/bin/sh\n")
	m := New(dir, Options{LookPath: func(name string) (string, error) {
		if name == "typescript-language-server" {
			return filepath.Join(apart, name), nil
		}
		return "", errors.New("no")
	}})
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
