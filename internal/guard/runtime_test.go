package guard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
)

// A direct call of the runtime is judged by its kind, and always recorded under
// its own name.
func TestDirectCalls(t *testing.T) {
	asked := 0
	var recorded []audit.Entry
	g := newGuard(t, guard.Options{
		Asker: askerFunc(func(context.Context, approval.Question) (approval.Answer, error) {
			asked++
			return approval.Answer{Consent: approval.No}, nil
		}),
		Audit: recorderFunc(func(e audit.Entry) error { recorded = append(recorded, e); return nil }),
	})
	for _, c := range []struct {
		method  string
		args    any
		want    bridge.Verdict
		asks    bool
		because string
	}{
		{"session.name.get", nil, bridge.Allow, false, ""},
		{"session.name.set", map[string]any{"name": "/etc/passwd"}, bridge.Allow, false, ""},
		{"session.workspaces.createFile", map[string]any{"path": "a", "content": "b"}, bridge.Deny, true, ""},
		{"session.shell.exec", map[string]any{"command": "ls"}, bridge.Allow, false, ""},
		{"session.shell.exec", map[string]any{"command": "make"}, bridge.Deny, true, ""},
		{"session.shell.exec", map[string]any{"command": "ls", "cwd": "/"}, bridge.Deny, false, "leave cwd out"},
		{"session.shell.exec", map[string]any{"command": []any{"ls"}}, bridge.Deny, false, "no command"},
		{"session.shell.exec", nil, bridge.Deny, false, "no command"},
		{"session.shell.exec", map[string]any{"command": "echo x > .agent-policy.yaml"}, bridge.Deny, false, ""},
		{"session.permissions.setApproveAll", map[string]any{"enabled": true}, bridge.Deny, false, "the guard decides"},
		{"session.nosuch", nil, bridge.Deny, false, "does not know it"},
		{"", nil, bridge.Deny, false, "does not know it"},
	} {
		asked, recorded = 0, nil
		d := g.Before(t.Context(), bridge.ToolCall{Name: bridge.RuntimeCall + c.method, Args: c.args})
		if d.Verdict != c.want || (asked > 0) != c.asks || !strings.Contains(d.Reason, c.because) {
			t.Errorf("%s %v: %+v, asked %d times", c.method, c.args, d, asked)
		}
		if last := recorded[len(recorded)-1]; last.Tool != bridge.RuntimeCall+c.method || last.Hook != audit.HookPreTool || last.Decision != d.Verdict.String() {
			t.Errorf("%s: recorded %+v", c.method, recorded)
		}
	}
	unrecorded := newGuard(t, guard.Options{Audit: recorderFunc(func(audit.Entry) error { return context.Canceled })})
	if d := unrecorded.Before(t.Context(), bridge.ToolCall{Name: bridge.RuntimeCall + "session.name.get"}); d.Verdict == bridge.Allow {
		t.Error("allowed without a record")
	}
}
