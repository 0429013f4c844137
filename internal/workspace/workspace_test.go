//go:build unix

package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

// bench is a workspace with a real guard and its record.
type bench struct {
	*workspace.Workspace
	dir, audit string
	opts       workspace.Options
}

// server opens the workspace anew, with one language server.
func (b *bench) server(t *testing.T, s lsp.Server) {
	t.Helper()
	err := b.Close(t.Context())
	b.opts.Servers = map[string]lsp.Server{"own": s}
	var opened error
	b.Workspace, opened = workspace.Open(b.dir, b.opts)
	if err := errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
}

func newBench(t *testing.T, rules string, defaults policy.Defaults) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: filepath.Join(root, "work"), audit: filepath.Join(root, "audit")}
	for name, text := range map[string]string{
		"work/a.txt": "one\ntwo\n", "work/notes.txt": "deploy with " + token + "\n", "work/.env": "KEY=canary\n", "work/src/x.go": "package x\n",
		"outside.txt": "canary\n", "work/Makefile": "hello:\n\t@echo hello there\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "outside.txt"), filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	ws, err := paths.New(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	r := redact.New(redact.Options{})
	log, err := audit.Open(b.audit, audit.Options{Redact: func(v any) any { clean, _ := r.Value(v); return clean }})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.ParseYAML("policy.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	defaults.Root = ws.Root()
	g := guard.New(guard.Options{Workspace: ws, Policy: policy.Combine(defaults, policy.Layer{Rules: parsed, Trusted: true}), Redactor: r,
		Audit: log, Asker: approval.Nobody{}, Door: "test"})
	b.opts = workspace.Options{Guard: g, Journal: filepath.Join(root, "journal"), Env: task.PlainEnviron(os.Environ())}
	b.Workspace, err = workspace.Open(b.dir, b.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for what, err := range map[string]error{"workspace": b.Close(context.Background()), "log": log.Close(), "paths": ws.Close()} {
			if err != nil {
				t.Errorf("closing the %s: %v", what, err)
			}
		}
	})
	return b
}

// last is the newest entry of the record about a tool.
func (b *bench) last(t *testing.T, tool string) audit.Entry {
	t.Helper()
	entries, err := audit.Tail(t.Context(), b.audit, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		if e.Tool == tool {
			return e
		}
	}
	t.Fatalf("%s is not on record", tool)
	return audit.Entry{}
}

const rules = "reads: {deny: ['**/.env']}\nwrites: {deny: ['src/**']}\nshell: {allow: ['builtin:read-only', 'make hello']}\n"

func TestLooking(t *testing.T) {
	b := newBench(t, rules, policy.DefaultsServe())
	if c, err := b.Read(t.Context(), "a.txt", files.ReadOptions{}); err != nil || c.Content != "one\ntwo\n" || c.Redacted != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := b.Read(t.Context(), "notes.txt", files.ReadOptions{}); err != nil || strings.Contains(c.Content, token) || c.Redacted != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, path := range []string{".env", "link", "../outside.txt", "/etc/passwd", "src/../.env"} {
		if c, err := b.Read(t.Context(), path, files.ReadOptions{}); bridge.CodeOf(err) != bridge.CodeDenied {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
		if e := b.last(t, workspace.ToolRead); e.Decision != "deny" || e.Reason == "" {
			t.Errorf("%s: on record is %+v", path, e)
		}
	}
	l, err := b.List(t.Context(), files.ListOptions{Scope: files.Scope{Hidden: true}})
	if err != nil || slices.Contains(l.Files, ".env") || !slices.Contains(l.Files, "a.txt") {
		t.Errorf("%+v, %v", l, err)
	}
	var hits []search.Hit
	take := func(_ string, some []search.Hit) bool { hits = append(hits, some...); return true }
	if _, err := b.Search(t.Context(), search.Options{Query: "canary", Scope: files.Scope{Hidden: true}}, take); err != nil || len(hits) != 0 {
		t.Errorf("%+v, %v", hits, err)
	}
	if _, err := b.Search(t.Context(), search.Options{Query: "deploy"}, take); err != nil || len(hits) != 1 || strings.Contains(hits[0].Snippet, token) {
		t.Errorf("%+v, %v", hits, err)
	}
	if e := b.last(t, workspace.ToolSearch); e.Decision != "allow" || e.Reason != "1 secrets hidden" {
		t.Errorf("on record is %+v", e)
	}
}

const diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"

func TestPatching(t *testing.T) {
	readOnly := newBench(t, rules, policy.DefaultsServe())
	// A dry run only compares, so it is as free as reading.
	if r, err := readOnly.ApplyPatch(t.Context(), diff, workspace.PatchOptions{DryRun: true}); err != nil || !r.OK {
		t.Errorf("read-only, dry: %+v, %v", r, err)
	}
	// What may not be read cannot be found out by trying, either.
	guess := "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-KEY=guess\n+KEY=x\n"
	for _, o := range []workspace.PatchOptions{{}, {DryRun: true}} {
		if r, err := newBench(t, rules, policy.DefaultsRun()).ApplyPatch(t.Context(), guess, o); bridge.CodeOf(err) != bridge.CodeDenied {
			t.Errorf("guessing: %+v, %v", r, err)
		}
	}
	// Nor does the sum of a file reveal its content.
	for _, name := range []string{".env", "./.env", "src/../.env", "../outside.txt", "link"} {
		for _, dry := range []bool{true, false} {
			o := workspace.PatchOptions{DryRun: dry, Verify: map[string]string{name: strings.Repeat("0", 64)}}
			if r, err := newBench(t, rules, policy.DefaultsRun()).ApplyPatch(t.Context(), diff, o); err == nil {
				t.Errorf("verifying %s: %+v", name, r)
			}
		}
	}
	other := workspace.PatchOptions{Verify: map[string]string{"src/x.go": strings.Repeat("0", 64)}}
	if r, err := newBench(t, rules, policy.DefaultsRun()).ApplyPatch(t.Context(), diff, other); err != nil || len(r.Conflicts) != 1 {
		t.Errorf("verifying a file that may be read but not written: %+v, %v", r, err)
	}
	if _, err := readOnly.ApplyPatch(t.Context(), diff, workspace.PatchOptions{}); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Errorf("read-only: %v", err)
	}
	b := newBench(t, rules, policy.DefaultsRun())
	dry, err := b.ApplyPatch(t.Context(), diff, workspace.PatchOptions{DryRun: true})
	if err != nil || !dry.OK || readText(t, b.dir, "a.txt") != "one\ntwo\n" {
		t.Errorf("%+v, %v", dry, err)
	}
	if r, err := b.ApplyPatch(t.Context(), diff, workspace.PatchOptions{}); err != nil || !r.OK || readText(t, b.dir, "a.txt") != "one\nthree\n" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.ApplyPatch(t.Context(), diff, workspace.PatchOptions{}); err != nil || r.OK || len(r.Conflicts) != 1 {
		t.Errorf("a second time: %+v, %v", r, err)
	}
	for name, d := range map[string]string{
		"denied":  "--- a/src/x.go\n+++ b/src/x.go\n@@ -1 +1 @@\n-package x\n+package y\n",
		"both":    diff + "--- /dev/null\n+++ b/src/new.go\n@@ -0,0 +1 @@\n+package x\n",
		"policy":  "--- /dev/null\n+++ b/.agent-policy.yaml\n@@ -0,0 +1 @@\n+readOnly: false\n",
		"a link":  "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../outside.txt\n\\ No newline at end of file\n",
		"outside": "--- a/../outside.txt\n+++ b/../outside.txt\n@@ -1 +1 @@\n-canary\n+x\n",
		"a way":   "--- a/link\n+++ b/link\n@@ -1 +1 @@\n-canary\n+x\n",
	} {
		if r, err := b.ApplyPatch(t.Context(), d, workspace.PatchOptions{}); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := readText(t, b.dir, "../outside.txt"); got != "canary\n" {
		t.Errorf("outside is %q", got)
	}
}

func TestRunning(t *testing.T) {
	b := newBench(t, rules, policy.DefaultsRun())
	var out strings.Builder
	r, err := b.RunTask(t.Context(), "make:hello", workspace.RunOptions{OnOutput: func(_, text string) { out.WriteString(text) }})
	if err != nil || r.ExitCode != 0 || strings.TrimSpace(r.Stdout) != "hello there" || out.String() != r.Stdout {
		t.Errorf("%+v, %v, streamed %q", r, err, out.String())
	}
	if r, err := b.Shell(t.Context(), "cat notes.txt", workspace.RunOptions{}); err != nil || strings.Contains(r.Stdout, token) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []string{"touch pwned", "make hello; touch pwned", "cat ../outside.txt", "make other"} {
		if r, err := b.Shell(t.Context(), c, workspace.RunOptions{}); bridge.CodeOf(err) != bridge.CodeDenied {
			t.Errorf("%s: %+v, %v", c, r, err)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "pwned")); err == nil {
		t.Error("it ran")
	}
}

// The whole command is judged and recorded: its variables, its
// directory and the program.
func TestTheRecordHasTheWholeCommand(t *testing.T) {
	b := newBench(t, "shell: {allow: ['A=1 ls', 'B=2 ls']}", policy.DefaultsRun())
	if err := os.Mkdir(filepath.Join(b.dir, ".vscode"), 0o700); err != nil {
		t.Fatal(err)
	}
	tasks := `{"version":"2.0.0","tasks":[{"label":"a","type":"process","command":"ls","options":{"cwd":"src","env":{"A":"1"}}},
		{"label":"b","type":"process","command":"ls","options":{"env":{"A":"1","B":"2"}}}]}`
	if err := os.WriteFile(filepath.Join(b.dir, ".vscode", "tasks.json"), []byte(tasks), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		code bridge.Code
		line string
	}{"a": {"", "cd " + filepath.Join(b.dir, "src") + " && A=1 ls"}, "b": {bridge.CodeDenied, "A=1 B=2 ls"}} {
		r, err := b.RunTask(t.Context(), "vscode:"+name, workspace.RunOptions{})
		if bridge.CodeOf(err) != want.code || err == nil && r.Stdout != "x.go\n" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		entries, err := audit.Tail(t.Context(), b.audit, 20)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(entries, func(e audit.Entry) bool {
			text, _ := e.Input.(json.RawMessage)
			var args struct{ Command, Program string }
			return e.Tool == workspace.ToolTask && json.Unmarshal(text, &args) == nil && args.Command == want.line && filepath.IsAbs(args.Program)
		})
		if i < 0 {
			t.Errorf("%s is not on record: %+v", name, entries)
		}
	}
}

// A language server that may run code of the project is a matter for the
// guard, for every caller that asks for symbols.
func TestServersThatRunCode(t *testing.T) {
	for _, tt := range []struct {
		rules    string
		defaults policy.Defaults
		denied   bool
	}{
		{"", policy.DefaultsServe(), true}, // may write
		{"", policy.DefaultsRun(), true},   // asks, and nobody is there
		{"shell: {allow: ['tee -i']}", policy.DefaultsRun(), false},
		{"shell: {allow: ['tee -i'], deny: [tee]}", policy.DefaultsRun(), true},
	} {
		b := newBench(t, tt.rules, tt.defaults)
		b.server(t, lsp.Server{Command: []string{"tee", "-i"}, Extensions: []string{".txt"}})
		_, err := b.Symbols(t.Context(), "a.txt")
		if e := b.last(t, workspace.ToolServer); (bridge.CodeOf(err) == bridge.CodeDenied) != tt.denied || err == nil || (e.Decision == "deny") != tt.denied {
			t.Errorf("%q: %v, on record %+v", tt.rules, err, e)
		}
	}
}

func readText(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The stage of a running patch is not shown.
func TestTemporariesAreNotShown(t *testing.T) {
	b := newBench(t, rules, policy.DefaultsServe())
	for _, name := range []string{".copilot-bridge-patch-abc/o1", "sub/.copilot-bridge-patch-abc-2", "sub/.mine"} {
		at := filepath.Join(b.Dir(), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("temporarily\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := b.List(t.Context(), files.ListOptions{Scope: files.Scope{Hidden: true, Glob: []string{"**/.*", "**/.*/**"}}})
	if err != nil || !slices.Contains(l.Files, "sub/.mine") || strings.Contains(strings.Join(l.Files, " "), ".copilot-bridge-") {
		t.Errorf("%q, %v", l.Files, err)
	}
	var found []string
	take := func(file string, _ []search.Hit) bool { found = append(found, file); return true }
	if _, err := b.Search(t.Context(), search.Options{Query: "temporarily", Scope: files.Scope{Hidden: true}}, take); err != nil || !slices.Equal(found, []string{"sub/.mine"}) {
		t.Errorf("%q, %v", found, err)
	}
}
