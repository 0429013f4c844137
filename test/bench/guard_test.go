package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// callsInTurn is the number of tool calls in the longer of the two turns.
const callsInTurn = 10

// BenchmarkGuardedTool measures the cost of judging, redacting and recording a
// tool call: less than 1 ms. A call's cost is a tenth of the difference between
// a turn with ten calls and a turn with none, so that the fixed cost of a turn
// (four hooks) is not counted. The turns themselves are printed as well. Four
// sides alternate: the bare SDK, the bare SDK with hooks that do nothing (hooks
// are one switch, so the runtime then calls all of them), the bridge with a
// gate that allows everything, and the bridge with the guard.
func BenchmarkGuardedTool(b *testing.B) {
	m, dir := startModel(b), b.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	call := "rehearsal: tool view {\"path\":\"" + file + "\"}\nrehearsal: next\n"
	asks := [2]string{"rehearsal: text ok", strings.Repeat(call, callsInTurn) + "rehearsal: text ok"}
	nothing := &copilot.SessionHooks{
		OnPreToolUse: func(copilot.PreToolUseHookInput, copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
			return nil, nil
		},
		OnPostToolUse: func(copilot.PostToolUseHookInput, copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
			return nil, nil
		},
	}
	clock := &timedGuard{Gate: benchGuard(b, dir)}
	ways := []func(string) error{
		bareCaller(b, m, dir, nil),
		bareCaller(b, m, dir, nothing),
		bridgeCaller(b, m, dir, allowAll{}),
		bridgeCaller(b, m, dir, clock),
	}
	for b.Loop() {
		var took [4][2][]time.Duration
		order := rand.New(rand.NewPCG(1, 2))
		for i := range 70 {
			for _, w := range order.Perm(len(ways)) {
				for k, ask := range asks {
					began := time.Now()
					if err := ways[w](ask); err != nil {
						b.Fatal(err)
					}
					if i >= 10 { // skip the warm-up
						took[w][k] = append(took[w][k], time.Since(began))
					}
				}
			}
		}
		var perCall [4]time.Duration
		for w, name := range []string{"bare SDK", "bare SDK, hooks that do nothing", "bridge, gate that allows all", "bridge, guard"} {
			none, many := percentile(took[w][0], 0.5), percentile(took[w][1], 0.5)
			perCall[w] = (many - none) / callsInTurn
			fmt.Printf("\n  %-32s turn without calls %s, with %d %s, a call %s", name, ms(none), callsInTurn, ms(many), ms(perCall[w]))
		}
		fmt.Println()
		guarded, above, own := perCall[3]-perCall[2], perCall[3]-perCall[0], percentile(clock.calls, 0.5)
		report("guarded tool call over unguarded", ms(perCall[2]), ms(perCall[3]), "+"+ms(guarded), "< +1 ms", guarded < time.Millisecond)
		report("guarded tool call over the bare SDK", ms(perCall[0]), ms(perCall[3]), "+"+ms(above), "< +1 ms", above < time.Millisecond)
		fmt.Printf("\n  of which hooks that do nothing take %s in the runtime itself\n", ms(perCall[1]-perCall[0]))
		report("the guard's own time in a call", "", ms(own), "", "< 1 ms", own < time.Millisecond)
		b.ReportMetric(float64(guarded)/float64(time.Millisecond), "ms-above-unguarded")
		b.ReportMetric(float64(own)/float64(time.Millisecond), "ms-guard")
		b.ReportMetric(float64(above)/float64(time.Millisecond), "ms-above-bare")
	}
}

// timedGuard measures the time that a guard spends on each tool call. Only one
// call runs at a time.
type timedGuard struct {
	bridge.Gate
	now   time.Duration
	calls []time.Duration
}

func (c *timedGuard) Before(ctx context.Context, call bridge.ToolCall) bridge.Decision {
	began := time.Now()
	defer func() { c.now = time.Since(began) }()
	return c.Gate.Before(ctx, call)
}

func (c *timedGuard) Permit(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	began := time.Now()
	defer func() { c.now += time.Since(began) }()
	return c.Gate.Permit(ctx, r)
}

func (c *timedGuard) After(ctx context.Context, call bridge.ToolCall, result any) (any, error) {
	began := time.Now()
	defer func() { c.calls = append(c.calls, c.now+time.Since(began)) }()
	return c.Gate.After(ctx, call, result)
}

// benchGuard is a guard with 200 rules and an audit log.
func benchGuard(b *testing.B, dir string) *guard.Guard {
	b.Helper()
	ws, err := paths.New(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ws.Close() })
	text := "tools:\n  deny:\n"
	for i := range 200 {
		text += fmt.Sprintf("    - blocked_%c%c_*\n", 'a'+i%26, 'a'+i/26)
	}
	rules, err := policy.ParseYAML("bench", []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	r := redact.New(redact.Options{})
	log, err := audit.Open(b.TempDir(), audit.Options{Redact: func(v any) any { clean, _ := r.Value(v); return clean }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	defaults := policy.DefaultsRun()
	defaults.Root = ws.Root()
	return guard.New(guard.Options{Workspace: ws, Policy: policy.Combine(defaults, policy.Layer{Rules: rules, Trusted: true}), Redactor: r, Audit: log, Door: "bench"})
}

// allowAll is the gate of a bridge without a guard.
type allowAll struct{}

func (allowAll) Prompt(_ context.Context, text string) (string, error) { return text, nil }
func (allowAll) Before(context.Context, bridge.ToolCall) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Allow}
}
func (allowAll) Permit(context.Context, bridge.PermissionRequest) bridge.Decision {
	return bridge.Decision{Verdict: bridge.Allow}
}
func (allowAll) After(_ context.Context, _ bridge.ToolCall, result any) (any, error) {
	return result, nil
}
func (allowAll) Failed(context.Context, bridge.ToolCall, string)       {}
func (allowAll) Recover(context.Context, string, bool) bridge.Recovery { return bridge.RecoverDefault }

// bareCaller opens a session of the bare SDK and returns a function that runs a
// turn in it.
func bareCaller(b *testing.B, m *demomodel.Server, dir string, hooks *copilot.SessionHooks) func(string) error {
	b.Helper()
	ctx := context.Background()
	c := copilot.NewClient(&copilot.ClientOptions{Connection: copilot.StdioConnection{Path: runtimetest.Path(b)}, BaseDirectory: b.TempDir(),
		UseLoggedInUser: copilot.Bool(false), LogLevel: "error", Env: append(os.Environ(), "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=openai",
			"COPILOT_PROVIDER_BASE_URL="+m.URL(), "COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+m.Model())})
	if err := c.Start(ctx); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Stop() })
	idle, user := make(chan string, 1), ""
	s, err := c.CreateSession(ctx, &copilot.SessionConfig{Model: m.Model(), Streaming: copilot.Bool(true), WorkingDirectory: dir,
		Provider:            &copilot.ProviderConfig{Type: "openai", BaseURL: m.URL(), APIKey: m.Key()},
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll, Hooks: hooks,
		OnEvent: func(e copilot.SessionEvent) {
			switch e.Data.(type) {
			case *rpc.UserMessageData:
				user = e.ID
			case *rpc.SessionIdleData:
				idle <- user
			}
		}})
	if err != nil {
		b.Fatal(err)
	}
	last := ""
	return func(ask string) error {
		if last != "" { // on every side a turn includes the reset of the previous one
			if _, err := s.RPC.History.Truncate(ctx, &rpc.HistoryTruncateRequest{EventID: last}); err != nil {
				return err
			}
		}
		if _, err := s.Send(ctx, copilot.MessageOptions{Prompt: ask}); err != nil {
			return err
		}
		last = <-idle
		return nil
	}
}

// bridgeCaller does the same through the engine, with a gate.
func bridgeCaller(b *testing.B, m *demomodel.Server, dir string, gate bridge.Gate) func(string) error {
	b.Helper()
	ctx := context.Background()
	e := newEngine(b, m, 1)
	b.Cleanup(func() { _ = e.Close(ctx) })
	s, err := e.Open(ctx, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, Gate: gate}})
	if err != nil {
		b.Fatal(err)
	}
	used := false
	return func(ask string) error {
		if used {
			if err := s.Reset(ctx); err != nil {
				return err
			}
		}
		used = true
		for _, err := range s.Send(ctx, bridge.Prompt{Text: ask}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}
