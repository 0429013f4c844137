package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func delta(id, text string) bridge.Event { return bridge.TextDelta{Message: id, Text: text} }
func done(id, text string, calls ...string) bridge.Event {
	m := bridge.MessageDone{Message: id, Text: text}
	for _, c := range calls {
		m.Calls = append(m.Calls, bridge.ToolCall{ID: c, Name: c})
	}
	return m
}
func void(id string) bridge.Event { return bridge.MessageRetracted{Message: id} }
func thought(text string) bridge.Event {
	return bridge.ReasoningDelta{ID: "r", Text: text}
}

// told writes events as a line.
func told(events []bridge.Event) string {
	var out []string
	for _, ev := range events {
		switch e := ev.(type) {
		case bridge.TextDelta:
			out = append(out, e.Text)
		case bridge.ReasoningDelta:
			out = append(out, "("+e.Text+")")
		case bridge.MessageDone:
			names := ""
			for _, c := range e.Calls {
				names += " " + c.Name
			}
			out = append(out, "="+e.Text+names)
		default:
			out = append(out, string(bridge.TypeOf(ev)))
		}
	}
	return strings.Join(out, "|")
}

func TestStreamDeduper(t *testing.T) {
	for name, tc := range map[string]struct {
		events []bridge.Event
		want   string
		whole  string
		broken bool
	}{
		"plain":                    {[]bridge.Event{delta("1", "a"), delta("1", "b"), done("1", "ab")}, "a|b|=ab", "ab|=ab", false},
		"no deltas":                {[]bridge.Event{done("1", "ab")}, "ab|=ab", "ab|=ab", false},
		"a delta lost":             {[]bridge.Event{delta("1", "a"), done("1", "abc")}, "a|bc|=abc", "abc|=abc", false},
		"repeated":                 {[]bridge.Event{delta("1", "a"), delta("1", "b"), void("1"), delta("2", "abc"), done("2", "abc")}, "a|b|c|=abc", "abc|=abc", false},
		"repeated in other pieces": {[]bridge.Event{delta("1", "abc"), void("1"), delta("2", "a"), delta("2", "b"), delta("2", "cd"), done("2", "abcd")}, "abc|d|=abcd", "abcd|=abcd", false},
		"repeated twice":           {[]bridge.Event{delta("1", "ab"), void("1"), delta("2", "abc"), void("2"), delta("3", "a"), delta("3", "bcd"), done("3", "abcd")}, "ab|c|d|=abcd", "abcd|=abcd", false},
		"repeated without deltas":  {[]bridge.Event{delta("1", "ab"), void("1"), done("2", "abc")}, "ab|c|=abc", "abc|=abc", false},
		"other words":              {[]bridge.Event{delta("1", "ab"), void("1"), delta("2", "xy"), done("2", "xyz")}, "ab", "xyz|=xyz", true},
		"fewer words":              {[]bridge.Event{delta("1", "abc"), void("1"), delta("2", "ab"), done("2", "ab")}, "abc", "ab|=ab", true},
		"broken before a word":     {[]bridge.Event{void("1"), delta("2", "ab"), done("2", "ab")}, "ab|=ab", "ab|=ab", false},
		"cut short and gone on":    {[]bridge.Event{delta("1", "ab"), delta("2", "cd"), done("2", "cd")}, "ab|cd|=abcd", "ab|cd|=abcd", false},
		"the second part repeated": {[]bridge.Event{delta("1", "ab"), delta("2", "cd"), void("2"), delta("3", "cde"), done("3", "cde")}, "ab|cd|e|=abcde", "ab|cde|=abcde", false},
		"thoughts":                 {[]bridge.Event{thought("hm"), delta("1", "a"), void("1"), thought("hm"), delta("2", "ab"), done("2", "ab")}, "(hm)|a|b|=ab", "(hm)|ab|=ab", false},
		"own and foreign calls":    {[]bridge.Event{done("1", "x", "mine", "theirs")}, "x|=x mine", "x|=x mine", false},
		"foreign calls, no words":  {[]bridge.Event{done("1", "", "theirs"), delta("2", "y"), done("2", "y")}, "y|=y", "y|=y", false},
		"two messages":             {[]bridge.Event{delta("1", "a"), done("1", "a", "theirs"), delta("2", "b"), done("2", "b")}, "a|=a|b|=b", "a|=a|b|=b", false},
		"a sub-agent":              {[]bridge.Event{bridge.TextDelta{Message: "s", Text: "psst", AgentID: "x"}, delta("1", "a"), done("1", "a")}, "a|=a", "a|=a", false},
		"figures come along":       {[]bridge.Event{bridge.Notice{}, bridge.UsageReported{}, bridge.ModelCalled{}, bridge.Other{}, delta("1", "a"), bridge.UsageReported{}, done("1", "a")}, "notice|usage|a|usage|=a", "notice|usage|usage|a|=a", false},
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, whole %v", name, whole), func(t *testing.T) {
				var out []bridge.Event
				s := newStreamDeduper(&bridge.Chat{Whole: whole}, &shape{tools: &tools{client: map[string]string{"mine": "mine"}}}, func(ev bridge.Event) { out = append(out, ev) })
				var failure error
				for _, ev := range tc.events {
					if failure = s.see(ev); failure != nil {
						break
					}
				}
				want, broken := tc.want, tc.broken
				if whole {
					want, broken = tc.whole, false
				}
				if got := told(out); got != want {
					t.Errorf("told %s, want %s", got, want)
				}
				if (bridge.CodeOf(failure) == bridge.CodeProvider) != broken {
					t.Errorf("failed with %v", failure)
				}
			})
		}
	}
}

func TestActivityOfAgents(t *testing.T) {
	for _, agent := range []bool{true, false} {
		var out []bridge.Event
		s := newStreamDeduper(&bridge.Chat{}, &shape{agent: agent, tools: &tools{client: map[string]string{"mine": "mine"}}}, func(ev bridge.Event) { out = append(out, ev) })
		for _, ev := range []bridge.Event{
			bridge.ToolStarted{Call: bridge.ToolCall{ID: "1", Name: "bash"}}, bridge.ToolStarted{Call: bridge.ToolCall{ID: "2", Name: "mine"}},
			bridge.ToolProgress{CallID: "1"}, bridge.ToolProgress{CallID: "2"}, bridge.ToolFinished{CallID: "1"}, bridge.ToolFinished{CallID: "2"},
		} {
			if err := s.see(ev); err != nil {
				t.Fatal(err)
			}
		}
		want := ""
		if agent {
			want = "tool_started|tool_progress|tool_finished"
		}
		if got := told(out); got != want {
			t.Errorf("agent %v: %s", agent, got)
		}
	}
}
