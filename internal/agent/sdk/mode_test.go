//go:build unix

package sdk_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// planning says whether the last message to the model is marked as one to plan
// for.
func planning(t *testing.T, m *demomodel.Server) bool {
	t.Helper()
	all := m.Requests()
	said := all[len(all)-1].Messages
	i := slices.IndexFunc(said, func(m demomodel.Message) bool { return m.Role == "user" })
	if i < 0 {
		t.Fatal("the model was told nothing")
	}
	return strings.Contains(said[len(said)-1].Content, "[[PLAN]]")
}

// A session stays in the mode of a prompt, also in another process.
func TestModeStaysWithTheSession(t *testing.T) {
	t.Parallel()
	m := model(t)
	opts := options(t, m)
	dir := t.TempDir()
	var s bridge.Session
	say := func(ctx context.Context, mode string, want bool) {
		t.Helper()
		if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "hello", Mode: mode}); o.Err != nil || planning(t, m) != want {
			t.Errorf("mode %q: planning is %t, %v", mode, !want, o.Err)
		}
	}
	in := func(f func(ctx context.Context, a *sdk.Agent)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), agenttest.Patience)
		defer cancel()
		a := sdk.New(opts)
		f(ctx, a)
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	spec := bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, Gate: agenttest.AllowAll()}
	in(func(ctx context.Context, a *sdk.Agent) {
		var err error
		if s, err = a.Open(ctx, spec); err != nil {
			t.Fatal(err)
		}
		say(ctx, "", false)
		say(ctx, bridge.ModePlan, true)
		if o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "x", Mode: "shell"}); bridge.CodeOf(o.Err) != bridge.CodeInvalid {
			t.Errorf("an unknown mode: %v", o.Err)
		}
		say(ctx, "", true)
	})
	in(func(ctx context.Context, a *sdk.Agent) {
		var err error
		if s, err = a.Resume(ctx, s.ID(), spec); err != nil {
			t.Fatal(err)
		}
		say(ctx, "", true)
		say(ctx, bridge.ModeInteractive, false)
		say(ctx, "", false)
	})
}

// In autopilot mode Copilot goes on by itself, and asks as ever.
func TestAutopilotAsks(t *testing.T) {
	t.Parallel()
	ctx, a, m := start(t, nil)
	dir := t.TempDir()
	g := &agenttest.Gate{PermitFunc: func(bridge.PermissionRequest) bridge.Decision { return bridge.Decision{Reason: "house rules"} }}
	s := openSession(t, ctx, a, bridge.SessionSpec{WorkingDir: dir, Gate: g})
	o := agenttest.Collect(ctx, s, bridge.Prompt{Mode: bridge.ModeAutopilot, Text: "go:\nrehearsal: " + agenttest.Tool("bash", map[string]any{"command": "touch made", "description": "d"}) +
		"\nrehearsal: next\nrehearsal: text I was refused"})
	if o.Err != nil || len(g.Requests()) != 1 {
		t.Errorf("%v, asked %+v", o.Err, g.Requests())
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("the refused command has run")
	}
	goesOn := slices.ContainsFunc(m.Requests(), func(r demomodel.Request) bool {
		return strings.Contains(r.Messages[len(r.Messages)-1].Content, "not yet marked the task as complete")
	})
	if !goesOn {
		t.Error("it did not go on by itself")
	}
}
