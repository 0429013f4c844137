package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
)

// The depth that the system shows of the caller counts like what the call says, for tools that
// start something.
func TestDepthThatIsSeen(t *testing.T) {
	seen := 0
	o := Options{Depth: func() int { return seen }, Enter: func(depth int) error {
		if depth >= 3 {
			return &bridge.Error{Code: bridge.CodeDenied, Message: "that is a loop"}
		}
		return nil
	}}
	f := &fake{task: func(_ context.Context, t Task) (TaskResult, error) { return TaskResult{Text: fmt.Sprint(t.Depth)}, nil },
		large: func(_ context.Context, t LargeTask) (LargeResult, error) {
			return LargeResult{Summary: fmt.Sprint(t.Depth)}, nil
		}}
	c := connect(t, NewCopilot(f, o), nil)
	for _, tt := range []struct {
		seen, said int
		want       string
	}{{0, 0, "0"}, {2, 0, "2"}, {1, 2, "2"}, {3, 0, ""}} {
		seen = tt.seen
		for tool, key := range map[string]string{ToolCodeTask: "prompt", ToolOrchestrate: "task"} {
			r := call(t, c, tool, map[string]any{key: "x", "_depth": tt.said})
			var out struct{ Text, Summary string }
			if tt.want == "" {
				if code(r) != "denied" {
					t.Errorf("%s: %s", tool, text(r))
				}
				continue
			}
			if structured(t, r, &out); out.Text+out.Summary != tt.want {
				t.Errorf("%s at %d, said to be at %d: %+v", tool, tt.seen, tt.said, out)
			}
		}
	}
	if seen = 3; code(call(t, c, ToolReadFile, map[string]any{"path": "x"})) != "" {
		t.Error("what starts nothing is refused")
	}
}

// Every tool of every server refuses at the bound.
func TestDepth(t *testing.T) {
	deep := &bridge.Error{Code: bridge.CodeDenied, Message: "that is a loop"}
	o := Options{Enter: func(depth int) error {
		if depth >= 3 {
			return deep
		}
		return nil
	}}
	f := &fake{
		task:  func(_ context.Context, t Task) (TaskResult, error) { return TaskResult{Text: fmt.Sprint(t.Depth)}, nil },
		large: func(context.Context, LargeTask) (LargeResult, error) { return LargeResult{}, nil },
	}
	m := memory{search: func(context.Context, string, int) (openclaw.Found, error) { return openclaw.Found{}, nil }}
	args := map[string]map[string]any{ToolReadFile: {"path": "x"}, ToolCreateFile: {"path": "x", "content": ""}, ToolListFiles: {}, ToolCodeTask: {"prompt": "x"},
		ToolOrchestrate: {"task": "x"}, ToolCode: {"task": "x"}, ToolCodeVerbose: {"task": "x"},
		ToolMemorySearch: {"query": "x"}, ToolMemoryRead: {}, ToolUserPrefs: {}}
	for _, s := range []*Server{NewCopilot(f, o), NewMemory(m, allowAll{}, o), NewPlugin(f, o)} {
		c := connect(t, s, nil)
		for tool, err := range c.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			for depth, want := range map[int]string{0: "", 2: "", 3: "denied", 100: "denied"} {
				a := map[string]any{"_depth": depth}
				for k, v := range args[tool.Name] {
					a[k] = v
				}
				if r := call(t, c, tool.Name, a); code(r) != want || want != "" && !strings.Contains(text(r), "that is a loop") {
					t.Errorf("%s at %d: %s", tool.Name, depth, text(r))
				}
			}
		}
	}
}
