package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/audit"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
	"github.com/copilot-bridge/copilot-bridge/internal/rehearsal"
)

// BenchmarkGuardedTool: a tool call that is judged, redacted and put on record
// takes less than 1 ms longer than one that nobody judges. Four ways to make
// the same call take turns, so that the cost can be told apart: the bare SDK,
// the bare SDK with hooks that do nothing (what the runtime itself takes for
// asking: hooks are one switch, and it then asks at all of its points), the
// bridge with a gate that allows everything, and the bridge with the guard.
// The turns take 60 ms and more, so the guard's share is also measured by
// itself, by a clock around its methods.
func BenchmarkGuardedTool(b *testing.B) {
	m, dir := startModel(b), b.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	ask := "rehearsal: tool view {\"path\":\"" + file + "\"}\nrehearsal: next\nrehearsal: text ok"
	clock := &clocked{Gate: benchGuard(b, dir)}
	ways := []func() error{
		bareCaller(b, m, dir, ask, nil),
		bareCaller(b, m, dir, ask, &copilot.SessionHooks{
			OnPreToolUse: func(copilot.PreToolUseHookInput, copilot.HookInvocation) (*copilot.PreToolUseHookOutput, error) {
				return nil, nil
			},
			OnPostToolUse: func(copilot.PostToolUseHookInput, copilot.HookInvocation) (*copilot.PostToolUseHookOutput, error) {
				return nil, nil
			},
		}),
		bridgeCaller(b, m, dir, ask, allowAll{}),
		bridgeCaller(b, m, dir, ask, clock),
	}
	for b.Loop() {
		took, order := make([][]time.Duration, len(ways)), rand.New(rand.NewPCG(1, 2))
		for i := range 220 {
			for _, k := range order.Perm(len(ways)) {
				began := time.Now()
				if err := ways[k](); err != nil {
					b.Fatal(err)
				}
				if i >= 20 { // the rest is warm-up
					took[k] = append(took[k], time.Since(began))
				}
			}
		}
		var p [4]time.Duration
		for k := range ways {
			p[k] = percentile(took[k], 0.5)
		}
		d, own := p[3]-p[2], percentile(clock.calls, 0.5)
		above := p[3] - p[0]
		report("guarded tool call over the bare SDK", ms(p[0]), ms(p[3]), "+"+ms(above), "< +1 ms", above < time.Millisecond)
		fmt.Printf("\n  of which hooks that do nothing take %s in the runtime itself\n", ms(p[1]-p[0]))
		report("guarded tool call over unguarded", ms(p[2]), ms(p[3]), "+"+ms(d), "< +1 ms", d < time.Millisecond)
		report("the guard's own time in a call", "", ms(own), "", "< 1 ms", own < time.Millisecond)
		b.ReportMetric(float64(d)/float64(time.Millisecond), "ms-above-unguarded")
		b.ReportMetric(float64(own)/float64(time.Millisecond), "ms-guard")
		b.ReportMetric(float64(above)/float64(time.Millisecond), "ms-above-bare")
	}
}

// clocked takes the time that a guard spends on each tool call. One call runs
// at a time.
type clocked struct {
	bridge.Gate
	now   time.Duration
	calls []time.Duration
}

func (c *clocked) Before(ctx context.Context, call bridge.ToolCall) bridge.Decision {
	began := time.Now()
	defer func() { c.now = time.Since(began) }()
	return c.Gate.Before(ctx, call)
}

func (c *clocked) Permit(ctx context.Context, r bridge.PermissionRequest) bridge.Decision {
	began := time.Now()
	defer func() { c.now += time.Since(began) }()
	return c.Gate.Permit(ctx, r)
}

func (c *clocked) After(ctx context.Context, call bridge.ToolCall, result any) (any, error) {
	began := time.Now()
	defer func() { c.calls = append(c.calls, c.now+time.Since(began)) }()
	return c.Gate.After(ctx, call, result)
}

// benchGuard is a guard with 200 rules and a record.
func benchGuard(b *testing.B, dir string) *guard.Guard {
	b.Helper()
	ws, err := paths.New(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ws.Close() })
	var lists policy.Lists
	for i := range 200 {
		lists.BlockedTools = append(lists.BlockedTools, "blocked_"+string(rune('a'+i%26))+string(rune('a'+i/26))+"_*")
	}
	rules, err := policy.FromLists("bench", lists)
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

// bareCaller returns a turn of the bare SDK that makes one tool call.
func bareCaller(b *testing.B, m *rehearsal.Server, dir, ask string, hooks *copilot.SessionHooks) func() error {
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
	return func() error {
		if last != "" { // the reset of the turn before is part of a turn on every side
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

// bridgeCaller is the same through the engine, under a gate.
func bridgeCaller(b *testing.B, m *rehearsal.Server, dir, ask string, gate bridge.Gate) func() error {
	b.Helper()
	ctx := context.Background()
	e := newEngine(b, m, 1)
	b.Cleanup(func() { _ = e.Close(ctx) })
	s, err := e.Open(ctx, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, Gate: gate}})
	if err != nil {
		b.Fatal(err)
	}
	used := false
	return func() error {
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
