package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/editor/editortest"
)

const windowToken = "window-token-0123456789"

// inWindow runs `serve --host vscode` in a window.
type inWindow struct {
	*editortest.Extension
	t     *testing.T
	world *world
	ready editor.Ready
	end   func() int // closes standard input, and waits for the exit code
}

func startWindow(t *testing.T, x *editortest.Extension, dirs []string, args ...string) *inWindow {
	t.Helper()
	return startWindowWith(t, x, dirs, nil, args...)
}

func startWindowWith(t *testing.T, x *editortest.Extension, dirs, environ []string, args ...string) *inWindow {
	t.Helper()
	h := newWorld(t)
	in, ours := io.Pipe()
	back, out := io.Pipe()
	h.Stdin, h.Stdout = in, out
	h.signals = make(chan os.Signal)
	h.Environ = append(h.Environ, "COPILOT_BRIDGE_TOKEN="+windowToken)
	h.Environ = append(h.Environ, environ...)
	args = append([]string{"serve", "--host", "vscode"}, args...)
	for _, d := range dirs {
		args = append(args, "--workspace", d)
		x.Folders = append(x.Folders, editor.Folder{Name: d[strings.LastIndexByte(d, '/')+1:], Path: d})
	}
	code, served := make(chan int, 1), make(chan struct{})
	go func() { code <- h.run(args...) }()
	go func() { defer close(served); x.Serve(context.Background(), back, ours) }()
	w := &inWindow{Extension: x, t: t, world: h}
	ended := false
	w.end = func() int {
		ended = true
		_ = ours.Close()
		select {
		case c := <-code:
			<-served
			return c
		case <-time.After(30 * time.Second):
			t.Fatal("it did not end with its standard input")
			return -1
		}
	}
	t.Cleanup(func() {
		if !ended {
			if c := w.end(); c != 0 {
				t.Errorf("exit code %d: %s", c, h.err.String())
			}
		}
	})
	if err := json.Unmarshal(x.Await(t, "bridge.ready", nil), &w.ready); err != nil {
		t.Fatal(err)
	}
	return w
}

// post sends a request and returns its answer.
func (w *inWindow) post(path, body string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.ready.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.do(r)
}

func (w *inWindow) get(path string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.ready.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.do(r)
}

func (w *inWindow) do(r *http.Request) (int, string) {
	w.t.Helper()
	r.Header.Set("Authorization", "Bearer "+windowToken)
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// say is a request whose answer is scripted.
func say(model, script string, more ...string) string {
	b, err := json.Marshal("rehearsal: " + strings.ReplaceAll(script, "; ", "\nrehearsal: "))
	if err != nil {
		panic(err)
	}
	return `{"model":"` + model + `","messages":[{"role":"user","content":` + string(b) + `}]` + strings.Join(more, "") + `}`
}

func models() *editortest.Extension {
	return &editortest.Extension{Models: []editor.Model{{ID: "gpt-5", Name: "GPT-5", Vendor: "copilot", MaxInputTokens: 1000, Tools: true}}}
}

func TestServeInWindowChats(t *testing.T) {
	w := startWindow(t, models(), []string{t.TempDir()})
	if w.ready.URL == "" || w.ready.PID != os.Getpid() || !w.ready.ReadOnly || strings.HasSuffix(w.ready.URL, ":8788") {
		t.Errorf("ready: %+v", w.ready)
	}
	if code, body := w.get("/v1/models"); code != http.StatusOK || !strings.Contains(body, `"gpt-5"`) || strings.Contains(body, "agent/") {
		t.Errorf("models: %d %s", code, body)
	}
	code, body := w.post("/v1/chat/completions", say("gpt-5", "chunks one |two; usage 7 3"))
	if code != http.StatusOK || !strings.Contains(body, `"one two"`) || !strings.Contains(body, `"prompt_tokens":7`) {
		t.Errorf("%d %s", code, body)
	}
	code, body = w.post("/v1/chat/completions", say("gpt-5", "chunks one |two", `,"stream":true`))
	if code != http.StatusOK || !strings.Contains(body, `"content":"one "`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("%d %s", code, body)
	}
	code, body = w.post("/v1/messages", say("gpt-5", "text hello", `,"max_tokens":10`))
	if code != http.StatusOK || !strings.Contains(body, `"hello"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.post("/v1/chat/completions", say("gpt-4o-copilot", "text hello")); code != http.StatusOK {
		t.Errorf("a name that nobody knows: %d %s", code, body)
	}
	code, body = w.post("/v1/chat/completions", say("agent/gpt-5", "text hello"))
	if code != http.StatusNotFound || !strings.Contains(body, "beside VS Code") {
		t.Errorf("an agent: %d %s", code, body)
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What goes wrong in the editor has the status that clients know what to do
// with, also if it goes wrong in the middle of a stream that has not begun.
func TestServeInWindowErrors(t *testing.T) {
	w := startWindow(t, models(), []string{t.TempDir()})
	for _, tt := range []struct {
		kind   string
		status int
		openai string
		claude string
	}{
		{"consent_required", http.StatusForbidden, `"code":"consent_required"`, `"error_code":"consent_required"`},
		{"denied", http.StatusForbidden, `"code":"permission_denied"`, `"permission_error"`},
		{"blocked", http.StatusTooManyRequests, `"code":"rate_limit_exceeded"`, `"rate_limit_error"`},
		{"rate_limited", http.StatusTooManyRequests, `"code":"rate_limit_exceeded"`, `"rate_limit_error"`},
		{"quota_exceeded", http.StatusTooManyRequests, `"code":"insufficient_quota"`, `"rate_limit_error"`},
		{"not_found", http.StatusNotFound, `"code":"not_found"`, `"not_found_error"`},
		{"too_long", http.StatusBadRequest, `"type":"invalid_request_error"`, `"invalid_request_error"`},
		{"unsupported", http.StatusBadRequest, `"code":"unsupported"`, `"invalid_request_error"`},
		{"unavailable", http.StatusServiceUnavailable, `"code":"copilot_unavailable"`, `"overloaded_error"`},
		{"timeout", http.StatusGatewayTimeout, `"code":"timeout"`, `"timeout_error"`},
		{"internal", http.StatusBadGateway, `"code":"provider_error"`, `"api_error"`},
		{"of_next_year", http.StatusBadGateway, `"code":"provider_error"`, `"api_error"`},
	} {
		for _, stream := range []string{"false", "true"} {
			body := say("gpt-5", "fault "+tt.kind+" because", `,"max_tokens":10,"stream":`+stream)
			if code, got := w.post("/v1/chat/completions", body); code != tt.status || !strings.Contains(got, tt.openai) || !strings.Contains(got, "because") {
				t.Errorf("%s, stream %s: %d %s", tt.kind, stream, code, got)
			}
			if code, got := w.post("/v1/messages", body); code != tt.status || !strings.Contains(got, tt.claude) || !strings.Contains(got, "because") {
				t.Errorf("%s, stream %s, messages: %d %s", tt.kind, stream, code, got)
			}
		}
	}
	code, body := w.post("/v1/chat/completions", say("gpt-5", "text half; fault unavailable away", `,"stream":true`))
	if code != http.StatusOK || !strings.Contains(body, "half") || !strings.Contains(body, "copilot_unavailable") || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("in the middle: %d %s", code, body)
	}
}

func TestServeInWindowNeedsAToken(t *testing.T) {
	w := newWorld(t)
	if code := w.run("serve", "--host", "vscode"); code != exitUsage || !strings.Contains(w.err.String(), "COPILOT_BRIDGE_TOKEN") {
		t.Errorf("%d: %s", code, w.err)
	}
	if code := w.run("serve", "--host", "emacs"); code != exitUsage {
		t.Errorf("%d: %s", code, w.err)
	}
}

// rpc calls the tool bus.
func (w *inWindow) rpc(method string, params any) (json.RawMessage, *rpcFault) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		w.t.Fatal(err)
	}
	code, text := w.post("/rpc", string(body))
	var r struct {
		Result json.RawMessage
		Error  *rpcFault
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		w.t.Fatalf("%s: %d %s", method, code, text)
	}
	return r.Result, r.Error
}

type rpcFault struct {
	Code    int
	Message string
	Data    struct{ Code, Remedy string }
}

func (f *rpcFault) Error() string { return fmt.Sprint(f.Code, " ", f.Message, " ", f.Data.Remedy) }

// result is a result of a call that must succeed.
func result[T any](w *inWindow, method string, params any) T {
	w.t.Helper()
	var out T
	raw, fault := w.rpc(method, params)
	if fault != nil {
		w.t.Fatalf("%s: %v", method, fault)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// tree makes files in a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func onDisk(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(b)
}

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

type patched struct {
	OK        bool
	Files     []struct{ Path, Status, SHA256 string }
	Conflicts []struct{ File, Reason string }
	Tidied    []string
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
	// Where the editor has nobody for a file, our own tools are asked.
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

func TestWindowWithSeveralFolders(t *testing.T) {
	api := tree(t, map[string]string{"src/a.go": "needle\n", "Makefile": "where:\n\t@pwd\n"})
	web := tree(t, map[string]string{"src/b.ts": "needle\n", "src/c.ts": "needle\n", ".agent-policy.yaml": "writes: {deny: ['secret/**']}\nshell: {allow: ['make where', 'builtin:read-only']}\n"})
	x := models()
	x.Folders = []editor.Folder{{Name: "app", Path: api}, {Name: "app", Path: web}}
	w := startWindow(t, x, nil, "--read-write")
	type listing struct {
		Files     []string
		Truncated bool
	}
	for params, want := range map[string]string{
		`{}`: "app/Makefile app/src/a.go app (2)/src/b.ts app (2)/src/c.ts", `{"glob":"*.ts"}`: "app (2)/src/b.ts app (2)/src/c.ts",
		`{"glob":"app/**"}`: "app/Makefile app/src/a.go", `{"glob":"**/src/*.go"}`: "app/src/a.go", `{"glob":"src/**"}`: "", `{"exclude":"app (2)"}`: "app/Makefile app/src/a.go",
		`{"exclude":["app*/src/c.ts","app/Makefile"]}`: "app/src/a.go app (2)/src/b.ts",
	} {
		if l := result[listing](w, "mcp.fs.list", json.RawMessage(params)); strings.Join(l.Files, " ") != want || l.Truncated {
			t.Errorf("%s lists %q", params, l.Files)
		}
	}
	if l := result[listing](w, "mcp.fs.list", object{"limit": 2}); len(l.Files) != 2 || !l.Truncated {
		t.Errorf("%+v", l)
	}
	if l := result[listing](w, "mcp.fs.list", object{"limit": 4}); len(l.Files) != 4 || l.Truncated {
		t.Errorf("%+v", l)
	}
	type hits struct {
		Hits      []struct{ File string }
		Truncated bool
	}
	if h := result[hits](w, "mcp.search.code", object{"query": "needle"}); len(h.Hits) != 3 || h.Hits[0].File != "app/src/a.go" || h.Hits[2].File != "app (2)/src/c.ts" {
		t.Errorf("%+v", h)
	}
	if h := result[hits](w, "mcp.search.code", object{"query": "needle", "maxResults": 2}); len(h.Hits) != 2 || !h.Truncated {
		t.Errorf("%+v", h)
	}
	if c := result[struct{ Path, Content string }](w, "mcp.fs.read", object{"path": "app (2)/src/b.ts"}); c.Content != "needle\n" || c.Path != "app (2)/src/b.ts" {
		t.Errorf("%+v", c)
	}
	if _, f := w.rpc("mcp.fs.read", object{"path": "src/b.ts"}); f == nil || !strings.Contains(f.Error(), "app (2)") {
		t.Errorf("%v", f)
	}
	// One diff for both is one edit.
	w.Type(filepath.Join(web, "src/b.ts"), "typed\n")
	both := diffOf("app/src/a.go", "needle", "pin") + diffOf("app (2)/src/b.ts", "typed", "pin")
	if r := result[patched](w, "mcp.edit.applyPatch", object{"unifiedDiff": both}); !r.OK || w.Edits() != 1 || len(r.Files) != 2 || r.Files[1].Path != "app (2)/src/b.ts" ||
		onDisk(t, api, "src/a.go") != "pin\n" || onDisk(t, web, "src/b.ts") != "pin\n" {
		t.Errorf("%+v, %d edits", r, w.Edits())
	}
	conflict := diffOf("app/src/a.go", "pin", "x") + diffOf("app (2)/src/c.ts", "other", "x")
	if r := result[patched](w, "mcp.edit.applyPatch", object{"unifiedDiff": conflict}); r.OK || len(r.Conflicts) != 1 || r.Conflicts[0].File != "app (2)/src/c.ts" || w.Edits() != 1 {
		t.Errorf("%+v", r)
	}
	// Each folder has its own policy.
	for folder, code := range map[string]string{"app": "", "app (2)": "denied"} {
		_, f := w.rpc("mcp.edit.applyPatch", object{"unifiedDiff": "--- /dev/null\n+++ b/" + folder + "/secret/x\n@@ -0,0 +1 @@\n+x\n"})
		if (f == nil) != (code == "") || f != nil && f.Data.Code != code {
			t.Errorf("%s: %v", folder, f)
		}
	}
	// Commands run in their folder.
	if _, f := w.rpc("mcp.shell.run", object{"cmd": "pwd"}); f == nil || !strings.Contains(f.Error(), "app (2)") {
		t.Errorf("without a folder: %v", f)
	}
	if r := result[struct{ Stdout string }](w, "mcp.shell.run", object{"cmd": "pwd", "folder": "app (2)"}); strings.TrimSpace(r.Stdout) != web {
		t.Errorf("%q", r.Stdout)
	}
	tasks := result[struct{ Tasks []struct{ Name string } }](w, "mcp.task.list", object{})
	if len(tasks.Tasks) != 1 || tasks.Tasks[0].Name != "app/make:where" {
		t.Errorf("%+v", tasks)
	}
	st := result[struct {
		Folders []struct{ Name, Path string }
	}](w, "bridge.status", object{})
	if len(st.Folders) != 2 || st.Folders[1].Name != "app (2)" || st.Folders[1].Path != web {
		t.Errorf("%+v", st)
	}

	// Folders come and go without a restart.
	settled := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
			if len(result[struct {
				Folders []struct{ Name string }
			}](w, "bridge.status", object{}).Folders) == want {
				return
			}
		}
		t.Fatalf("there are not %d folders", want)
	}
	w.Notify("editor.folders", object{"folders": []editor.Folder{{Name: "web", Path: web}}})
	settled(1)
	if c := result[struct{ Path string }](w, "mcp.fs.read", object{"path": "src/b.ts"}); c.Path != "src/b.ts" {
		t.Errorf("%+v", c)
	}
	w.Notify("editor.folders", object{"folders": []editor.Folder{}})
	settled(0)
	if _, f := w.rpc("mcp.fs.list", object{}); f == nil || f.Data.Code != "unavailable" || !strings.Contains(f.Message, "no folder") {
		t.Errorf("without folders: %v", f)
	}
	if code, body := w.post("/v1/chat/completions", say("gpt-5", "text still here")); code != http.StatusOK || !strings.Contains(body, "still here") {
		t.Errorf("%d %s", code, body)
	}
}

func TestWindowWithoutFolder(t *testing.T) {
	w := startWindow(t, models(), nil)
	if _, f := w.rpc("mcp.search.code", object{"query": "x"}); f == nil || f.Data.Code != "unavailable" {
		t.Errorf("%v", f)
	}
	if code, body := w.post("/v1/chat/completions", say("gpt-5", "text here")); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

// Health is that of the last request, and the extension is told of changes.
func TestWindowHealth(t *testing.T) {
	w := startWindow(t, models(), nil)
	state := func(want editor.Copilot) {
		t.Helper()
		w.Await(t, "bridge.state", func(p json.RawMessage) bool {
			var s editor.State
			return json.Unmarshal(p, &s) == nil && s.Copilot == want
		})
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
			code, body := w.get("/healthz")
			if code == http.StatusOK && strings.Contains(body, `"copilot":"`+string(want)+`"`) && strings.Contains(body, `"ok":true`) {
				return
			}
		}
		_, body := w.get("/healthz")
		t.Errorf("want %s, health is %s", want, body)
	}
	w.post("/v1/chat/completions", say("gpt-5", "fault consent_required not yet"))
	state(editor.CopilotConsent)
	if err := w.Ask(t, "bridge.consented", nil); err != nil {
		t.Error(err)
	}
	state(editor.CopilotOK)
	models := w.Models
	w.SetModels()
	w.Notify("lm.changed", object{})
	state(editor.CopilotUnavailable)
	if code, body := w.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, body)
	}
	w.SetModels(append(models, editor.Model{ID: "brand-new"})...)
	w.Notify("lm.changed", object{})
	state(editor.CopilotOK)
	if code, body := w.get("/v1/models"); code != http.StatusOK || !strings.Contains(body, "brand-new") {
		t.Errorf("%d %s", code, body)
	}
	w.Await(t, "bridge.state", func(p json.RawMessage) bool {
		var s editor.State
		return json.Unmarshal(p, &s) == nil && s.Requests == 1
	})
}

// A client that leaves costs the editor nothing any more.
func TestWindowCancelsWithTheClient(t *testing.T) {
	w := startWindow(t, models(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.ready.URL+"/v1/chat/completions", strings.NewReader(say("gpt-5", "text begin; silence", `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+windowToken)
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if _, err := resp.Body.Read(buf); err != nil {
		t.Error(err)
	}
	cancel()
	_ = resp.Body.Close()
	w.Await(t, "$/cancel", nil)
}

// The client's tools run in several requests; VS Code sees all of them.
func TestWindowCallsTools(t *testing.T) {
	w := startWindow(t, models(), nil)
	tools := `,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]`
	first := say("gpt-5", `tool look {"at":1}; tool look {"at":2}; next; text both seen`, tools)
	code, body := w.post("/v1/chat/completions", first)
	var answer struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				ToolCalls []struct{ ID string } `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK || answer.Choices[0].FinishReason != "tool_calls" || len(answer.Choices[0].Message.ToolCalls) != 2 {
		t.Fatalf("%d %s", code, body)
	}
	var request object
	if err := json.Unmarshal([]byte(first), &request); err != nil {
		t.Fatal(err)
	}
	var said struct {
		Choices []struct{ Message object }
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil {
		t.Fatal(err)
	}
	messages, _ := request["messages"].([]any)
	messages = append(messages, said.Choices[0].Message)
	for _, c := range answer.Choices[0].Message.ToolCalls {
		messages = append(messages, object{"role": "tool", "tool_call_id": c.ID, "content": "seen"})
	}
	request["messages"] = messages
	next, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := w.post("/v1/chat/completions", string(next)); code != http.StatusOK || !strings.Contains(body, "both seen") {
		t.Errorf("%d %s", code, body)
	}
	if n := len(w.Calls("lm.chat")); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// Programs of the same user find the window in whose folder they are.
func TestWindowIsFound(t *testing.T) {
	dir := tree(t, map[string]string{"sub/a.txt": "one\n"})
	w := startWindow(t, models(), []string{dir})
	entry := filepath.Join(w.world.home, ".copilot-bridge", "windows", fmt.Sprint(os.Getpid(), ".json"))
	info, err := os.Stat(entry)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	killed := filepath.Join(filepath.Dir(entry), "1.json")
	if err := os.WriteFile(killed, []byte(`{"url":"http://127.0.0.1:1","folders":["/"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	other := &world{out: &buffer{}, err: &buffer{}, home: w.world.home}
	other.Env = w.world.Env
	other.Environ = []string{"PATH=" + os.Getenv("PATH")}
	other.Dir = filepath.Join(dir, "sub")
	if code := other.rpc("mcp.fs.read", `{"path":"sub/a.txt"}`, "--json"); code != 0 || !strings.Contains(other.out.String(), `"one\n"`) {
		t.Errorf("%d: %s%s", code, other.out, other.err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("the entry of a dead window is still there")
	}
	other.Dir = t.TempDir()
	if code := other.rpc("bridge.status", "--window", fmt.Sprint(os.Getpid()), "--json"); code != 0 || strings.Contains(other.out.String(), windowToken) {
		t.Errorf("%d: %s%s", code, other.out, other.err)
	}
	other.out, other.err = &buffer{}, &buffer{}
	other.Stdout, other.Stderr = other.out, other.err
	if other.run("validate", "--json"); !strings.Contains(other.out.String(), "a window answers at "+w.ready.URL) {
		t.Errorf("validate says %s%s", other.out, other.err)
	}
	if code := other.rpc("bridge.status", "--window", "1"); code == 0 {
		t.Errorf("a window that there is not: %s", other.out)
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left, err := os.ReadDir(filepath.Dir(entry)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The same folders get the same port again; two windows have two.
func TestWindowPorts(t *testing.T) {
	dir := t.TempDir()
	first := startWindow(t, models(), []string{dir}, "--rpc-port", "0")
	if first.ready.RPC == "ws"+strings.TrimPrefix(first.ready.URL, "http")+"/rpc" {
		t.Errorf("%+v", first.ready)
	}
	second := startWindow(t, models(), []string{dir})
	if first.ready.URL == second.ready.URL {
		t.Errorf("both at %s", first.ready.URL)
	}
}

// The tool bus speaks MCP, too.
func TestWindowServesMCP(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "on disk\n"})
	w := startWindow(t, models(), []string{dir})
	w.Type(filepath.Join(dir, "a.txt"), "typed\n")
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: w.ready.MCP, HTTPClient: &http.Client{Transport: bearer{&http.Transport{DisableKeepAlives: true}}}, DisableStandaloneSSE: true}
	s, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{}
	for _, tool := range tools.Tools {
		if !regexp.MustCompile(`^[\w-]+$`).MatchString(tool.Name) || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
		readOnly[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	for name, want := range map[string]bool{"fs_read": true, "fs_list": true, "search_code": true, "symbols_list": true, "edit_applyPatch": false, "format_apply": false, "imports_organize": false, "task_list": true, "task_run": false, "shell_run": false} {
		if got, ok := readOnly[name]; !ok || got != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	call := func(name string, args object) (string, bool) {
		t.Helper()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		return text.Text, r.IsError
	}
	if text, failed := call("fs_read", object{"path": "a.txt"}); failed || !strings.Contains(text, `"content":"typed\n"`) {
		t.Errorf("%s", text)
	}
	if text, failed := call("edit_applyPatch", object{"unifiedDiff": diffOf("a.txt", "typed", "x")}); !failed || !strings.Contains(text, "[denied]") {
		t.Errorf("%s", text)
	}
	if text, failed := call("fs_read", object{"pth": "a.txt"}); !failed || !strings.Contains(text, "path") {
		t.Errorf("%s", text)
	}
}

type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+windowToken)
	return b.RoundTripper.RoundTrip(r)
}
