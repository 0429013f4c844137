//go:build unix

package sdk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

func TestCommands(t *testing.T) {
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
	c, ok := s.(engine.Commander)
	if !ok {
		t.Fatalf("%T has no commands", s)
	}
	list, err := c.Commands(ctx)
	if err != nil || !slices.ContainsFunc(list, func(c bridge.Command) bool { return c.Name == "compact" && c.Builtin && c.Hint != "" }) {
		t.Errorf("%+v, %v", list, err)
	}
	if r, err := c.Invoke(ctx, "context", ""); err != nil || !strings.HasPrefix(r.Text, "Context ") {
		t.Errorf("context: %+v, %v", r, err)
	}
	if r, err := c.Invoke(ctx, "plan", ""); err != nil || r.Mode != "plan" || r.Prompt != "" {
		t.Errorf("plan: %+v, %v", r, err)
	}
	if r, err := c.Invoke(ctx, "plan", "a garden"); err != nil || r.Mode != "plan" || !strings.Contains(r.Prompt, "a garden") {
		t.Errorf("plan with words: %+v, %v", r, err)
	}
	if r, err := c.Invoke(ctx, "nonsense", ""); err == nil {
		t.Errorf("a command that does not exist: %+v", r)
	}
}

// What a door shows besides words: the plan with its steps, how full the
// context is, and in a history what the user said.
func TestPlanContextAndUser(t *testing.T) {
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{Gate: agenttest.AllowAll()})
	text := `rehearsal: tool sql {"query":"INSERT INTO todos (id, title, status) VALUES ('a', 'First', 'done'), ('b', 'Second', 'in_progress'), ('c', 'Third', 'blocked')","description":"x"}` +
		"\nrehearsal: next\nrehearsal: text ok"
	o := agenttest.Collect(ctx, s, bridge.Prompt{Text: text})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	want := []bridge.PlanEntry{{Text: "First", Status: bridge.StepDone}, {Text: "Second", Status: bridge.StepRunning}, {Text: "Third", Status: bridge.StepPending}}
	var plan []bridge.PlanEntry
	var full bridge.ContextMeasured
	for _, ev := range o.Events {
		switch e := ev.(type) {
		case bridge.PlanChanged:
			plan = e.Entries
		case bridge.ContextMeasured:
			full = e
		default:
		}
	}
	if !slices.Equal(plan, want) {
		t.Errorf("the plan is %+v", plan)
	}
	if full.Tokens <= 0 || full.Limit <= full.Tokens {
		t.Errorf("the context is %+v", full)
	}
	past, err := s.History(ctx)
	if err != nil || !slices.ContainsFunc(past, func(ev bridge.Event) bool { u, ok := ev.(bridge.UserSaid); return ok && u.Text == text }) {
		t.Errorf("the user's words are not in the history: %v", err)
	}
	last, ok := past[len(past)-1].(bridge.PlanChanged)
	if !ok || !slices.Equal(last.Entries, want) {
		t.Errorf("the history ends with %+v", past[len(past)-1])
	}
}
