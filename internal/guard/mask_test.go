package guard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// told is a secret by its form, given one by its value.
const (
	told  = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	given = "correct-horse-battery"
)

func masked(clientTools []string, events ...bridge.Event) []bridge.Event {
	g := New(Options{Redactor: redact.New(redact.Options{Secrets: []string{given}}), ClientTools: clientTools})
	var out []bridge.Event
	m := g.Mask()
	for _, ev := range events {
		m(ev, func(e bridge.Event) bool { out = append(out, e); return true })
	}
	return out
}

// text puts the pieces of one kind together.
func text(events []bridge.Event, of func(bridge.Event) string) string {
	var b strings.Builder
	for _, ev := range events {
		b.WriteString(of(ev))
	}
	return b.String()
}

func TestMaskFindsSecretsInPieces(t *testing.T) {
	for _, secret := range []string{told, given} {
		for cut := 1; cut < len(secret); cut++ {
			a, b := "the key: "+secret[:cut], secret[cut:]+" and no more"
			got := masked(nil,
				bridge.TextDelta{Message: "m", Text: a}, bridge.ReasoningDelta{ID: "r", Text: a}, bridge.ToolProgress{CallID: "c", Text: a},
				bridge.TextDelta{Message: "m", Text: b}, bridge.ReasoningDelta{ID: "r", Text: b}, bridge.ToolProgress{CallID: "c", Text: b},
				bridge.MessageDone{Message: "m", Text: a + b}, bridge.ToolFinished{CallID: "c"}, bridge.TurnEnded{})
			for kind, of := range map[string]func(bridge.Event) string{
				"text":      func(e bridge.Event) string { d, _ := e.(bridge.TextDelta); return d.Text },
				"reasoning": func(e bridge.Event) string { d, _ := e.(bridge.ReasoningDelta); return d.Text },
				"progress":  func(e bridge.Event) string { d, _ := e.(bridge.ToolProgress); return d.Text },
				"message":   func(e bridge.Event) string { d, _ := e.(bridge.MessageDone); return d.Text },
			} {
				if s := text(got, of); s != "the key: [REDACTED] and no more" {
					t.Fatalf("%s cut at %d: %s is %q", secret, cut, kind, s)
				}
			}
		}
	}
}

func TestMaskKeepsOrderAndDropsWhatIsVoid(t *testing.T) {
	got := masked(nil, bridge.TextDelta{Message: "m", Text: "a"}, bridge.TextDelta{Message: "m", Text: " password="}, bridge.MessageRetracted{Message: "m"},
		bridge.TextDelta{Message: "n", Text: "b"}, bridge.MessageDone{Message: "n", Text: "b"}, bridge.TurnEnded{})
	var kinds []string
	for _, ev := range got {
		kinds = append(kinds, string(bridge.TypeOf(ev)))
	}
	all, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if last := kinds[len(kinds)-1]; last != "turn_ended" || strings.Contains(string(all), "password") {
		t.Errorf("%v\n%s", kinds, all)
	}
	if i, k := strings.Index(strings.Join(kinds, " "), "message_retracted"), strings.LastIndex(strings.Join(kinds, " "), "text"); i < 0 || k < i {
		t.Errorf("the new text does not follow the old one's end: %v", kinds)
	}
}

func TestMaskCoversEveryEvent(t *testing.T) {
	s := "x " + told + " y " + given
	args := map[string]any{"a": []any{s}}
	call := bridge.ToolCall{Name: "bash", Args: args}
	got := masked([]string{"theirs"},
		bridge.MessageDone{Message: "1", Text: s, Reasoning: s, Calls: []bridge.ToolCall{call}},
		bridge.ToolStarted{Call: call}, bridge.ToolFinished{Result: s, Error: s},
		bridge.PermissionAsked{Request: bridge.PermissionRequest{Command: s, Segments: []string{s}, URLs: []string{s}, Diff: s, Intention: s, Args: args}},
		bridge.PermissionDecided{Decision: bridge.Decision{Reason: s}},
		bridge.InputAsked{Question: bridge.Question{Text: s}}, bridge.PlanChanged{Text: s, Entries: []bridge.PlanEntry{{Text: s}}}, bridge.UserSaid{Text: s}, bridge.Notice{Text: s},
		bridge.Failed{Error: &bridge.Error{Code: bridge.CodeInternal, Message: s, Remedy: s}},
		bridge.ModelFailed{Error: &bridge.Error{Message: "m", Cause: &bridge.Error{Message: s}}},
		bridge.Other{Name: "o", Data: struct{ A string }{s}})
	for _, ev := range got {
		b, err := bridge.EncodeEvent(ev)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), told) || strings.Contains(string(b), given) || !strings.Contains(string(b), redact.Marker) {
			t.Errorf("%s", b)
		}
	}
	theirs := masked([]string{"theirs"}, bridge.MessageDone{Message: "1", Calls: []bridge.ToolCall{{Name: "theirs", Args: args}}})
	if b, err := bridge.EncodeEvent(theirs[0]); err != nil || !strings.Contains(string(b), told) {
		t.Errorf("the caller's own tool lost its arguments: %s %v", b, err)
	}
	if list, ok := args["a"].([]any); !ok || list[0] != s {
		t.Error("the original was changed")
	}
}

func TestMaskStopsWhenTheReaderLeaves(t *testing.T) {
	g := New(Options{})
	m, n := g.Mask(), 0
	leave := func(bridge.Event) bool { n++; return false }
	if m(bridge.TextDelta{Message: "m", Text: "one two three "}, leave) || n != 1 {
		t.Errorf("%d events", n)
	}
}
