package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// layeredPlan is a plan of n tasks in layers of ten. Each task depends on up to
// three tasks of the previous layer.
func layeredPlan(n int) orchestrate.TaskPlan {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	p := orchestrate.TaskPlan{Dependencies: map[string][]string{}}
	for i := range n {
		id := fmt.Sprintf("task-%05d", i)
		p.Tasks = append(p.Tasks, orchestrate.SubTask{ID: id, Description: "do part " + id + " of the work",
			EstimatedComplexity: []orchestrate.Complexity{orchestrate.Small, orchestrate.Medium, orchestrate.Large}[rng.IntN(3)]})
		for range min(i/10, 3) {
			p.Dependencies[id] = append(p.Dependencies[id], fmt.Sprintf("task-%05d", i/10*10-1-rng.IntN(10)))
		}
	}
	return p
}

// noopExecutor is an executor that does nothing.
type noopExecutor struct{}

func (noopExecutor) Execute(context.Context, orchestrate.Assignment, func(orchestrate.Progress)) (orchestrate.Outcome, error) {
	return orchestrate.Outcome{}, nil
}

// emptySession is a session that produces no events.
type emptySession struct{}

func (emptySession) ID() string                  { return "silent" }
func (emptySession) Close(context.Context) error { return nil }
func (emptySession) Reset(context.Context) error { return nil }
func (emptySession) Send(context.Context, bridge.Prompt) iter.Seq2[bridge.Event, error] {
	return func(yield func(bridge.Event, error) bool) { yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil) }
}

// BenchmarkOrchestrateSchedule measures the scheduling of 1,000 tasks: less
// than 1 ms per task. The bare side calls the executor in a loop. The last line
// includes sessions and a crash-safe journal, so it depends on the disk; its
// bare side flushes one line per task.
func BenchmarkOrchestrateSchedule(b *testing.B) {
	const n = 1000
	p := layeredPlan(n)
	ctx := context.Background()
	for b.Loop() {
		began := time.Now()
		for _, t := range p.Tasks {
			if _, err := (noopExecutor{}).Execute(ctx, orchestrate.Assignment{Task: t}, nil); err != nil {
				b.Fatal(err)
			}
		}
		bare := time.Since(began) / n
		for _, limit := range []int{3, 16} {
			began = time.Now()
			r, err := orchestrate.RunPlan(ctx, p, noopExecutor{}, orchestrate.Schedule{Limit: limit})
			if err != nil || r[n-1].State != orchestrate.Done {
				b.Fatal(err, r[n-1])
			}
			each := time.Since(began) / n
			report(fmt.Sprintf("orchestrate, a task of 1,000, %d places", limit), ms(bare), ms(each), "+"+ms(each-bare), "< 1 ms", each < time.Millisecond)
			b.ReportMetric(float64(each.Microseconds())/1000, fmt.Sprintf("ms-a-task-%d", limit))
		}
		flushed := timeFlushes(b, n) / n
		began = time.Now()
		r, err := orchestrate.Run(ctx, orchestrate.Options{Home: b.TempDir(), Dir: b.TempDir(), Task: "all", Plan: &p, Isolation: orchestrate.IsolationShared,
			Open: func(context.Context, orchestrate.Opening) (orchestrate.Session, error) { return emptySession{}, nil }})
		if err != nil || !r.Success {
			b.Fatal(err, r.Summary)
		}
		each := time.Since(began) / n
		report("the same, with pool and journal", ms(flushed), ms(each), "+"+ms(each-flushed), "< 1 ms", each < time.Millisecond)
	}
}

// timeFlushes measures writing n lines with a sync after each.
func timeFlushes(b *testing.B, n int) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "lines"))
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for range n {
		if _, err := f.WriteString("a line about as long as the journal's are for a task that is done\n"); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkOrchestratePlan measures reading and validating a plan of 10,000
// tasks: less than 100 ms. The bare side is encoding/json reading it into maps.
func BenchmarkOrchestratePlan(b *testing.B) {
	data, err := json.Marshal(layeredPlan(10_000))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var bares, whole, graphs []time.Duration
		for range 9 {
			began := time.Now()
			var loose map[string]any
			if err := json.Unmarshal(data, &loose); err != nil {
				b.Fatal(err)
			}
			bares = append(bares, time.Since(began))
			began = time.Now()
			p, err := orchestrate.ParsePlan(data)
			if err != nil || len(p.Tasks) != 10_000 {
				b.Fatal(err)
			}
			whole = append(whole, time.Since(began))
			began = time.Now()
			if err := p.Validate(); err != nil {
				b.Fatal(err)
			}
			graphs = append(graphs, time.Since(began))
		}
		bare, ours, graph := percentile(bares, 0.5), percentile(whole, 0.5), percentile(graphs, 0.5)
		report("plan of 10,000 tasks, read and valid", ms(bare), ms(ours), fmt.Sprintf("× %.1f", float64(ours)/float64(bare)), "< 100 ms", ours < 100*time.Millisecond)
		report("its graph alone", "-", ms(graph), "", "< 100 ms", graph < 100*time.Millisecond)
		b.ReportMetric(float64(ours.Microseconds())/1000, "ms")
	}
}
