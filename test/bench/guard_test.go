package bench

import (
	"context"
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
)

// BenchmarkGuardedTool: a tool call that is judged, redacted and put on record
// takes less than 1 ms longer than one in the bare SDK that approves all.
func BenchmarkGuardedTool(b *testing.B) {
	ctx, m, dir := context.Background(), startModel(b), b.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	ask := "rehearsal: tool view {\"path\":\"" + file + "\"}\nrehearsal: next\nrehearsal: text ok"

	c := copilot.NewClient(&copilot.ClientOptions{Connection: copilot.StdioConnection{Path: runtimetest.Path(b)}, BaseDirectory: b.TempDir(),
		UseLoggedInUser: copilot.Bool(false), LogLevel: "error", Env: append(os.Environ(), "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=openai",
			"COPILOT_PROVIDER_BASE_URL="+m.URL(), "COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+m.Model())})
	if err := c.Start(ctx); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Stop() })
	idle, user := make(chan string, 1), ""
	bare, err := c.CreateSession(ctx, &copilot.SessionConfig{Model: m.Model(), Streaming: copilot.Bool(true), WorkingDirectory: dir,
		Provider:            &copilot.ProviderConfig{Type: "openai", BaseURL: m.URL(), APIKey: m.Key()},
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll,
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

	e := newEngine(b, m, 1)
	b.Cleanup(func() { _ = e.Close(ctx) })
	s, err := e.Open(ctx, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: dir, Gate: benchGuard(b, dir)}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var x, y []time.Duration
		for i := range 220 {
			began := time.Now()
			if _, err := bare.Send(ctx, copilot.MessageOptions{Prompt: ask}); err != nil {
				b.Fatal(err)
			}
			first := <-idle
			p := time.Since(began)
			if _, err := bare.RPC.History.Truncate(ctx, &rpc.HistoryTruncateRequest{EventID: first}); err != nil {
				b.Fatal(err)
			}
			began = time.Now()
			for _, err := range s.Send(ctx, bridge.Prompt{Text: ask}) {
				if err != nil {
					b.Fatal(err)
				}
			}
			q := time.Since(began)
			if err := s.Reset(ctx); err != nil {
				b.Fatal(err)
			}
			if i >= 20 { // the rest is warm-up
				x, y = append(x, p), append(y, q)
			}
		}
		p, q := percentile(x, 0.5), percentile(y, 0.5)
		report("guarded tool call, turn p50", ms(p), ms(q), "+"+ms(q-p), "< +1 ms", q-p < time.Millisecond)
		b.ReportMetric(float64(q-p)/float64(time.Millisecond), "ms-above-bare")
	}
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
