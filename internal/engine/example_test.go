package engine_test

import (
	"context"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// A door runs a task and passes the events on as they come.
func ExampleEngine_Stream() {
	e := engine.New(engine.Options{Agent: agenttest.NewScripted()}) // app builds the real one
	defer func() { _ = e.Close(context.Background()) }()

	task := engine.Task{Prompt: agenttest.Say("Hello!")}
	for ev, err := range e.Stream(context.Background(), task) {
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		switch ev := ev.(type) {
		case bridge.TextDelta:
			fmt.Println("text:", ev.Text)
		case bridge.TurnEnded:
			fmt.Println("ended:", ev.Reason)
		default: // a door passes on what its protocol has a place for
		}
	}
	// Output:
	// text: Hello!
	// ended: done
}

// A conversation of several turns.
func ExampleEngine_Open() {
	ctx := context.Background()
	e := engine.New(engine.Options{Agent: agenttest.NewScripted()})
	defer func() { _ = e.Close(ctx) }()

	s, err := e.Open(ctx, engine.Request{Door: "example", Spec: bridge.SessionSpec{Profile: bridge.ProfileChat}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"one", "two"} {
		for ev := range s.Send(ctx, agenttest.Say(word)) {
			if m, ok := ev.(bridge.MessageDone); ok {
				fmt.Println(m.Text)
			}
		}
	}
	// Output:
	// one
	// two
}
