package lsp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// The test binary plays the supervisor, broken and odd language servers, a
// formatter, and a bridge that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervise.Verb:
			os.Exit(supervise.Main(os.Args[2:], os.Stderr))
		case "fake-server":
			os.Exit(fakeServer(os.Args[2], os.Args[3:]))
		case "fake-formatter":
			os.Exit(fakeFormatter(os.Args[2], os.Args[3:]))
		case "bridge":
			os.Exit(bridgeMain(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// fake is a manager whose language "fake" (*.fake) has a server that behaves
// in the given way.
func fake(t *testing.T, behaviour string, change func(*Options, *Server)) (*Manager, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := t.TempDir()
	write(t, dir, "a.fake", "line one\nline two\n")
	server := Server{Command: []string{self, "fake-server", behaviour, state}, Extensions: []string{".fake"}}
	opts := Options{StartTimeout: 2 * time.Minute, RequestTimeout: 2 * time.Minute} // for a busy machine
	if change != nil {
		change(&opts, &server)
	}
	opts.Servers = map[string]Server{"fake": server}
	m := New(dir, opts)
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m, state
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// odd is one fake server. Its state directory is shared by its lives.
type odd struct {
	behaviour, state string
	stream           *jsonrpc.Headers
	out              *bufio.Writer
	text             map[string]string
	answers          []string
	nextID           int
}

func fakeServer(behaviour string, args []string) int {
	s := &odd{
		behaviour: behaviour, state: args[0], text: map[string]string{},
		out: bufio.NewWriter(os.Stdout),
	}
	s.stream = jsonrpc.NewHeaders(os.Stdin, s.out, io.Discard, maxMessage)
	life := s.count("lives")
	switch behaviour {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find my configuration")
		return 3
	case "garbage":
		for {
			if _, err := os.Stdout.Write([]byte(strings.Repeat("\x00\xffnoise", 1000) + "\n")); err != nil {
				return 1
			}
		}
	case "huge":
		fmt.Printf("Content-Length: 9999999999\r\n\r\n")
	case "children":
		// One that ignores SIGTERM and holds our output.
		child := exec.Command("/bin/sh", "-c", "trap '' TERM; sleep 300")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return 1
		}
		s.record("child", strconv.Itoa(child.Process.Pid))
	}
	s.record("pid", strconv.Itoa(os.Getpid()))
	for {
		content, err := s.stream.Read()
		if err != nil {
			s.record("ended", "input "+err.Error())
			if behaviour == "children" {
				select {} // stays until it is killed
			}
			return 0
		}
		var m jsonrpc.Message
		if err := json.Unmarshal(content, &m); err != nil {
			return 1
		}
		if code, end := s.handle(m, life); end {
			return code
		}
	}
}

func (s *odd) record(name, value string) {
	tmp := filepath.Join(s.state, name+".tmp")
	if os.WriteFile(tmp, []byte(value), 0o600) != nil || os.Rename(tmp, filepath.Join(s.state, name)) != nil {
		os.Exit(9)
	}
}

func (s *odd) count(name string) int {
	b, _ := os.ReadFile(filepath.Join(s.state, name))
	n, _ := strconv.Atoi(string(b))
	s.record(name, strconv.Itoa(n+1))
	return n + 1
}

func (s *odd) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	if err != nil {
		os.Exit(8)
	}
	if s.behaviour == "noise" {
		_, _ = s.out.WriteString("some log line: with a colon\r\n\r\nand a half one ")
	}
	if s.stream.Write(b) != nil || s.out.Flush() != nil {
		os.Exit(7)
	}
}

func (s *odd) ask(method string, params any) {
	s.nextID++
	s.send(map[string]any{"id": "s" + strconv.Itoa(s.nextID), "method": method, "params": params})
}

func (s *odd) handle(m jsonrpc.Message, life int) (code int, end bool) {
	reply := func(result any) { s.send(map[string]any{"id": m.ID, "result": result}) }
	refuse := func(code int, text string) {
		s.send(map[string]any{"id": m.ID, "error": map[string]any{"code": code, "message": text}})
	}
	var p struct {
		TextDocument struct {
			URI, Text string
			Version   int
		}
		ContentChanges []struct{ Text string }
		ID             int
		Context        struct{ Only []string }
		Options        map[string]any
		Capabilities   struct {
			General struct{ PositionEncodings []string }
		}
	}
	_ = json.Unmarshal(m.Params, &p) // other messages have other parameters
	uri := p.TextDocument.URI
	switch m.Method {
	case "":
		s.answers = append(s.answers, string(m.Result)+errorText(m.Error))
	case "initialize":
		if s.behaviour == "mute" {
			return 0, false
		}
		caps := map[string]any{"documentSymbolProvider": true, "documentFormattingProvider": true, "codeActionProvider": map[string]any{"resolveProvider": true}}
		if units, ok := strings.CutPrefix(s.behaviour, "units "); ok {
			caps["positionEncoding"] = units
		}
		if s.behaviour == "formats not" {
			caps["documentFormattingProvider"] = false
		}
		reply(map[string]any{"capabilities": caps})
	case "initialized":
		if s.behaviour == "deaf" {
			select {} // reads no more
		}
		if s.behaviour == "asks" {
			s.ask("workspace/configuration", map[string]any{"items": []map[string]string{{"section": "a.b"}, {"section": "none"}, {"section": "c"}}})
			s.ask("client/registerCapability", map[string]any{"registrations": []map[string]string{{"id": "1", "method": "workspace/didChangeWatchedFiles"}}})
			s.ask("window/workDoneProgress/create", map[string]any{"token": 1})
			s.ask("workspace/applyEdit", map[string]any{"edit": map[string]any{}})
			s.ask("workspace/workspaceFolders", nil)
			s.ask("workspace/codeLens/refresh", nil)
			s.ask("window/showMessageRequest", map[string]any{"message": "choose"})
			s.ask("odd/request", nil)
			s.send(map[string]any{"method": "$/progress", "params": map[string]any{"token": 1}})
			s.send(map[string]any{"id": 999, "result": "for nobody"})
		}
	case "shutdown":
		reply(nil)
	case "exit":
		if s.behaviour != "children" {
			return 0, true
		}
	case "textDocument/didOpen":
		s.text[uri] = p.TextDocument.Text
		s.note("open")
	case "textDocument/didChange":
		s.text[uri] = p.ContentChanges[0].Text
		s.note("change v" + strconv.Itoa(p.TextDocument.Version))
	case "textDocument/didClose":
		delete(s.text, uri)
		s.note("close")
	case "workspace/didChangeWatchedFiles":
		s.note("files " + string(m.Params))
	case "$/cancelRequest":
		s.note("cancel " + strconv.Itoa(p.ID))
	case "textDocument/documentSymbol":
		return s.symbols(m, life, uri, reply, refuse)
	case "textDocument/formatting":
		s.format(uri, reply)
	case "textDocument/codeAction":
		s.actions(uri, p.Context.Only[0], reply)
	case "codeAction/resolve":
		reply(map[string]any{"title": "t", "kind": organizeImports, "edit": insertion(uriOf(m.Params), "resolved ")})
	case "workspace/executeCommand":
		var args struct{ Arguments []string }
		_ = json.Unmarshal(m.Params, &args)
		s.ask("workspace/applyEdit", map[string]any{"edit": insertion(args.Arguments[0], "commanded ")})
		reply(nil)
	default:
		if len(m.ID) > 0 {
			refuse(jsonrpc.CodeMethodNotFound, m.Method)
		}
	}
	return 0, false
}

func uriOf(params json.RawMessage) string {
	var p struct{ Data string }
	_ = json.Unmarshal(params, &p)
	return p.Data
}

func errorText(e *jsonrpc.Error) string {
	if e == nil {
		return ""
	}
	return "error " + strconv.Itoa(e.Code)
}

// note appends to the log of what the server was told.
func (s *odd) note(what string) {
	b, _ := os.ReadFile(filepath.Join(s.state, "log"))
	s.record("log", string(b)+what+"\n")
}

func insertion(uri, text string) any {
	return map[string]any{"documentChanges": []any{map[string]any{
		"textDocument": map[string]any{"uri": uri, "version": 1},
		"edits":        []any{map[string]any{"range": Span{}, "newText": text}},
	}}}
}

func (s *odd) symbols(m jsonrpc.Message, life int, uri string, reply func(any), refuse func(int, string)) (int, bool) {
	symbol := func(name string) map[string]any {
		return map[string]any{"name": name, "kind": 12, "range": Span{End: Position{1, 4}}, "selectionRange": Span{End: Position{0, 3}}}
	}
	switch s.behaviour {
	case "silent":
	case "dies once":
		if life == 1 {
			fmt.Fprintln(os.Stderr, "panic: something broke")
			return 2, true
		}
		reply([]any{symbol("after")})
	case "dies":
		fmt.Fprintln(os.Stderr, "panic: something broke")
		return 2, true
	case "truncates":
		_, _ = os.Stdout.WriteString("Content-Length: 500\r\n\r\n{\"jsonrpc\":")
		return 0, true
	case "no JSON":
		_, _ = os.Stdout.WriteString("Content-Length: 5\r\n\r\nhello")
	case "wrong":
		reply("a string")
	case "refuses":
		refuse(-32803, "cannot parse this")
	case "modified":
		if s.count("asked") < 3 {
			refuse(codeContentModified, "content modified")
		} else {
			reply([]any{symbol("finally")})
		}
	case "big":
		list := make([]any, 60_000)
		for i := range list {
			list[i] = symbol(fmt.Sprintf("%0100d", i))
		}
		reply(list)
	case "flat":
		reply([]any{
			map[string]any{"name": "b", "kind": 99, "containerName": "x", "location": map[string]any{"uri": uri, "range": Span{Start: Position{1, 5}, End: Position{1, 8}}}},
			map[string]any{"name": "a", "kind": 5, "location": map[string]any{"uri": uri, "range": Span{End: Position{0, 4}}}},
		})
	case "asks":
		list := []any{}
		for _, a := range s.answers {
			list = append(list, symbol(a))
		}
		reply(list)
	default:
		reply([]any{symbol(s.text[uri])})
	}
	return 0, false
}

// format appends to the first line.
func (s *odd) format(uri string, reply func(any)) {
	line, _, _ := strings.Cut(strings.ReplaceAll(s.text[uri], "\r", ""), "\n")
	if s.behaviour == "overlap" {
		edit := map[string]any{"range": Span{End: Position{0, 4}}, "newText": "x"}
		reply([]any{edit, edit})
		return
	}
	t := newBuffer(line)
	reply([]any{map[string]any{"range": Span{Start: t.end(), End: t.end()}, "newText": " formatted"}})
}

func (s *odd) actions(uri, kind string, reply func(any)) {
	switch s.behaviour {
	case "resolves":
		reply([]any{map[string]any{"title": "t", "kind": kind, "data": uri}})
	case "commands":
		reply([]any{map[string]any{"title": "t", "kind": kind, "command": map[string]any{"title": "t", "command": "do", "arguments": []string{uri}}}})
	case "bare command":
		reply([]any{map[string]any{"title": "t", "command": "do", "arguments": []string{uri}}})
	case "elsewhere":
		reply([]any{map[string]any{"title": "t", "kind": kind, "edit": insertion("file:///etc/passwd", "x")}})
	case "other kinds":
		reply([]any{map[string]any{"title": "t", "kind": "source.fixAll", "edit": insertion(uri, "wrong ")}, map[string]any{"title": "d", "kind": kind, "disabled": map[string]any{"reason": "r"}}})
	default:
		reply([]any{map[string]any{"title": "t", "kind": kind + ".sub", "edit": map[string]any{"changes": map[string]any{
			uri: []any{map[string]any{"range": Span{}, "newText": "organized "}},
		}}}})
	}
}

func fakeFormatter(behaviour string, args []string) int {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	switch behaviour {
	case "upper":
		fmt.Print(strings.ToUpper(string(b)))
	case "file":
		fmt.Print(args[0], ": ", string(b))
	case "fails":
		fmt.Fprintln(os.Stderr, "syntax error in line 1")
		return 2
	case "empty":
	}
	return 0
}
