package abp_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
)

// testLogger shows warnings with the test that they belong to.
func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// mcpMain is an MCP server on stdio with one tool, echo.
func mcpMain(in io.Reader, out io.Writer) int {
	enc := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ProtocolVersion string         `json:"protocolVersion"`
				Arguments       map[string]any `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &msg) != nil || msg.ID == nil {
			continue
		}
		result := map[string]any{}
		switch msg.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": msg.Params.ProtocolVersion, "serverInfo": map[string]any{"name": "test", "version": "1"},
				"capabilities": map[string]any{"tools": map[string]any{}}}
		case "tools/list":
			result["tools"] = []any{map[string]any{"name": "echo", "description": "says it again",
				"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}}}
		case "tools/call":
			text, _ := msg.Params.Arguments["text"].(string)
			result["content"] = []any{map[string]any{"type": "text", "text": "echo: " + text}}
		}
		if enc.Encode(map[string]any{"jsonrpc": "2.0", "id": msg.ID, "result": result}) != nil {
			return 1
		}
	}
	return 0
}
