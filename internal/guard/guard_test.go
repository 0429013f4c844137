package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

type askerFunc func(context.Context, approval.Question) (approval.Answer, error)

func (f askerFunc) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	return f(ctx, q)
}

type recorderFunc func(audit.Entry) error

func (f recorderFunc) Append(_ context.Context, e audit.Entry) error { return f(e) }

func newGuard(t *testing.T, o guard.Options) *guard.Guard {
	t.Helper()
	ws, err := paths.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	})
	d := policy.DefaultsRun()
	d.Root = ws.Root()
	o.Workspace, o.Policy = ws, policy.Combine(d)
	return guard.New(o)
}

func shell(command string) bridge.ToolCall {
	return bridge.ToolCall{Name: "bash", Args: map[string]any{"command": command}}
}

func TestToolsThatNeedNoConsent(t *testing.T) {
	for name, want := range map[string]bridge.Verdict{"bash": bridge.Allow, "Bash": bridge.Allow, "Write": bridge.Deny, "": bridge.Deny} {
		g := newGuard(t, guard.Options{AllowTools: []string{name}})
		if d := g.Before(t.Context(), shell("npm install")); d.Verdict != want {
			t.Errorf("%q: %+v", name, d)
		}
	}
}

// A person is asked once for one thing: when the tool is called, and not again
// when the runtime asks for the same.
func TestConsent(t *testing.T) {
	asked, answer := 0, approval.No
	g := newGuard(t, guard.Options{AllowTools: []string{"safe"}, Asker: askerFunc(func(context.Context, approval.Question) (approval.Answer, error) {
		asked++
		return approval.Answer{Consent: answer}, nil
	})})
	allowed := func(command string) bool {
		before := g.Before(t.Context(), shell(command)).Verdict == bridge.Allow
		return before && g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", Command: command}).Verdict == bridge.Allow
	}
	if allowed("npm install") || asked != 1 {
		t.Errorf("allowed, or asked %d times", asked)
	}
	answer = approval.Once
	if !allowed("npm install") || asked != 2 {
		t.Errorf("not allowed, or asked %d times", asked)
	}
	if !allowed("npm install") || asked != 3 {
		t.Errorf("once was taken for always: asked %d times", asked)
	}
	answer = approval.Session
	allowed("npm install")
	if !allowed("npm install") || asked != 4 {
		t.Errorf("asked again for the same thing: %d times", asked)
	}
	answer = approval.No
	if allowed("npm install; rm x") {
		t.Error("consent was stretched to another command")
	}
	before := asked
	if !allowed("ls") || asked != before {
		t.Error("asked about a read-only command")
	}
	if d := g.Before(t.Context(), bridge.ToolCall{Name: "brand_new_tool"}); d.Verdict == bridge.Allow || asked != before+1 {
		t.Error("a tool that nobody knows was not asked about")
	}
	if d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionUnknown, Native: "x"}); d.Verdict == bridge.Allow {
		t.Error("an unknown kind was allowed")
	}
	if d := g.Before(t.Context(), bridge.ToolCall{Name: "safe"}); d.Verdict != bridge.Allow {
		t.Errorf("an always-allowed tool: %+v", d)
	}
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, guard.Options{AskTimeout: time.Minute, Asker: askerFunc(func(ctx context.Context, _ approval.Question) (approval.Answer, error) {
			<-ctx.Done()
			return approval.Answer{Consent: approval.Once}, ctx.Err() // a late yes is no yes
		})})
		if d := g.Before(t.Context(), shell("npm install")); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "nobody answered within 1m0s") {
			t.Errorf("%+v", d)
		}
	})
	g := newGuard(t, guard.Options{})
	if d := g.Before(t.Context(), shell("npm install")); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "--yes") {
		t.Errorf("without an asker: %+v", d)
	}
}

// What cannot be put on record does not happen.
func TestNoRecordNoTool(t *testing.T) {
	full := errors.New("no space left on device")
	g := newGuard(t, guard.Options{Audit: recorderFunc(func(audit.Entry) error { return full })})
	if d := g.Before(t.Context(), shell("ls")); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "no space left") {
		t.Errorf("before: %+v", d)
	}
	if d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionRead, Paths: []string{"."}}); d.Verdict == bridge.Allow {
		t.Errorf("permit: %+v", d)
	}
	if _, err := g.After(t.Context(), shell("ls"), "x"); err == nil {
		t.Error("a result passed")
	}
	if _, err := g.Prompt(t.Context(), "x"); err == nil {
		t.Error("a prompt passed")
	}
	if r := g.Recover(t.Context(), "timeout", true); r != bridge.RecoverAbort {
		t.Errorf("recover: %s", r)
	}
}

// Every string of a result is redacted and bounded, and so is the record.
func TestResults(t *testing.T) {
	token := "ghp_" + "x7Qm2Lk9Rt4Vb8Zc1Np6Wd3Hs5Jf0Ga2Ye7U"
	var entries []audit.Entry
	g := newGuard(t, guard.Options{Audit: recorderFunc(func(e audit.Entry) error {
		entries = append(entries, e)
		return nil
	})})
	result := map[string]any{"textResultForLlm": "key " + token, "sessionLog": token, "big": strings.Repeat("x", 50_000),
		"contents": []any{map[string]any{"outputPreview": "a " + token}}}
	out, err := g.After(t.Context(), shell("cat x"), result)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bridge.EncodeEvent(bridge.Other{Name: "x", Data: out})
	if err != nil || strings.Contains(string(text), token) || strings.Count(string(text), "[REDACTED]") != 3 {
		t.Errorf("%.300s, %v", text, err)
	}
	if len(text) > 20_000 {
		t.Errorf("%d bytes reach the model", len(text))
	}
	if p, err := g.Prompt(t.Context(), "use "+token); err != nil || strings.Contains(p, token) {
		t.Errorf("prompt %q, %v", p, err)
	}
	if len(entries) != 2 {
		t.Errorf("%d entries", len(entries))
	}
}

func TestDepth(t *testing.T) {
	for env, ok := range map[string]bool{"": true, "COPILOT_BRIDGE_DEPTH=2": true, "COPILOT_BRIDGE_DEPTH=3": false, "COPILOT_BRIDGE_DEPTH=x": false, "COPILOT_BRIDGE_DEPTH=-1": false} {
		if err := guard.CheckDepth(guard.DepthOf([]string{"A=b", env})); (err == nil) != ok {
			t.Errorf("%q: %v", env, err)
		}
	}
}

// A question can be told to be the one that an event tells of.
func TestQuestionsHaveIDs(t *testing.T) {
	var put []string
	g := newGuard(t, guard.Options{Asker: askerFunc(func(_ context.Context, q approval.Question) (approval.Answer, error) {
		put = append(put, q.Request.ID)
		return approval.Answer{Consent: approval.No}, nil
	})})
	var told []string
	ctx := bridge.WithWaiting(t.Context(), func(r bridge.PermissionRequest) func(bridge.Decision) {
		told = append(told, r.ID)
		return func(bridge.Decision) {}
	})
	g.Before(ctx, shell("make a"))
	g.Before(ctx, shell("make b"))
	if len(put) != 2 || put[0] == "" || put[0] == put[1] || put[0] != told[0] || put[1] != told[1] {
		t.Errorf("put %q, told of %q", put, told)
	}
}
