package openai

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

func TestThinkingIsReadable(t *testing.T) {
	var k thinking
	got := k.piece("r1", "I ") + k.piece("r1", "look.") + k.piece("r2", "I see.") + k.line("▸ bash\n") + k.line("") + k.line("▸ view\n") + k.piece("r2", "Done.")
	if want := "I look.\n\nI see.\n▸ bash\n▸ view\nDone."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWholeReasoningOfSeveralMessages(t *testing.T) {
	w := newWhole(nil)
	for _, ev := range []bridge.Event{
		bridge.ReasoningDelta{Text: "One."}, bridge.MessageDone{Text: "a"},
		bridge.MessageDone{Reasoning: "Two."}, bridge.TextDelta{Text: "b"}, bridge.TurnEnded{Reason: bridge.EndDone},
	} {
		if w.next(ev) {
			t.Error("stopped")
		}
	}
	if w.reasoning.String() != "One.\n\nTwo." || w.text.String() != "a\n\nb" {
		t.Errorf("got %q, %q", w.reasoning.String(), w.text.String())
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
