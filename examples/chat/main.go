// Chat sends one question to a model and prints the answer as it comes.
//
//	go run ./examples/chat [-demo] "What is a mutex?"
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	copilotbridge "github.com/copilot-bridge/copilot-bridge"
	"github.com/copilot-bridge/copilot-bridge/bridge"
)

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

func run(ctx context.Context, demo bool, question string) (err error) {
	client, err := copilotbridge.Open(ctx, copilotbridge.Options{Demo: demo, Progress: func(text string) { fmt.Fprintln(os.Stderr, text) }})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := client.Close(); err == nil {
			err = closeErr
		}
	}()
	if notice := client.Notice(); notice != "" {
		fmt.Fprintln(os.Stderr, notice)
	}
	session, err := client.NewSession(ctx, copilotbridge.SessionOptions{Chat: true, System: "Answer in one paragraph."})
	if err != nil {
		return err
	}
	for event, err := range session.Send(ctx, bridge.Prompt{Text: question}) {
		if err != nil {
			return err
		}
		if text, ok := event.(bridge.TextDelta); ok {
			fmt.Print(text.Text)
		}
	}
	fmt.Println()
	return nil
}
