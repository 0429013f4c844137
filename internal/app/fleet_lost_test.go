package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

func TestHolder(t *testing.T) {
	h := &holder{}
	for i, tt := range []struct {
		e    orchestrate.Event
		lost string // "-": a worker has the task
	}{
		{orchestrate.Event{Type: orchestrate.RunStarted}, "-"},
		{orchestrate.Event{Type: orchestrate.TaskStarted}, ""},
		{orchestrate.Event{Type: orchestrate.TaskProgress, Text: "waiting for a worker"}, ""},
		{orchestrate.Event{Type: orchestrate.TaskProgress, Text: "begun", At: &orchestrate.Place{Worker: "one"}}, "-"},
		{orchestrate.Event{Type: orchestrate.TaskProgress, Text: "two was lost"}, "-"},
		{orchestrate.Event{Type: orchestrate.TaskProgress, Text: "one was lost (no sign of life for 15s), waiting for another worker"}, "one"},
		{orchestrate.Event{Type: orchestrate.Noticed, Text: "no worker"}, "one"},
		{orchestrate.Event{Type: orchestrate.TaskProgress, Text: "begun", At: &orchestrate.Place{Worker: "one"}}, "-"},
		{orchestrate.Event{Type: orchestrate.TaskRetry}, ""},
	} {
		h.hear(tt.e)
		got := "-"
		if lost := h.lost.Load(); lost != nil {
			got = *lost
		}
		if got != tt.lost {
			t.Errorf("%d: %q, want %q", i, got, tt.lost)
		}
	}
}

// A task whose worker was lost is given up when none comes, with a word before. A
// worker that comes back in time may go on.
func TestTaskWithoutAWorkerIsGivenUp(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "one", "gpu")
	hello := func(notReady string) {
		if _, err := w.Hello(t.Context(), fleet.Hello{Capacity: 1, Answers: "github", NotReady: notReady}); err != nil {
			t.Error(err)
		}
	}
	const broken = "nobody is logged in"
	hello(broken)
	said := make(chan string, 100)
	run := &FleetRun{conn: f.Coordinator, labels: []string{"gpu"}, say: func(text string) { said <- text }}
	has := &holder{worker: "one"}
	has.hear(orchestrate.Event{Type: orchestrate.TaskProgress, Text: "one was lost (x)"})

	ctx, stop := run.withWorker(t.Context(), has, time.Millisecond, time.Hour)
	if text := fleettest.Receive(t, "the word", said); text != "no worker with gpu is ready in the fleet now; the task is given up if none is within 1h0m0s" {
		t.Error(text)
	}
	fleettest.Wait(t, "the second word, as the time begins anew", func() bool {
		hello("")
		hello(broken)
		return len(said) > 0
	})
	if stop(); !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Error(context.Cause(ctx))
	}

	ctx, stop = run.withWorker(t.Context(), has, time.Millisecond, 50*time.Millisecond)
	fleettest.Receive(t, "the end of the task", ctx.Done())
	stop()
	e := bridge.AsError(context.Cause(ctx))
	if e.Code != bridge.CodeUnavailable || e.Message != "the worker one was lost while it did the task, and no worker with gpu was ready in the fleet for 50ms" || !strings.Contains(e.Remedy, "fleet status") {
		t.Errorf("%+v", e)
	}
}
