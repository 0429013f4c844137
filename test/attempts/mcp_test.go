//go:build unix

package attempts

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
)

// connect opens a session with an MCP server. The client does not support
// elicitation, so the server cannot ask for permission.
func connect(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "attempts", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // ends the program if it was started for this client
	return c
}

func mcpStdio(args ...string) func(*testing.T, *testEnv, []string) *mcp.ClientSession {
	return func(t *testing.T, y *testEnv, env []string) *mcp.ClientSession {
		t.Helper()
		return connect(t, &mcp.CommandTransport{Command: y.program(env, append([]string{"mcp"}, args...)...), TerminateDuration: 20 * time.Second})
	}
}

func mcpHTTP(flags ...string) func(*testing.T, *testEnv, []string) *mcp.ClientSession {
	return func(t *testing.T, y *testEnv, env []string) *mcp.ClientSession {
		t.Helper()
		url := startServer(t, y, env, append([]string{"mcp", "copilot", "--http", "127.0.0.1:0", "--json"}, flags...)...)
		return connect(t, &mcp.StreamableClientTransport{Endpoint: url})
	}
}

// ask calls a tool and appends the result to y.output.
func ask(t *testing.T, y *testEnv, c *mcp.ClientSession, tool string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, y.output)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = y.output.Write(data) // never fails
	return r
}

// task is a tool that gives Copilot's agent a task; param is the name of the
// prompt argument.
func task(connect func(*testing.T, *testEnv, []string) *mcp.ClientSession, tool, param string) func(*testing.T, *testEnv, []string) caller {
	return func(t *testing.T, y *testEnv, env []string) caller {
		t.Helper()
		c := connect(t, y, env)
		return &session{y: y, say: func(t *testing.T, prompt string) {
			t.Helper()
			ask(t, y, c, tool, map[string]any{param: prompt})
		}}
	}
}

// plugin is the server that OpenClaw's plugin starts.
func plugin(t *testing.T, y *testEnv, env []string) caller {
	t.Helper()
	return task(mcpStdio("plugin", "--workspace", y.Workspace), "copilot_code", "task")(t, y, env)
}

// files are the tools of `mcp copilot` that access files without a model.
func files(connect func(*testing.T, *testEnv, []string) *mcp.ClientSession) func(*testing.T, *testEnv, []string) caller {
	return func(t *testing.T, y *testEnv, env []string) caller {
		t.Helper()
		c := connect(t, y, env)
		return &direct{y: y, send: func(t *testing.T, k call) (outcome, bool) {
			t.Helper()
			tool, args, ok := fileTool(y, k.Case)
			if !ok {
				return outcome{}, false
			}
			return toolOutcome(ask(t, y, c, tool, args)), true
		}}
	}
}

func fileTool(y *testEnv, c guardtest.Case) (tool string, args map[string]any, ok bool) {
	name, _ := c.Args["path"].(string)
	path := y.relative(name)
	switch c.Tool {
	case "view":
		if isDirectory(name) {
			return "copilot_list_files", map[string]any{"directory": path}, true
		}
		return "copilot_read_file", map[string]any{"path": path}, true
	case "create":
		return "copilot_create_file", map[string]any{"path": path, "content": c.Args["file_text"], "overwrite": true}, true
	case "glob":
		if dir, one := c.Args["paths"].(string); one {
			return "copilot_list_files", map[string]any{"directory": y.relative(dir)}, true
		}
	}
	return "", nil, false
}

func toolOutcome(r *mcp.CallToolResult) outcome {
	var o outcome
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			o.Text += text.Text
		}
	}
	o.setFromText(r.IsError, "[denied]")
	return o
}
