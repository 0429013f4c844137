//go:build unix

package chat

import (
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func TestToolCallsArePassedOut(t *testing.T) {
	t.Parallel()
	b := onRuntime(t, Options{}, engine.Limits{})
	for name, order := range map[string][]int{"in order": {0, 1}, "in any order": {1, 0}, "one missing": {1}} {
		t.Run(name, func(t *testing.T) {
			c := withTools(chatOf(script("text let me see", `tool get_weather {"x":"Oslo"}`, `tool bash {"x":"ls"}`, "usage 7 3", "next", "text sunny", "usage 9 2")), "get_weather", "bash")
			o := ask(b.ctx, b.Service, c).good(t, bridge.EndTools, "let me see")
			calls := o.calls()
			if len(calls) != 2 || calls[0].Name != "get_weather" || calls[1].Name != "bash" || o.end().Usage.InputTokens != 7 {
				t.Fatalf("calls %+v, usage %+v", calls, o.end().Usage)
			}
			if s := b.Stats(); s.Parked != 1 || s.ParkedCalls != 2 || s.Running != 0 {
				t.Errorf("stats %+v", s)
			}
			// Another conversation meanwhile.
			ask(b.ctx, b.Service, chatOf(say("meanwhile"))).good(t, bridge.EndDone, "meanwhile")

			c.Messages = append(c.Messages, o.reply())
			for _, i := range order {
				c.Messages = append(c.Messages, result(calls[i].ID, "result-"+calls[i].Name))
			}
			o = ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "sunny")
			if u := o.end().Usage; u.InputTokens != 9 || u.Calls != 1 {
				t.Errorf("usage %+v", u)
			}
			want := []string{"result-get_weather", "result-bash"}
			if len(order) == 1 {
				want[0] = "no result was given"
			}
			r := b.last()
			if got := r.ToolResults(); len(got) != 2 || !strings.Contains(got[0], want[0]) || !strings.Contains(got[1], want[1]) {
				t.Errorf("the model was told %q, want %q", got, want)
			}
			if strings.Contains(string(r.Raw), "[DIALOG]") {
				t.Error("the history was told again")
			}
		})
	}
}

func TestToolResultsWithMoreWords(t *testing.T) {
	b := onRuntime(t, Options{}, engine.Limits{})
	c := withTools(chatOf(script(`tool look {"x":"1"}`, "next", "text unused")), "look")
	o := ask(b.ctx, b.Service, c).good(t, bridge.EndTools, "")
	why := "it broke " + strings.Repeat("and broke ", 3000)
	failed := result(o.calls()[0].ID, why)
	failed.Failed = true
	c.Messages = append(c.Messages, o.reply(), failed, user("by the way\nrehearsal: text heard you"))
	o = ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "heard you")
	r := b.last()
	n := len(r.Messages)
	if n < 3 || r.Messages[n-2].Role != "tool" || !strings.Contains(r.Messages[n-2].Content, why) || !strings.Contains(r.Messages[n-1].Content, "by the way") {
		t.Errorf("the model sees %.2000v", r.Messages)
	}
	// The words count as part of the conversation from then on.
	c.Messages = append(c.Messages, o.reply(), say("more"))
	ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "more")
	if r := b.last(); len(r.Messages) != n+2 {
		t.Errorf("%d messages after %d", len(r.Messages), n)
	}
}

// Each round of calls ends an answer, all in one turn of the runtime.
func TestToolLoop(t *testing.T) {
	b := onRuntime(t, Options{}, engine.Limits{MaxConcurrent: 1})
	c := withTools(chatOf(script(`tool step {"x":"1"}`, "next", `tool step {"x":"2"}`, "next", "text there")), "step")
	for range 2 {
		o := ask(b.ctx, b.Service, c).good(t, bridge.EndTools, "")
		// The one place among the running turns is free meanwhile.
		ask(b.ctx, b.Service, chatOf(say("in between"))).good(t, bridge.EndDone, "in between")
		c.Messages = append(c.Messages, o.reply(), result(o.calls()[0].ID, "done"))
	}
	ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "there")
	eventually(t, "all quiet", func() bool { s := b.Stats(); return s.Running == 0 && s.Parked == 0 })
}

func TestToolNames(t *testing.T) {
	long := strings.Repeat("n", 100)
	for name, tc := range map[string]struct {
		agent bool
		names string
		want  string
	}{
		"as they are":               {false, "get_weather Get_Weather bash view", "get_weather Get_Weather bash view"},
		"the runtime's":             {false, "store_memory powershell", "store_memory_tool powershell_tool"},
		"the other is there":        {false, "store_memory store_memory_tool", "store_memory_tool_919b1a78 store_memory_tool"},
		"the other comes first":     {false, "store_memory_tool store_memory", "store_memory_tool store_memory_tool_919b1a78"},
		"all of them":               {false, "store_memory store_memory_tool store_memory_tool_919b1a78", "store_memory_tool_919b1a78_00c72a29 store_memory_tool store_memory_tool_919b1a78"},
		"too long":                  {false, long, long[:55] + "_4e9d8231"},
		"an agent's":                {true, "bash store_memory look", "bash_tool store_memory_tool look"},
		"as long as it may be":      {false, long[:64], long[:64]},
		"an agent's, and the other": {true, "bash_tool bash", "bash_tool bash_tool_c35ccb6c"},
	} {
		t.Run(name, func(t *testing.T) {
			names := strings.Fields(tc.names)
			list, err := newTools(withTools(bridge.Chat{}, names...).Tools, tc.agent)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, s := range list.specs {
				got = append(got, s.Name)
				if c := list.calls([]bridge.ToolCall{{Name: s.Name}}); len(c) != 1 || c[0].Name != names[i] || list.seen(names[i]) != s.Name {
					t.Errorf("%s is %+v to the client", s.Name, c)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("the model sees %q, want %q", got, tc.want)
			}
		})
	}
	list, err := newTools(nil, false)
	if err != nil || list.seen("store_memory") != "store_memory_tool" || list.has("") || list.calls([]bridge.ToolCall{{Name: "store_memory_tool"}}) != nil {
		t.Errorf("a tool that is not offered any more: %q, %v", list.seen("store_memory"), err)
	}
	for _, names := range [][]string{{"a", "a"}, {""}, {"a b"}, {"ä"}} {
		if _, err := newTools(withTools(bridge.Chat{}, names...).Tools, false); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%q: %v", names, err)
		}
	}
}

func TestResultsNeedCalls(t *testing.T) {
	s, _ := scripted(t, Options{}, engine.Limits{})
	called := bridge.Message{Role: bridge.RoleAssistant, Calls: []bridge.ToolCall{{ID: "call_1", Name: "look"}}}
	for name, messages := range map[string][]bridge.Message{
		"no call":      {user("a"), result("call_9", "x")},
		"another call": {user("a"), called, result("call_9", "x")},
		"too early":    {user("a"), result("call_1", "x"), called, user("b")},
		"no id":        {user("a"), called, result("", "x")},
	} {
		o := ask(t.Context(), s, chatOf(messages...))
		if bridge.CodeOf(o.err) != bridge.CodeInvalid || !strings.Contains(o.err.Error(), `for the call "`) {
			t.Errorf("%s: %v", name, o.err)
		}
	}
}
