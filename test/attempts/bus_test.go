//go:build unix

package attempts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// bus is the tool bus of `serve`. The test makes the calls over JSON-RPC,
// without a model.
func bus(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	return connectBus(t, y, startServer(t, y, env, "serve", "--json", "--port", "0", "--read-write"), nil)
}

func connectBus(t *testing.T, y *testEnv, url string, header http.Header) caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"/rpc", &websocket.DialOptions{HTTPHeader: header,
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // not needed
	}
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	n := 0
	return &direct{y: y, send: func(t *testing.T, c call) (outcome, bool) {
		t.Helper()
		method, params, ok := busCall(t, y, c.Case)
		if !ok {
			return outcome{}, false
		}
		n++
		return rpc(t, y, ws, n, method, params), true
	}}
}

// rpc makes one call and waits for its answer.
func rpc(t *testing.T, y *testEnv, ws *websocket.Conn, id int, method string, params any) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Write(ctx, websocket.MessageText, data); err != nil {
		t.Fatalf("%s: %v\n%s", method, err, y.output)
	}
	for {
		_, message, err := ws.Read(ctx)
		if err != nil {
			t.Fatalf("%s: %v\n%s", method, err, y.output)
		}
		_, _ = y.output.Write(message) // never fails
		var answer struct {
			ID     json.RawMessage
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(message, &answer); err != nil {
			t.Fatal(err)
		}
		if string(answer.ID) != fmt.Sprint(id) {
			continue // a progress notification
		}
		o := outcome{Text: string(answer.Result)}
		if answer.Error != nil {
			o.Text = fmt.Sprintf("[%d] %s", answer.Error.Code, answer.Error.Message)
		}
		o.setFromText(answer.Error != nil, "[-32010]")
		o.Ran = o.Ran && !strings.HasPrefix(o.Text, `{"ok":false`) // the patch had conflicts
		return o
	}
}

// busCall translates a tool call of the model into a call of the tool bus.
func busCall(t *testing.T, y *testEnv, c guardtest.Case) (method string, params map[string]any, ok bool) {
	t.Helper()
	if strings.HasPrefix(c.Tool, "mcp.") {
		return c.Tool, c.Args, true
	}
	name, _ := c.Args["path"].(string)
	switch c.Tool {
	case "bash":
		return "mcp.shell.run", map[string]any{"cmd": c.Args["command"]}, true
	case "view":
		if isDirectory(name) {
			return "mcp.fs.list", map[string]any{"glob": path.Join(y.relative(name), "**"), "hidden": true}, true
		}
		return "mcp.fs.read", map[string]any{"path": y.relative(name)}, true
	case "grep":
		return "mcp.search.code", map[string]any{"query": c.Args["pattern"], "glob": y.treePatterns(c.Args["paths"]), "hidden": true}, true
	case "glob":
		return "mcp.fs.list", map[string]any{"glob": y.globs(c), "hidden": true}, true
	case "create", "edit":
		if name == "" {
			return "", nil, false // a diff needs a file name
		}
		return "mcp.edit.applyPatch", map[string]any{"unifiedDiff": y.diff(c)}, true
	}
	return "", nil, false
}

// relative makes a path below the workspace relative, as the tool bus requires.
// Other paths stay unchanged.
func (y *testEnv) relative(name string) string {
	if name == y.Workspace {
		return "."
	}
	return strings.TrimPrefix(name, y.Workspace+"/")
}

// treePatterns returns glob patterns for the given paths and everything below
// them.
func (y *testEnv) treePatterns(paths any) []string {
	var out []string
	switch paths := paths.(type) {
	case string:
		out = []string{y.relative(paths), path.Join(y.relative(paths), "**")}
	case []any:
		for _, p := range paths {
			out = append(out, y.treePatterns(p)...)
		}
	}
	return out
}

func (y *testEnv) globs(c guardtest.Case) []string {
	pattern, _ := c.Args["pattern"].(string)
	if c.Args["paths"] == nil {
		return []string{pattern}
	}
	var out []string
	for _, p := range y.treePatterns(c.Args["paths"]) {
		if dir, ok := strings.CutSuffix(p, "**"); ok {
			out = append(out, dir+pattern)
		}
	}
	return out
}

// diff returns the change of a create or edit call as a diff.
func (y *testEnv) diff(c guardtest.Case) string {
	name, _ := c.Args["path"].(string)
	old, err := os.ReadFile(name)
	if err != nil {
		old = nil
	}
	text, ok := c.Args["file_text"].(string)
	if !ok {
		from, _ := c.Args["old_str"].(string)
		to, _ := c.Args["new_str"].(string)
		text = strings.Replace(string(old), from, to, 1)
	}
	was, before := hunk("-", string(old))
	is, after := hunk("+", text)
	from, to := "/dev/null", quoted("b/"+y.relative(name))
	if err == nil {
		from = quoted("a/" + y.relative(name))
	}
	return fmt.Sprintf("--- %s\n+++ %s\n@@ -%s +%s @@\n%s%s", from, to, before, after, was, is)
}

// quoted is a file name as git writes it in a diff.
func quoted(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return name
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// hunk returns a text as diff lines, and their line range.
func hunk(sign, text string) (lines, at string) {
	if text == "" {
		return "", "0,0"
	}
	whole := strings.HasSuffix(text, "\n")
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = sign + strings.Join(all, "\n"+sign) + "\n"
	if !whole {
		lines += "\\ No newline at end of file\n"
	}
	return lines, fmt.Sprintf("1,%d", len(all))
}
