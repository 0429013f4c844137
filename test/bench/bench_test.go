// Package bench compares the bridge with the bare SDK and prints the ratios.
// Both are measured in the same run, so that a noisy machine affects both
// alike. The bare SDK is used in its fastest way: native runtime, no login
// look-up, warm, sessions reused by truncating their history.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.Verb {
		os.Exit(supervise.Main(os.Args[2:], os.Stderr))
	}
	code := m.Run()
	if err := os.RemoveAll(binaryDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// binaryDir is the directory of the binary under test, if it was built.
var binaryDir string

// prompt makes the model answer in 20 chunks without delay.
const prompt = "rehearsal: chunks a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t"

// turner is a warm session. turn runs a turn and returns the time to the first
// token; reset resets the session.
type turner interface {
	turn(ctx context.Context) (first time.Duration, err error)
	reset(ctx context.Context) error
}

func startModel(b *testing.B) *demomodel.Server {
	b.Helper()
	m := demomodel.New(demomodel.WithJournal(0))
	if err := m.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	return m
}

// bareSession uses the SDK directly.
type bareSession struct {
	s      *copilot.Session
	prompt string
	first  chan struct{}
	idle   chan string // event ID of the user message
}

func bareClient(b *testing.B, m *demomodel.Server, env ...string) *copilot.Client {
	b.Helper()
	c := copilot.NewClient(&copilot.ClientOptions{
		Connection: copilot.StdioConnection{Path: runtimetest.Path(b)}, BaseDirectory: b.TempDir(), Mode: copilot.ModeEmpty,
		WorkingDirectory: b.TempDir(), // as in the bridge: in a repository the runtime would start git in every turn
		UseLoggedInUser:  copilot.Bool(false), LogLevel: "error",
		Env: append(append(os.Environ(), "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_BASE_URL="+m.URL(),
			"COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL="+m.Model()), env...),
	})
	return c
}

func newBare(ctx context.Context, c *copilot.Client, m *demomodel.Server) (*bareSession, error) {
	t := &bareSession{prompt: prompt, first: make(chan struct{}, 1), idle: make(chan string, 1)}
	user, waiting := "", true
	s, err := c.CreateSession(ctx, &copilot.SessionConfig{
		Model: m.Model(), Streaming: copilot.Bool(true), AvailableTools: []string{},
		SystemMessage: &copilot.SystemMessageConfig{Mode: "replace", Content: "Be brief."},
		Provider:      &copilot.ProviderConfig{Type: "openai", BaseURL: m.URL(), APIKey: m.Key()},
		OnEvent: func(e copilot.SessionEvent) {
			switch e.Data.(type) {
			case *rpc.UserMessageData:
				user, waiting = e.ID, true
			case *rpc.AssistantMessageDeltaData:
				if waiting {
					waiting = false
					t.first <- struct{}{}
				}
			case *rpc.SessionIdleData:
				t.idle <- user
			}
		},
	})
	t.s = s
	return t, err
}

func (t *bareSession) turn(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if _, err := t.s.Send(ctx, copilot.MessageOptions{Prompt: t.prompt}); err != nil {
		return 0, err
	}
	<-t.first
	return time.Since(began), nil
}

func (t *bareSession) reset(ctx context.Context) error {
	user := <-t.idle
	_, err := t.s.RPC.History.Truncate(ctx, &rpc.HistoryTruncateRequest{EventID: user})
	return err
}

// engineSession does the same through the engine.
type engineSession struct{ s *engine.Session }

func newEngine(b *testing.B, m *demomodel.Server, concurrent int) *engine.Engine {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return engine.New(engine.Options{
		Limits: engine.Limits{MaxConcurrent: concurrent},
		Agent: sdk.New(sdk.Options{Runtime: runtimetest.Path(b), Home: b.TempDir(), Records: b.TempDir(), Self: self, Env: os.Environ(),
			Provider: &bridge.Provider{Kind: "openai", BaseURL: m.URL(), APIKey: m.Key()}, Model: m.Model()}),
	})
}

func newEngineSession(ctx context.Context, e *engine.Engine) (*engineSession, error) {
	s, err := e.Open(ctx, engine.Request{Door: "bench", Spec: bridge.SessionSpec{Profile: bridge.ProfileChat,
		System: bridge.SystemText{Text: "Be brief.", Replace: true}}})
	return &engineSession{s}, err
}

func (t *engineSession) turn(ctx context.Context) (first time.Duration, err error) {
	began := time.Now()
	for ev, err := range t.s.Send(ctx, bridge.Prompt{Text: prompt}) {
		if err != nil {
			return 0, err
		}
		if _, ok := ev.(bridge.TextDelta); ok && first == 0 {
			first = time.Since(began)
		}
	}
	return first, nil
}

func (t *engineSession) reset(ctx context.Context) error { return t.s.Reset(ctx) }

// newSessions returns n warm sessions of each kind.
func newSessions(b *testing.B, n int) (bare, eng []turner) {
	b.Helper()
	ctx, m := context.Background(), startModel(b)
	c := bareClient(b, m)
	if err := c.Start(ctx); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Stop() })
	e := newEngine(b, m, n)
	b.Cleanup(func() { _ = e.Close(ctx) })
	for range n {
		x, err := newBare(ctx, c, m)
		if err != nil {
			b.Fatal(err)
		}
		y, err := newEngineSession(ctx, e)
		if err != nil {
			b.Fatal(err)
		}
		bare, eng = append(bare, x), append(eng, y)
	}
	for _, t := range slices.Concat(bare, eng) { // warm-up
		if _, err := measure(ctx, t, 3); err != nil {
			b.Fatal(err)
		}
	}
	return bare, eng
}

func measure(ctx context.Context, t turner, n int) ([]time.Duration, error) {
	var out []time.Duration
	for range n {
		d, err := t.turn(ctx)
		if err != nil {
			return nil, err
		}
		if err := t.reset(ctx); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func percentile(d []time.Duration, p float64) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, int(float64(len(d))*p))]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }

// report prints a line of the comparison; ok reports whether the target is met.
func report(what, bare, ours, difference, target string, ok bool) {
	verdict := "met"
	if !ok {
		verdict = "MISSED"
	}
	fmt.Printf("\n%-34s bare %-12s bridge %-12s %-12s target %-12s %s\n", what, bare, ours, difference, target, verdict)
}

// reportWithoutTarget prints a line without a target.
func reportWithoutTarget(what, bare, ours, difference string) {
	fmt.Printf("\n%-34s bare %-12s bridge %-12s %s\n", what, bare, ours, difference)
}

// BenchmarkWarmTurn compares the time to the first token. The engine may take
// at most 1 ms longer than the bare SDK.
func BenchmarkWarmTurn(b *testing.B) {
	bare, eng := newSessions(b, 1)
	ctx := context.Background()
	for b.Loop() {
		var x, y []time.Duration
		for range 20 { // alternate, so that drift affects both
			d, err := measure(ctx, bare[0], 25)
			if err != nil {
				b.Fatal(err)
			}
			x = append(x, d...)
			if d, err = measure(ctx, eng[0], 25); err != nil {
				b.Fatal(err)
			}
			y = append(y, d...)
		}
		p, q := percentile(x, 0.5), percentile(y, 0.5)
		report("warm turn, TTFT p50", ms(p), ms(q), "+"+ms(q-p), "≤ +1 ms", q-p <= time.Millisecond)
		b.ReportMetric(float64(q-p)/float64(time.Millisecond), "ms-above-bare")
	}
}

// BenchmarkThroughput16 compares the throughput of 16 sessions. The engine must
// reach at least 95 % of the bare SDK's.
func BenchmarkThroughput16(b *testing.B) {
	const n, turns, rounds = 16, 12, 5
	bare, eng := newSessions(b, n)
	run := func(side []turner) float64 {
		began := time.Now()
		var wg sync.WaitGroup
		errs := make([]error, n)
		for i, t := range side {
			wg.Go(func() { _, errs[i] = measure(context.Background(), t, turns) })
		}
		wg.Wait()
		if err := cmp.Or(errs...); err != nil {
			b.Fatal(err)
		}
		return float64(n*turns) / time.Since(began).Seconds()
	}
	for b.Loop() {
		var ratios, x, y []float64
		for i := range rounds {
			// The order changes from round to round.
			var p, q float64
			if i%2 == 0 {
				p, q = run(bare), run(eng)
			} else {
				q, p = run(eng), run(bare)
			}
			x, y, ratios = append(x, p), append(y, q), append(ratios, q/p)
		}
		mid := func(f []float64) float64 { slices.Sort(f); return f[len(f)/2] }
		r := mid(ratios)
		report("16 sessions, turns per second", fmt.Sprintf("%.0f/s", mid(x)), fmt.Sprintf("%.0f/s", mid(y)), fmt.Sprintf("%.1f %%", 100*r), "≥ 95 %", r >= 0.95)
		b.ReportMetric(100*r, "%-of-bare")
	}
}
