package vscode

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSearchAndReadSeeWhatIsNotSaved: what a person has typed and not saved
// counts, and what they have deleted does not.
func TestSearchAndReadSeeWhatIsNotSaved(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.ready(t).bus(t)
	w.edit(t, "notes.txt")
	w.act(t, "type", insert("needle in "))
	until(t, "the editor", patience, func() (string, bool) { return w.shown(t), w.dirty(t) })
	until(t, "the search", patience, func() (string, bool) {
		r := b.must(t, "mcp.search.code", map[string]any{"query": "needle in alpha"})
		hits := list(t, r["hits"])
		return fmt.Sprint(r), len(hits) == 1 && hits[0]["file"] == "notes.txt" && hits[0]["line"] == 1.0
	})
	if r := b.must(t, "mcp.fs.read", map[string]any{"path": "notes.txt"}); r["content"] != "needle in "+files["notes.txt"] || r["unsaved"] != true {
		t.Errorf("read: %v", r)
	}
	if got := fileText(t, filepath.Join(dir, "notes.txt")); got != files["notes.txt"] {
		t.Errorf("the file is %q", got)
	}
	w.revert(t)
}

// TestPatchIsOneUndo: a patch of several places in an open document is applied
// in the editor, saved, and one undo takes all of it back.
func TestPatchIsOneUndo(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	file := filepath.Join(dir, "notes.txt")
	b := w.writable(t).bus(t)
	w.edit(t, "notes.txt")
	r := b.must(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,4 @@\n-alpha\n+ALPHA\n beta\n-gamma\n+GAMMA\n+delta\n"})
	if r["ok"] != true {
		t.Fatalf("got %v", r)
	}
	const after = "ALPHA\nbeta\nGAMMA\ndelta\n"
	if got := fileText(t, file); got != after {
		t.Errorf("the file is %q", got)
	}
	until(t, "the editor", patience, func() (string, bool) {
		text := w.shown(t)
		return text, strings.HasPrefix(text, "ALPHA\nbeta\nGAMMA\ndelta") && !w.dirty(t)
	})
	w.undo(t)
	until(t, "one undo", patience, func() (string, bool) {
		text := w.shown(t)
		return text, strings.HasPrefix(text, "alpha\nbeta\ngamma")
	})
	w.revert(t)
}

// TestPatchFitsWhatIsNotSaved: hunks are held against the live text, and what
// the person has typed stays.
func TestPatchFitsWhatIsNotSaved(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	file := filepath.Join(dir, "notes.txt")
	b := w.writable(t).bus(t)
	w.edit(t, "notes.txt")
	w.act(t, "type", insert("typed "))
	until(t, "the editor", patience, func() (string, bool) { return w.shown(t), w.dirty(t) })
	r := b.must(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": notesDiff})
	if conflicts := list(t, r["conflicts"]); r["ok"] != false || len(conflicts) == 0 {
		t.Errorf("a patch for what lies on disk: %v", r)
	}
	if got := fileText(t, file); got != files["notes.txt"] {
		t.Errorf("the file is %q", got)
	}
	r = b.must(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": strings.ReplaceAll(notesDiff, " alpha", " typed alpha")})
	if r["ok"] != true {
		t.Errorf("a patch for what is in the editor: %v", r)
	}
	if got := fileText(t, file); got != "typed alpha\nBETA\ngamma\n" {
		t.Errorf("the file is %q", got)
	}
}

// TestPatchOfManyKinds: new, deleted and renamed files through the editor.
func TestPatchOfManyKinds(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.writable(t).bus(t)
	r := b.must(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": "diff --git a/new/file.txt b/new/file.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/file.txt\n@@ -0,0 +1 @@\n+hello\n" +
		"diff --git a/src/b.ts b/src/b.ts\ndeleted file mode 100644\n--- a/src/b.ts\n+++ /dev/null\n@@ -1 +0,0 @@\n-export const b = 2;\n" +
		"diff --git a/notes.txt b/renamed.txt\nsimilarity index 60%\nrename from notes.txt\nrename to renamed.txt\n--- a/notes.txt\n+++ b/renamed.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n"})
	if r["ok"] != true {
		t.Fatalf("got %v", r)
	}
	if got := fileText(t, filepath.Join(dir, "new", "file.txt")); got != "hello\n" {
		t.Errorf("the new file is %q", got)
	}
	if exists(filepath.Join(dir, "src", "b.ts")) || exists(filepath.Join(dir, "notes.txt")) {
		t.Error("what was deleted or renamed is still there")
	}
	if got := fileText(t, filepath.Join(dir, "renamed.txt")); got != "alpha\nBETA\ngamma\n" {
		t.Errorf("the renamed file is %q", got)
	}
}

// TestApprovalDialog: with somebody there, read-only asks; the answer counts
// for what was asked, and may be for the session.
func TestApprovalDialog(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.ready(t).bus(t)
	got := make(chan map[string]any, 1)
	go func() { got <- b.must(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": notesDiff}) }()
	said := w.dialogWith(t, "notes.txt")
	if !strings.Contains(said, "+BETA") {
		t.Errorf("the dialog does not show what would be done: %q", said)
	}
	w.shoot(t, "approval")
	w.press(t, "Allow Once")
	if r := <-got; r["ok"] != true {
		t.Errorf("got %v", r)
	}
	if text := fileText(t, filepath.Join(dir, "notes.txt")); text != "alpha\nBETA\ngamma\n" {
		t.Errorf("the file is %q", text)
	}
}

// TestLongApproval: what a dialog cannot show whole is shown in an editor, and
// the choice stays while it is read. The first choice is the harmless one.
func TestLongApproval(t *testing.T) {
	w := sharedWindow(t)
	b := w.ready(t).bus(t)
	var diff strings.Builder
	diff.WriteString("--- /dev/null\n+++ b/long.txt\n@@ -0,0 +1,30 @@\n")
	for i := range 30 {
		fmt.Fprintf(&diff, "+line %d\n", i)
	}
	apply := func() chan *busError {
		got := make(chan *busError, 1)
		go func() {
			_, err := b.call(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": diff.String()})
			got <- err
		}()
		until(t, "the question", patience, func() (string, bool) {
			list := w.eval(t, `(e => e && e.offsetParent ? e.innerText : '')(document.querySelector('.quick-input-widget'))`)
			text := w.eval(t, `[...document.querySelectorAll('.editor-instance .view-lines')].map(e => e.innerText).join()`)
			text = strings.ReplaceAll(text, "\u00a0", " ") // as the editor draws spaces
			return fmt.Sprintf("%q over %q", list, text), strings.Contains(list, "Allow Once") && strings.Contains(text, "write: long.txt") && strings.Contains(text, "+line 0")
		})
		return got
	}
	// take presses Enter on a choice once that has the focus.
	take := func(got chan *busError, want string, keys ...chromedp.Action[chromedp.Void]) (said *busError) {
		t.Helper()
		focused := `document.querySelector('.quick-input-list .monaco-list-row.focused')?.innerText ?? ''`
		w.act(t, "move to "+want, keys...)
		until(t, want, patience, func() (string, bool) { now := w.eval(t, focused); return now, strings.TrimSpace(now) == want })
		until(t, "an answer to "+want, patience, func() (string, bool) {
			w.act(t, "press Enter", enter)
			select {
			case said = <-got:
				return "", true
			case <-time.After(time.Second):
				return w.eval(t, focused), false
			}
		})
		return said
	}
	if take(apply(), "Deny") == nil {
		t.Error("Enter was taken for consent")
	}
	if err := take(apply(), "Allow Once", chromedp.KeyEvent(kb.ArrowDown)); err != nil {
		t.Error(err)
	}
	if text := fileText(t, filepath.Join(w.folder, "long.txt")); !strings.HasSuffix(text, "line 29\n") {
		t.Errorf("the file is %q", text)
	}
	until(t, "the editor of the question goes", patience, func() (string, bool) {
		tabs := w.eval(t, `[...document.querySelectorAll('.tabs-container .tab')].map(e => e.innerText).join()`)
		return tabs, !strings.Contains(tabs, "Consent")
	})
}

// TestLanguageFeatures: symbols, formatting and imports come from the editor's
// own extensions.
func TestLanguageFeatures(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.writable(t).bus(t)
	b.speaks(t, "src/payment.ts")
	r := b.must(t, "mcp.symbols.list", map[string]any{"path": "src/payment.ts"})
	symbols := list(t, r["symbols"])
	if len(symbols) != 1 || symbols[0]["name"] != "PaymentClient" {
		t.Errorf("symbols: %v", r)
	}
	b.speaks(t, "data.json")
	b.must(t, "mcp.format.apply", map[string]any{"path": "data.json"})
	if got := fileText(t, filepath.Join(dir, "data.json")); !strings.HasPrefix(got, "{\n    \"b\": 1,\n    \"a\": [") {
		t.Errorf("formatted: %q", got)
	}
	b.must(t, "mcp.imports.organize", map[string]any{"path": "src/payment.ts"})
	if got := fileText(t, filepath.Join(dir, "src", "payment.ts")); !strings.HasPrefix(got, "import { a } from './a';\nimport { b } from './b';\n") {
		t.Errorf("organised: %q", got)
	}
}

// speaks waits until VS Code has started the extension for a file's language,
// which may take long on a busy machine.
func (b *bus) speaks(t *testing.T, file string) {
	t.Helper()
	until(t, "the language of "+file, patience, func() (string, bool) {
		r, e := b.call(t, "mcp.symbols.list", map[string]any{"path": file})
		return fmt.Sprint(r, e), e == nil && len(list(t, r["symbols"])) > 0
	})
}

// revert throws away what was typed, so that closing the window asks nobody.
func (w *window) revert(t *testing.T) {
	t.Helper()
	until(t, "the editor is clean", patience, func() (string, bool) {
		w.palette(t, "File: Revert File")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 50 {
			if !w.dirty(t) {
				return "clean", true
			}
			<-tick.C
		}
		return "dirty", false
	})
}
