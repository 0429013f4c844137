package coordinator

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// split adds up where the time of a task goes.
type split struct {
	mu    sync.Mutex
	parts map[string]time.Duration
}

func (s *split) add(name string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[name] += d
}

func (s *split) report(b *testing.B) {
	for name, d := range s.parts {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name+"-ms/op")
	}
}

// BenchmarkDispatch is one task after the other on one worker that does nothing,
// without git.
func BenchmarkDispatch(b *testing.B) {
	f := fleettest.Up(b)
	w := newHand(b, f, "alpha")
	c := start(b, f.Coordinator, Options{})
	s := &split{parts: map[string]time.Duration{}}
	i := 0
	for b.Loop() {
		begun := time.Now()
		done := try(b.Context(), c, taskName(i))
		ticket, ack := w.mustTicket()
		s.add("ticket", time.Since(begun))
		begun = time.Now()
		a, err := w.claim(b.Context(), ticket, ack)
		if err != nil {
			b.Fatal(err)
		}
		s.add("claim", time.Since(begun))
		begun = time.Now()
		w.mustDeliver(a, result(a))
		s.add("deliver", time.Since(begun))
		begun = time.Now()
		mustDone(b, done, "alpha")
		s.add("accept", time.Since(begun))
		i++
	}
	s.report(b)
}

// BenchmarkDispatchGit is the same, with a commit sent to the worker that it lacks
// and one that comes back. The worker's own git is not counted.
func BenchmarkDispatchGit(b *testing.B) {
	f := fleettest.Up(b)
	w := newHand(b, f, "alpha")
	here := newRepository(b)
	base := here.git("rev-parse", "HEAD")
	mirror := here.clone()
	begins := make([]string, b.N+1)
	for i := range begins {
		begins[i] = here.commitOn(base, "begin", strconv.Itoa(i))
	}
	c := startOn(b, f.Coordinator, Options{Lease: 10 * time.Second}, base, here.repo)
	s := &split{parts: map[string]time.Duration{}}
	b.ResetTimer()
	for i := range b.N {
		begun := time.Now()
		done := tryOn(b.Context(), c, taskName(i), begins[i])
		ticket, ack := w.mustTicket()
		s.add("ticket", time.Since(begun))
		begun = time.Now()
		r, err := w.ask(b.Context(), ticket, ack, base)
		if err != nil {
			b.Fatal(err)
		}
		a := r.Assignment
		s.add("claim", time.Since(begun))
		b.StopTimer()
		file := filepath.Join(b.TempDir(), "in")
		if err := getFile(b.Context(), openBucket(b, c, w), a.Bundle, file); err != nil {
			b.Fatal(err)
		}
		in, err := os.Open(file)
		if err == nil {
			err = bundle.Receive(b.Context(), mirror.repo, in, a.Bundle, bundle.Expect{Name: a.Bundle.Object, Commit: a.Begin})
		}
		if err != nil {
			b.Fatal(err)
		}
		_ = in.Close()
		commit := mirror.commitOn(a.Begin, "result", strconv.Itoa(i))
		name := "result-" + a.Claim
		out := filepath.Join(b.TempDir(), name)
		made, err := bundle.Make(b.Context(), mirror.repo, out, name, commit, []string{a.Begin})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		begun = time.Now()
		if err := putFile(b.Context(), w.conn.JS, fleet.WorkerBucket(w.id), name, out, made.Size); err != nil {
			b.Fatal(err)
		}
		res := result(a)
		res.Commit, res.Bundle = commit, made
		w.mustDeliver(a, res)
		s.add("deliver", time.Since(begun))
		begun = time.Now()
		if e := wait(b, done); e.err != nil {
			b.Fatal(e.err)
		}
		s.add("accept", time.Since(begun))
	}
	b.StopTimer()
	s.report(b)
}

func openBucket(b *testing.B, c *Coordinator, w *hand) jetstream.ObjectStore {
	b.Helper()
	bucket, err := c.bucket(b.Context(), w.id)
	if err != nil {
		b.Fatal(err)
	}
	return bucket
}

// BenchmarkManyWorkers is b.N tasks on 100 workers that do nothing, without git,
// and with a record of the end of each.
func BenchmarkManyWorkers(b *testing.B) {
	const workers, limit = 100, 200
	f := fleettest.Up(b)
	hands := make([]*hand, workers)
	for i := range hands {
		hands[i] = newHand(b, f, "w"+taskName(i))
	}
	c := start(b, f.Coordinator, Options{})
	ctx, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for _, h := range hands {
		all.Go(func() {
			for {
				ticket, ack, ok := h.ticket(ctx, "any")
				if !ok {
					return
				}
				bound, cancel := context.WithTimeout(ctx, fleettest.Timeout)
				a, err := h.claim(bound, ticket, ack)
				cancel()
				if err == nil {
					err = h.deliver(a, result(a))
				}
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	slots := make(chan struct{}, limit)
	var tasks sync.WaitGroup
	for i := range b.N {
		slots <- struct{}{}
		tasks.Go(func() {
			defer func() { <-slots }()
			out, err := c.Attempt(b.Context(), work(taskName(i), begin), func(orchestrate.Progress) {})
			if err == nil {
				err = c.Append(b.Context(), orchestrate.Event{Type: orchestrate.TaskCompleted, Task: taskName(i), Result: &orchestrate.TaskResult{ID: taskName(i), Outcome: out}})
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	tasks.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(after.Sys)/(1<<20), "sys-MiB")
	stop()
	all.Wait()
}
