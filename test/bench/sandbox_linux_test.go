package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// BenchmarkSandbox compares a command in the sandbox, including its set-up,
// with the same command without it. The target is at most 15 ms more.
func BenchmarkSandbox(b *testing.B) {
	w, err := sandbox.Find(b.Context(), os.Environ())
	if err != nil {
		b.Skip(err)
	}
	home := b.TempDir()
	root := filepath.Join(home, "project")
	if err := os.MkdirAll(filepath.Join(root, ".git", "objects"), 0o700); err != nil {
		b.Fatal(err)
	}
	c, err := program.New(program.Place{Root: root, Env: os.Environ()}, "true")
	if err != nil {
		b.Fatal(err)
	}
	run := func(c program.Command) {
		if exit, err := c.Run(b.Context(), program.RunOptions{}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
	const rounds = 100
	var plain, walled, planned []time.Duration
	for b.Loop() {
		for range rounds {
			began := time.Now()
			run(c)
			plain = append(plain, time.Since(began))
			began = time.Now()
			var conf bridge.Confinement
			if conf, err = sandbox.Plan(sandbox.Scope{Root: root}, os.Environ(), sandbox.Kept(home, root)); err != nil {
				b.Fatal(err)
			}
			planned = append(planned, time.Since(began))
			inside, err := w.Wrap(c, conf)
			if err != nil {
				b.Fatal(err)
			}
			run(inside)
			walled = append(walled, time.Since(began))
		}
	}
	middle := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(middle(walled)-middle(plain), "ms-above-plain")
	b.ReportMetric(middle(planned), "ms-plan")
}

// BenchmarkSandboxedCall compares the bash calls of two agent sessions, one of
// them sandboxed, from the start event of a call to its end event. The target
// is at most 15 ms more.
func BenchmarkSandboxedCall(b *testing.B) {
	if _, err := sandbox.Find(b.Context(), os.Environ()); err != nil {
		b.Skip(err)
	}
	home := b.TempDir()
	root := filepath.Join(home, "project")
	if err := os.MkdirAll(filepath.Join(root, ".git", "objects"), 0o700); err != nil {
		b.Fatal(err)
	}
	conf, err := sandbox.Plan(sandbox.Scope{Root: root}, os.Environ(), sandbox.Kept(home, root))
	if err != nil {
		b.Fatal(err)
	}
	ctx, m := context.Background(), startModel(b)
	e := newEngine(b, m, 2)
	b.Cleanup(func() { _ = e.Close(ctx) })
	var sessions [2]*engine.Session
	for i, c := range []*bridge.Confinement{nil, &conf} {
		if sessions[i], err = e.Open(ctx, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileAgent, WorkingDir: root, Gate: allowAll{}, Confinement: c}}); err != nil {
			b.Fatal(err)
		}
	}
	const rounds, warm = 60, 5
	for b.Loop() {
		var took [2][]time.Duration
		for i := range rounds {
			for k, s := range sessions {
				d, err := callTook(ctx, s)
				if err != nil {
					b.Fatal(err)
				}
				if i >= warm {
					took[k] = append(took[k], d)
				}
			}
		}
		plain, walled := percentile(took[0], 0.5), percentile(took[1], 0.5)
		more := walled - plain
		report("bash call, confined, p50", ms(plain), ms(walled), "+"+ms(more), "<= +15 ms", more <= 15*time.Millisecond)
		b.ReportMetric(float64(more)/float64(time.Millisecond), "ms-above-plain")
	}
}

// callTook has the model make one bash call and returns how long the call took.
func callTook(ctx context.Context, s *engine.Session) (took time.Duration, err error) {
	var began time.Time
	for ev, err := range s.Send(ctx, bridge.Prompt{Text: "rehearsal: tool bash {\"command\":\"true\",\"description\":\"x\"}\nrehearsal: next\nrehearsal: text ok"}) {
		if err != nil {
			return 0, err
		}
		if _, ok := ev.(bridge.ToolStarted); ok {
			began = time.Now()
		}
		if done, ok := ev.(bridge.ToolFinished); ok {
			if took = time.Since(began); !done.OK {
				return 0, fmt.Errorf("the call failed: %s", done.Error)
			}
		}
	}
	return took, s.Reset(ctx)
}
