//go:build unix

package chat

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

func TestToolResultsWithMoreWords(t *testing.T) {
	b := real(t, Options{}, engine.Limits{})
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
	b := real(t, Options{}, engine.Limits{MaxConcurrent: 1})
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

func TestClientLeaves(t *testing.T) {
	b := real(t, Options{}, engine.Limits{})
	ask(b.ctx, b.Service, chatOf(say("warm"))).good(t, bridge.EndDone, "warm")
	eventually(t, "warm", func() bool { return b.Stats().Running == 0 })
	before := b.Stats()
	for ev, err := range b.Answer(b.ctx, chatOf(script("text begin", "silence"))) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(bridge.TextDelta); ok {
			break
		}
	}
	left := time.Now()
	eventually(t, "the turn is gone", func() bool { return b.Stats().Running == 0 })
	if took := time.Since(left); took > 200*time.Millisecond {
		t.Errorf("aborted after %s", took)
	}
	after := b.Stats()
	if after.Conversations != before.Conversations || after.Pooled != before.Pooled+1 {
		t.Errorf("%+v, was %+v", after, before)
	}
	ask(b.ctx, b.Service, chatOf(say("clean"))).good(t, bridge.EndDone, "clean")
	if r := b.last(); len(r.Messages) != 1 || strings.Contains(string(r.Raw), "begin") {
		t.Errorf("the model sees %+v", r.Messages)
	}
}

// A runtime that dies takes its sessions along, and nobody notices but those
// whose turns ran.
func TestRuntimeDies(t *testing.T) {
	b := real(t, Options{}, engine.Limits{})
	kill := func() {
		if err := syscall.Kill(b.agent.ProgramPID(bridge.ProfileChat), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	plain := chatOf(user("hello\nrehearsal: text hi"))
	plain.Messages = append(plain.Messages, ask(b.ctx, b.Service, plain).good(t, bridge.EndDone, "hi").reply())
	tools := withTools(chatOf(user("the weather\nrehearsal: tool look {\"x\":\"1\"}")), "look")
	o := ask(b.ctx, b.Service, tools).good(t, bridge.EndTools, "")
	tools.Messages = append(tools.Messages, o.reply(), result(o.calls()[0].ID, "rain"), user("so?\nrehearsal: text wet"))
	kill()
	plain.Messages = append(plain.Messages, user("again\nrehearsal: text still here"))
	if o := ask(b.ctx, b.Service, plain); o.err != nil || !strings.HasSuffix(o.text(), "still here") || !strings.Contains(b.last().Messages[0].Content, "[DIALOG]") {
		t.Errorf("%q, %v; the model sees %+v", o.text(), o.err, b.last().Messages)
	}
	eventually(t, "the parked turn is gone", func() bool { return b.Stats().Parked == 0 })
	ask(b.ctx, b.Service, tools)
	if got := b.last().Messages; !slices.ContainsFunc(got, func(m rehearsal.Message) bool {
		return strings.Contains(m.Content, "assistant called look") && strings.Contains(m.Content, "): rain")
	}) {
		t.Errorf("the model sees %+v", got)
	}
	kill() // with a session in the pool or held, and nobody has noticed
	ask(b.ctx, b.Service, chatOf(say("fresh"))).good(t, bridge.EndDone, "fresh")
}

func TestRotation(t *testing.T) {
	b := real(t, Options{}, engine.Limits{})
	c := chatOf(user("hello\nrehearsal: text hi"))
	c.Messages = append(c.Messages, ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "hi").reply())
	tools := withTools(chatOf(script(`tool look {"x":"1"}`, "next", "text seen")), "look")
	o := ask(b.ctx, b.Service, tools).good(t, bridge.EndTools, "")
	eventually(t, "quiet", func() bool { return b.Stats().Running == 0 })
	old := b.agent.ProgramPID(bridge.ProfileChat)
	if b.engine.Memory(bridge.ProfileChat) < 1<<20 {
		t.Error("the runtime's memory is not known")
	}
	b.rotate(bridge.ProfileChat)
	if now := b.agent.ProgramPID(bridge.ProfileChat); now == old || now == 0 {
		t.Fatalf("pid %d, was %d", now, old)
	}
	if s := b.Stats(); s.Conversations != 1 || s.Parked != 1 || s.Pooled != 0 {
		t.Errorf("%+v", s)
	}
	// The parked turn goes on where it is, and its runtime ends with it.
	tools.Messages = append(tools.Messages, o.reply(), result(o.calls()[0].ID, "x"))
	ask(b.ctx, b.Service, tools).good(t, bridge.EndDone, "seen")
	c.Messages = append(c.Messages, user("again\nrehearsal: text told anew"))
	if o := ask(b.ctx, b.Service, c); o.err != nil || !strings.HasSuffix(o.text(), "told anew") {
		t.Errorf("%q, %v", o.text(), o.err)
	}
	eventually(t, "the old runtime has ended", func() bool { b.expire(); return syscall.Kill(old, 0) != nil })
}
