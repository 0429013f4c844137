package copilotbridge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	copilotbridge "github.com/copilot-bridge/copilot-bridge"
	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// A chat is a model with the caller's messages and nothing else.
func Example() {
	ctx := context.Background()
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{Demo: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{Chat: true})
	if err != nil {
		panic(err)
	}
	// The demo model does what such lines say; a real one needs a question.
	for event, err := range session.Send(ctx, bridge.Prompt{Text: "rehearsal: text Hello there."}) {
		if err != nil {
			panic(err)
		}
		if text, ok := event.(bridge.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
	// Output: Hello there.
}

// An agent works in a directory, under the user's policy.
func ExampleClient_NewSession() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{Dir: dir, Demo: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{})
	if err != nil {
		panic(err)
	}
	if _, err := session.Ask(ctx, "create hello.txt saying hi"); err != nil {
		panic(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "hello.txt"))
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
	// Output: hi
}

// The model may call functions of the program.
func ExampleTool() {
	ctx := context.Background()
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{Demo: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	double := copilotbridge.Tool{
		Name:        "double",
		Description: "Doubles a number.",
		Schema:      map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "number"}}},
		Run: func(_ context.Context, args map[string]any) (string, error) {
			n, ok := args["n"].(float64)
			if !ok {
				return "", fmt.Errorf("n must be a number")
			}
			fmt.Println("asked to double", n)
			return fmt.Sprint(2 * n), nil
		},
	}
	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{Chat: true, Tools: []copilotbridge.Tool{double}})
	if err != nil {
		panic(err)
	}
	answer, err := session.Ask(ctx, "rehearsal: tool double {\"n\": 21}\nrehearsal: next\nrehearsal: text It is 42.")
	fmt.Println(answer, err)
	// Output:
	// asked to double 21
	// It is 42. <nil>
}

// A program consents, or does not, to what the policy wants consent for.
func ExampleApproval() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{
		Dir: dir, Demo: true, Settings: map[string]string{"sandbox": "off"},
		Approve: func(_ context.Context, a copilotbridge.Approval) (copilotbridge.Consent, error) {
			fmt.Println(a.Title)
			return copilotbridge.Deny, nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{})
	if err != nil {
		panic(err)
	}
	for event, err := range session.Send(ctx, bridge.Prompt{Text: "rehearsal: tool bash {\"command\": \"touch made\", \"description\": \"x\"}\nrehearsal: next\nrehearsal: text Done."}) {
		if err != nil {
			panic(err)
		}
		if tool, ok := event.(bridge.ToolFinished); ok {
			fmt.Println("done:", tool.OK)
		}
	}
	// Output:
	// Copilot wants to run: touch made
	// done: false
}

// The APIs of OpenAI and Anthropic can be part of another server.
func ExampleClient_Handler() {
	client, err := copilotbridge.Open(context.Background(), copilotbridge.Options{Demo: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	mux := http.NewServeMux()
	mux.Handle("/copilot/", http.StripPrefix("/copilot", client.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	response, err := http.Get(server.URL + "/copilot/v1/models")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status, response.Header.Get("Content-Type"))
	// Output: 200 OK application/json
}
