package mcp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// fixtureVariable makes this test binary serve the tools that the MCP
// conformance suite wants by name. test/clients builds and starts it so: the
// product has no such tools, but its servers are made of the same parts.
const fixtureVariable = "COPILOT_BRIDGE_TEST_CONFORMANCE"

type fixtureInput struct {
	Message string `json:"message,omitempty"`
	nested
}

type fixtureOutput struct {
	Text string `json:"text"`
}

// fixtures is a server with the suite's tools. Each goes through what the
// bridge's own tools go through: add, coded errors, progress, questions.
func fixtures() *Server {
	s := newServer("copilot-bridge-conformance", "Conformance", "Tools of the conformance suite.", Options{Consent: true}, nil)
	tool := func(name string, do func(context.Context, fixtureInput) (string, error)) {
		add(s, tool{name: name, title: name, about: name}, withoutText(func(ctx context.Context, in fixtureInput) (fixtureOutput, error) {
			text, err := do(ctx, in)
			return fixtureOutput{text}, err
		}))
	}
	tool("test_simple_text", func(context.Context, fixtureInput) (string, error) {
		return "This is a simple text response for testing.", nil
	})
	tool("test_error_handling", func(context.Context, fixtureInput) (string, error) {
		return "", &bridge.Error{Code: bridge.CodeUnavailable, Message: "This tool intentionally returns an error for testing", Remedy: "none"}
	})
	tool("test_tool_with_progress", func(ctx context.Context, _ fixtureInput) (string, error) {
		p := newProgress(ctx)
		defer p.stop()
		for _, step := range []string{"begun", "half", "done"} {
			p.say(step)
		}
		return "done", nil
	})
	tool("test_elicitation", func(ctx context.Context, in fixtureInput) (string, error) {
		answer, err := clientOf(ctx).Ask(ctx, approval.Question{Summary: in.Message})
		return fmt.Sprintf("the answer is %v", int(answer.Consent)), err
	})
	return s
}

// serveFixtures serves them until standard input ends. The address is the
// first line of standard output.
func serveFixtures() int {
	s := fixtures()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	fmt.Printf("http://%s/mcp\n", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, it is over
	s.Close()
	_ = h.Close()
	<-served
	return 0
}
