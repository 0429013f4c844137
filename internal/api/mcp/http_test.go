package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// Over HTTP, several clients at once, each with its own cancel and questions.
func TestHTTP(t *testing.T) {
	f := &fake{task: func(ctx context.Context, task Task) (TaskResult, error) {
		answer, err := task.Asker.Ask(context.WithoutCancel(ctx), approval.Question{Summary: "run: " + task.Prompt})
		return TaskResult{Text: fmt.Sprint(int(answer.Consent), err)}, nil
	}}
	s := NewCopilot(f, Options{Consent: true})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	defer s.Close()
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			o := &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				if want := fmt.Sprintf("Consent is needed.\n```\nCopilot wants to run: %d\n```", i); r.Params.Message != want {
					t.Errorf("%d is asked %q", i, r.Params.Message)
				}
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "once"}}, nil
			}}
			c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL, HTTPClient: server.Client()}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: ToolCodeTask, Arguments: map[string]any{"prompt": fmt.Sprint(i), "workingDir": fmt.Sprint(i)}})
			if err != nil || !strings.HasPrefix(text(r), "1 <nil>") {
				t.Errorf("%+v, %v", r, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
}

// The end of the input is the end, and what runs is ended with it.
func TestHangUp(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	f := &fake{task: func(ctx context.Context, _ Task) (TaskResult, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return TaskResult{}, ctx.Err()
	}}
	in, client := io.Pipe()
	out := &programtest.Output{}
	done := make(chan error, 1)
	s := NewCopilot(f, Options{})
	go func() { done <- s.Serve(t.Context(), in, out) }()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"copilot_code_task","arguments":{"prompt":"x"}}}`,
	} {
		if _, err := io.WriteString(client, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-began
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), `"protocolVersion":"2025-06-18"`) {
		t.Errorf("%s", out)
	}
}

// The end of the context is the end too, whatever the input does.
func TestStop(t *testing.T) {
	in, client := io.Pipe()
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- NewMemory(memory{}, allowAll{}, Options{}).Serve(ctx, in, io.Discard) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = in.Close() // so that the reader goes, which in a process ends with it
}

// Calls that run when the server is told to stop are answered, and streams that
// clients keep open do not hold up the end.
func TestDrain(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	f := &fake{task: func(ctx context.Context, _ Task) (TaskResult, error) {
		close(began)
		<-release
		return TaskResult{Text: "done"}, ctx.Err()
	}}
	s := NewCopilot(f, Options{})
	h := s.Handler()
	server, err := httpserver.Listen(t.Context(), httpserver.Options{DrainTimeout: time.Hour, Token: "t", Doors: map[string]http.Handler{"POST /mcp": h, "GET /mcp": h, "DELETE /mcp": h}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	context.AfterFunc(ctx, func() { s.Drain(time.Hour) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	transport := &http.Transport{}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: server.URL() + "/mcp", HTTPClient: &http.Client{Transport: bearing{transport}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: ToolCodeTask, Arguments: map[string]any{"prompt": "x"}})
		if err != nil {
			got <- err.Error()
			return
		}
		got <- text(r)
	}()
	<-began
	stop()
	close(release)
	if answer := <-got; !strings.HasPrefix(answer, "done") {
		t.Errorf("%s", answer)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	_ = c.Close() // the server has closed the session
	transport.CloseIdleConnections()
}

// bearing shows the token.
type bearing struct{ http.RoundTripper }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer t")
	return b.RoundTripper.RoundTrip(r)
}
