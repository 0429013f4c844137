//go:build unix

package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

func TestClientLeaves(t *testing.T) {
	t.Parallel()
	b := onRuntime(t, Options{}, engine.Limits{})
	ask(b.ctx, b.Service, chatOf(say("warm"))).good(t, bridge.EndDone, "warm")
	eventually(t, "warm", func() bool { return b.Stats().Running == 0 })
	before := b.Stats()
	for ev, err := range read(b.ctx, b.Service, chatOf(script("text begin", "silence"))) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(bridge.TextDelta); ok {
			break
		}
	}
	left := time.Now()
	eventually(t, "the turn is gone", func() bool { return b.Stats().Running == 0 })
	if took := time.Since(left); took > 10*time.Second {
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

// A runtime that dies takes its sessions along, and only callers with a running
// turn notice.
func TestRuntimeDies(t *testing.T) {
	t.Parallel()
	b := onRuntime(t, Options{}, engine.Limits{})
	kill := func() {
		for _, pid := range b.agent.ProgramPIDs(bridge.ProfileChat) {
			if pid != 0 && syscall.Kill(pid, syscall.SIGKILL) != nil {
				t.Fatalf("runtime %d was gone", pid)
			}
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
	if got := b.last().Messages; !slices.ContainsFunc(got, func(m demomodel.Message) bool {
		return strings.Contains(m.Content, "assistant called look") && strings.Contains(m.Content, "): rain")
	}) {
		t.Errorf("the model sees %+v", got)
	}
	kill() // with a session in the pool or held, and nobody has noticed
	ask(b.ctx, b.Service, chatOf(say("fresh"))).good(t, bridge.EndDone, "fresh")
}

// When runtimes are replaced, parked turns go on where they are, and
// conversations are told again in the new ones.
func TestRecycle(t *testing.T) {
	t.Parallel()
	b := onRuntime(t, Options{}, engine.Limits{})
	c := chatOf(user("hello\nrehearsal: text hi"))
	c.Messages = append(c.Messages, ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "hi").reply())
	tools := withTools(chatOf(script(`tool look {"x":"1"}`, "next", "text seen")), "look")
	o := ask(b.ctx, b.Service, tools).good(t, bridge.EndTools, "")
	eventually(t, "quiet", func() bool { return b.Stats().Running == 0 })
	old := b.agent.ProgramPIDs(bridge.ProfileChat)
	b.recycle(0, 0)
	if now := b.agent.ProgramPIDs(bridge.ProfileChat); now[0] != 0 || now[1] != 0 {
		t.Fatalf("runtimes %v, were %v", now, old)
	}
	if s := b.Stats(); s.Conversations != 1 || s.Parked != 1 || s.Pooled != 0 {
		t.Errorf("%+v", s)
	}
	tools.Messages = append(tools.Messages, o.reply(), result(o.calls()[0].ID, "x"))
	tools.Messages = append(tools.Messages, ask(b.ctx, b.Service, tools).good(t, bridge.EndDone, "seen").reply())
	for _, c := range []bridge.Chat{c, tools} {
		c.Messages = append(c.Messages, user("more\nrehearsal: text more"))
		ask(b.ctx, b.Service, c)
		if got := b.last().Messages[0].Content; !strings.Contains(got, "[DIALOG]\nuser: ") || !strings.Contains(got, "user: more") {
			t.Errorf("the model sees %+v", b.last().Messages)
		}
	}
	eventually(t, "the old runtime has ended", func() bool { return syscall.Kill(old[0], 0) != nil })
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
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
	// An answer that is cut at the provider's limit is continued as one answer.
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

// A model that does not stop is stopped where its answer is longer than was
// asked for, with the same words streamed and in one piece.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	b := onRuntime(t, Options{}, engine.Limits{})
	for name, tc := range map[string]struct {
		says []string
		want string
	}{
		"text":      {[]string{"chunks one |two |thrée |four|five", "silence"}, "one two thr"},
		"thoughts":  {[]string{"reason 12345678", "chunks one |two |three", "silence"}, "one "},
		"no stream": {[]string{"chunks one two three four"}, "one two thre"},
	} {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, whole %v", name, whole), func(t *testing.T) {
				c := chatOf(script(tc.says...))
				c.Whole, c.MaxTokens, c.System, c.Answer = whole, 2, fmt.Sprint(name, whole), fmt.Sprint(name, whole)
				o := ask(b.ctx, b.Service, c).good(t, bridge.EndDone, tc.want)
				if u := all[bridge.UsageReported](o); len(u) == 0 || u[len(u)-1].Finish != "length" {
					t.Errorf("%+v", u)
				}
				// It can be gone on with.
				next := chatOf(say("more"))
				next.Previous = c.Answer
				ask(b.ctx, b.Service, next).good(t, bridge.EndDone, "more")
				if raw := string(b.last().Raw); !strings.Contains(raw, tc.want) {
					t.Errorf("the answer is not remembered: %s", raw)
				}
			})
		}
	}
	c := chatOf(say("within the bound"))
	c.MaxTokens = 3
	o := ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "within the bound")
	if u := all[bridge.UsageReported](o); len(u) == 0 || u[len(u)-1].Finish == "length" {
		t.Errorf("%+v", u)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
