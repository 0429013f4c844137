package orchestrate

import (
	"context"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Schedule is how a plan is to be run.
type Schedule struct {
	// Limit is how many tasks run at a time; at least 1.
	Limit int
	// TaskTimeout bounds each attempt at a task; 0 means no bound.
	TaskTimeout time.Duration
	// Remote says that an attempt first waits for a worker. Its time is counted
	// from the first report with Place.Worker.
	Remote bool
	// MaxRetries caps how often a task that failed is tried again, by class
	// of error: see bridge.Class.Retries.
	MaxRetries int
	// Eager starts every task the moment that it could run, also where that
	// may delay others: see choose.
	Eager bool
	// Done are results of an earlier run that need not be repeated, by id.
	Done map[string]TaskResult
	// Emit hears of everything that happens, progress concurrently with the
	// rest. A failure ends the run.
	Emit func(Event) error
}

// scheduler runs one plan. All of its state belongs to the goroutine of run;
// executors answer through finished.
type scheduler struct {
	Schedule
	g        *graph
	exec     Executor
	choose   chooser
	results  []TaskResult
	missing  []int // dependencies that are not done yet
	running  int
	retries  int // tasks that wait to be tried again
	finished chan attempt
	again    chan int
	broken   error // Emit failed
}

// attempt is one that has ended.
type attempt struct {
	task    int
	outcome Outcome
	err     error
	began   time.Time // when a worker began with it; zero without workers
}

// RunPlan runs the tasks of a plan, each as soon as what it depends on is done
// and there is a place, and returns how each ended, in the order of the plan.
// It returns when everything that it started is over. The error is not nil if
// the plan is invalid or Emit failed; that tasks fail is no error.
func RunPlan(ctx context.Context, p TaskPlan, exec Executor, s Schedule) ([]TaskResult, error) {
	g, err := newGraph(p)
	if err != nil {
		return nil, err
	}
	return runGraph(ctx, g, exec, s, choose(g, max(1, s.Limit), s.Eager))
}

func runGraph(ctx context.Context, g *graph, exec Executor, s Schedule, c chooser) ([]TaskResult, error) {
	n := len(g.order)
	s.Limit = max(1, s.Limit)
	if s.Emit == nil {
		s.Emit = func(Event) error { return nil }
	}
	r := &scheduler{Schedule: s, g: g, exec: exec, choose: c, results: make([]TaskResult, n), missing: make([]int, n),
		finished: make(chan attempt), again: make(chan int)}
	r.prepare()
	r.run(ctx)
	return r.results, r.broken
}

// prepare takes over earlier results and finds the tasks that can start.
func (r *scheduler) prepare() {
	for i, t := range r.g.plan.Tasks {
		r.results[i] = TaskResult{ID: t.ID, State: Pending, Wave: r.g.wave[i], Outcome: Outcome{Files: []string{}}}
		if old, ok := r.Done[t.ID]; ok && old.State == Done {
			r.results[i] = old
			r.choose.ended(i)
		}
	}
	for i := range r.results {
		for _, j := range r.g.needs[i] {
			if r.results[j].State != Done {
				r.missing[i]++
			}
		}
		if r.missing[i] == 0 && r.results[i].State == Pending {
			r.choose.ready(i)
		}
	}
}

func (r *scheduler) run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		for ctx.Err() == nil && r.broken == nil && r.running < r.Limit {
			i, ok := r.choose.next()
			if !ok {
				break
			}
			r.start(ctx, i)
		}
		if r.running == 0 && (r.retries == 0 || ctx.Err() != nil) {
			break
		}
		select {
		case a := <-r.finished:
			r.running--
			r.finish(ctx, a)
		case i := <-r.again:
			r.retries--
			r.choose.ready(i)
		}
		if r.broken != nil {
			cancel(r.broken)
		}
	}
	// Timers of retries end with the context and tell it.
	for cancel(context.Cause(ctx)); r.retries > 0; r.retries-- {
		<-r.again
	}
	r.abandon(ctx)
}

func (r *scheduler) emit(e Event) {
	if r.broken == nil {
		r.broken = r.Emit(e)
	}
}

// start begins an attempt at a task.
func (r *scheduler) start(ctx context.Context, i int) {
	t := &r.results[i]
	if t.Started.IsZero() && !r.Remote {
		t.Started = time.Now()
	}
	t.State = Running
	t.Attempts++
	r.emit(Event{Type: TaskStarted, Task: t.ID, Wave: t.Wave, Attempt: t.Attempts})
	a := Assignment{Task: r.g.plan.Tasks[i], Attempt: t.Attempts}
	for _, j := range r.g.needs[i] {
		a.Needs = append(a.Needs, r.results[j])
	}
	r.running++
	go func() {
		done := r.attempt(ctx, a)
		done.task = i
		r.finished <- done
	}()
}

// attempt runs on its own goroutine, for which run waits.
func (r *scheduler) attempt(ctx context.Context, a Assignment) attempt {
	whole := ctx
	late := &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the task took longer than %s", r.TaskTimeout),
		Remedy: "allow more with --task-timeout, or make the task smaller"}
	if r.TaskTimeout > 0 && !r.Remote {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.TaskTimeout, late)
		defer cancel()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var began time.Time
	var clock *time.Timer
	out, err := r.exec.Execute(ctx, a, func(p Progress) {
		if p.At.Worker != "" && began.IsZero() {
			began = time.Now()
			if r.TaskTimeout > 0 {
				clock = time.AfterFunc(r.TaskTimeout, func() { end(late) })
			}
		}
		// A journal that cannot be written is noticed with the next event
		// that matters.
		e := Event{Type: TaskProgress, Task: a.Task.ID, Text: p.Text, Usage: &p.Usage}
		if p.At != (Place{}) {
			e.At = &p.At
		}
		_ = r.Emit(e)
	})
	if clock != nil {
		clock.Stop()
	}
	if err != nil && ctx.Err() != nil {
		// What the executor says of its context is less than why it ended.
		err = context.Cause(ctx)
		if whole.Err() != nil {
			err = context.Cause(whole)
		}
		if e := bridge.AsError(err); r.Remote && began.IsZero() && e.Code == bridge.CodeTimeout {
			waited := *e
			waited.Message += ", and no worker took the task until then"
			err = &waited
		}
	}
	return attempt{outcome: out, err: err, began: began}
}

// finish takes note of how an attempt ended.
func (r *scheduler) finish(ctx context.Context, a attempt) {
	t := &r.results[a.task]
	if t.Started.IsZero() {
		t.Started = a.began
	}
	if !t.Started.IsZero() {
		t.Duration = time.Since(t.Started)
	}
	t.Outcome = a.outcome
	if t.Files == nil {
		t.Files = []string{}
	}
	if a.err == nil {
		t.State, t.Success, t.Error = Done, true, nil
		r.choose.ended(a.task)
		r.emit(Event{Type: TaskCompleted, Task: t.ID, Wave: t.Wave, Attempt: t.Attempts, Result: new(*t)})
		for _, d := range r.g.dependents[a.task] {
			if r.missing[d]--; r.missing[d] == 0 && r.results[d].State == Pending {
				r.choose.ready(d)
			}
		}
		return
	}
	t.Error = bridge.AsError(a.err)
	switch {
	case ctx.Err() != nil && t.Error.Code == bridge.CodeCanceled:
		t.State = Canceled
	case ctx.Err() == nil && r.broken == nil && t.Attempts <= bridge.Classify(a.err).Retries(r.MaxRetries):
		r.retry(ctx, a.task)
		return
	default:
		t.State = Failed
	}
	r.choose.ended(a.task)
	r.emit(Event{Type: TaskCompleted, Task: t.ID, Wave: t.Wave, Attempt: t.Attempts, Result: new(*t)})
	if t.State == Failed {
		r.skipBelow(a.task)
	}
}

// retry has a task tried again after a pause, in which it holds no place.
func (r *scheduler) retry(ctx context.Context, i int) {
	t := &r.results[i]
	t.State = Pending
	delay := max(t.Error.RetryAfter, time.Second<<min(t.Attempts-1, 5))
	r.emit(Event{Type: TaskRetry, Task: t.ID, Attempt: t.Attempts, Error: t.Error, Delay: delay})
	r.retries++
	go func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		r.again <- i
	}()
}

// skipBelow skips all that cannot be done without a task.
func (r *scheduler) skipBelow(i int) {
	why := "it depends on " + r.results[i].ID + ", which failed"
	r.g.below(i, func(d int) {
		if r.results[d].State == Pending {
			r.end(d, Skipped, why)
		}
	})
}

func (r *scheduler) end(i int, s State, why string) {
	t := &r.results[i]
	t.State, t.Reason = s, why
	r.choose.ended(i)
	r.emit(Event{Type: TaskSkipped, Task: t.ID, Wave: t.Wave, Text: why, Result: new(*t)})
}

// abandon gives every task that was not reached its state.
func (r *scheduler) abandon(ctx context.Context) {
	for _, i := range r.g.order {
		if r.results[i].State.Ended() {
			continue
		}
		why, state := "the run was ended", Canceled
		if cause := context.Cause(ctx); bridge.CodeOf(cause) == bridge.CodeTimeout {
			why, state = cause.Error(), Skipped
		}
		r.end(i, state, why)
	}
}
