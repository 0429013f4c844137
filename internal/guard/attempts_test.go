//go:build unix

package guard_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/guardtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
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
const canary = guardtest.Canary

// yard is a workspace with everything that the tables mention, a real runtime
// in it, and the guard under test.
type yard struct {
	*guardtest.Yard
	ws, out, home, pwn string
	agent              *sdk.Agent
	model              *demomodel.Server
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
	l := guardtest.New(t)
	y := &yard{Yard: l, ws: l.Workspace, out: l.Outside, home: l.Home, pwn: l.Pwned, auditDir: filepath.Join(l.Root, "audit")}
	return y
}

// start connects the guard with a real runtime.
func (y *yard) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	y.model = demomodel.New()
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

// call makes the model use a tool and returns how that ended.
func (y *yard) call(t *testing.T, s bridge.Session, tool string, args map[string]any) bridge.ToolFinished {
	t.Helper()
	return y.calls(t, s, guardtest.Case{Tool: tool, Args: args})[0]
}

// calls makes the model use several tools at once, and returns how each ended.
func (y *yard) calls(t *testing.T, s bridge.Session, cases ...guardtest.Case) []bridge.ToolFinished {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var script []string
	for _, c := range cases {
		script = append(script, agenttest.Tool(c.Tool, c.Args))
	}
	o := agenttest.Collect(ctx, s, agenttest.Script(append(script, "next", "text ok")...))
	if o.Err != nil {
		t.Fatalf("%+v: %v", cases, o.Err)
	}
	ended := map[string]bridge.ToolFinished{}
	for _, f := range agenttest.Find[bridge.ToolFinished](o) {
		ended[f.CallID] = f
	}
	last := y.model.Requests()[len(y.model.Requests())-1]
	results := last.ToolResults()
	answered := last.Messages[len(last.Messages)-1-len(results)].ToolCalls
	if len(results) != len(cases) || len(answered) != len(cases) {
		t.Fatalf("%d calls, %d of them known to the model, %d results", len(cases), len(answered), len(results))
	}
	out := make([]bridge.ToolFinished, len(cases))
	for i, c := range answered {
		var ran bool
		if out[i], ran = ended[c.ID]; !ran {
			// The runtime itself did not know the tool or its arguments.
			out[i] = bridge.ToolFinished{CallID: c.ID, Error: "not run: " + results[i]}
		}
	}
	return out
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
	cases := guardtest.Cases(t, "testdata/attempts.yaml")
	for i := range cases {
		cases[i].Args = y.Fill(t, cases[i].Args)
	}
	attempts, unrun := len(cases), 0
	for some := range slices.Chunk(cases, 20) { // turns of a long session are slow
		before := y.lastSeq(t)
		results := y.calls(t, y.open(t, y.spec), some...)
		last, err := audit.Tail(ctx, y.auditDir, 6*len(some))
		if err != nil {
			t.Fatal(err)
		}
		denials := map[string]int{} // by call, or by tool where the runtime does not name the call
		for _, e := range last {
			if e.Seq > before && e.Decision == "deny" && e.Reason != "" && (e.Hook == audit.HookPreTool || e.Hook == audit.HookPermission) {
				denials[cmp.Or(e.Call, e.Tool)]++
			}
		}
		for i, c := range some {
			t.Run(c.Name, func(t *testing.T) {
				ended := results[i]
				if ended.OK {
					t.Errorf("%s %v was allowed: %.300s", c.Tool, c.Args, ended.Result)
				}
				if !strings.Contains(ended.Error, c.Why) {
					t.Errorf("%v: the reason %q does not say %q", c.Args, ended.Error, c.Why)
				}
				if strings.Contains(ended.Result+ended.Error, canary) {
					t.Errorf("%v: the canary got out", c.Args)
				}
				if strings.HasPrefix(ended.Error, "not run:") {
					unrun++ // the runtime refused it before the guard was asked
					return
				}
				if denials[ended.CallID] > 0 {
					return
				}
				if denials[c.Tool]--; denials[c.Tool] < 0 {
					t.Errorf("%v: no denial on record", c.Args)
				}
			})
		}
		if _, err := os.Lstat(y.pwn); err == nil {
			t.Fatalf("one of these made the file outside: %+v", some)
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
	if report, err := audit.Verify(ctx, y.auditDir, "", ""); err != nil || !report.OK() {
		t.Errorf("the record: %+v, %v", report, err)
	}
}

// Everyday work is not in the guard's way.
func TestOrdinaryWork(t *testing.T) {
	y := newYard(t)
	cases := guardtest.Cases(t, "testdata/ordinary.yaml")
	for i := range cases {
		cases[i].Args = y.Fill(t, cases[i].Args)
	}
	for some := range slices.Chunk(cases, 10) {
		results := y.calls(t, y.open(t, y.spec), some...)
		for i, c := range some {
			t.Run(c.Name, func(t *testing.T) {
				if ended := results[i]; !ended.OK && (ended.Code == "denied" || strings.Contains(ended.Error, "Denied") || strings.Contains(ended.Error, "reject")) {
					t.Errorf("%s %v was denied: %s", c.Tool, c.Args, ended.Error)
				}
			})
		}
	}
	if len(cases) < 60 {
		t.Errorf("only %d cases", len(cases))
	}
}
