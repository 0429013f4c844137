package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/editor"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/editortest"
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
		{"internal", http.StatusServiceUnavailable, `"code":"copilot_unavailable"`, `"api_error"`},
		{"of_next_year", http.StatusServiceUnavailable, `"code":"copilot_unavailable"`, `"api_error"`},
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

type patched struct {
	OK        bool
	Files     []struct{ Path, Status, SHA256 string }
	Conflicts []struct{ File, Reason string }
	Tidied    []string
}

// A client that disconnects cancels its request in the editor.
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
