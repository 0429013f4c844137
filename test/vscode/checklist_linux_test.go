package vscode

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// These tests follow the checklist from the design of the VS Code extension.

// files are the initial files of the tests' folders.
var files = map[string]string{
	"src/payment.ts": "import { b } from './b';\nimport { a } from './a';\n\nexport class PaymentClient {\n  retry(): number {\n    return a + b;\n  }\n}\n",
	"src/a.ts":       "export const a = 1;\n",
	"src/b.ts":       "export const b = 2;\n",
	"notes.txt":      "alpha\nbeta\ngamma\n",
	"data.json":      "{\"b\":1,\"a\":[1,2]}\n",
}

const policyError = -32010

func TestChecklistChatStreamsChunksAndDone(t *testing.T) {
	c := sharedWindow(t).ready(t)
	got := c.streams(t.Context(), t, chatRequest("gpt-4o-copilot", "hello")).all(t)
	if got.text != "Hello from the model." || got.pieces < 2 || got.finish != "stop" || got.fault != "" {
		t.Errorf("got %+v", got)
	}
}

func TestChecklistSearchFindsAKnownString(t *testing.T) {
	b := sharedWindow(t).ready(t).bus(t)
	r := b.mustCall(t, "mcp.search.code", map[string]any{"query": "class PaymentClient", "glob": "src/**/*.ts", "maxResults": 200})
	hits := list(t, r["hits"])
	if len(hits) != 1 || hits[0]["file"] != "src/payment.ts" || hits[0]["line"] != 4.0 {
		t.Errorf("got %v", r)
	}
}

func TestChecklistPatchIsSavedAndFormatted(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.writable(t).bus(t)
	b.waitLanguage(t, "data.json")
	r := b.mustCall(t, "mcp.edit.applyPatch", map[string]any{"format": true,
		"unifiedDiff": "--- a/data.json\n+++ b/data.json\n@@ -1 +1 @@\n-{\"b\":1,\"a\":[1,2]}\n+{\"b\":2,\"a\":[1]}\n"})
	if r["ok"] != true {
		t.Fatalf("got %v", r)
	}
	// VS Code's own formatter removes the last newline.
	if got := fileText(t, filepath.Join(dir, "data.json")); strings.TrimSpace(got) != "{\n    \"b\": 2,\n    \"a\": [\n        1\n    ]\n}" {
		t.Errorf("the file is %q", got)
	}
}

func TestChecklistReadOnlyRefusesAPatch(t *testing.T) {
	w := sharedWindow(t)
	dir := w.folder
	b := w.ready(t).bus(t)
	got := make(chan *busError, 1)
	go func() {
		_, e := b.call(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": notesDiff})
		got <- e
	}()
	// The user is asked because there is one; in this test they deny.
	w.dialogWith(t, "notes.txt")
	w.press(t, "Deny")
	if e := <-got; e == nil || e.Code != policyError {
		t.Errorf("got %+v", e)
	}
	if text := fileText(t, filepath.Join(dir, "notes.txt")); text != files["notes.txt"] {
		t.Errorf("the file is %q", text)
	}
}

func TestChecklistPolicyFileDeniesAPath(t *testing.T) {
	d := sharedTestbed(t)
	dir := workspace(t, files)
	writeFile(t, filepath.Join(dir, ".agent-policy.yaml"), "writes:\n  deny: [\"notes.txt\"]\n")
	w := d.open(t, dir)
	b := w.writable(t).bus(t)
	_, e := b.call(t, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": notesDiff})
	if e == nil || e.Code != policyError || !strings.Contains(e.Message, "notes.txt") {
		t.Errorf("got %+v", e)
	}
	if said := w.dialog(t); said != "" {
		t.Errorf("a dialog was shown: %q", said)
	}
	if text := fileText(t, filepath.Join(dir, "notes.txt")); text != files["notes.txt"] {
		t.Errorf("the file is %q", text)
	}
}

func TestChecklistSignOutAndInIsNoticed(t *testing.T) {
	w := sharedWindow(t)
	d := w.testbed
	c := w.ready(t)
	pid := w.pids()
	d.vendor.setSignedIn(false)
	defer d.vendor.setSignedIn(true)
	w.waitOn(t, "Unavailable")
	if status, body := c.ask(t, http.MethodGet, "/healthz", nil); !strings.Contains(body, `"copilot":"unavailable"`) {
		t.Errorf("/healthz answers %d %s", status, body)
	}
	status, body := c.ask(t, http.MethodPost, "/v1/chat/completions", chatRequest("gpt-test", "hello"))
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "copilot_unavailable") {
		t.Errorf("chat answers %d %s", status, body)
	}
	d.vendor.setSignedIn(true)
	w.waitOn(t, "OK")
	waitUntil(t, "/healthz", patience, func() (string, bool) {
		status, body := c.ask(t, http.MethodGet, "/healthz", nil)
		return body, status == http.StatusOK && strings.Contains(body, `"copilot":"ok"`)
	})
	if got := c.streams(t.Context(), t, chatRequest("gpt-test", "hello")).all(t); got.text != "Hello from the model." {
		t.Errorf("got %+v", got)
	}
	if now := w.pids(); len(pid) != 1 || len(now) != 1 || now[0].pid != pid[0].pid {
		t.Errorf("the bridge was restarted: %v, then %v", pid, now)
	}
}

const notesDiff = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n"

// list converts a JSON array of objects.
func list(t *testing.T, v any) []map[string]any {
	t.Helper()
	items, ok := v.([]any)
	if !ok {
		t.Fatalf("no list: %v", v)
	}
	out := make([]map[string]any, len(items))
	for i, item := range items {
		if out[i], ok = item.(map[string]any); !ok {
			t.Fatalf("no object: %v", item)
		}
	}
	return out
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
