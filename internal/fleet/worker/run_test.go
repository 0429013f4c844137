package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/coordinator"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// A whole run with the real coordinator on several workers.
func TestRun(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.judge = func(fleet.Result) fleet.OrderKind { return "" } // the real one says what becomes of them
	ended := make(chan error, 3)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	for i := range cap(ended) {
		conn := y.fleet.Worker(t, fmt.Sprint("w", i))
		o := Options{Capacity: 4, Root: filepath.Join(y.root, fmt.Sprint(i)), Environ: os.Environ(), Ready: ready, Attempt: commit}
		if testing.Verbose() {
			o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		}
		go func() { ended <- Run(ctx, conn, o) }()
	}
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			if err := fleettest.Receive(t, "a worker's end", ended); err != nil {
				t.Error(err)
			}
		}
	})
	plan := orchestrate.TaskPlan{}
	plan.Dependencies = map[string][]string{}
	for i := range 24 {
		id := fmt.Sprint("t", i)
		plan.Tasks = append(plan.Tasks, orchestrate.SubTask{ID: id, Description: "do it", EstimatedComplexity: orchestrate.Medium})
		if i >= 12 {
			plan.Dependencies[id] = []string{plan.Tasks[i-12].ID}
		}
	}
	conn := y.fleet.Connect(t, "coordinator")
	var claims atomic.Int32
	_, err := y.boss.NC.Subscribe("fleet.claim.>", func(*nats.Msg) { claims.Add(1) })
	y.must(err)
	begun := time.Now()
	bound, stop := context.WithTimeout(t.Context(), 3*fleettest.Timeout)
	defer stop()
	r, err := orchestrate.Run(bound, orchestrate.Options{Home: t.TempDir(), Dir: y.repo.Top, Task: "all", Plan: &plan, Environ: os.Environ(),
		Remote: coordinator.New(conn, coordinator.Options{Host: "here", Scratch: t.TempDir(), Limits: fleet.Limits{Timeout: fleettest.Timeout}}), Concurrency: 12})
	if err != nil || !r.Success {
		t.Fatalf("%v, %+v", err, r)
	}
	t.Logf("24 tasks in %s, with %d claims", time.Since(begun), claims.Load())
	if claims.Load() != 24 {
		t.Errorf("%d claims for 24 tasks", claims.Load())
	}
	for _, s := range plan.Tasks {
		if _, err := os.Stat(filepath.Join(y.repo.Top, "done-"+s.ID)); err != nil {
			t.Error(err)
		}
	}
}
