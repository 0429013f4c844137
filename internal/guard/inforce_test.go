package guard_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// A policy that changes between a question and its answer, or between a call
// and the runtime's request for it, counts, and a change that cannot be
// recorded lets nothing through.
func TestPolicyChanges(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	ws, err := paths.New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, policy.UserFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	meanwhile := func() {}
	var failing error
	var recorded []audit.Entry
	d := policy.DefaultsRun()
	d.Root = ws.Root()
	g := guard.New(guard.Options{Workspace: ws, Live: &policy.Live{Home: home, Root: ws.Root(), Defaults: d},
		Audit: recorderFunc(func(e audit.Entry) error {
			if failing == nil {
				recorded = append(recorded, e)
			}
			return failing
		}),
		Asker: askerFunc(func(context.Context, approval.Question) (approval.Answer, error) {
			meanwhile()
			return approval.Answer{Consent: approval.Once}, nil
		})})
	if d := g.Before(t.Context(), shell("make")); d.Verdict != bridge.Allow {
		t.Fatalf("%+v", d)
	}
	meanwhile = func() { write("shell: {deny: [make]}\n") }
	if d := g.Before(t.Context(), shell("make all")); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "shell.deny") {
		t.Errorf("denied while a person was asked: %+v", d)
	}
	meanwhile = func() {}

	request := bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", Command: "ls"}
	if d := g.Before(t.Context(), shell("ls")); d.Verdict != bridge.Allow {
		t.Fatalf("%+v", d)
	}
	write("shell: {deny: [ls]}\n")
	if d := g.Permit(t.Context(), request); d.Verdict == bridge.Allow {
		t.Errorf("denied after it was called: %+v", d)
	}

	failing = errors.New("disk full")
	write("{}\n")
	if d := g.Before(t.Context(), shell("ls")); d.Verdict == bridge.Allow || d.Failure == nil {
		t.Errorf("a change that is not on record: %+v", d)
	}
	failing, recorded = nil, nil
	if d := g.Before(t.Context(), shell("ls")); d.Verdict != bridge.Allow {
		t.Errorf("%+v", d)
	}
	if len(recorded) != 2 || recorded[0].Hook != audit.HookPolicy || !strings.HasSuffix(recorded[0].Reason, "policy.yaml was edited") {
		t.Errorf("%+v", recorded)
	}

	write("{\n")
	for name, err := range map[string]error{"usable": g.Usable(), "a working directory": errOf(g.WorkingDir("."))} {
		if e := bridge.AsError(err); err == nil || e.Code != bridge.CodeDenied || !strings.Contains(e.Error(), "policy.yaml:1") || !strings.Contains(e.Remedy, "Correct") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if g.MayRead("x") || g.Unreadable("x") == "" || !g.ReadOnly() {
		t.Error("a broken policy allows something")
	}
}

func errOf(_ string, err error) error { return err }
