package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/editortest"
)

type object = map[string]any

func TestWindowShowsUnsavedDocuments(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "needle on disk\n", "b/c.txt": "needle here\nand more\n", "d.txt": "needle there\n", ".gitignore": "out/\n", "out/o.txt": "x\n", ".hidden": "x\n"})
	w := startWindow(t, models(), []string{dir})
	w.Type(filepath.Join(dir, "a.txt"), "nothing\nof that kind\n")
	w.Type(filepath.Join(dir, "b/c.txt"), "first\na Needle typed\nlast\n")
	w.Type(filepath.Join(dir, "out/o.txt"), "needle ignored\n")
	w.Type(filepath.Join(dir, ".hidden"), "needle hidden\n")
	w.Type(filepath.Join(filepath.Dir(dir), "elsewhere.txt"), "needle outside\n")
	type content struct {
		Content, SHA256 string
		Unsaved         bool
		TotalLines      int
	}
	if c := result[content](w, "mcp.fs.read", object{"path": "b/c.txt"}); c.Content != "first\na Needle typed\nlast\n" || !c.Unsaved || c.TotalLines != 3 || c.SHA256 != sha("first\na Needle typed\nlast\n") {
		t.Errorf("read %+v", c)
	}
	if c := result[content](w, "mcp.fs.read", object{"path": "b/./c.txt", "offset": 2, "limit": 1}); c.Content != "a Needle typed\n" || !c.Unsaved {
		t.Errorf("read %+v", c)
	}
	if c := result[content](w, "mcp.fs.read", object{"path": "d.txt"}); c.Content != "needle there\n" || c.Unsaved {
		t.Errorf("read %+v", c)
	}
	type hits struct {
		Hits []struct {
			File, Snippet string
			Line, Column  int
			Before, After []string
		}
		Truncated bool
	}
	h := result[hits](w, "mcp.search.code", object{"query": "needle", "context": 1})
	if len(h.Hits) != 2 || h.Hits[0].File != "b/c.txt" || h.Hits[0].Line != 2 || h.Hits[0].Column != 3 || h.Hits[0].Before[0] != "first" || h.Hits[0].After[0] != "last" || h.Hits[1].File != "d.txt" {
		t.Errorf("found %+v", h)
	}
	for query, want := range map[string]int{`{"query":"needle","caseSensitive":true}`: 1, `{"query":"needle","hidden":true}`: 3, `{"query":"needle","glob":"*.md"}`: 0,
		`{"query":"needle","glob":"b/**"}`: 1, `{"query":"n[e]+dle","regex":true,"word":true}`: 2} {
		if h := result[hits](w, "mcp.search.code", json.RawMessage(query)); len(h.Hits) != want {
			t.Errorf("%s found %+v", query, h)
		}
	}
	if h := result[hits](w, "mcp.search.code", object{"query": "needle", "maxResults": 1}); len(h.Hits) != 1 || !h.Truncated {
		t.Errorf("found %+v", h)
	}
	// Texts that the bridge has are not sent again.
	calls := w.Calls("editor.documents")
	if last := string(calls[len(calls)-1]); !strings.Contains(last, `"known":{`) || strings.Contains(last, `"known":{}`) {
		t.Errorf("asked %s", last)
	}
}

func sha(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func diffOf(path, before, after string) string {
	return "--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1 @@\n-" + before + "\n+" + after + "\n"
}

func TestWindowPatchesTheOpenDocument(t *testing.T) {
	files := map[string]string{"a.txt": "one\n", "b.txt": "two\n", "crlf.txt": "x\r\ny\r\n", "bom.txt": "\ufeffx\n", "run.sh": "echo\n", "old.txt": "o\n", "mixed.txt": "a\r\nb\n"}
	dir := tree(t, files)
	at := func(name string) string { return filepath.Join(dir, name) }
	w := startWindow(t, models(), []string{dir}, "--read-write")
	if w.ready.ReadOnly {
		t.Error("it says that it is read-only")
	}
	w.Type(at("a.txt"), "typed\n")
	apply := func(diff string, more object) patched {
		t.Helper()
		p := object{"unifiedDiff": diff}
		for k, v := range more {
			p[k] = v
		}
		return result[patched](w, "mcp.edit.applyPatch", p)
	}
	// What counts is what the editor shows.
	if r := apply(diffOf("a.txt", "one", "1"), nil); r.OK || len(r.Conflicts) != 1 || w.Edits() != 0 || !w.Dirty(at("a.txt")) {
		t.Errorf("against the disk: %+v", r)
	}
	both := diffOf("a.txt", "typed", "patched") + diffOf("b.txt", "two", "2") + "--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1 @@\n+n\n" +
		"--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n"
	if r := apply(both, object{"dryRun": true}); !r.OK || w.Edits() != 0 || !w.Dirty(at("a.txt")) {
		t.Errorf("a dry run: %+v", r)
	}
	if r := apply(both, object{"verify": object{"a.txt": sha("one\n")}}); r.OK || w.Edits() != 0 {
		t.Errorf("verified against the disk: %+v", r)
	}
	r := apply(both, object{"verify": object{"a.txt": sha("typed\n")}})
	if !r.OK || w.Edits() != 1 || w.Dirty(at("a.txt")) {
		t.Errorf("%+v, %d edits", r, w.Edits())
	}
	if a, b, n, o := onDisk(t, at("a.txt")), onDisk(t, at("b.txt")), onDisk(t, at("new/n.txt")), onDisk(t, at("old.txt")); a != "patched\n" || b != "2\n" || n != "n\n" || !strings.HasPrefix(o, "(") {
		t.Errorf("on disk %q, %q, %q, %q", a, b, n, o)
	}
	if r.Files[0].SHA256 != sha("patched\n") {
		t.Errorf("%+v", r.Files)
	}
	// Line endings and byte order marks stay what they are.
	crlf := "--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,2 +1,2 @@\n x\r\n-y\r\n+z\r\n--- a/bom.txt\n+++ b/bom.txt\n@@ -1 +1 @@\n-\ufeffx\n+\ufeffy\n"
	if r := apply(crlf, nil); !r.OK || w.Edits() != 2 || onDisk(t, at("crlf.txt")) != "x\r\nz\r\n" || onDisk(t, at("bom.txt")) != "\ufeffy\n" || r.Files[1].SHA256 != sha("\ufeffy\n") {
		t.Errorf("%+v, %q", r, onDisk(t, at("crlf.txt")))
	}
	rename := "diff --git a/b.txt b/moved.txt\nsimilarity index 50%\nrename from b.txt\nrename to moved.txt\n--- a/b.txt\n+++ b/moved.txt\n@@ -1 +1 @@\n-2\n+3\n"
	if r := apply(rename, nil); !r.OK || w.Edits() != 3 || onDisk(t, at("moved.txt")) != "3\n" || !strings.HasPrefix(onDisk(t, at("b.txt")), "(") {
		t.Errorf("%+v", r)
	}
	// What an editor cannot do is done on disk, unless it shows something else.
	mode := "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
	w.Type(at("run.sh"), "typed\n")
	if r := apply(mode, nil); r.OK || len(r.Conflicts) != 1 || !strings.Contains(r.Conflicts[0].Reason, "not saved") {
		t.Errorf("dirty: %+v", r)
	}
	w.Save(at("run.sh"))
	if r := apply(mode, nil); !r.OK || w.Edits() != 3 {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(at("run.sh")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if r := apply("--- a/mixed.txt\n+++ b/mixed.txt\n@@ -1,2 +1,2 @@\n a\r\n-b\n+c\n", nil); !r.OK || w.Edits() != 3 || onDisk(t, at("mixed.txt")) != "a\r\nc\n" {
		t.Errorf("%+v, %q", r, onDisk(t, at("mixed.txt")))
	}
}

// Read-only is a question to the person at the window, and a policy error if
// they do not agree; what a policy file denies, or a window that is not
// trusted, is refused without one.
func TestWindowPolicy(t *testing.T) {
	denied := func(w *inWindow, path string, asked int) {
		t.Helper()
		if _, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": diffOf(path, "one", "1")}); f == nil || f.Data.Code != "denied" {
			t.Errorf("%s: %v", path, f)
		}
		if len(w.Calls("editor.applyEdit")) > 0 || len(w.Calls("ui.confirm")) != asked {
			t.Errorf("%s: asked %d times", path, len(w.Calls("ui.confirm")))
		}
	}
	dir := tree(t, map[string]string{"a.txt": "one\n", "src/a.ts": "one\n"})
	denied(startWindow(t, models(), []string{dir}), "a.txt", 1)
	agrees := models()
	agrees.Confirm = func(context.Context, editor.Question) string { return "once" }
	if r := result[patched](startWindow(t, agrees, []string{dir}), "mcp.edit.applyPatch", object{"unifiedDiff": diffOf("src/a.ts", "one", "one")}); !r.OK {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, ".agent-policy.yaml"), []byte("writes: {deny: ['src/**']}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWindow(t, models(), []string{dir}, "--read-write")
	denied(w, "src/a.ts", 0)
	var s editor.Status
	if err := w.Ask(t, "bridge.status", &s); err != nil || len(s.Policy) != 1 || !strings.Contains(s.Policy[0], ".agent-policy.yaml") || s.URL != w.ready.URL {
		t.Errorf("%+v, %v", s, err)
	}
	untrusted := models()
	untrusted.Untrusted = true
	denied(startWindow(t, untrusted, []string{tree(t, map[string]string{"a.txt": "one\n"})}, "--read-write"), "a.txt", 0)
}

// What a policy asks about is put to the person at the window.
func TestWindowAsks(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "one\n", ".agent-policy.yaml": "tools: {ask: ['mcp.edit.applyPatch']}\n"})
	x := models()
	answers := make(chan string, 4)
	var asked []editor.Question
	x.Confirm = func(ctx context.Context, q editor.Question) string {
		asked = append(asked, q)
		select {
		case a := <-answers:
			return a
		case <-ctx.Done():
			return ""
		}
	}
	w := startWindow(t, x, []string{dir}, "--read-write")
	apply := func(before, after string) *rpcFault {
		_, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": diffOf("a.txt", before, after)})
		return f
	}
	answers <- "no"
	if f := apply("one", "\x1b[31m2"); f == nil || f.Data.Code != "denied" {
		t.Errorf("no: %v", f)
	}
	q := asked[0]
	if len(q.Actions) != 3 || !strings.Contains(q.Message, "a.txt") || !strings.Contains(q.Detail, `+\x1b[31m2`) {
		t.Errorf("asked %+v", q)
	}
	answers <- "once"
	if f := apply("one", "2"); f != nil {
		t.Errorf("once: %v", f)
	}
	answers <- "session"
	if f := apply("2", "3"); f != nil {
		t.Errorf("session: %v", f)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := apply("2", "3"); f != nil || len(asked) != 3 {
		t.Errorf("the same again: %v, asked %d times", f, len(asked))
	}
}

// The window gets all of a question, and none that is too long.
func TestWindowIsShownAllOfIt(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "one\n", ".agent-policy.yaml": "tools: {ask: ['mcp.edit.applyPatch']}\n"})
	x := models()
	var asked []editor.Question
	x.Confirm = func(_ context.Context, q editor.Question) string {
		asked = append(asked, q)
		return "no"
	}
	w := startWindow(t, x, []string{dir}, "--read-write")
	long := strings.Repeat("x", 3000) + "\u202eend"
	if _, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": diffOf("a.txt", "one", long), "format": true}); f == nil || len(asked) != 1 ||
		!strings.Contains(asked[0].Detail, "| +"+strings.Repeat("x", 3000)+`\u202eend`+"\n") || !strings.Contains(asked[0].Detail, `"format": true`) {
		t.Errorf("%v, asked %.4000q", f, asked)
	}
	if _, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": diffOf("a.txt", "one", strings.Repeat("ab ", 100_000))}); f == nil || len(asked) != 1 || !strings.Contains(f.Message, "bytes long") {
		t.Errorf("too long: %v", f)
	}
}

func TestWindowTimesOutAsking(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "one\n", ".agent-policy.yaml": "tools: {ask: ['mcp.edit.applyPatch']}\n"})
	x := models()
	x.Confirm = func(ctx context.Context, _ editor.Question) string { <-ctx.Done(); return "once" }
	w := startWindowWith(t, x, []string{dir}, []string{"COPILOT_BRIDGE_APPROVAL_TIMEOUT=200ms"}, "--read-write")
	if _, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": diffOf("a.txt", "one", "1")}); f == nil || f.Data.Code != "denied" || !strings.Contains(f.Message, "nobody answered") {
		t.Errorf("%v", f)
	}
	w.Await(t, "$/cancel", nil)
}

func TestWindowFormatsAndOutlines(t *testing.T) {
	dir := tree(t, map[string]string{"a.ts": "b  a\n", "n.xyz": "x\n"})
	x := models()
	x.Providers = map[string]editortest.Provider{".json": {Format: strings.ToUpper}, ".ts": {Format: func(s string) string { return strings.ReplaceAll(s, "  ", " ") }, Organize: strings.ToUpper,
		Symbols: []editor.Symbol{{Name: "f", Kind: 12, Start: editor.Position{Line: 0, Character: 2}, End: editor.Position{Line: 0, Character: 3},
			SelectionStart: editor.Position{Line: 0, Character: 2}, SelectionEnd: editor.Position{Line: 0, Character: 3}}}}}
	w := startWindow(t, x, []string{dir}, "--read-write")
	type rewritten struct {
		OK, Changed bool
		SHA256      string
	}
	if r := result[rewritten](w, "mcp.format.apply", object{"path": "a.ts"}); !r.Changed || r.SHA256 != sha("b a\n") || onDisk(t, dir, "a.ts") != "b a\n" {
		t.Errorf("%+v", r)
	}
	if r := result[rewritten](w, "mcp.imports.organize", object{"path": "a.ts"}); !r.Changed || onDisk(t, dir, "a.ts") != "B A\n" {
		t.Errorf("%+v", r)
	}
	w.Type(filepath.Join(dir, "a.ts"), "😀f\n")
	s := result[struct {
		Symbols []struct {
			Name, Kind string
			Range      struct{ StartColumn, EndColumn int }
		}
	}](w, "mcp.symbols.list", object{"path": "a.ts"})
	if len(s.Symbols) != 1 || s.Symbols[0].Kind != "function" || s.Symbols[0].Range.StartColumn != 2 || s.Symbols[0].Range.EndColumn != 3 {
		t.Errorf("%+v", s)
	}
	// If the editor has no provider for a file, our own tools are asked.
	for _, method := range []string{"mcp.format.apply", "mcp.symbols.list", "mcp.imports.organize"} {
		if _, f := w.rpc(method, object{"path": "n.xyz"}); f == nil || f.Data.Code != "unsupported" || !strings.Contains(f.Error(), "language server") {
			t.Errorf("%s: %v", method, f)
		}
	}
	one := result[patched](w, "mcp.edit.applyPatch", object{"unifiedDiff": "--- /dev/null\n+++ b/a.json\n@@ -0,0 +1 @@\n+x\n", "format": true, "organizeImports": true})
	if !one.OK || len(one.Tidied) != 1 || onDisk(t, dir, "a.json") != "X\n" {
		t.Errorf("%+v", one)
	}
	r := result[patched](w, "mcp.edit.applyPatch", object{"unifiedDiff": "--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-😀f\n+x  y\n", "format": true})
	if !r.OK || len(r.Tidied) != 1 || onDisk(t, dir, "a.ts") != "x y\n" || r.Files[0].SHA256 != sha("x y\n") {
		t.Errorf("%+v, %q", r, onDisk(t, dir, "a.ts"))
	}
}
