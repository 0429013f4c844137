package chat

import (
	"context"
	"iter"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// The test binary is also the supervisor of the runtimes that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// outcome is an answer that was read to its end.
type outcome struct {
	events []bridge.Event
	err    error
}

// read reads an answer as a client does that leaves when ctx ends.
func read(ctx context.Context, s *Service, c bridge.Chat) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) {
		pieces, leave := s.Stream(ctx, c)
		defer leave()
		for {
			select {
			case p, more := <-pieces:
				if !more || !yield(p.Event, p.Err) {
					return
				}
			case <-ctx.Done():
				yield(nil, bridge.AsError(context.Cause(ctx)))
				return
			}
		}
	}
}

func ask(ctx context.Context, s *Service, c bridge.Chat) outcome {
	var o outcome
	for ev, err := range read(ctx, s, c) {
		if err != nil {
			o.err = err
			continue
		}
		o.events = append(o.events, ev)
	}
	return o
}

func all[T bridge.Event](o outcome) []T {
	var out []T
	for _, ev := range o.events {
		if e, ok := ev.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

// text is what the deltas say.
func (o outcome) text() string {
	var b strings.Builder
	for _, d := range all[bridge.TextDelta](o) {
		b.WriteString(d.Text)
	}
	return b.String()
}

func (o outcome) end() bridge.TurnEnded {
	if len(o.events) == 0 {
		return bridge.TurnEnded{}
	}
	e, _ := o.events[len(o.events)-1].(bridge.TurnEnded)
	return e
}

func (o outcome) calls() []bridge.ToolCall {
	m := all[bridge.MessageDone](o)
	if len(m) == 0 {
		return nil
	}
	return m[len(m)-1].Calls
}

// reply is the answer as a client sends it back.
func (o outcome) reply() bridge.Message {
	return bridge.Message{Role: bridge.RoleAssistant, Text: o.text(), Calls: o.calls()}
}

// good fails the test unless the answer ended as it should.
func (o outcome) good(t testing.TB, r bridge.EndReason, text string) outcome {
	t.Helper()
	if o.err != nil || o.end().Reason != r || o.text() != text {
		t.Fatalf("answered %q, ended %q, %v; want %q, %q", o.text(), o.end().Reason, o.err, text, r)
	}
	return o
}

func user(text string) bridge.Message { return bridge.Message{Role: bridge.RoleUser, Text: text} }

func assistant(text string) bridge.Message {
	return bridge.Message{Role: bridge.RoleAssistant, Text: text}
}

func result(call, text string) bridge.Message {
	return bridge.Message{Role: bridge.RoleTool, CallID: call, Text: text}
}

// script is a message of directives to the model.
func script(directives ...string) bridge.Message {
	return user("rehearsal: " + strings.Join(directives, "\nrehearsal: "))
}

func say(text string) bridge.Message { return script("text " + text) }

func chatOf(messages ...bridge.Message) bridge.Chat {
	return bridge.Chat{Door: "test", Profile: bridge.ProfileChat, Messages: messages}
}

func withTools(c bridge.Chat, names ...string) bridge.Chat {
	for _, n := range names {
		c.Tools = append(c.Tools, bridge.ToolSpec{Name: n, Description: "a tool", Schema: map[string]any{
			"type": "object", "properties": map[string]any{"x": map[string]any{"type": "string"}}}})
	}
	return c
}
