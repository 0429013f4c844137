package guard

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

type askerFunc func(context.Context, approval.Question) (approval.Answer, error)

func (f askerFunc) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	return f(ctx, q)
}

func newGuard(t *testing.T, o Options) (*Guard, string) {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g, o.Workspace
}

func TestFiles(t *testing.T) {
	dir, outside, state := t.TempDir(), t.TempDir(), t.TempDir()
	for link, target := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "nothing"), "in": "sub"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	g, _ := newGuard(t, Options{Workspace: dir, Protected: []string{state, filepath.Join(dir, "kept")}})
	for _, tc := range []struct {
		kind  bridge.PermissionKind
		path  string
		allow bool
	}{
		{bridge.PermissionWrite, "a.txt", true},
		{bridge.PermissionWrite, filepath.Join(dir, "deep", "er", "a.txt"), true},
		{bridge.PermissionWrite, "in/a.txt", true},
		{bridge.PermissionRead, "sub", true},
		{bridge.PermissionWrite, "../a.txt", false},
		{bridge.PermissionWrite, dir + "-sibling/a.txt", false},
		{bridge.PermissionWrite, "out/a.txt", false},
		{bridge.PermissionRead, "out", false},
		{bridge.PermissionWrite, "dangling", false},
		{bridge.PermissionWrite, "/etc/passwd", false},
		{bridge.PermissionRead, "/etc/passwd", false},
		{bridge.PermissionWrite, "a\x00b", false},
		{bridge.PermissionWrite, ".git/hooks/pre-commit", false},
		{bridge.PermissionWrite, "sub/.git/hooks/pre-commit", false},
		{bridge.PermissionWrite, ".GIT/config", false},
		{bridge.PermissionWrite, ".agent-policy.yaml", false},
		{bridge.PermissionRead, ".git/config", true},
		{bridge.PermissionWrite, "kept/x", false},
		{bridge.PermissionWrite, filepath.Join(state, "x"), false},
	} {
		d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: tc.kind, Paths: []string{tc.path}})
		if (d.Verdict == bridge.Allow) != tc.allow || d.Reason == "" {
			t.Errorf("%s %q: %+v", tc.kind, tc.path, d)
		}
	}
	if d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionWrite, Paths: []string{"a", "../b"}}); d.Verdict == bridge.Allow {
		t.Error("one bad path among good ones passed")
	}
	if d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionWrite}); d.Verdict == bridge.Allow {
		t.Error("no path at all passed")
	}
}

func TestWhatNeedsConsent(t *testing.T) {
	asked := 0
	answer := approval.No
	g, _ := newGuard(t, Options{AllowTools: []string{"safe"}, Asker: askerFunc(func(context.Context, approval.Question) (approval.Answer, error) {
		asked++
		return answer, nil
	})})
	permit := func(r bridge.PermissionRequest) bool { return g.Permit(t.Context(), r).Verdict == bridge.Allow }
	shell := bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", Command: "ls"}
	for _, r := range []bridge.PermissionRequest{shell, {Kind: bridge.PermissionURL}, {Kind: bridge.PermissionMCP, Tool: "t"},
		{Kind: bridge.PermissionMemory}, {Kind: bridge.PermissionHook}} {
		before := asked
		if permit(r) || asked != before+1 {
			t.Errorf("%s: allowed or not asked", r.Kind)
		}
	}
	answer = approval.Once
	if !permit(shell) {
		t.Error("yes was not taken")
	}
	answer = approval.Session
	permit(shell)
	before := asked
	if !permit(shell) || asked != before {
		t.Error("asked again for the same thing")
	}
	other := shell
	other.Command = "ls; rm x"
	if permit(other); asked != before+1 {
		t.Error("consent was stretched to another command")
	}
	before = asked
	if !permit(bridge.PermissionRequest{Kind: bridge.PermissionMCP, Tool: "safe"}) || !permit(bridge.PermissionRequest{Kind: bridge.PermissionCustom}) || asked != before {
		t.Error("asked for what needs no consent")
	}
	if permit(bridge.PermissionRequest{Kind: bridge.PermissionUnknown, Native: "new-kind"}) || permit(bridge.PermissionRequest{Kind: "nonsense"}) || asked != before {
		t.Error("an unknown kind was allowed or asked about")
	}
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t, Options{AskTimeout: time.Minute, Asker: askerFunc(func(ctx context.Context, _ approval.Question) (approval.Answer, error) {
			<-ctx.Done()
			return approval.Once, ctx.Err() // a late yes is no yes
		})})
		d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionShell})
		if d.Verdict == bridge.Allow || d.Reason != "nobody answered within 1m0s" {
			t.Errorf("%+v", d)
		}
	})
	g, _ := newGuard(t, Options{})
	if d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionShell}); d.Verdict == bridge.Allow || !strings.Contains(d.Reason, "--yes") {
		t.Errorf("without an asker: %+v", d)
	}
	g, _ = newGuard(t, Options{Asker: askerFunc(func(context.Context, approval.Question) (approval.Answer, error) {
		return approval.Once, errors.New("broken")
	})})
	if d := g.Permit(t.Context(), bridge.PermissionRequest{Kind: bridge.PermissionShell}); d.Verdict == bridge.Allow {
		t.Errorf("a failing asker: %+v", d)
	}
}

func TestWorkspaceMustExist(t *testing.T) {
	dangling := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/no/such/place", dangling); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Workspace: dangling}); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("%v", err)
	}
}
