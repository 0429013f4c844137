package openai

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

func TestThinkingIsReadable(t *testing.T) {
	var f flow
	got := ""
	for _, d := range []wire.Delta{
		{Of: "r1", Reasoning: "I "}, {Of: "r1", Reasoning: "look."}, {Of: "r2", Reasoning: "I see."}, {Of: wire.OfActivity, Reasoning: "▸ bash\n"},
		{Of: wire.OfActivity}, {Of: wire.OfActivity, Reasoning: "▸ view\n"}, {Of: "r2", Reasoning: "Done."},
	} {
		_, reasoning := f.next(d)
		got += reasoning
	}
	if want := "I look.\n\nI see.\n▸ bash\n▸ view\nDone."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWholeReasoningOfSeveralMessages(t *testing.T) {
	a := &chatAnswer{Answer: wire.Answer{Chat: bridge.Chat{Whole: true}}}
	for _, ev := range []bridge.Event{
		bridge.ReasoningDelta{Text: "One."}, bridge.MessageDone{Message: "a", Text: "a"},
		bridge.MessageDone{Message: "b", Reasoning: "Two."}, bridge.TextDelta{Text: "b"}, bridge.TurnEnded{Reason: bridge.EndDone},
	} {
		a.Add(a.Next(ev))
	}
	if a.reasoning.String() != "One.\n\nTwo." || a.text.String() != "a\n\nb" {
		t.Errorf("got %q, %q", a.reasoning.String(), a.text.String())
	}
}

func TestArgumentsOf(t *testing.T) {
	for _, c := range []struct {
		args any
		want string
	}{
		{nil, "{}"},
		{"{not json", "{not json"},
		{map[string]any{"a": "<&>", "b": []any{1.0, nil}}, `{"a":"<&>","b":[1,null]}`},
		{func() {}, "{}"},
	} {
		if got := argumentsOf(bridge.ToolCall{Args: c.args}); got != c.want {
			t.Errorf("%v: got %q, want %q", c.args, got, c.want)
		}
	}
}
