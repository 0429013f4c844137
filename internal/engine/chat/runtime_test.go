//go:build unix

package chat

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// bench is a service on the real runtime, whose model is scripted.
type bench struct {
	*Service
	t     testing.TB
	ctx   context.Context
	agent *sdk.Agent
	model *demomodel.Server
}

func onRuntime(t testing.TB, opts Options, limits engine.Limits) *bench {
	t.Helper()
	m := demomodel.New(demomodel.WithJournal(20000))
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := sdk.New(sdk.Options{Runtime: runtimetest.Path(t), Runtimes: 2, Home: t.TempDir(), Records: t.TempDir(), Self: self, Env: os.Environ(), Version: "test",
		Provider: &bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, Model: m.Model()})
	if limits.MaxConcurrent == 0 {
		limits.MaxConcurrent, limits.QueueLimit, limits.MaxRetries = 16, 1000, 3
	}
	e := engine.New(engine.Options{Agent: a, Limits: limits})
	s := New(e, opts)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(func() {
		cancel()
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("closing the service: %v", err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("closing the model: %v", err)
		}
	})
	return &bench{Service: s, t: t, ctx: ctx, agent: a, model: m}
}

// last is what the model was asked last.
func (b *bench) last() *demomodel.Request {
	b.t.Helper()
	r := b.model.Requests()
	if len(r) == 0 {
		b.t.Fatal("the model was not asked")
	}
	return &r[len(r)-1]
}

// eventually waits for something that happens after an answer.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}

func TestNextTurnSendsOnlyWhatIsNew(t *testing.T) {
	b := onRuntime(t, Options{}, engine.Limits{})
	c := chatOf(say("one"))
	c.System = "Be brief."
	c.Messages = append(c.Messages, ask(b.ctx, b.Service, c).good(t, bridge.EndDone, "one").reply())
	for _, word := range []string{"two", "three"} {
		c.Messages = append(c.Messages, say(word))
		c.Messages = append(c.Messages, ask(b.ctx, b.Service, c).good(t, bridge.EndDone, word).reply())
	}
	r := b.last()
	if r.System() != "Be brief." || len(r.ToolNames()) != 0 {
		t.Errorf("system %q, tools %v", r.System(), r.ToolNames())
	}
	// Real messages, not a retelling: the session has heard them itself.
	var roles []string
	for _, m := range r.Messages {
		roles = append(roles, m.Role)
	}
	if got := strings.Join(roles, " "); got != "system user assistant user assistant user" {
		t.Errorf("the model sees %s", got)
	}
	if strings.Contains(string(r.Raw), "[DIALOG]") {
		t.Error("the history was told again")
	}
	eventually(t, "one conversation", func() bool { s := b.Stats(); return s.Conversations == 1 && s.Running == 0 })

	edited := c
	edited.Messages = append([]bridge.Message{user("something else"), assistant("one")}, user("go on\nrehearsal: text four"))
	ask(b.ctx, b.Service, edited).good(t, bridge.EndDone, "four")
	r = b.last()
	if len(r.Messages) != 2 || !strings.Contains(r.Messages[1].Content, "[DIALOG]\nuser: something else\nassistant: one\nuser: go on") {
		t.Errorf("an edited history reached the model as %+v", r.Messages)
	}
}
