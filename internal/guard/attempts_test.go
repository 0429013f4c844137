//go:build unix

package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	if os.Getenv("GUARD_TEST_MCP") != "" {
		os.Exit(mcpMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// canary must never reach the model.
const canary = "CANARY-7f3a"

// group is one entry of the tables in testdata.
type group struct {
	Group    string
	Why      string
	Tool     string
	Args     []map[string]any
	Commands []string
}

func (g group) calls() []map[string]any {
	out := g.Args
	for _, c := range g.Commands {
		out = append(out, map[string]any{"command": c, "description": "x"})
	}
	return out
}

// yard is a workspace with everything that the tables mention, a real runtime
// in it, and the guard under test.
type yard struct {
	ws, out, home, pwn string
	agent              *sdk.Agent
	model              *rehearsal.Server
	log                *audit.Log
	auditDir           string
	spec               bridge.SessionSpec
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := layYard(t)
	y.start(t)
	return y
}

// layYard lays the workspace out.
func layYard(t *testing.T) *yard {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{ws: filepath.Join(root, "work"), out: filepath.Join(root, "outside"), home: filepath.Join(root, "home"),
		pwn: filepath.Join(root, "pwned"), auditDir: filepath.Join(root, "audit")}
	for name, text := range map[string]string{
		"work/README.md": "hello world\n", "work/src/main.go": "package main\n\nfunc main() {}\n", "work/src/deep/x.txt": "x\n",
		"work/src/inner/y.txt": "y\n", "work/go.mod": "module example\n\ngo 1.20\n",
		"work/package.json": `{"name":"x","scripts":{"test":"true","build":"true"}}`, "work/evil.sh": "touch " + y.pwn + "\n", "work/list": y.pwn + "\n",
		"work/e1/plain.txt": "x\n", "work/e2/plain.txt": "y\n", "work/e3/plain.txt": "z\n", "work/plant/hooks/x.json": `{"hooks":{}}`, "work/plant/AGENTS.md": "be evil\n",
		"work/private/old.key": canary + "\n", "work/posing/HEAD": "ref: refs/heads/main\n", "work/posing/objects/x": "", "work/posing/refs/x": "",
		"work/posing/config":   "[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = touch " + y.pwn + "\n",
		"work/redirected/.git": "gitdir: ../evil/.git\n", "outside/patch.diff": "", "work/AGENTS.md": "# how to work here\n",
		"work/.env": "KEY=" + canary + "\n", "work/secrets/key.pem": canary + "\n", "outside/secret.txt": canary + "\n", "home/x": "", "work/docs/z.md": "z\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": y.out, "filelink": filepath.Join(y.out, "secret.txt"), "dangling": y.pwn, "src/deep/up": "../../..", "inside": "src",
		"e1/gone.txt": filepath.Join(y.out, "secret.txt"), "e3/hidden": "../.env", "[x]": y.out, "e2/[y]": filepath.Join(y.out, "secret.txt"), "e3/dir": "../secrets"} {
		if err := os.Symlink(to, filepath.Join(y.ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	git := func(dir string, args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.email=a@example.com", "-c", "user.name=a"}, args...)...)
		cmd.Dir = filepath.Join(y.ws, dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("", "init", "-q")
	git("", "config", "user.email", "a@example.com")
	git("", "config", "user.name", "a")
	// What may not be read is in the history, and not in the index.
	git("", "add", "README.md", "src", ".env", "private", "AGENTS.md")
	git("", "commit", "-q", "-m", "first")
	git("", "rm", "-q", "--cached", ".env", "private/old.key")
	git("", "commit", "-q", "-m", "second")
	// A repository below, whose own settings name programs.
	if err := os.MkdirAll(filepath.Join(y.ws, "evil"), 0o755); err != nil {
		t.Fatal(err)
	}
	git("evil", "init", "-q")
	if err := os.WriteFile(filepath.Join(y.ws, "evil", "f.txt"), []byte("f\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("evil", "add", "f.txt")
	git("evil", "commit", "-q", "-m", "first")
	for _, setting := range []string{"core.fsmonitor", "diff.external", "diff.x.textconv", "core.pager", "filter.x.clean", "alias.st"} {
		git("evil", "config", setting, "touch "+y.pwn+" #")
	}
	git("", "init", "-q", "hooked")
	if err := os.WriteFile(filepath.Join(y.ws, "hooked", ".git", "hooks", "pre-commit"), []byte("#!/bin/sh\ntouch "+y.pwn+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(y.ws, "evil", ".gitattributes"), []byte("* diff=x filter=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return y
}

// start connects the guard with a real runtime.
func (y *yard) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	y.model = rehearsal.New()
	if err := y.model.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	y.agent = sdk.New(sdk.Options{Runtime: runtimetest.Path(t), Home: t.TempDir(), Records: t.TempDir(), Self: self, Env: os.Environ(),
		Provider: &bridge.Provider{Kind: "openai", BaseURL: y.model.URL(), APIKey: y.model.Key()}, Model: y.model.Model()})
	y.spec = bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: y.ws, Gate: y.gate(t)}
	t.Cleanup(func() {
		for what, err := range map[string]error{"agent": y.agent.Close(context.Background()), "model": y.model.Close()} {
			if err != nil {
				t.Errorf("closing the %s: %v", what, err)
			}
		}
	})
}

// gate is the guard under test.
func (y *yard) gate(t *testing.T) *guard.Guard {
	t.Helper()
	ws, err := paths.New(y.ws)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.ParseYAML("policy.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	redactor := redact.New(redact.Options{})
	if y.log, err = audit.Open(y.auditDir, audit.Options{Redact: func(v any) any { clean, _ := redactor.Value(v); return clean }}); err != nil {
		t.Fatal(err)
	}
	defaults := policy.DefaultsRun()
	defaults.Root, defaults.Protected = ws.Root(), []string{y.home}
	t.Cleanup(func() {
		for what, err := range map[string]error{"audit": y.log.Close(), "workspace": ws.Close()} {
			if err != nil {
				t.Errorf("closing the %s: %v", what, err)
			}
		}
	})
	return guard.New(guard.Options{
		Workspace: ws, Policy: policy.Combine(defaults, policy.Layer{Rules: rules, Trusted: true}), Redactor: redactor,
		Audit: y.log, Asker: approval.Nobody{}, Door: "test", Servers: []string{"files"},
	})
}

// fill puts the yard's paths into a case.
func (y *yard) fill(t *testing.T, args map[string]any) map[string]any {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("{{ws}}", y.ws, "{{outname}}", filepath.Base(y.out), "{{out}}", y.out, "{{pwn}}", y.pwn, "{{home}}", y.home).Replace(string(b))
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func table(t *testing.T, file string) []group {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out []group
	if err := yaml.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// call makes the model use a tool and returns how that ended.
func (y *yard) call(t *testing.T, s bridge.Session, tool string, args map[string]any) bridge.ToolFinished {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	o := agenttest.Collect(ctx, s, agenttest.Script(agenttest.Tool(tool, args), "next", "text ok"))
	if o.Err != nil {
		t.Fatalf("%s %v: %v", tool, args, o.Err)
	}
	ended := agenttest.Find[bridge.ToolFinished](o)
	if len(ended) == 0 {
		// The runtime itself did not know the tool or its arguments.
		return bridge.ToolFinished{Error: "not run: " + strings.Join(y.model.Requests()[len(y.model.Requests())-1].ToolResults(), " ")}
	}
	return ended[0]
}

// lastSeq is the number of the newest entry on record, so that a denial can be
// told to belong to the attempt that follows.
func (y *yard) lastSeq(t *testing.T) uint64 {
	t.Helper()
	last, err := audit.Tail(context.Background(), y.auditDir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(last) == 0 {
		return 0
	}
	return last[0].Seq
}

// Every attempt is refused with a reason, leaves a trace in the record, and
// nothing outside is read or written.
func TestAttempts(t *testing.T) {
	y := newYard(t)
	ctx := context.Background()
	s, err := y.agent.Open(ctx, y.spec)
	if err != nil {
		t.Fatal(err)
	}
	attempts, unrun := 0, 0
	for _, g := range table(t, "attempts.yaml") {
		for i, c := range g.calls() {
			args := y.fill(t, c)
			attempts++
			t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(g.Group, " ", "_"), i), func(t *testing.T) {
				before := y.lastSeq(t)
				ended := y.call(t, s, g.Tool, args)
				if ended.OK {
					t.Errorf("%s %v was allowed: %.300s", g.Tool, args, ended.Result)
				}
				if !strings.Contains(ended.Error, g.Why) {
					t.Errorf("%v: the reason %q does not say %q", args, ended.Error, g.Why)
				}
				if strings.Contains(ended.Result+ended.Error, canary) {
					t.Errorf("%v: the canary got out", args)
				}
				if _, err := os.Lstat(y.pwn); err == nil {
					t.Fatalf("%v: the file outside was made", args)
				}
				if strings.HasPrefix(ended.Error, "not run:") {
					unrun++ // the runtime refused it before the guard was asked
					return
				}
				last, err := audit.Tail(ctx, y.auditDir, 6)
				if err != nil {
					t.Fatal(err)
				}
				traced := false
				for _, e := range last {
					traced = traced || e.Seq > before && e.Decision == "deny" && e.Reason != "" && (e.Hook == audit.HookPreTool || e.Hook == audit.HookPermission)
				}
				if !traced {
					t.Errorf("%v: no denial on record", args)
				}
			})
		}
	}
	t.Logf("%d attempts, %d of them refused by the runtime before the guard was asked", attempts, unrun)
	if attempts-unrun < 150 {
		t.Errorf("only %d attempts reached the guard", attempts-unrun)
	}
	for _, r := range y.model.Requests() {
		if strings.Contains(string(r.Raw), canary) {
			t.Error("the canary reached the model")
			break
		}
	}
	if report, err := audit.Verify(ctx, y.auditDir, ""); err != nil || !report.OK() {
		t.Errorf("the record: %+v, %v", report, err)
	}
}

// Everyday work is not in the guard's way.
func TestOrdinaryWork(t *testing.T) {
	y := newYard(t)
	s, err := y.agent.Open(context.Background(), y.spec)
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, g := range table(t, "ordinary.yaml") {
		for i, c := range g.calls() {
			args := y.fill(t, c)
			cases++
			t.Run(fmt.Sprintf("%s/%d", g.Tool, i), func(t *testing.T) {
				if ended := y.call(t, s, g.Tool, args); !ended.OK && (ended.Code == "denied" || strings.Contains(ended.Error, "Denied") || strings.Contains(ended.Error, "reject")) {
					t.Errorf("%s %v was denied: %s", g.Tool, args, ended.Error)
				}
			})
		}
	}
	if cases < 60 {
		t.Errorf("only %d cases", cases)
	}
}
