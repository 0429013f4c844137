package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client of the MCP server sees everything that it consents to: the whole of
// a long command, a file with its text, and invisible characters. Requests that
// are too long to show are denied without a question.
func TestMCPConsentIsForWhatIsShown(t *testing.T) {
	b := newMCPBench(t, map[string]string{".agent-policy.yaml": "tools: { ask: [bash, create, edit, mcp.fs.create] }\n"})
	var mu sync.Mutex
	var asked []string
	c := b.connect(t, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.Params.Message)
			decision := "session"
			if strings.Contains(r.Params.Message, "evil") {
				decision = "no"
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
		},
	}, "copilot")
	path := filepath.Join(b.dir, "Makefile")
	var prompt strings.Builder
	for _, tool := range []string{
		"bash " + toJSON(map[string]any{"command": strings.Repeat("echo step; ", 450) + "touch evil", "description": "List the files"}),
		"create " + toJSON(map[string]any{"path": path, "file_text": "all:\n\techo A\n"}),
		"edit " + toJSON(map[string]any{"path": path, "old_str": "echo A", "new_str": "echo \u202eB" + strings.Repeat("\n", 40) + "\techo C"}),
		"edit " + toJSON(map[string]any{"path": path, "old_str": "echo C", "new_str": "touch evil"}),
	} {
		prompt.WriteString("rehearsal: tool " + tool + "\nrehearsal: next\n")
	}
	prompt.WriteString("rehearsal: text done")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt.String()}}); err != nil || r.IsError {
		t.Fatal(err, mcpText(r))
	}
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "copilot_create_file", Arguments: map[string]any{"path": "evil", "content": strings.Repeat("ab\ncd\n", 50_000)}})
	if err != nil || !r.IsError || !strings.Contains(mcpText(r), "bytes long") || !strings.Contains(mcpText(r), "in smaller parts") {
		t.Errorf("%v, %.300s", err, mcpText(r))
	}
	want := [][]string{
		{"run: echo step; echo step;", "echo step; touch evil\nin " + b.dir, "\nCopilot says: “List the files”\n"},
		{"write: Makefile", "+\techo A"},
		{"-\techo A\n+\techo \\u202eB\n", "\n+(39 blank lines)\n+\techo C"},
		{"-\techo C\n+\ttouch evil"},
	}
	if len(asked) != len(want) {
		t.Fatalf("asked %d times: %.2000q", len(asked), asked)
	}
	for i, parts := range want {
		for _, part := range parts {
			if !strings.Contains(asked[i], part) {
				t.Errorf("%q is not in %.3000s", part, asked[i])
			}
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "evil")); err == nil {
		t.Error("a denied call had an effect")
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "echo C") {
		t.Errorf("%s, %v", text, err)
	}
}

// Copilot's questions reach the client of the MCP server, and its answers
// Copilot. A client without elicitation is asked nothing.
func TestMCPQuestions(t *testing.T) {
	b := newMCPBench(t, nil)
	const prompt = `rehearsal: tool ask_user {"question":"Which colour?","choices":["red","green"]}`
	for name, tt := range map[string]struct {
		action, want string
	}{"answered": {"accept", "answered: User selected: green"}, "declined": {"decline", "does not want to answer"}} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan *mcp.ElicitParams, 8)
			c := b.connect(t, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked <- r.Params
				return &mcp.ElicitResult{Action: tt.action, Content: map[string]any{"answer": "green"}}, nil
			}}, "copilot")
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt}})
			if err != nil || !strings.Contains(mcpText(r), tt.want) {
				t.Errorf("%v, %s", err, mcpText(r))
			}
			select {
			case q := <-asked:
				if !strings.Contains(q.Message, "Which colour?") || !strings.Contains(toJSON(q.RequestedSchema), "green") {
					t.Errorf("asked %s", toJSON(q))
				}
			default:
				t.Error("nobody was asked")
			}
		})
	}
	r, err := b.connect(t, nil, "copilot").CallTool(t.Context(), &mcp.CallToolParams{Name: "copilot_code_task", Arguments: map[string]any{"prompt": prompt}})
	if err != nil || strings.Contains(mcpText(r), "green") {
		t.Errorf("without elicitation: %v, %s", err, mcpText(r))
	}
}
