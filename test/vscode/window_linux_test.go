package vscode

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// window is a window of VS Code in a browser tab.
type window struct {
	testbed *testbed
	folder  string
	ctx     context.Context
	close   func() // also called when the test ends; may be called twice
}

// sharedWindow returns the window of the shared testbed, with its files
// restored.
func sharedWindow(t *testing.T) *window {
	t.Helper()
	d := sharedTestbed(t)
	if d.window == nil {
		dir := filepath.Join(d.root, "workspace")
		restore(t, dir)
		d.window = d.show(t, dir)
	}
	w := d.window
	w.savePictureOnFailure(t)
	for range 3 {
		if w.dialog(t) == "" {
			break
		}
		w.runSteps(t, "close what is left", chromedp.KeyEvent(kb.Escape))
	}
	if w.dirty(t) {
		w.revert(t)
	}
	restore(t, w.folder)
	return w
}

// restore resets the files of a folder.
func restore(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ours := files[e.Name()]; !ours && e.Name() != "src" {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
}

// open opens a folder in a new window, until the test ends.
func (d *testbed) open(t *testing.T, folder string) *window {
	t.Helper()
	w := d.show(t, folder)
	t.Cleanup(w.close)
	w.savePictureOnFailure(t)
	return w
}

// savePictureOnFailure saves a picture of the window if the test fails.
func (w *window) savePictureOnFailure(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			w.savePicture(t, "failed-"+strings.ReplaceAll(t.Name(), "/", "-"))
		}
	})
}

func (d *testbed) show(t *testing.T, folder string) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(d.browser)
	w := &window{testbed: d, folder: folder, ctx: ctx, close: cancel}
	if err := chromedp.Do(ctx); err != nil { // without a time limit, which would apply to the whole tab
		t.Fatal(err)
	}
	w.runSteps(t, "open "+folder, chromedp.Navigate(d.url+"/?folder="+url.QueryEscape(folder)))
	w.waitLoaded(t)
	return w
}

// waitLoaded waits until the workbench is loaded.
func (w *window) waitLoaded(t *testing.T) {
	t.Helper()
	waitUntil(t, "the workbench", patience, func() (string, bool) {
		text := w.eval(t, `(document.querySelector('.part.statusbar') ? 'bar ' : '') + (document.querySelector('.explorer-viewlet .monaco-list-row') ? 'files' : '')`)
		return text, text == "bar files"
	})
}

// runSteps runs steps in the window, with a time limit.
func (w *window) runSteps(t *testing.T, what string, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// eval evaluates a JavaScript expression and returns its value as text.
func (w *window) eval(t *testing.T, expression string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		t.Fatalf("evaluate %s: %v", expression, err)
	}
	return out
}

// statusBar returns the text of the status bar.
func (w *window) statusBar(t *testing.T) string {
	t.Helper()
	return strings.Join(strings.Fields(w.eval(t, `document.querySelector('.part.statusbar')?.innerText ?? ''`)), " ")
}

var onAt = regexp.MustCompile(`Bridge: ON \((127\.0\.0\.1:\d+)\) · Chat: (OK|Unavailable|Consent needed|…)`)

// waitOn waits until the bridge is on and its chat has this state ("" for any).
// It returns a client for the bridge.
func (w *window) waitOn(t *testing.T, chat string) *client {
	t.Helper()
	var at string
	waitUntil(t, "the status bar says ON, chat "+chat, patience, func() (string, bool) {
		text := w.statusBar(t)
		m := onAt.FindStringSubmatch(text)
		if m == nil || chat != "" && m[2] != chat {
			return fmt.Sprintf("%q", text), false
		}
		at = m[1]
		return "", true
	})
	return &client{url: "http://" + at, home: filepath.Join(w.testbed.home, "bridge")}
}

// ready enables the bridge, gives consent if needed, and waits until it can be
// used. Writes still ask the user.
func (w *window) ready(t *testing.T) *client {
	t.Helper()
	w.set(t, true)
	w.waitOn(t, "")
	if strings.Contains(w.statusBar(t), "Consent needed") {
		w.palette(t, "Bridge: Enable")
		w.dialogWith(t, "Copilot Bridge")
		w.press(t, "Allow")
	}
	return w.waitOn(t, "OK")
}

// writable is ready, and allows writes.
func (w *window) writable(t *testing.T) *client {
	t.Helper()
	w.ready(t)
	w.set(t, false)
	return w.waitOn(t, "OK")
}

// set enables the bridge with this setting and waits until it runs.
func (w *window) set(t *testing.T, readOnly bool) {
	t.Helper()
	w.testbed.set(t, map[string]any{"bridge.readOnly": readOnly, "bridge.enabled": true})
	waitUntil(t, fmt.Sprintf("a bridge with read-only %v", readOnly), patience, func() (string, bool) {
		lines := w.pids()
		return fmt.Sprint(lines), len(lines) == 1 && strings.Contains(lines[0].line, " --read-write ") != readOnly
	})
}

// pids returns the bridges of this window.
func (w *window) pids() []process { return w.testbed.processes(" --workspace " + w.folder) }

const (
	quickInput = `.quick-input-widget .quick-input-box input`
	// The first row, if the list has the focus.
	firstRow = `document.activeElement?.closest('.quick-input-widget') ?
		document.querySelector('.quick-input-widget .quick-input-list .monaco-list-row.focused .label-name')?.innerText?.trim() ?? '' : ''`
)

// palette runs a command by its name, as a user would.
func (w *window) palette(t *testing.T, command string) {
	t.Helper()
	w.pick(t, chromedp.KeyEvent(kb.F1), command, command) // F1 opens the list with a > in it
}

// pick opens a list, types a text and selects a match. The list shows only what
// was loaded when it was opened, so it is opened again from time to time.
func (w *window) pick(t *testing.T, open chromedp.Action[chromedp.Void], text, want string) {
	t.Helper()
	waitUntil(t, "a choice of "+want, patience, func() (first string, ok bool) {
		w.runSteps(t, "open the list", chromedp.KeyEvent(kb.Escape), open, chromedp.WaitVisible(chromedp.CSS(quickInput)), insert(text))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 30 {
			if first = w.eval(t, firstRow); first == want {
				return first, true
			}
			<-tick.C
		}
		return first, false
	})
	w.runSteps(t, "take "+want, enter)
}

// enter presses the Enter key without typing its character. The key closes the
// list, so the character would go to the editor behind it.
var enter = chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
	for _, kind := range []input.DispatchKeyEventType{"rawKeyDown", "keyUp"} {
		if _, err := cdp.Call(ctx, tab, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13}); err != nil {
			return err
		}
	}
	return nil
})

// insert inserts text at the cursor.
func insert(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// dialog returns the text of the modal dialog, or "".
func (w *window) dialog(t *testing.T) string {
	t.Helper()
	return w.eval(t, `document.querySelector('.monaco-dialog-box')?.innerText ?? ''`)
}

// dialogWith waits for a modal dialog that contains the text and returns its
// whole text.
func (w *window) dialogWith(t *testing.T, text string) string {
	t.Helper()
	var said string
	waitUntil(t, "a dialog with "+text, patience, func() (string, bool) {
		said = w.dialog(t)
		return fmt.Sprintf("%q", said), strings.Contains(said, text)
	})
	return said
}

// press clicks a button of the modal dialog and waits until the dialog is
// closed.
func (w *window) press(t *testing.T, button string) {
	t.Helper()
	before := w.dialog(t)
	quoted, err := json.Marshal(button)
	if err != nil {
		t.Fatal(err)
	}
	done := w.eval(t, `(() => { for (const b of document.querySelectorAll('.monaco-dialog-box .monaco-button'))
		if (b.innerText.trim() === `+string(quoted)+`) { b.click(); return true; } return false; })()`)
	if done != "true" {
		t.Fatalf("the dialog has no button %q: %q", button, before)
	}
	waitUntil(t, "the dialog goes", patience, func() (string, bool) {
		now := w.dialog(t)
		return fmt.Sprintf("%q", now), now != before
	})
}

// edit opens a file in the editor and puts the cursor at its start.
func (w *window) edit(t *testing.T, file string) {
	t.Helper()
	base := filepath.Base(file)
	w.pick(t, chromedp.KeyEvent("p", chromedp.KeyModifiers(chromedp.ModifierCtrl)), file, base)
	waitUntil(t, "the editor of "+file, patience, func() (string, bool) {
		tab := w.eval(t, `document.querySelector('.tabs-container .tab.active')?.getAttribute('data-resource-name') ?? ''`)
		text := w.eval(t, `document.querySelector('.editor-instance .view-lines')?.innerText?.length ?? 0`)
		return tab + " " + text, tab == base && text != "0"
	})
	w.runSteps(t, "go to its beginning", chromedp.Click(chromedp.CSS(`.editor-instance .view-lines`)), chromedp.KeyEvent(kb.Home, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// editorText returns the visible text of the active editor.
func (w *window) editorText(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(w.eval(t, `[...document.querySelectorAll('.editor-instance .view-line')]
		.sort((a, b) => a.offsetTop - b.offsetTop).map((l) => l.innerText).join('\n')`), "\u00a0", " ")
}

// dirty reports whether the active editor has unsaved changes.
func (w *window) dirty(t *testing.T) bool {
	t.Helper()
	return w.eval(t, `document.querySelector('.tabs-container .tab.active')?.classList.contains('dirty') ?? false`) == "true"
}

func (w *window) undo(t *testing.T) {
	t.Helper()
	w.runSteps(t, "undo", chromedp.KeyEvent("z", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// waitForNotification waits for a notification with that text.
func (w *window) waitForNotification(t *testing.T, text string) {
	t.Helper()
	waitUntil(t, "the notification "+text, patience, func() (string, bool) {
		all := w.eval(t, `[...document.querySelectorAll('.notification-list-item-message')].map((n) => n.innerText).join('\n')`)
		return fmt.Sprintf("%q", all), strings.Contains(all, text)
	})
}

// savePicture saves a picture of the window below build/vscode.
func (w *window) savePicture(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		dir := filepath.Join("..", "..", "build", "vscode")
		if err = os.MkdirAll(dir, 0o755); err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
		}
	}
	if err != nil {
		t.Logf("no picture of the window: %v", err)
	}
}

// workspace creates a folder with files.
func workspace(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
