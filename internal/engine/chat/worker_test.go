package chat

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// elsewhere are the sessions of workers. It keeps what they were opened with.
type elsewhere struct {
	*agenttest.Scripted
	models []string
}

func (e *elsewhere) Open(ctx context.Context, spec bridge.SessionSpec) (bridge.Session, error) {
	e.models = append(e.models, spec.Model)
	return e.Scripted.Open(ctx, spec)
}

// A name with a worker at its end has the work done there. Each request is told the
// whole conversation in a session of its own.
func TestWorkers(t *testing.T) {
	there := &elsewhere{Scripted: agenttest.NewScripted()}
	workers := engine.New(engine.Options{Agent: there})
	t.Cleanup(func() { // after the service
		if err := workers.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	here := agenttest.NewScripted()
	s := service(t, &modelled{Scripted: here, models: []string{"gpt-5", "vendor-5@2025"}}, Options{Workers: workers, Aliases: map[string]string{"fast": "gpt-5"},
		AgentSpec: func([]bridge.ToolSpec) (bridge.SessionSpec, error) { return bridge.SessionSpec{}, nil }})
	for name, want := range map[string]bridge.ChatModel{
		"agent/gpt-5@any":             {Name: "agent/gpt-5@any", Profile: bridge.ProfileAgent, Worker: "any"},
		"agent/fast@gpu=yes,cuda":     {Name: "agent/gpt-5@gpu=yes,cuda", Profile: bridge.ProfileAgent, Worker: "gpu=yes,cuda"},
		"agent/vendor-5@2025":         {Name: "agent/vendor-5@2025", Profile: bridge.ProfileAgent},
		"agent/vendor-5@2025@gpu=yes": {Name: "agent/vendor-5@2025@gpu=yes", Profile: bridge.ProfileAgent, Worker: "gpu=yes"},
	} {
		m, err := s.Model(t.Context(), name)
		if err != nil || m.Name != want.Name || m.Profile != want.Profile || m.Worker != want.Worker {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for _, name := range []string{"gpt-5@any", "agent/gpt-9@any"} { // a chat has no work to do
		if m, err := s.Model(t.Context(), name); bridge.CodeOf(err) != bridge.CodeNotFound {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	onWorker := func(c bridge.Chat) bridge.Chat {
		c.Profile, c.Model, c.Worker = bridge.ProfileAgent, "gpt-5", "gpu=yes"
		return c
	}
	c := onWorker(chatOf(say("first")))
	c.Messages = append(c.Messages, ask(t.Context(), s, c).good(t, bridge.EndDone, "first").reply(), user("x\nrehearsal: text second"))
	if o := ask(t.Context(), s, c); o.err != nil || !strings.HasSuffix(o.text(), "second") {
		t.Errorf("%q, %v", o.text(), o.err)
	}
	if sent := heard(there.Scripted); len(sent) != 2 || !slices.ContainsFunc(sent, func(p string) bool { return strings.Contains(p, "assistant: first\nuser: x") }) {
		t.Errorf("the worker heard %q", sent)
	}
	if got := strings.Join(there.models, " "); got != "gpt-5@gpu=yes gpt-5@gpu=yes" {
		t.Errorf("opened there: %q", got)
	}
	if opened, _ := here.Counts(); opened != 0 {
		t.Errorf("%d sessions were opened here", opened)
	}
	if o := ask(t.Context(), s, withTools(onWorker(chatOf(say("x"))), "mine")); bridge.CodeOf(o.err) != bridge.CodeUnsupported {
		t.Errorf("a client's own tool: %v", o.err)
	}
}
