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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/languagetest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// served is a running `serve` in a workspace with files.
type served struct {
	url, rpc  string
	home, dir string
	env       []string
}

// serveFiles writes files and serves the workspace. Names that begin with ~/
// are relative to the home directory.
func serveFiles(t *testing.T, files map[string]string, env []string, flags ...string) *served {
	t.Helper()
	return serveBy(t, nil, files, env, flags...)
}

// serveBy is serveFiles with a command prefix that starts the program.
func serveBy(t *testing.T, by []string, files map[string]string, env []string, flags ...string) *served {
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
	line := slices.Concat(by, []string{binary, "serve", "--json", "--port", "0", "--demo"}, flags)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	s.url, s.rpc = startServer(t, cmd)
	return s
}

// startServer starts a server that says with --json where it is, and ends with the
// test.
func startServer(t *testing.T, cmd *exec.Cmd) (url, rpc string) {
	t.Helper()
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
			t.Errorf("%q: %v\n%s", cmd.Args, err, stderr)
		}
	})
	first, err := bufio.NewReader(out).ReadBytes('\n')
	var address struct{ URL, RPC string }
	if err := errors.Join(err, json.Unmarshal(first, &address)); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	return address.URL, address.RPC
}

// wire is a plain WebSocket connection.
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
			_ = resp.Body.Close() // not needed
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

// waitForMessage reads messages up to one that matches.
func (w *wire) waitForMessage(pattern string) string {
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
		if got := w.waitForMessage(`"id":1`); !strings.Contains(got, `"content":"hello\n"`) || w.ws.Subprotocol() != tt.agreed {
			t.Errorf("%s: %s over %q", tt.name, got, w.ws.Subprotocol())
		}
	}

	w, status := s.dial(t, bearer)
	if w == nil {
		t.Fatal(status)
	}
	// In a batch, each request with an ID gets an answer, and each error is
	// separate.
	w.send(`[{"jsonrpc":"2.0","id":"a","method":"mcp.fs.read","params":{"path":"hello.txt"}},{"jsonrpc":"2.0","method":"bridge.status"},
		{"jsonrpc":"2.0","id":null,"method":"none"},{"id":3},{"jsonrpc":"2.0","id":4.5,"method":"mcp.fs.list","params":[[]]}]`)
	var answers []struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *struct{ Code int }
	}
	if err := json.Unmarshal([]byte(w.waitForMessage(`^\[`)), &answers); err != nil {
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
	w.waitForMessage(`"code":-32700.*`)

	// Cancelling a command ends it with all its child processes.
	w.send(`{"jsonrpc":"2.0","id":"long","method":"mcp.shell.run","params":{"cmd":"sleep 1000"}}`)
	w.send(`{"jsonrpc":"2.0","id":"quick","method":"mcp.fs.read","params":["hello.txt"]}`)
	w.waitForMessage(`"id":"quick","result"`) // does not wait for the long command
	sleeping := func() bool { return len(processes(t, s.home, "sleep 1000")) > 0 }
	waitUntil(t, "the command runs", sleeping)
	w.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"long"}}`)
	w.waitForMessage(`"id":"long","error":\{"code":-32800`)
	waitUntil(t, "the command has gone", func() bool { return !sleeping() })
}

// waitUntil polls until ok returns true.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// processes lists processes with this home directory whose command line
// contains the text.
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

// call runs the call command beside the server.
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

// The tool bus uses the language servers from config.yaml.
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
		"~/config.yaml": string(config), // JSON is valid YAML
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
		method, path, want string // want is part of the result
		file               string // part of the file afterwards
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
		t.Errorf("unused imports are still there:\n%s\n%s", read("a.go"), read("a.ts"))
	}
	if out, errs, code := s.call(t, "mcp.symbols.list", `["x.unknown"]`); code == 0 || !strings.Contains(errs, "no language server is known for x.unknown") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	// The patch is badly formatted; "format" formats the file afterwards.
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

// With the token and a terminal, the caller is asked about its own requests.
func TestToolBusAsksAtTheTerminal(t *testing.T) {
	t.Parallel()
	const token = "COPILOT_BRIDGE_TOKEN=sesame-sesame-sesame"
	s := serveFiles(t, map[string]string{"hello.txt": "hello\n"}, []string{token})
	params := `{"unifiedDiff":"--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-hello\n+hello, world\n"}`
	// Without a terminal the request fails with the policy's error.
	if out, errs, code := s.call(t, "mcp.edit.applyPatch", params); code != 4 || !strings.Contains(errs, "nobody is there") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	for _, tt := range []struct {
		typed string
		code  int
		text  string
	}{{"n", 4, "hello\n"}, {"y", 0, "hello, world\n"}} {
		x := atTerminalWith(t, s.env, s.dir, "rpc", "mcp.edit.applyPatch", params, "--url", s.url)
		x.waitFor("This request wants to write: hello.txt")
		x.waitFor("+hello, world")
		x.waitFor("[d]eny: ")
		x.typeKeys(tt.typed + "\n")
		x.checkExit(tt.code)
		if data, err := os.ReadFile(filepath.Join(s.dir, "hello.txt")); err != nil || string(data) != tt.text {
			t.Errorf("%s: %q, %v", tt.typed, data, err)
		}
	}
}

// Without a token, the user at serve's terminal is asked.
func TestServeAsksAtItsTerminal(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	x := atTerminalOf(t, home, dir, "serve", "--port", "0", "--demo", "--read-write")
	x.waitFor("copilot-bridge is ready: ")
	waitUntil(t, "the address is shown", func() bool { return printedURL.MatchString(x.screen.String()) })
	s := &served{url: printedURL.FindString(x.screen.String()), home: home, dir: dir,
		env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "COPILOT_CLI_PATH=" + runtimetest.Path(t)}}
	done := make(chan string, 1)
	go func() {
		out, errs, code := s.call(t, "mcp.shell.run", `["touch made"]`)
		done <- fmt.Sprintf("exit %d %s%s", code, out, errs)
	}()
	x.waitFor("A client of the tool bus wants to run: touch made")
	x.typeKeys("y\n")
	if got := <-done; !strings.Contains(got, `exit 0`) {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.checkExit(0)
}

// The examples in the documentation produce the documented output.
func TestToolBusDocs(t *testing.T) {
	t.Parallel()
	s := serveFiles(t, map[string]string{
		"hello.txt": "hello\n", "src/payment/Client.ts": "// Pays.\nexport class PaymentClient {\n}\n",
		"Makefile": "greet:\n\t@echo good day\n", "~/policy.yaml": "shell: {allow: ['make greet', 'builtin:read-only']}\n",
	}, nil, "--read-write")
	text, err := os.ReadFile("../../docs/guides/toolbus.md")
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
		if !contains(got, want) {
			t.Errorf("%sgot %s\nthe documentation says %s", e[1], out, e[2])
		}
	}
}

// contains reports whether got contains want; objects may have more members.
func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && contains(have[name], value)
		}
		return ok
	case []any:
		have, ok := got.([]any)
		ok = ok && len(have) == len(want)
		for i := range want {
			ok = ok && contains(have[i], want[i])
		}
		return ok
	}
	return got == want
}
