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

// TestSearchAndReadSeeWhatIsNotSaved: search and read use the unsaved text in
// the editor, not the file.
func TestSearchAndReadSeeWhatIsNotSaved(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.ready(t).bus(t)
	w.edit(t, "notes.txt")
	w.runSteps(t, "type", insert("needle in "))
	waitUntil(t, "the editor", patience, func() (string, bool) { return w.editorText(t), w.dirty(t) })
	waitUntil(t, "the search", patience, func() (string, bool) {
		r := b.mustCall(t, "mcp.search.code", map[string]any{"query": "needle in alpha"})
		hits := list(t, r["hits"])
		return fmt.Sprint(r), len(hits) == 1 && hits[0]["file"] == "notes.txt" && hits[0]["line"] == 1.0
	})
	if r := b.mustCall(t, "mcp.fs.read", map[string]any{"path": "notes.txt"}); r["content"] != "needle in "+files["notes.txt"] || r["unsaved"] != true {
		t.Errorf("read: %v", r)
	}
	if got := fileText(t, filepath.Join(dir, "notes.txt")); got != files["notes.txt"] {
		t.Errorf("the file is %q", got)
	}
	w.revert(t)
}

// TestPatchIsOneUndo: a patch of several places in an open document is applied
// in the editor and saved. A single undo reverts all of it.
func TestPatchIsOneUndo(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	file := filepath.Join(dir, "notes.txt")
	b := w.writable(t).bus(t)
	w.edit(t, "notes.txt")
	r := b.mustCall(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,4 @@\n-alpha\n+ALPHA\n beta\n-gamma\n+GAMMA\n+delta\n"})
	if r["ok"] != true {
		t.Fatalf("got %v", r)
	}
	const after = "ALPHA\nbeta\nGAMMA\ndelta\n"
	if got := fileText(t, file); got != after {
		t.Errorf("the file is %q", got)
	}
	waitUntil(t, "the editor", patience, func() (string, bool) {
		text := w.editorText(t)
		return text, strings.HasPrefix(text, "ALPHA\nbeta\nGAMMA\ndelta") && !w.dirty(t)
	})
	w.undo(t)
	waitUntil(t, "one undo", patience, func() (string, bool) {
		text := w.editorText(t)
		return text, strings.HasPrefix(text, "alpha\nbeta\ngamma")
	})
	w.revert(t)
}

// TestPatchFitsWhatIsNotSaved: hunks must match the unsaved text, and that text
// stays.
func TestPatchFitsWhatIsNotSaved(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	file := filepath.Join(dir, "notes.txt")
	b := w.writable(t).bus(t)
	w.edit(t, "notes.txt")
	w.runSteps(t, "type", insert("typed "))
	waitUntil(t, "the editor", patience, func() (string, bool) { return w.editorText(t), w.dirty(t) })
	r := b.mustCall(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": notesDiff})
	if conflicts := list(t, r["conflicts"]); r["ok"] != false || len(conflicts) == 0 {
		t.Errorf("a patch for the file on disk: %v", r)
	}
	if got := fileText(t, file); got != files["notes.txt"] {
		t.Errorf("the file is %q", got)
	}
	r = b.mustCall(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": strings.ReplaceAll(notesDiff, " alpha", " typed alpha")})
	if r["ok"] != true {
		t.Errorf("a patch for the text in the editor: %v", r)
	}
	if got := fileText(t, file); got != "typed alpha\nBETA\ngamma\n" {
		t.Errorf("the file is %q", got)
	}
}

// TestPatchOfManyKinds: the editor creates, deletes and renames files.
func TestPatchOfManyKinds(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.writable(t).bus(t)
	r := b.mustCall(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": "diff --git a/new/file.txt b/new/file.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/file.txt\n@@ -0,0 +1 @@\n+hello\n" +
		"diff --git a/src/b.ts b/src/b.ts\ndeleted file mode 100644\n--- a/src/b.ts\n+++ /dev/null\n@@ -1 +0,0 @@\n-export const b = 2;\n" +
		"diff --git a/notes.txt b/renamed.txt\nsimilarity index 60%\nrename from notes.txt\nrename to renamed.txt\n--- a/notes.txt\n+++ b/renamed.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n"})
	if r["ok"] != true {
		t.Fatalf("got %v", r)
	}
	if got := fileText(t, filepath.Join(dir, "new", "file.txt")); got != "hello\n" {
		t.Errorf("the new file is %q", got)
	}
	if exists(filepath.Join(dir, "src", "b.ts")) || exists(filepath.Join(dir, "notes.txt")) {
		t.Error("a deleted or renamed file still exists")
	}
	if got := fileText(t, filepath.Join(dir, "renamed.txt")); got != "alpha\nBETA\ngamma\n" {
		t.Errorf("the renamed file is %q", got)
	}
}

// TestApprovalDialog: in read-only mode a write asks the user. The answer
// applies to the request, or to the session.
func TestApprovalDialog(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.ready(t).bus(t)
	got := make(chan map[string]any, 1)
	go func() { got <- b.mustCall(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": notesDiff}) }()
	said := w.dialogWith(t, "notes.txt")
	if !strings.Contains(said, "+BETA") {
		t.Errorf("the dialog does not show the change: %q", said)
	}
	w.savePicture(t, "approval")
	w.press(t, "Allow Once")
	if r := <-got; r["ok"] != true {
		t.Errorf("got %v", r)
	}
	if text := fileText(t, filepath.Join(dir, "notes.txt")); text != "alpha\nBETA\ngamma\n" {
		t.Errorf("the file is %q", text)
	}
}

// TestLongApproval: a request that is too long for a dialog is shown in an
// editor, and the choice stays open meanwhile. The first choice is the harmless
// one.
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
		waitUntil(t, "the question", patience, func() (string, bool) {
			list := w.eval(t, `(e => e && e.offsetParent ? e.innerText : '')(document.querySelector('.quick-input-widget'))`)
			text := w.eval(t, `[...document.querySelectorAll('.editor-instance .view-lines')].map(e => e.innerText).join()`)
			text = strings.ReplaceAll(text, "\u00a0", " ") // the editor draws spaces like this
			return fmt.Sprintf("%q over %q", list, text), strings.Contains(list, "Allow Once") && strings.Contains(text, "write: long.txt") && strings.Contains(text, "+line 0")
		})
		return got
	}
	// take selects a choice with Enter, once the list has the focus.
	take := func(got chan *busError, want string, keys ...chromedp.Action[chromedp.Void]) (said *busError) {
		t.Helper()
		focused := `document.querySelector('.quick-input-list .monaco-list-row.focused')?.innerText ?? ''`
		w.runSteps(t, "move to "+want, keys...)
		waitUntil(t, want, patience, func() (string, bool) { now := w.eval(t, focused); return now, strings.TrimSpace(now) == want })
		waitUntil(t, "an answer to "+want, patience, func() (string, bool) {
			w.runSteps(t, "press Enter", enter)
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
	waitUntil(t, "the editor of the question goes", patience, func() (string, bool) {
		tabs := w.eval(t, `[...document.querySelectorAll('.tabs-container .tab')].map(e => e.innerText).join()`)
		return tabs, !strings.Contains(tabs, "Consent")
	})
}

// TestLanguageFeatures: symbols, formatting and imports come from the editor's
// extensions.
func TestLanguageFeatures(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.writable(t).bus(t)
	b.waitLanguage(t, "src/payment.ts")
	r := b.mustCall(t, "mcp.symbols.list", map[string]any{"path": "src/payment.ts"})
	symbols := list(t, r["symbols"])
	if len(symbols) != 1 || symbols[0]["name"] != "PaymentClient" {
		t.Errorf("symbols: %v", r)
	}
	b.waitLanguage(t, "data.json")
	b.mustCall(t, "mcp.format.apply", map[string]any{"path": "data.json"})
	if got := fileText(t, filepath.Join(dir, "data.json")); !strings.HasPrefix(got, "{\n    \"b\": 1,\n    \"a\": [") {
		t.Errorf("formatted: %q", got)
	}
	b.mustCall(t, "mcp.imports.organize", map[string]any{"path": "src/payment.ts"})
	if got := fileText(t, filepath.Join(dir, "src", "payment.ts")); !strings.HasPrefix(got, "import { a } from './a';\nimport { b } from './b';\n") {
		t.Errorf("organised: %q", got)
	}
}

// waitLanguage waits until VS Code has started the language extension for a
// file, which may take long on a busy machine.
func (b *bus) waitLanguage(t *testing.T, file string) {
	t.Helper()
	waitUntil(t, "the language of "+file, patience, func() (string, bool) {
		r, e := b.call(t, "mcp.symbols.list", map[string]any{"path": file})
		return fmt.Sprint(r, e), e == nil && len(list(t, r["symbols"])) > 0
	})
}

// revert discards unsaved text, so that closing the window shows no question.
func (w *window) revert(t *testing.T) {
	t.Helper()
	waitUntil(t, "the editor is clean", patience, func() (string, bool) {
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
