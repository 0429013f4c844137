package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// fleetBound bounds every step of the benchmarks of a fleet.
const fleetBound = 10 * time.Minute

// fleetBench is a hub with a repository, and workers on the same computer.
type fleetBench struct {
	b   *testing.B
	hub *fleettest.Host
}

func newFleetBench(b *testing.B) *fleetBench {
	b.Helper()
	f := &fleetBench{b: b}
	f.hub = f.host("hub")
	f.start(f.hub, "listen", "fleet", "up", "--json", "--listen", "127.0.0.1:0")
	repo := filepath.Join(f.hub.Home, "repo")
	if err := os.Mkdir(repo, 0o700); err != nil {
		b.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.email", "a@example.com"}, {"config", "user.name", "a"}, {"commit", "-q", "--allow-empty", "-m", "first"}} {
		f.run(f.hub, repo, "git", args...)
	}
	return f
}

func (f *fleetBench) host(name string) *fleettest.Host {
	h := fleettest.Local(f.b, name)
	h.Env = []string{"COPILOT_BRIDGE_HOME=" + filepath.Join(h.Home, "bridge"), "COPILOT_CLI_PATH=" + runtimetest.Path(f.b), "COPILOT_BRIDGE_SANDBOX="}
	return h
}

// start starts a program that runs until the benchmark ends, and waits for its
// first line.
func (f *fleetBench) start(h *fleettest.Host, what string, args ...string) *fleettest.Process {
	f.b.Helper()
	p, err := h.Start(h.Home, binary(f.b), args...)
	if err != nil {
		f.b.Fatal(err)
	}
	f.wait(what, func() bool { return strings.Contains(p.Out.String()+p.Err.String(), "\n") })
	return p
}

func (f *fleetBench) wait(what string, ok func() bool) {
	f.b.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.b.Fatal("it takes longer than a minute: ", what)
		}
	}
}

func (f *fleetBench) run(h *fleettest.Host, dir, program string, args ...string) string {
	f.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), fleetBound)
	defer cancel()
	out, err := h.Run(ctx, dir, program, args...)
	if err != nil {
		f.b.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// workers starts n workers for this many tasks each, and returns what ends them.
func (f *fleetBench) workers(n, capacity int) (end func()) {
	f.b.Helper()
	line := f.run(f.hub, f.hub.Home, binary(f.b), "fleet", "invite", "--uses", strconv.Itoa(n))
	var started []*fleettest.Process
	for i := range n {
		h := f.host(fmt.Sprintf("worker%d", i))
		started = append(started, f.start(h, "join", "worker", "--demo", "--join", line, "--name", h.Name, "--capacity", strconv.Itoa(capacity)))
	}
	online := func() (count int) {
		var s struct {
			Workers []struct {
				Online bool `json:"online"`
			} `json:"workers"`
		}
		if err := json.Unmarshal([]byte(f.run(f.hub, f.hub.Home, binary(f.b), "fleet", "status", "--json")), &s); err != nil {
			f.b.Fatal(err)
		}
		for _, w := range s.Workers {
			if w.Online {
				count++
			}
		}
		return count
	}
	f.wait("workers are online", func() bool { return online() == n })
	return func() {
		for _, p := range started {
			if err := p.Stop(time.Minute); err != nil {
				f.b.Error(err)
			}
		}
		f.wait("workers are offline", func() bool { return online() == 0 })
	}
}

// orchestrate does a plan and returns its result.
func (f *fleetBench) orchestrate(p orchestrate.TaskPlan, flags ...string) (r orchestrate.Result) {
	f.b.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		f.b.Fatal(err)
	}
	path := filepath.Join(f.hub.Home, "plan.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		f.b.Fatal(err)
	}
	out := f.run(f.hub, filepath.Join(f.hub.Home, "repo"), binary(f.b), append([]string{"orchestrate", "all", "--plan", path, "--demo", "--yes", "--json"}, flags...)...)
	lines := strings.Split(out, "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || !r.Success || r.Done != len(p.Tasks) {
		f.b.Fatalf("%v: %+v", err, r)
	}
	return r
}

// answers is a plan of n tasks, each answered after a delay; in a chain, each
// builds on the one before.
func answers(n int, delay time.Duration, chain bool) orchestrate.TaskPlan {
	p := orchestrate.TaskPlan{Dependencies: map[string][]string{}}
	for i := range n {
		id := fmt.Sprintf("t%03d", i)
		p.Tasks = append(p.Tasks, orchestrate.SubTask{ID: id, EstimatedComplexity: orchestrate.Small,
			Description: fmt.Sprintf("Part %s.\nrehearsal: delay %s\nrehearsal: text done", id, delay)})
		if chain && i > 0 {
			p.Dependencies[id] = []string{fmt.Sprintf("t%03d", i-1)}
		}
	}
	return p
}

// BenchmarkFleetSpeedup compares N workers with one, with tasks that take the model
// two seconds. Each worker is a program with a runtime of its own, as on machines
// of their own; but here they share the processors.
func BenchmarkFleetSpeedup(b *testing.B) {
	const n = 32
	p := answers(n, 2*time.Second, false)
	for b.Loop() {
		f := newFleetBench(b)
		var one time.Duration
		for _, workers := range []int{1, 2, 4, 8} {
			end := f.workers(workers, 1)
			f.orchestrate(answers(workers, 0, false), "--fleet", "--max-concurrency", strconv.Itoa(workers)) // runtimes start
			took := f.orchestrate(p, "--fleet", "--max-concurrency", strconv.Itoa(workers)).Duration
			end()
			if workers == 1 {
				one = took
				continue
			}
			speedup := float64(one) / float64(took)
			report(fmt.Sprintf("%d tasks of 2 s, %d workers", n, workers), one.Round(time.Millisecond).String(), took.Round(time.Millisecond).String(),
				fmt.Sprintf("× %.2f", speedup), fmt.Sprintf("≥ × %.1f", 0.9*float64(workers)), speedup >= 0.9*float64(workers))
			b.ReportMetric(speedup, fmt.Sprintf("times-%d", workers))
		}
	}
}

// BenchmarkFleetDispatch measures what it costs to give a task to a worker on the
// same computer: at most 100 ms more than to do it here. The tasks are done one
// after another.
func BenchmarkFleetDispatch(b *testing.B) {
	const n = 30
	p := answers(n, 0, true)
	for b.Loop() {
		f := newFleetBench(b)
		f.orchestrate(answers(1, 0, true))
		here := f.orchestrate(p).Duration / n
		end := f.workers(1, 1)
		f.orchestrate(answers(1, 0, true), "--fleet")
		there := f.orchestrate(p, "--fleet").Duration / n
		end()
		report("dispatch of a task to a worker", ms(here), ms(there), "+"+ms(there-here), "≤ +100 ms", there-here <= 100*time.Millisecond)
		b.ReportMetric(float64(there-here)/float64(time.Millisecond), "ms-above-local")
	}
}
