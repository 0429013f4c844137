// Agent gives Copilot's agent a task in the current directory, with a tool of
// this program's own, and asks at the terminal before anything risky happens.
//
//	go run ./examples/agent [-demo] "write today's weather in Oslo to weather.txt"
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"

	copilotbridge "github.com/copilot-bridge/copilot-bridge"
	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// weather is a tool that the model may call.
var weather = copilotbridge.Tool{
	Name:        "weather",
	Description: "The weather in a city today.",
	Schema: map[string]any{
		"type":       "object",
		"properties": map[string]any{"city": map[string]any{"type": "string"}},
		"required":   []string{"city"},
	},
	Run: func(_ context.Context, args map[string]any) (string, error) {
		city, ok := args["city"].(string)
		if !ok {
			return "", fmt.Errorf("city must be a string, not %v", args["city"])
		}
		return "It is sunny in " + city + ", 21 °C.", nil
	},
}

// terminal asks a person for consent, one question at a time.
type terminal struct {
	mu  sync.Mutex
	in  *bufio.Reader
	out io.Writer
}

func (t *terminal) approve(_ context.Context, a copilotbridge.Approval) (copilotbridge.Consent, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "\n%s\n%s\nAllow it? [y/N] ", a.Title, a.Detail)
	line, err := t.in.ReadString('\n')
	if err != nil {
		return copilotbridge.Deny, err
	}
	if strings.EqualFold(strings.TrimSpace(line), "y") {
		return copilotbridge.AllowOnce, nil
	}
	return copilotbridge.Deny, nil
}

func main() {
	demo := flag.Bool("demo", false, "let the built-in demo model answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *demo, strings.Join(flag.Args(), " "))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, demo bool, task string) (err error) {
	person := &terminal{in: bufio.NewReader(os.Stdin), out: os.Stdout}
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{Demo: demo, Approve: person.approve})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := client.Close(); err == nil {
			err = closeErr
		}
	}()
	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{Tools: []copilotbridge.Tool{weather}})
	if err != nil {
		return err
	}
	for event, err := range session.Send(ctx, bridge.Prompt{Text: task}) {
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case bridge.ToolStarted:
			fmt.Println("→", e.Call.Name)
		case bridge.ToolFinished:
			if !e.OK {
				fmt.Println("  failed:", e.Error)
			}
		case bridge.MessageDone:
			fmt.Println(e.Text)
		default: // there are more, such as the model's thinking
		}
	}
	return nil
}
