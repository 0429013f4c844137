package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// BenchmarkSandbox compares a command behind the wall, its plan included, with
// the same command without. At most 15 ms more are wanted.
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
