package mcp

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

func TestMain(m *testing.M) {
	if os.Getenv(fixtureVariable) != "" {
		os.Exit(serveFixtures())
	}
	goleak.VerifyTestMain(m)
}

// fake is both services, as the test wants them.
type fake struct {
	read   func(ctx context.Context, path string) (File, error)
	task   func(ctx context.Context, t Task) (TaskResult, error)
	large  func(ctx context.Context, t LargeTask) (LargeResult, error)
	search func(ctx context.Context, query string, limit int) (Hits, error)
}

func (f *fake) ReadFile(ctx context.Context, path string) (File, error) {
	if f.read != nil {
		return f.read(ctx, path)
	}
	return File{Path: path, Content: "text", Encoding: "utf-8"}, nil
}

func (*fake) CreateFile(_ context.Context, path, content string, overwrite bool) (Created, error) {
	return Created{Path: path, Size: int64(len(content)), Replaced: overwrite}, nil
}

func (*fake) ListFiles(_ context.Context, dir string) (Files, error) {
	return Files{Files: []string{dir + "/x"}}, nil
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

func (f *fake) Search(ctx context.Context, query string, limit int) (Hits, error) {
	return f.search(ctx, query, limit)
}

func (*fake) Read(_ context.Context, file string) (Document, error) {
	return Document{File: file, Content: "doc"}, nil
}

func (*fake) Preferences(context.Context) (Document, error) {
	return Document{File: "USER.md", Content: "tabs"}, nil
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
