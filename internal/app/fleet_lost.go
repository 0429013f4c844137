package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// How long a single task that no worker has waits while none is ready for it, and
// how often that is looked at. A worker that was cut off is back within seconds, one
// that is started again too. It may also be gone for good.
const (
	lostBound = time.Minute
	lostEvery = 5 * time.Second
)

// holder knows which worker has a single task. hear is called one at a time, the
// rest concurrently.
type holder struct {
	worker string // the last one that had it
	// lost is the worker that had the task and was lost, "" if none had it yet; nil
	// while one has it.
	lost atomic.Pointer[string]
}

func (h *holder) hear(e orchestrate.Event) {
	switch {
	case e.At != nil && e.At.Worker != "":
		h.worker = e.At.Worker
		h.lost.Store(nil)
	case e.Type == orchestrate.TaskStarted, e.Type == orchestrate.TaskRetry:
		h.lost.Store(new(string))
	case e.Loses(h.worker):
		h.lost.Store(new(h.worker))
	}
}

// withWorker returns a context that ends when the task of a holder has waited for
// so long while no worker was ready for it. The caller calls stop.
func (f *FleetRun) withWorker(ctx context.Context, h *holder, every, bound time.Duration) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	looking.Go(func() { cancel(f.noWorker(ctx, h, every, bound)) })
	return ctx, func() {
		cancel(nil)
		looking.Wait()
	}
}

// noWorker returns why a task is given up, or nil when ctx ends. The time
// in which the hub does not answer is not counted: it says nothing about workers.
func (f *FleetRun) noWorker(ctx context.Context, h *holder, every, bound time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		lost := h.lost.Load()
		if lost == nil {
			since = time.Time{}
			continue
		}
		switch lack, soon, err := f.lacks(ctx); {
		case lack == "" || soon || err != nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
			f.say(fmt.Sprintf("%s; the task is given up if none is within %s", lack, bound))
		case time.Since(since) >= bound:
			message := fmt.Sprintf("no %s was ready in the fleet for %s", wanted(f.labels, f.demo), bound)
			if *lost != "" {
				message = "the worker " + *lost + " was lost while it did the task, and " + message
			}
			return &bridge.Error{Code: bridge.CodeUnavailable, Message: message, Remedy: noWorkerRemedy}
		}
	}
}

const noWorkerRemedy = "see `copilot-bridge fleet status`; start such a worker, ask for another one, or have it done on this machine"
