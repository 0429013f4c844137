package mcp

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

func TestMain(m *testing.M) {
	if os.Getenv(fixtureVariable) != "" {
		os.Exit(serveFixtures())
	}
	goleak.VerifyTestMain(m)
}

// fake is Copilot, as the test wants it.
type fake struct {
	read  func(ctx context.Context, path string) (files.Content, error)
	task  func(ctx context.Context, t Task) (TaskResult, error)
	large func(ctx context.Context, t LargeTask) (LargeResult, error)
}

func (f *fake) Read(ctx context.Context, path string, _ files.ReadOptions) (files.Content, error) {
	if f.read != nil {
		return f.read(ctx, path)
	}
	return files.Content{Path: path, Content: "text", Encoding: "utf-8"}, nil
}

func (*fake) Create(_ context.Context, path, content string, overwrite bool) (workspace.Created, error) {
	return workspace.Created{Path: path, Size: int64(len(content)), Replaced: overwrite}, nil
}

func (*fake) ListBelow(_ context.Context, dir string) (files.Listing, error) {
	return files.Listing{Files: []string{dir + "/x"}}, nil
}

func (*fake) Place(dir string) (string, error) {
	if dir == "/outside" {
		return "", &bridge.Error{Code: bridge.CodeDenied, Message: "outside"}
	}
	return "/w/" + dir, nil
}

func (f *fake) CodeTask(ctx context.Context, t Task) (TaskResult, error) { return f.task(ctx, t) }

func (f *fake) Orchestrate(ctx context.Context, t LargeTask) (LargeResult, error) {
	return f.large(ctx, t)
}

// memory is a memory that searches as the test wants, behind a guard that allows
// all and hides nothing.
type memory struct {
	search func(ctx context.Context, query string, limit int) (openclaw.Found, error)
}

type allowAll struct{}

func (allowAll) Before(context.Context, bridge.ToolCall) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Allow}
}
func (allowAll) Failed(context.Context, bridge.ToolCall, string)      {}
func (allowAll) Returned(context.Context, bridge.ToolCall, any) error { return nil }
func (allowAll) Reveal(context.Context, bridge.ToolCall, ...*string) (int, error) {
	return 0, nil
}

func (m memory) Search(ctx context.Context, query string, limit int) (openclaw.Found, error) {
	return m.search(ctx, query, limit)
}

func (memory) Read(_ context.Context, file string) (openclaw.Document, error) {
	return openclaw.Document{File: file, Content: "doc"}, nil
}

func (memory) Preferences(context.Context) (openclaw.Document, error) {
	return openclaw.Document{File: "USER.md", Content: "tabs"}, nil
}

// connect serves a client in this process.
func connect(t *testing.T, s *Server, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	ours, theirs := sdk.NewInMemoryTransports()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.mcp.Run(context.Background(), ours); err != nil {
			t.Logf("the server ended: %v", err)
		}
	})
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		s.Close()
		serving.Wait()
	})
	return c
}

func call(t *testing.T, c *sdk.ClientSession, name string, args map[string]any) *sdk.CallToolResult {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func structured(t *testing.T, r *sdk.CallToolResult, into any) {
	t.Helper()
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil || r.IsError {
		t.Fatalf("%+v: %v", r, err)
	}
}

func text(r *sdk.CallToolResult) string {
	for _, c := range r.Content {
		if tc, ok := c.(*sdk.TextContent); ok {
			return tc.Text
		}
	}
	return ""
}

// code is that of an error, or "".
func code(r *sdk.CallToolResult) string {
	detail, _ := r.Meta[errorKey].(map[string]any)
	c, _ := detail["code"].(string)
	if c == "" && r.IsError {
		return "none"
	}
	return c
}
