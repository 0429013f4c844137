//go:build unix

package chat

import (
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

func TestToolCallsArePassedOut(t *testing.T) {
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
	failed := result(o.calls()[0].ID, "it broke")
	failed.Failed = true
	c.Messages = append(c.Messages, o.reply(), failed, user("by the way\nrehearsal: text heard you"))
	o = ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "heard you")
	r := b.last()
	n := len(r.Messages)
	if n < 3 || r.Messages[n-2].Role != "tool" || !strings.Contains(r.Messages[n-2].Content, "it broke") || !strings.Contains(r.Messages[n-1].Content, "by the way") {
		t.Errorf("the model sees %+v", r.Messages)
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
