package lsp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestServerTroubles(t *testing.T) {
	tests := []struct {
		behaviour string
		change    func(*Options, *Server)
		want      bridge.Code
		says      string
	}{
		{"exits", nil, bridge.CodeUnavailable, "cannot find my configuration"},
		{"garbage", nil, bridge.CodeUnavailable, "not that of a JSON-RPC peer"},
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

// A server that was permitted under other rules is replaced, and put to Permit
// again.
func TestRulesChange(t *testing.T) {
	var rules atomic.Value
	rules.Store("one")
	var asked atomic.Int32
	m, _ := fake(t, "any", func(o *Options, _ *Server) {
		o.Rules = func() string { s, _ := rules.Load().(string); return s }
		o.Permit = func(context.Context, Start) error {
			if asked.Add(1) == 3 {
				return &bridge.Error{Code: bridge.CodeDenied, Message: "not any more"}
			}
			return nil
		}
	})
	for i, step := range []struct {
		rules         string
		asked, starts int
		want          bridge.Code
	}{{"one", 1, 1, ""}, {"one", 1, 1, ""}, {"two", 2, 2, ""}, {"three", 3, 2, bridge.CodeDenied}, {"three", 4, 3, ""}} {
		rules.Store(step.rules)
		_, err := m.Symbols(t.Context(), "a.fake")
		if err != nil && bridge.CodeOf(err) != step.want || err == nil && step.want != "" {
			t.Fatalf("%d: %v", i, err)
		}
		if got := m.Stats()[0]; int(asked.Load()) != step.asked || got.Starts != step.starts || got.Running != (step.want == "") {
			t.Errorf("%d: asked %d times, %+v", i, asked.Load(), got)
		}
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
	t.Parallel()
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
	t.Parallel()
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
