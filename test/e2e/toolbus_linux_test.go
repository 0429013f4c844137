package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/language/languagetest"
)

// served is a running `serve` in a workspace with files.
type served struct {
	url, rpc  string
	home, dir string
	env       []string
}

// serveFiles writes files, those that begin with ~/ into the home directory,
// and serves the workspace.
func serveFiles(t *testing.T, files map[string]string, env []string, flags ...string) *served {
	t.Helper()
	s := &served{home: t.TempDir(), dir: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			path = filepath.Join(s.home, ".copilot-bridge", rest)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append([]string{"HOME=" + s.home, "TERM=xterm", "COPILOT_CLI_PATH=" + runtimetest.Path(t),
		"PATH=" + filepath.Dir(binary) + string(filepath.ListSeparator) + os.Getenv("PATH")}, env...)
	cmd := exec.Command(binary, append([]string{"serve", "--json", "--port", "0", "--demo"}, flags...)...)
	cmd.Dir, cmd.Env = s.dir, s.env
	stderr := &output{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("serve: %v\n%s", err, stderr)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var told struct{ URL, RPC string }
	if err := errors.Join(err, json.Unmarshal(line, &told)); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	s.url, s.rpc = told.URL, told.RPC
	return s
}

// wire is a bare WebSocket, as any client has it.
type wire struct {
	t  *testing.T
	ws *websocket.Conn
}

// dial returns the status of the answer, and a connection if there is one.
func (s *served) dial(t *testing.T, header http.Header, protocols ...string) (*wire, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, s.rpc, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols,
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if resp == nil {
		t.Fatal(err)
	}
	if err != nil {
		if resp.Body != nil {
			_ = resp.Body.Close() // it was not looked at
		}
		return nil, resp.StatusCode
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &wire{t, ws}, resp.StatusCode
}

func (w *wire) send(message string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.ws.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		w.t.Fatal(err)
	}
}

// until reads messages up to one that matches.
func (w *wire) until(pattern string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*patience)
	defer cancel()
	re := regexp.MustCompile(pattern)
	for {
		_, message, err := w.ws.Read(ctx)
		if err != nil {
			w.t.Fatalf("%v while waiting for %s", err, pattern)
		}
		if re.Match(message) {
			return string(message)
		}
	}
}

func TestToolBusWire(t *testing.T) {
	t.Parallel()
	const token = "sesame-sesame-sesame"
	s := serveFiles(t, map[string]string{"hello.txt": "hello\n", "~/policy.yaml": "shell: {allow: ['sleep 1000', 'builtin:read-only']}\n"},
		[]string{"COPILOT_BRIDGE_TOKEN=" + token}, "--read-write")
	bearer := http.Header{"Authorization": {"Bearer " + token}}
	for _, tt := range []struct {
		name      string
		header    http.Header
		protocols []string
		status    int
		agreed    string
	}{
		{"no token", nil, nil, http.StatusUnauthorized, ""},
		{"wrong token", http.Header{"Authorization": {"Bearer no"}}, nil, http.StatusUnauthorized, ""},
		{"wrong sub-protocol", nil, []string{"jsonrpc", "bearer.no"}, http.StatusUnauthorized, ""},
		{"a web page", http.Header{"Authorization": {"Bearer " + token}, "Origin": {s.url}}, nil, http.StatusForbidden, ""},
		{"another's web page", http.Header{"Authorization": {"Bearer " + token}, "Origin": {"http://evil.example"}}, nil, http.StatusForbidden, ""},
		{"header", bearer, nil, http.StatusSwitchingProtocols, ""},
		{"sub-protocol", nil, []string{"jsonrpc", "bearer." + token}, http.StatusSwitchingProtocols, "jsonrpc"},
		{"sub-protocol alone", nil, []string{"bearer." + token}, http.StatusSwitchingProtocols, "bearer." + token},
	} {
		w, status := s.dial(t, tt.header, tt.protocols...)
		if status != tt.status || (w != nil) != (tt.status == http.StatusSwitchingProtocols) {
			t.Errorf("%s: %d", tt.name, status)
		}
		if w == nil {
			continue
		}
		w.send(`{"jsonrpc":"2.0","id":1,"method":"mcp.fs.read","params":["hello.txt"]}`)
		if got := w.until(`"id":1`); !strings.Contains(got, `"content":"hello\n"`) || w.ws.Subprotocol() != tt.agreed {
			t.Errorf("%s: %s over %q", tt.name, got, w.ws.Subprotocol())
		}
	}

	w, status := s.dial(t, bearer)
	if w == nil {
		t.Fatal(status)
	}
	// A batch: answers to what has an id, errors of each its own.
	w.send(`[{"jsonrpc":"2.0","id":"a","method":"mcp.fs.read","params":{"path":"hello.txt"}},{"jsonrpc":"2.0","method":"bridge.status"},
		{"jsonrpc":"2.0","id":null,"method":"none"},{"id":3},{"jsonrpc":"2.0","id":4.5,"method":"mcp.fs.list","params":[[]]}]`)
	var answers []struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *struct{ Code int }
	}
	if err := json.Unmarshal([]byte(w.until(`^\[`)), &answers); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, a := range answers {
		code := 0
		if a.Error != nil {
			code = a.Error.Code
		}
		got[string(a.ID)] = code
	}
	if want := map[string]int{`"a"`: 0, "null": -32601, "3": -32600, "4.5": 0}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w.send(`{"jsonrpc":"2.0","id":`)
	w.until(`"code":-32700.*`)

	// A running command is canceled, with all that it is.
	w.send(`{"jsonrpc":"2.0","id":"long","method":"mcp.shell.run","params":{"cmd":"sleep 1000"}}`)
	w.send(`{"jsonrpc":"2.0","id":"quick","method":"mcp.fs.read","params":["hello.txt"]}`)
	w.until(`"id":"quick","result"`) // which does not wait for it
	sleeping := func() bool { return len(processes(t, s.home, "sleep 1000")) > 0 }
	within(t, "the command runs", sleeping)
	w.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"long"}}`)
	w.until(`"id":"long","error":\{"code":-32800`)
	within(t, "the command has gone", func() bool { return !sleeping() })
}

// within waits for something, with patience.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// processes lists those of a home directory whose command line has a text.
func processes(t *testing.T, home, text string) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		env, err := os.ReadFile(e + "/environ")
		if err != nil || !bytes.Contains(env, []byte("HOME="+home+"\x00")) {
			continue
		}
		line, err := os.ReadFile(e + "/cmdline")
		if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			found = append(found, e)
		}
	}
	return found
}

// call runs the command beside the server.
func (s *served) call(t *testing.T, method, params string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(binary, "rpc", method, params, "--json", "--url", s.url)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Language servers that config.yaml names do their work through the tool bus.
func TestToolBusLanguages(t *testing.T) {
	t.Parallel()
	config, err := json.Marshal(map[string]any{"languages": map[string]any{
		"go":         map[string]any{"command": []string{languagetest.Gopls(t)}},
		"typescript": map[string]any{"command": []string{languagetest.TypeScript(t), "--stdio"}},
		"note":       map[string]any{"extensions": []string{".note"}, "formatter": []string{"tr", "a-z", "A-Z"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := serveFiles(t, map[string]string{
		"~/config.yaml": string(config), // JSON is YAML
		"go.mod":        "module example.com/m\n\ngo 1.24\n",
		"a.go":          "package m\nimport (\"os\";\"fmt\")\nfunc  A( ) { fmt.Println( strings.ToUpper(\"x\")) }\n",
		"a.ts":          "import { z } from './z';\nimport { b, a } from './b';\nexport class   Box{ v=a+b;  get( ){return this.v} }\n",
		"b.ts":          "export const a = 1;\nexport const b = 2;\n", "z.ts": "export const z = 1;\n", "tsconfig.json": "{}\n",
		"x.note": "shout\n", "x.unknown": "x\n",
	}, []string{"GOPROXY=off", "GOMODCACHE=" + t.TempDir(), "GOFLAGS=-mod=mod"}, "--read-write")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tt := range []struct {
		method, path, want string // want is in the result
		file               string // what the file holds afterwards, in part
	}{
		{"mcp.imports.organize", "a.go", `"ok":true,"path":"a.go","changed":true`, "\"strings\""},
		{"mcp.format.apply", "a.go", `"ok":true,"path":"a.go"`, "func A() { fmt.Println(strings.ToUpper(\"x\")) }\n"},
		{"mcp.symbols.list", "a.go", `"name":"A","kind":"function"`, ""},
		{"mcp.imports.organize", "a.ts", `"ok":true,"path":"a.ts","changed":true`, "import { a, b } from './b';\nexport class"},
		{"mcp.format.apply", "a.ts", `"ok":true,"path":"a.ts","changed":true`, "get() { return this.v }"},
		{"mcp.symbols.list", "a.ts", `"name":"Box","kind":"class"`, ""},
		{"mcp.format.apply", "x.note", `"changed":true`, "SHOUT\n"},
	} {
		out, errs, code := s.call(t, tt.method, fmt.Sprintf("[%q]", tt.path))
		if code != 0 || !strings.Contains(out, tt.want) || !strings.Contains(read(tt.path), tt.file) {
			t.Errorf("%s %s: exit %d, %s%s\n%s", tt.method, tt.path, code, out, errs, read(tt.path))
		}
	}
	if strings.Contains(read("a.go"), `"os"`) || strings.Contains(read("a.ts"), "./z") {
		t.Errorf("imports that are not used stayed:\n%s\n%s", read("a.go"), read("a.ts"))
	}
	if out, errs, code := s.call(t, "mcp.symbols.list", `["x.unknown"]`); code == 0 || !strings.Contains(errs, "no language server is known for x.unknown") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	// A patch that leaves the file as its formatter would.
	diff := "--- a/b.ts\n+++ b/b.ts\n@@ -1,2 +1,2 @@\n-export const a = 1;\n+export const   a=1 ;\n export const b = 2;\n"
	params, err := json.Marshal(map[string]any{"unifiedDiff": diff, "format": true})
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, code := s.call(t, "mcp.edit.applyPatch", string(params)); code != 0 || !strings.Contains(out, `"tidied":["b.ts"]`) || !strings.Contains(read("b.ts"), "const a = 1") {
		t.Errorf("exit %d, %s%s\n%s", code, out, errs, read("b.ts"))
	}
	if out, _, _ := s.call(t, "bridge.status", "{}"); !strings.Contains(out, `"language":"go","running":true`) || !strings.Contains(out, `"language":"typescript","running":true`) {
		t.Errorf("status: %s", out)
	}
}

// Whoever has the token and a terminal is asked about their own requests.
func TestToolBusAsksAtTheTerminal(t *testing.T) {
	t.Parallel()
	const token = "COPILOT_BRIDGE_TOKEN=sesame-sesame-sesame"
	s := serveFiles(t, map[string]string{"hello.txt": "hello\n"}, []string{token})
	params := `{"unifiedDiff":"--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-hello\n+hello, world\n"}`
	// Nobody to ask: the policy's error.
	if out, errs, code := s.call(t, "mcp.edit.applyPatch", params); code != 4 || !strings.Contains(errs, "nobody is there") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	for _, tt := range []struct {
		typed string
		code  int
		text  string
	}{{"n", 4, "hello\n"}, {"y", 0, "hello, world\n"}} {
		x := atTerminalWith(t, s.env, s.dir, "rpc", "mcp.edit.applyPatch", params, "--url", s.url)
		x.sees("This request wants to write: hello.txt")
		x.sees("+hello, world")
		x.sees("[n]o: ")
		x.types(tt.typed + "\n")
		x.exits(tt.code)
		if data, err := os.ReadFile(filepath.Join(s.dir, "hello.txt")); err != nil || string(data) != tt.text {
			t.Errorf("%s: %q, %v", tt.typed, data, err)
		}
	}
}

// Without a token it is the person at serve's own terminal who decides.
func TestServeAsksAtItsTerminal(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	x := atTerminalOf(t, home, dir, "serve", "--port", "0", "--demo", "--read-write")
	x.sees("copilot-bridge is ready: ")
	within(t, "the address is shown", func() bool { return printedURL.MatchString(x.screen.String()) })
	s := &served{url: printedURL.FindString(x.screen.String()), home: home, dir: dir,
		env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t)}}
	done := make(chan string, 1)
	go func() {
		out, errs, code := s.call(t, "mcp.shell.run", `["touch made"]`)
		done <- fmt.Sprintf("exit %d %s%s", code, out, errs)
	}()
	x.sees("A client of the tool bus wants to run: touch made")
	x.types("y\n")
	if got := <-done; !strings.Contains(got, `exit 0`) {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.exits(0)
}

// The examples of the documentation do what it says.
func TestToolBusDocs(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{
		"hello.txt": "hello\n", "src/payment/Client.ts": "// Pays.\nexport class PaymentClient {\n}\n",
		"Makefile": "greet:\n\t@echo good day\n", "~/policy.yaml": "shell: {allow: ['make greet', 'builtin:read-only']}\n",
	}, nil, "--read-write")
	text, err := os.ReadFile("../../docs/toolbus.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```sh\n(.*?)```\n```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 6 {
		t.Fatalf("only %d examples", len(examples))
	}
	for _, e := range examples {
		cmd := exec.Command("sh", "-c", e[1])
		cmd.Dir, cmd.Env = s.dir, append([]string{"BRIDGE_URL=" + s.url}, s.env...)
		out, err := cmd.Output()
		var got, want any
		if err := errors.Join(err, json.Unmarshal(out, &got), json.Unmarshal([]byte(e[2]), &want)); err != nil {
			t.Errorf("%s: %v\n%s", e[1], err, out)
			continue
		}
		if !holds(got, want) {
			t.Errorf("%sgave %s\nthe documentation says %s", e[1], out, e[2])
		}
	}
}

// holds says whether all that is wanted is there; objects may have more.
func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && holds(have[name], value)
		}
		return ok
	case []any:
		have, ok := got.([]any)
		ok = ok && len(have) == len(want)
		for i := range want {
			ok = ok && holds(have[i], want[i])
		}
		return ok
	}
	return got == want
}
