package language

import (
	"context"
	"errors"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

func TestServerTroubles(t *testing.T) {
	tests := []struct {
		behaviour string
		change    func(*Options, *Server)
		want      bridge.Code
		says      string
	}{
		{"exits", nil, bridge.CodeUnavailable, "cannot find my configuration"},
		{"garbage", nil, bridge.CodeUnavailable, "no language server's"},
		{"huge", nil, bridge.CodeUnavailable, "over the limit"},
		{"mute", func(o *Options, _ *Server) { o.StartTimeout = 200 * time.Millisecond }, bridge.CodeUnavailable, "no answer within"},
		{"silent", func(o *Options, _ *Server) { o.RequestTimeout = 200 * time.Millisecond }, bridge.CodeTimeout, "no answer within"},
		{"deaf", func(o *Options, _ *Server) { o.RequestTimeout = 200 * time.Millisecond }, bridge.CodeTimeout, "no answer within"},
		{"dies", nil, bridge.CodeCrashed, "panic: something broke"},
		{"truncates", nil, bridge.CodeCrashed, "11 of 500 bytes"},
		{"no JSON", nil, bridge.CodeCrashed, "no JSON-RPC"},
		{"refuses", nil, bridge.CodeInvalid, "cannot parse this"},
		{"wrong", nil, bridge.CodeInternal, "documentSymbol"},
		{"units utf-7", nil, bridge.CodeUnavailable, "utf-7"},
		{"any", func(_ *Options, s *Server) { s.Command = []string{"no-such-server"} }, bridge.CodeUnsupported, "no-such-server"},
		{"any", func(_ *Options, s *Server) { s.Command = nil }, bridge.CodeUnsupported, "no language server is configured"},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			m, _ := fake(t, tt.behaviour, tt.change)
			if tt.behaviour == "deaf" { // more than a pipe holds
				write(t, m.dir, "a.fake", strings.Repeat("x", 1<<20))
			}
			_, err := m.Symbols(t.Context(), "a.fake")
			if bridge.CodeOf(err) != tt.want || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %s: %v", bridge.CodeOf(err), err)
			}
			if tt.want == bridge.CodeUnsupported && bridge.AsError(err).Remedy == "" {
				t.Error("no remedy")
			}
		})
	}
}

func TestRecovers(t *testing.T) {
	for behaviour, want := range map[string]string{"dies once": "after", "noise": "line one\nline two\n", "modified": "finally"} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			m, _ := fake(t, behaviour, nil)
			for range 2 {
				got, err := m.Symbols(t.Context(), "a.fake")
				if err != nil || len(got) != 1 || got[0].Name != want {
					t.Fatalf("got %+v, %v", got, err)
				}
			}
		})
	}
}

func TestHungServerIsReplaced(t *testing.T) {
	m, state := fake(t, "silent", func(o *Options, _ *Server) { o.RequestTimeout = 100 * time.Millisecond })
	for range 2 {
		if _, err := m.Symbols(t.Context(), "a.fake"); bridge.CodeOf(err) != bridge.CodeTimeout {
			t.Fatal(err)
		}
	}
	if lives := recorded(t, state, "lives"); lives != "2" {
		t.Errorf("%s lives", lives)
	}
}

func TestBackOffIsBounded(t *testing.T) {
	m, state := fake(t, "exits", nil)
	var last error
	for range 12 {
		if _, last = m.Symbols(t.Context(), "a.fake"); bridge.AsError(last).RetryAfter > 0 {
			break
		}
	}
	e := bridge.AsError(last)
	if e.Code != bridge.CodeUnavailable || e.RetryAfter < time.Second || e.RetryAfter > mostDelay || !strings.Contains(e.Message, "in a row") {
		t.Errorf("got %+v", e)
	}
	lives := recorded(t, state, "lives")
	if _, err := m.Symbols(t.Context(), "a.fake"); bridge.AsError(err).RetryAfter == 0 || recorded(t, state, "lives") != lives {
		t.Errorf("it was started again at once: %v", err)
	}
}

func TestSharedByConcurrentCallers(t *testing.T) {
	m, state := fake(t, "any", nil)
	write(t, m.dir, "b.fake", "other")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			path, want := "a.fake", "line one\nline two\n"
			if i%2 == 0 {
				path, want = "b.fake", "other"
			}
			got, err := m.Symbols(t.Context(), path)
			if err != nil || got[0].Name != want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if lives := recorded(t, state, "lives"); lives != "1" {
		t.Errorf("%s servers", lives)
	}
	// On one document the server is never told of two texts at once.
	open := 0
	for line := range strings.Lines(recorded(t, state, "log")) {
		switch line {
		case "open\n":
			open++
		case "close\n":
			open--
		}
		if open > 2 {
			t.Fatal("a document was opened twice")
		}
	}
	stats := m.Stats()
	if len(stats) != 1 || stats[0].Requests != 20 || stats[0].Starts != 1 || !stats[0].Running || stats[0].Active != 0 || stats[0].PID == 0 {
		t.Errorf("stats %+v", stats)
	}
}

func TestAnswersToTheServer(t *testing.T) {
	m, _ := fake(t, "asks", func(_ *Options, s *Server) {
		s.Settings = map[string]any{"a": map[string]any{"b": 1}, "c": "d"}
	})
	var names []string
	eventually(t, "all are answered", func() bool {
		got, err := m.Symbols(t.Context(), "a.fake")
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, s := range got {
			names = append(names, s.Name)
		}
		return len(names) >= 8
	})
	all := strings.Join(names, "\n")
	for _, want := range []string{`[1,null,"d"]`, `"applied":false`, fileURI(m.dir), "error -32601"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in\n%s", want, all)
		}
	}
	if len(names) != 8 || strings.Count(all, "null") != 1+4 {
		t.Errorf("%d answers: %q", len(names), names)
	}
}

func TestChangesAreTold(t *testing.T) {
	m, state := fake(t, "asks", nil)
	if _, err := m.Symbols(t.Context(), "a.fake"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has registered", func() bool { return m.slots["fake"].live.hasRegistered("workspace/didChangeWatchedFiles") })
	write(t, m.dir, "sub/new.fake", "x")
	write(t, m.dir, "sub/new.other", "x")
	write(t, m.dir, ".git/x.fake", "x")
	write(t, m.dir, "a.fake", "changed")
	m.Changed()
	if _, err := m.Symbols(t.Context(), "a.fake"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(m.dir, "a.fake")); err != nil {
		t.Fatal(err)
	}
	m.Changed()
	if _, err := m.Symbols(t.Context(), "sub/new.fake"); err != nil {
		t.Fatal(err)
	}
	log := recorded(t, state, "log")
	for _, want := range []string{`new.fake","type":1`, `a.fake","type":2`, `a.fake","type":3`} {
		if strings.Count(log, want) != 1 {
			t.Errorf("%s: not once in\n%s", want, log)
		}
	}
	if strings.Contains(log, "new.other") || strings.Contains(log, ".git") {
		t.Errorf("told too much:\n%s", log)
	}
}

func TestCancel(t *testing.T) {
	m, state := fake(t, "silent", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := m.Symbols(ctx, "a.fake")
		done <- err
	}()
	eventually(t, "the document is open", func() bool { return strings.Contains(recorded(t, state, "log"), "open") })
	cancel()
	if err := <-done; bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Errorf("got %v", err)
	}
	eventually(t, "the server knows", func() bool {
		log := recorded(t, state, "log")
		return strings.Contains(log, "cancel 2") && strings.HasSuffix(log, "close\n")
	})
	if lives := recorded(t, state, "lives"); lives != "1" || !m.Stats()[0].Running {
		t.Error("cancelling ended the server")
	}
}

func TestWaitForStartCanBeGivenUp(t *testing.T) {
	m, _ := fake(t, "mute", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Symbols(ctx, "a.fake"); bridge.CodeOf(err) != bridge.CodeTimeout {
		t.Errorf("got %v", err)
	}
}

func TestCloseUnderway(t *testing.T) {
	for _, behaviour := range []string{"mute", "silent"} {
		t.Run(behaviour, func(t *testing.T) {
			m, state := fake(t, behaviour, nil)
			done := make(chan error, 1)
			go func() {
				_, err := m.Symbols(t.Context(), "a.fake")
				done <- err
			}()
			eventually(t, "it lives", func() bool { return recorded(t, state, "pid") != "" })
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-done; bridge.CodeOf(err) != bridge.CodeUnavailable || !strings.Contains(err.Error(), "shut down") {
				t.Errorf("got %v", err)
			}
			if _, err := m.Symbols(t.Context(), "a.fake"); bridge.CodeOf(err) != bridge.CodeUnavailable {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

func TestFlatAndBigSymbols(t *testing.T) {
	m, _ := fake(t, "flat", nil)
	got, err := m.Symbols(t.Context(), "a.fake")
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if got[0].Name != "a" || got[0].Kind != "class" || got[1].Kind != "unknown" || got[1].Container != "x" ||
		got[1].Range != (Range{2, 6, 2, 9}) || got[1].Selection != got[1].Range {
		t.Errorf("got %+v", got)
	}
	m, _ = fake(t, "big", nil)
	if got, err := m.Symbols(t.Context(), "a.fake"); err != nil || len(got) != 60_000 {
		t.Errorf("%d symbols, %v", len(got), err)
	}
}

// rewriter is Format, Organize or Tidy.
type rewriter func(*Manager, context.Context, string, string) (string, bool, error)

func TestRewrite(t *testing.T) {
	upper := func(behaviour string, more ...string) func(*Options, *Server) {
		return func(_ *Options, s *Server) {
			s.Formatter = append([]string{s.Command[0], "fake-formatter", behaviour}, more...)
		}
	}
	none := func(o *Options, s *Server) {
		upper("upper")(o, s)
		s.Command = []string{"no-such-server"}
	}
	first := func(o *Options, s *Server) {
		upper("upper")(o, s)
		s.FormatterFirst = true
	}
	tests := []struct {
		name, behaviour string
		change          func(*Options, *Server)
		do              rewriter
		before, after   string
		code            bridge.Code
	}{
		{"format", "any", nil, (*Manager).Format, "a😀ä b\nc", "a😀ä b formatted\nc", ""},
		{"format in UTF-8", "units utf-8", nil, (*Manager).Format, "a😀ä b\nc", "a😀ä b formatted\nc", ""},
		{"format in UTF-16", "units utf-16", nil, (*Manager).Format, "a😀ä b\nc", "a😀ä b formatted\nc", ""},
		{"format in UTF-32", "units utf-32", nil, (*Manager).Format, "a😀ä b\nc", "a😀ä b formatted\nc", ""},
		{"format keeps a byte order mark", "any", nil, (*Manager).Format, "\uFEFFa", "\uFEFFa formatted", ""},
		{"format keeps CRLF", "any", nil, (*Manager).Format, "a\r\nb\r\n", "a formatted\r\nb\r\n", ""},
		{"overlapping edits", "overlap", nil, (*Manager).Format, "abcdef", "", bridge.CodeInternal},
		{"organise", "any", nil, (*Manager).Organize, "x", "organized x", ""},
		{"organise, resolved", "resolves", nil, (*Manager).Organize, "x", "resolved x", ""},
		{"organise by command", "commands", nil, (*Manager).Organize, "x", "commanded x", ""},
		{"organise by bare command", "bare command", nil, (*Manager).Organize, "x", "commanded x", ""},
		{"organise elsewhere", "elsewhere", nil, (*Manager).Organize, "x", "", bridge.CodeUnsupported},
		{"organise, nothing fits", "other kinds", nil, (*Manager).Organize, "x", "x", ""},
		{"tidy", "any", nil, (*Manager).Tidy, "x", "organized x formatted", ""},
		{"tidy, formatter", "formats not", upper("upper"), (*Manager).Tidy, "x", "ORGANIZED X", ""},
		{"tidy, formatter first", "any", first, (*Manager).Tidy, "x", "ORGANIZED X", ""},
		{"formatter, server cannot", "formats not", upper("upper"), (*Manager).Format, "x", "X", ""},
		{"formatter, no server", "any", none, (*Manager).Format, "x", "X", ""},
		{"formatter, server broken", "exits", upper("upper"), (*Manager).Format, "x", "X", ""},
		{"formatter first", "any", first, (*Manager).Format, "x", "X", ""},
		{"formatter not needed", "any", upper("upper"), (*Manager).Format, "x", "x formatted", ""},
		{"formatter gets the name", "formats not", upper("file", "{file}"), (*Manager).Format, "x", "a.fake: x", ""},
		{"formatter fails", "formats not", upper("fails"), (*Manager).Format, "x", "", bridge.CodeInvalid},
		{"formatter empties", "formats not", upper("empty"), (*Manager).Format, "x", "", bridge.CodeInternal},
		{"nobody formats", "formats not", nil, (*Manager).Format, "x", "", bridge.CodeUnsupported},
		{"not UTF-8", "any", nil, (*Manager).Format, "\xff", "", bridge.CodeInvalid},
		{"too long", "any", nil, (*Manager).Format, strings.Repeat("x", maxContent+1), "", bridge.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, _ := fake(t, tt.behaviour, tt.change)
			got, changed, err := tt.do(m, t.Context(), "a.fake", tt.before)
			if bridge.CodeOf(err) != tt.code || got != tt.after || (err == nil && changed != (tt.before != tt.after)) {
				t.Errorf("got %q, %v, %v", got, changed, err)
			}
		})
	}
}

func TestTidyChangesTheOpenDocument(t *testing.T) {
	m, state := fake(t, "any", nil)
	if _, _, err := m.Tidy(t.Context(), "not/there.fake", "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is closed", func() bool { return recorded(t, state, "log") == "open\nchange v2\nclose\n" })
}

func TestPaths(t *testing.T) {
	m, _ := fake(t, "any", nil)
	outside := filepath.Join(t.TempDir(), "secret.fake")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(m.dir, "link.fake")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(m.dir, "dir.fake"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bridge.Code{
		"../a.fake": bridge.CodeInvalid, "/etc/a.fake": bridge.CodeInvalid, "": bridge.CodeInvalid, ".": bridge.CodeInvalid, "a\x00.fake": bridge.CodeInvalid,
		"x/../a.fake": bridge.CodeInvalid, "link.fake": bridge.CodeInvalid, "dir.fake": bridge.CodeInvalid,
		"none.fake": bridge.CodeNotFound, "a.unknown": bridge.CodeUnsupported,
	} {
		if _, err := m.Symbols(t.Context(), path); bridge.CodeOf(err) != want {
			t.Errorf("Symbols(%q): %v", path, err)
		}
	}
	for _, path := range []string{"../a.fake", "/a.fake"} {
		if _, _, err := m.Format(t.Context(), path, "x"); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("Format(%q): %v", path, err)
		}
	}
}

func TestTable(t *testing.T) {
	table := newTable(map[string]Server{
		"go":     {Formatter: []string{"goimports"}},
		"deno":   {Command: []string{"deno", "lsp"}, Extensions: []string{".deno.ts"}, LanguageID: "typescript"},
		"docker": {Command: []string{"x"}, Extensions: []string{"Dockerfile"}},
	})
	for path, want := range map[string]string{
		"a/b.go": "go go", "b.ts": "typescript typescript", "b.TSX": "typescript typescriptreact", "b.d.ts": "typescript typescript",
		"b.mjs": "typescript javascript", "b.deno.ts": "deno typescript", "x/Dockerfile": "docker docker", "b.scss": "css scss",
		"b.h": "c c", "b.hpp": "cpp cpp", ".go": "go go", "go": "", "b.xyz": "", "b": "",
	} {
		language, id, ok := table.find(path)
		if got := strings.TrimSpace(language + " " + id); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if s := table.servers["go"]; s.Command[0] != "gopls" || s.Formatter[0] != "goimports" {
		t.Errorf("merged: %+v", s)
	}
	for name, s := range builtin() {
		if len(s.Command) == 0 || len(s.Extensions) == 0 || s.Install == "" {
			t.Errorf("%s is not complete", name)
		}
	}
}

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

func recorded(t *testing.T, state, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(state, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute) // for a busy machine
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
