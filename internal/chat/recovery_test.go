//go:build unix

package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

func TestClientLeaves(t *testing.T) {
	b := onRuntime(t, Options{}, engine.Limits{})
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
	b := onRuntime(t, Options{}, engine.Limits{})
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
	b := onRuntime(t, Options{}, engine.Limits{})
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
	if s := b.Stats(); s.Conversations != 2 || s.Parked != 1 || s.Pooled != 0 {
		t.Errorf("%+v", s)
	}
	// The parked turn goes on where it is, and its runtime ends with it; the
	// conversation goes on in the new one.
	tools.Messages = append(tools.Messages, o.reply(), result(o.calls()[0].ID, "x"))
	tools.Messages = append(tools.Messages, ask(b.ctx, b.Service, tools).good(t, bridge.EndDone, "seen").reply(), say("more"))
	for _, c := range []bridge.Chat{{Messages: append(c.Messages, say("more"))}, {Messages: tools.Messages, Tools: tools.Tools}} {
		c.Door, c.Profile = "test", bridge.ProfileChat
		ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "more")
		if got := b.last().Messages; len(got) != len(c.Messages) {
			t.Errorf("of %d messages the model sees %+v", len(c.Messages), got)
		}
	}
	eventually(t, "the old runtime has ended", func() bool { b.expire(); return syscall.Kill(old, 0) != nil })
}

// Many callers at once get a second runtime and, if they stay, a third, over
// which their sessions are spread; when they have gone these end.
func TestWidening(t *testing.T) {
	b := onRuntime(t, Options{ConversationTTL: 2 * time.Second}, engine.Limits{})
	ask(b.ctx, b.Service, chatOf(say("hello"))).good(t, bridge.EndDone, "hello")
	if pids := b.agent.ProgramPIDs(bridge.ProfileChat); len(pids) != 1 {
		t.Fatalf("runtimes %v for one caller", pids)
	}
	b.crowd(t)
	eventually(t, "a second runtime", func() bool { return len(b.agent.ProgramPIDs(bridge.ProfileChat)) >= 2 })
	eventually(t, "a third runtime", func() bool { b.crowd(t); return len(b.agent.ProgramPIDs(bridge.ProfileChat)) == 3 })
	others := b.agent.ProgramPIDs(bridge.ProfileChat)[1:]
	eventually(t, "the sessions are spread", func() bool { b.crowd(t); return b.spread() })
	eventually(t, "quiet", func() bool { return b.Stats().Running == 0 })
	for _, pid := range others {
		eventually(t, "the other runtimes have ended", func() bool { b.expire(); return syscall.Kill(pid, 0) != nil })
	}
	if pids := b.agent.ProgramPIDs(bridge.ProfileChat); len(pids) != 1 {
		t.Errorf("runtimes %v are left", pids)
	}
}

// crowd has many callers at once.
func (b *bench) crowd(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for range 2 * widenAt {
		wg.Go(func() {
			if o := ask(b.ctx, b.Service, chatOf(say("hello"))); o.err != nil || o.text() != "hello" {
				t.Errorf("%q, %v", o.text(), o.err)
			}
		})
	}
	wg.Wait()
}

// spread says whether no runtime has more than its share of the pool.
func (b *bench) spread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.pool.sessions {
		for _, x := range list {
			if x.session.Crowded() {
				return false
			}
		}
	}
	return b.pool.size() > 0
}

// While other runtimes are there, callers who come one by one stay in the
// first.
func TestAloneInTheFirst(t *testing.T) {
	b := onRuntime(t, Options{}, engine.Limits{})
	b.crowd(t)
	eventually(t, "a second runtime", func() bool { return len(b.agent.ProgramPIDs(bridge.ProfileChat)) >= 2 })
	eventually(t, "the sessions are spread", func() bool { b.crowd(t); return b.spread() })
	eventually(t, "quiet", func() bool { return b.Stats().Running == 0 })
	kept := 0
	for range 6 { // more than are held as openings
		b.mu.Lock()
		choice := false
		for _, list := range b.pool.sessions {
			choice = choice || slices.ContainsFunc(list, func(x pooled) bool { return !x.session.Aside() && x.session.Current() })
		}
		b.mu.Unlock()
		ask(b.ctx, b.Service, chatOf(say("alone"))).good(t, bridge.EndDone, "alone")
		eventually(t, "quiet", func() bool { return b.Stats().Running == 0 })
		b.mu.Lock()
		used := conversationAt(b.order.Front()).session
		b.mu.Unlock()
		if choice && used.Aside() {
			t.Error("a single caller was sent to another runtime")
		}
		if choice {
			kept++
		}
	}
	if kept == 0 {
		t.Error("there never was a session of the first runtime")
	}
}

func TestBrokenStreams(t *testing.T) {
	b := onRuntime(t, Options{}, engine.Limits{})
	for name, tc := range map[string]struct {
		again string
		whole bool
		want  string
		code  bridge.Code
	}{
		"goes on":         {"half and whole", false, "half and whole", ""},
		"says other":      {"something else", false, "half ", bridge.CodeProvider},
		"in one piece":    {"something else", true, "something else", ""},
		"one piece, same": {"half and whole", true, "half and whole", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := chatOf(script("chunks half |", "cut", "once", "text "+tc.again))
			c.Whole, c.System = tc.whole, name
			o := ask(b.ctx, b.Service, c)
			if o.text() != tc.want || bridge.CodeOf(o.err) != tc.code {
				t.Errorf("%q, %v", o.text(), o.err)
			}
			if n := len(all[bridge.MessageRetracted](o)); n > 0 {
				t.Errorf("%d retractions got out", n)
			}
		})
	}
	// An answer that is cut at the provider's limit goes on, as one.
	c := chatOf(script("text the first part", "finish length"))
	o := ask(b.ctx, b.Service, c)
	m := all[bridge.MessageDone](o)
	if o.err != nil || len(m) != 1 || m[0].Text != o.text() || !strings.HasPrefix(o.text(), "the first part") || o.text() == "the first part" {
		t.Errorf("%q, %+v, %v", o.text(), m, o.err)
	}
	c.Messages = append(c.Messages, o.reply(), say("more"))
	ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "more")
	if strings.Contains(string(b.last().Raw), "[DIALOG]") {
		t.Error("the history was told again")
	}
}

func TestFormats(t *testing.T) {
	b := onRuntime(t, Options{ProviderKind: "openai"}, engine.Limits{})
	var v struct{ Name string }
	c := chatOf(user("a person"))
	c.ResponseFormat = &bridge.ResponseFormat{Name: "person", Strict: true, Schema: json.RawMessage(
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`)}
	o := ask(b.ctx, b.Service, c)
	if err := json.Unmarshal([]byte(o.text()), &v); o.err != nil || err != nil || b.last().Format.Name != "person" {
		t.Errorf("%q, %v, %v", o.text(), o.err, err)
	}
	c.ResponseFormat, c.JSON = nil, true
	o = ask(b.ctx, b.Service, c)
	if err := json.Unmarshal([]byte(o.text()), &v); o.err != nil || err != nil || !strings.Contains(b.last().LastUser(), sayJSON) {
		t.Errorf("%q, %v, %v", o.text(), o.err, err)
	}
}

func TestRealAgent(t *testing.T) {
	dir := t.TempDir()
	b := onRuntime(t, Options{AgentSpec: func([]bridge.ToolSpec) (bridge.SessionSpec, error) {
		return bridge.SessionSpec{WorkingDir: dir, Gate: agenttest.AllowAll()}, nil
	}}, engine.Limits{})
	c := withTools(chatOf(script(agenttest.Tool("create", map[string]any{"path": filepath.Join(dir, "a.txt"), "file_text": "x"}),
		"next", `tool look {"x":"1"}`, "next", "text made it")), "look")
	c.Profile, c.System = bridge.ProfileAgent, "Use tabs."
	o := ask(b.ctx, b.Service, c).good(t, bridge.EndTools, "")
	if s, f := all[bridge.ToolStarted](o), all[bridge.ToolFinished](o); len(s) != 1 || len(f) != 1 || s[0].Call.Name != "create" || !f[0].OK {
		t.Errorf("activity %+v %+v", s, f)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err != nil {
		t.Error(err)
	}
	c.Messages = append(c.Messages, o.reply(), result(o.calls()[0].ID, "seen"))
	o = ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "made it")
	if !strings.Contains(b.last().System(), "Use tabs.") {
		t.Error("the system text is lost")
	}
	c.Messages = append(c.Messages, o.reply(), say("more"))
	ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "more")
	if strings.Contains(string(b.last().Raw), "[DIALOG]") {
		t.Error("the history was told again")
	}
}
