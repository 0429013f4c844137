package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/toolbus"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// tools is a workspace that reads and runs; nothing else of it is called.
type tools struct {
	toolbus.Workspace
	started chan struct{}
}

func (*tools) Read(_ context.Context, path string, _ files.ReadOptions) (files.Content, error) {
	switch path {
	case "denied":
		return files.Content{}, &bridge.Error{Code: bridge.CodeDenied, Message: "no", Remedy: "change the policy"}
	case "none":
		return files.Content{}, &bridge.Error{Code: bridge.CodeNotFound, Message: "no such file"}
	}
	return files.Content{Path: path, Content: "a\u0085b"}, nil
}

func (t *tools) Shell(ctx context.Context, _, command string, o workspace.RunOptions) (task.Result, error) {
	if command == "wait" {
		close(t.started)
		<-ctx.Done()
		return task.Result{}, ctx.Err()
	}
	o.OnOutput("stdout", "one\n")
	o.OnOutput("stderr", "two \x1b[31m\n")
	return task.Result{ExitCode: 1}, nil
}

func bus(t *testing.T, token string) (*httptest.Server, *tools) {
	t.Helper()
	ws := &tools{started: make(chan struct{})}
	srv := httptest.NewServer(toolbus.New(ws, toolbus.Options{Token: token}))
	t.Cleanup(srv.Close)
	return srv, ws
}

// rpc runs the command, whether or not the program has it yet.
func (w *world) rpc(args ...string) int {
	w.Args = append([]string{"copilot-bridge", "rpc"}, args...)
	w.out, w.err = &buffer{}, &buffer{}
	w.Stdout, w.Stderr = w.out, w.err
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	p, stop := newProgram(w.Env, cancel)
	defer stop()
	root := p.root()
	if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "rpc" }) {
		root.AddCommand(p.rpcCommand())
	}
	return p.finish(root.ExecuteContext(ctx))
}

func TestRPC(t *testing.T) {
	srv, _ := bus(t, "")
	for _, tt := range []struct {
		name        string
		args        []string
		stdin       string
		code        int
		out, stderr string // contained
	}{
		{"pretty", []string{"mcp.fs.read", `{"path":"a"}`}, "", 0, "{\n  \"path\": \"a\",\n", ""},
		{"one line", []string{"mcp.fs.read", `{"path":"a"}`, "--json"}, "", 0, `{"path":"a","content":"a` + "\u0085" + `b"`, ""},
		{"by position", []string{"mcp.fs.read", `["a"]`}, "", 0, `"path": "a"`, ""},
		{"standard input", []string{"mcp.fs.read", "-"}, "{\"path\":\n\"a\"}\n", 0, `"path": "a"`, ""},
		{"no parameters", []string{"rpc.discover"}, "", 0, `"openrpc": "1.`, ""},
		{"progress", []string{"mcp.shell.run", `{"cmd":"x"}`}, "", 0, `"exitCode": 1`, "one\ntwo \\x1b[31m\n"},
		{"denied", []string{"mcp.fs.read", `{"path":"denied"}`}, "", 4, "", "copilot-bridge: no\n  → change the policy\n"},
		{"denied, for machines", []string{"mcp.fs.read", `{"path":"denied"}`, "--json"}, "", 4, `"code":"denied"`, "no"},
		{"not found", []string{"mcp.fs.read", `{"path":"none"}`}, "", 1, "", "no such file"},
		{"wrong parameter", []string{"mcp.fs.read", `{"path":7}`}, "", 2, "", "params.path: expected a string, got a number"},
		{"unknown method", []string{"mcp.fs.raed"}, "", 2, "", "Method not found: mcp.fs.raed\n  → rpc.discover lists the methods"},
		{"not JSON", []string{"mcp.fs.read", `{path:"a"}`}, "", 2, "", "not a JSON object or array"},
		{"neither object nor array", []string{"mcp.fs.read", `"a"`}, "", 2, "", "not a JSON object or array"},
		{"no method", nil, "", 2, "", "accepts a method and its parameters as JSON; got 0 arguments"},
		{"too many", []string{"a", "{}", "c"}, "", 2, "", "got 3 arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.Stdin = strings.NewReader(tt.stdin)
			code := w.rpc(append(tt.args, "--url", srv.URL)...)
			if code != tt.code || !strings.Contains(w.out.String(), tt.out) || tt.out == "" && w.out.String() != "" || !strings.Contains(w.err.String(), tt.stderr) {
				t.Errorf("exit %d\nstdout %s\nstderr %s", code, w.out, w.err)
			}
		})
	}
}

func TestRPCOnATerminal(t *testing.T) {
	srv, _ := bus(t, "")
	w := newWorld(t)
	w.IsTerminal = func(any) bool { return true }
	if code := w.rpc("mcp.fs.read", `{"path":"a"}`, "--url", srv.URL); code != 0 || !strings.Contains(w.out.String(), `"a\u0085b"`) ||
		!strings.Contains(w.err.String(), "… waiting for the bridge, which may ask for consent where it was started") {
		t.Errorf("exit %d, %q\n%s", code, w.out, w.err)
	}
}

// consenting is a workspace that asks before it runs.
type consenting struct {
	tools
	hub *toolbus.Hub
}

func (c *consenting) Shell(ctx context.Context, _, command string, _ workspace.RunOptions) (task.Result, error) {
	answer, err := c.hub.Ask(ctx, approval.Question{Summary: "run: " + command, Detail: "all \x1b[31mof it"})
	if answer.Consent == approval.No {
		return task.Result{}, &bridge.Error{Code: bridge.CodeDenied, Message: "denied", Cause: err}
	}
	return task.Result{Stdout: command}, nil
}

// What needs consent is asked about where there is a terminal.
func TestRPCAsks(t *testing.T) {
	ws := &consenting{hub: &toolbus.Hub{}}
	srv := httptest.NewServer(toolbus.New(ws, toolbus.Options{Hub: ws.hub}))
	t.Cleanup(srv.Close)
	for _, tt := range []struct {
		name, typed string
		terminal    bool
		args        []string
		code        int
		asked       bool
	}{
		{"yes", "y\n", true, nil, 0, true},
		{"no", "n\n", true, nil, 4, true},
		{"end of input", "", true, nil, 4, true},
		{"no terminal", "y\n", false, nil, 4, false},
		{"for machines", "y\n", true, []string{"--json"}, 4, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.Stdin = strings.NewReader(tt.typed)
			w.IsTerminal = func(any) bool { return tt.terminal }
			code := w.rpc(append([]string{"mcp.shell.run", `["touch x"]`, "--url", srv.URL}, tt.args...)...)
			asked := strings.Contains(w.err.String(), "? This request wants to run: touch x") && !strings.Contains(w.err.String(), "\x1b[31mof")
			if code != tt.code || asked != tt.asked {
				t.Errorf("exit %d\n%s\n%s", code, w.out, w.err)
			}
		})
	}
}

func TestRPCToken(t *testing.T) {
	srv, _ := bus(t, "sesame-sesame")
	for _, tt := range []struct {
		args, env string
		code      int
	}{
		{"", "", 3},
		{"--token wrong-wrong", "", 3},
		{"--token sesame-sesame", "", 0},
		{"", "COPILOT_BRIDGE_TOKEN=sesame-sesame", 0},
		{"--token wrong-wrong", "COPILOT_BRIDGE_TOKEN=sesame-sesame", 3},
	} {
		w := newWorld(t)
		w.Environ = append(w.Environ, tt.env)
		code := w.rpc(append([]string{"rpc.discover", "--url", srv.URL}, strings.Fields(tt.args)...)...)
		if code != tt.code || code != 0 && !strings.Contains(w.err.String(), "COPILOT_BRIDGE_TOKEN") || strings.Contains(w.err.String(), "wrong-wrong") {
			t.Errorf("%s %s: exit %d\n%s", tt.args, tt.env, code, w.err)
		}
	}
}

// Without a URL the bridge is found where serve is, or was last.
func TestRPCFindsTheBridge(t *testing.T) {
	srv, _ := bus(t, "")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	port := func(s *httptest.Server) string {
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Port()
	}
	for _, tt := range []struct {
		name, remembered, env string
		code                  int
		stderr                string
	}{
		{"remembered", port(srv), "", 0, ""},
		{"remembered, and meant", port(srv), "COPILOT_BRIDGE_PORT=0", 0, ""},
		{"configured", "", "COPILOT_BRIDGE_PORT=" + port(srv), 0, ""},
		{"configured, whatever is remembered", port(gone), "COPILOT_BRIDGE_PORT=" + port(srv), 0, ""},
		{"configured, but not there", port(srv), "COPILOT_BRIDGE_PORT=" + port(gone), 3, "there is no tool bus at http://127.0.0.1:" + port(gone)},
		{"never started", "", "COPILOT_BRIDGE_PORT=0", 3, "no tool bus is known to be running"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.Environ = append(w.Environ, tt.env)
			if tt.remembered != "" {
				dir := filepath.Join(w.home, ".copilot-bridge")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "state.json"), fmt.Appendf(nil, `{"ports":{"serve":%s}}`, tt.remembered), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code := w.rpc("mcp.fs.read", `["a"]`)
			if code != tt.code || !strings.Contains(w.err.String(), tt.stderr) || code == 3 && !strings.Contains(w.err.String(), "→ start one with `copilot-bridge serve`") {
				t.Errorf("exit %d\n%s", code, w.err)
			}
		})
	}
}

func TestRPCIsInterrupted(t *testing.T) {
	srv, ws := bus(t, "")
	w := newWorld(t)
	signals := make(chan os.Signal, 1)
	w.signals = signals
	go func() {
		<-ws.started
		signals <- os.Interrupt
	}()
	if code := w.rpc("mcp.shell.run", `{"cmd":"wait"}`, "--url", srv.URL); code != 130 || strings.Contains(w.err.String(), "copilot-bridge:") {
		t.Errorf("exit %d\n%s", code, w.err)
	}
}

func TestRPCCompletesMethods(t *testing.T) {
	names, _ := completeMethods(nil, nil, "")
	if !slices.ContainsFunc(names, func(c cobra.Completion) bool { return strings.HasPrefix(c, "mcp.fs.read\t") }) {
		t.Errorf("got %v", names)
	}
	if names, _ := completeMethods(nil, []string{"mcp.fs.read"}, ""); len(names) > 0 {
		t.Errorf("parameters: %v", names)
	}
}

// --json prints the bridge's result unchanged.
func TestRPCResultIsJSON(t *testing.T) {
	srv, _ := bus(t, "")
	w := newWorld(t)
	w.rpc("mcp.fs.read", `{"path":"<a&b>"}`, "--json", "--url", srv.URL)
	var c files.Content
	if err := json.Unmarshal([]byte(w.out.String()), &c); err != nil || c.Path != "<a&b>" || strings.Count(w.out.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, w.out)
	}
}
