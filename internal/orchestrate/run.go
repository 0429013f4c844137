package orchestrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// running is a run in this process: from its beginning, or from where its
// journal ends, to its end.
type running struct {
	opts    Options
	journal *journal
	past    *replay
	repo    *repository // nil without worktrees
	without error       // why there is none, where nobody said so
	trees   *trees
	graph   *graph

	// share gives the Remote its record; nil without one. Apart from mu, so that
	// progress does not wait for it.
	sharing sync.Mutex
	share   func(Event) error

	mu        sync.Mutex // guards the journal, Watch and conflicts
	conflicts []Conflict
}

// Run plans a task and carries the plan out. The result holds what there is
// even if the error is not nil; that tasks fail is no error. A run that was
// interrupted is continued by Resume.
func Run(ctx context.Context, o Options) (Result, error) {
	asked := o.Concurrency
	o = o.withDefaults()
	o.Task = o.Mask(o.Task)
	meta := Meta{Version: metaVersion, ID: newID(time.Now()), Task: o.Task, Dir: o.Dir, Created: time.Now().UTC(), Isolation: o.Isolation, Merge: o.Merge,
		Concurrency: o.Concurrency, TaskTimeout: o.TaskTimeout, Timeout: o.Timeout, Remote: o.Remote != nil}
	if meta.Remote {
		meta.Concurrency = max(0, asked) // the default depends on where it is resumed
	}
	r := &running{opts: o, past: &replay{done: map[string]TaskResult{}}}
	scratch := filepath.Join(RunsDir(o.Home), meta.ID)
	if err := r.settle(ctx, &meta, scratch); err != nil {
		return Result{}, errors.Join(err, r.closeRepository(), removeAll(scratch))
	}
	plan, err := hide(o.Mask, o.Plan)
	if err != nil {
		return Result{}, errors.Join(err, r.closeRepository())
	}
	if o.Task == "" && plan != nil {
		meta.Title = plan.title()
	}
	j, err := createJournal(ctx, o.Home, meta, plan)
	if err != nil {
		return Result{}, errors.Join(err, r.closeRepository())
	}
	r.journal = j
	return r.execute(ctx)
}

// Resume continues a run that was interrupted, or in which tasks failed:
// finished tasks are not repeated. Where to work and how was decided when the
// run began; Concurrency and the time-outs may be changed.
func Resume(ctx context.Context, id string, o Options) (Result, error) {
	meta, err := FindRun(o.Home, id)
	if err != nil {
		return Result{}, err
	}
	j, past, err := openJournal(ctx, o.Home, meta.ID)
	if err != nil {
		return Result{}, err
	}
	meta = j.meta
	o.Task, o.Dir, o.Isolation, o.Merge = meta.Task, meta.Dir, meta.Isolation, meta.Merge
	if o.Concurrency <= 0 && (o.Remote == nil || meta.Remote) {
		o.Concurrency = meta.Concurrency
	}
	if o.TaskTimeout <= 0 {
		o.TaskTimeout = meta.TaskTimeout
	}
	if o.Timeout <= 0 {
		o.Timeout = meta.Timeout
	}
	if past.plan == nil { // killed early, or its events are lost
		if o.Plan, err = j.readPlan(); err != nil {
			return Result{}, errors.Join(err, j.close())
		}
	}
	o = o.withDefaults()
	o.Task = o.Mask(o.Task) // a version that kept it as it was may have begun the run
	j.meta.Task = o.Task
	r := &running{opts: o, journal: j, past: past, conflicts: past.conflicts}
	err = r.settle(ctx, &meta, j.dir)
	if err == nil && o.Remote != nil && !meta.Remote {
		j.meta.Remote, j.meta.Concurrency = true, 0
		err = j.put("run.json", j.meta)
	}
	if err != nil {
		return Result{}, errors.Join(err, r.closeRepository(), j.close())
	}
	return r.execute(ctx)
}

func (r *running) closeRepository() error {
	if r.repo == nil {
		return nil
	}
	return r.repo.Close()
}

// settle decides where tasks work and, in a new run, on what they build.
func (r *running) settle(ctx context.Context, m *Meta, scratch string) error {
	if m.Isolation == IsolationShared {
		return r.checkShared(nil)
	}
	repo, err := openRepository(ctx, r.opts.Environ, scratch, m.Dir, r.opts.Confine)
	if err != nil {
		code := bridge.CodeOf(err)
		without := code == bridge.CodeNotFound || code == bridge.CodeUnavailable || code == bridge.CodeUnsupported
		if without {
			err = cmp.Or(r.checkShared(err), err)
		}
		if without && r.opts.Remote == nil && m.Isolation == "" {
			m.Isolation, r.without = IsolationShared, err
			return nil
		}
		return err
	}
	m.Isolation, r.repo = IsolationWorktree, repo
	repo.lockFile, repo.mayRead = filepath.Join(r.opts.Home, "worktrees.lock"), r.opts.MayRead
	if err := makePrivate(scratch); err != nil {
		return err
	}
	if m.Base == "" {
		m.Base, err = repo.base(ctx)
	} else if _, missing := repo.treeOf(ctx, m.Base); missing != nil {
		err = &bridge.Error{Code: bridge.CodeNotFound, Message: "the repository does not hold what the run builds on", Cause: missing, Remedy: "start the task anew"}
	}
	if err == nil && r.opts.Remote != nil {
		err = r.opts.Remote.Check(ctx, repo.Repository, m.Base)
	}
	return err
}

// checkShared says that a Remote needs a repository, where there is none.
func (r *running) checkShared(why error) error {
	if r.opts.Remote == nil {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "only work in a git repository can be given to other machines", Cause: why,
		Remedy: "work in a git repository (`git init` makes one), or do it on this machine only"}
}

// execute does all that is left to do, and closes the journal.
func (r *running) execute(ctx context.Context) (result Result, err error) {
	end := func() {}
	defer func() { end(); err = errors.Join(err, r.closeRepository(), r.journal.close()) }()
	m := r.journal.meta
	result = Result{Run: m.ID, Tasks: []TaskResult{}, Files: []string{}, CriticalPath: []string{}}
	if r.repo != nil { // a git of this run may have been killed
		if err := errors.Join(r.repo.Unlock(keptRef(m.ID, "")), r.repo.Unlock("refs/heads/"+branchPrefix(m.ID))); err != nil {
			return result, err
		}
	}
	if r.past.outcome != nil && r.past.outcome.Success {
		// Of a run that ended on another machine the list does not know that yet.
		err := errors.Join(r.journal.put("result.json", r.past.outcome), r.cleanUp(ctx, *r.past.outcome))
		if r.opts.Remote != nil { // its coordinator may have died before it had said so
			err = errors.Join(err, r.opts.Remote.End(ctx, true))
		}
		return *r.past.outcome, err
	}
	if r.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.opts.Timeout, &bridge.Error{Code: bridge.CodeTimeout,
			Message: fmt.Sprintf("the run took longer than %s", r.opts.Timeout), Remedy: "go on with `copilot-bridge orchestrate --resume " + m.ID + "`"})
		defer cancel()
	}
	if r.opts.Remote != nil {
		if ctx, end, err = r.connect(ctx); err != nil {
			return result, err
		}
	}
	if err := r.emit(Event{Type: RunStarted, Text: m.Task, Resumed: r.past.plan != nil}); err != nil {
		return result, err
	}
	if r.opts.Isolation == "" && r.repo == nil {
		why := "no git repository"
		if e := bridge.AsError(r.without); e != nil && e.Code != bridge.CodeNotFound {
			why = e.Message
		}
		if err := r.emit(Event{Type: Noticed, Text: why + ", so all parts work in the same directory"}); err != nil {
			return result, err
		}
	}
	if r.repo != nil {
		for _, text := range r.repo.Warnings {
			if err := r.emit(Event{Type: Noticed, Text: text}); err != nil {
				return result, err
			}
		}
	}
	r.prepare()
	// An interrupted merge is finished first.
	if r.repo != nil {
		// Not before the run is on record: `--resume` would not find it.
		if err := r.repo.SetRef(ctx, keptRef(m.ID, "base"), m.Base); err != nil {
			return result, err
		}
		if err := errors.Join(r.repo.sweep(ctx, r.worktrees()), clearScratch(r.journal.dir)); err != nil {
			return result, err
		}
		if err := r.finishMerge(ctx); err != nil {
			return result, err
		}
	}
	if err := r.plan(ctx); err != nil {
		return result, err
	}
	return r.carryOut(ctx)
}

// prepare connects the parts.
func (r *running) prepare() {
	m := r.journal.meta
	if r.repo == nil {
		return
	}
	r.trees = newTrees(r.repo, m.ID, r.worktrees(), m.Base, m.Task, r.opts.Open, r.emit)
	for _, j := range r.past.joins {
		r.trees.remember(j)
	}
}

func (r *running) worktrees() string {
	return filepath.Join(WorktreesDir(r.opts.Home), r.journal.meta.ID)
}

func (r *running) executor() Executor {
	m := r.journal.meta
	if r.opts.Remote != nil {
		return &remotely{remote: r.opts.Remote, trees: r.trees, mask: r.opts.Mask, goal: m.Task, run: m.ID}
	}
	return &Local{open: r.opts.Open, trees: r.trees, dir: r.opts.Dir, goal: m.Task, run: m.ID}
}

// plan takes the plan of the journal, the user's, or the model's.
func (r *running) plan(ctx context.Context) (err error) {
	plan := r.past.plan
	if plan == nil {
		e := Event{Type: PlanReady, Plan: r.opts.Plan}
		if e.Plan == nil {
			p, err := MakePlan(ctx, r.opts.Open, r.opts.Dir, r.opts.Task, func(p Progress) {
				_ = r.emit(Event{Type: TaskProgress, Text: p.Text, Usage: &p.Usage}) // of no task: the plan itself
			})
			if err != nil {
				return err
			}
			e.Plan, e.Usage, r.past.planned = &p.Plan, &p.Usage, p.Usage
			if p.Problem != "" {
				e.Text = "the model's plan could not be used, so the task is done as one part: " + p.Problem
			}
		}
		masked, err := hide(r.opts.Mask, *e.Plan)
		if err != nil {
			return err
		}
		plan, e.Plan = &masked, &masked
		if r.graph, err = newGraph(*plan); err != nil {
			return err
		}
		if err := r.journal.put("plan.json", plan); err != nil {
			return err
		}
		return r.emit(e)
	}
	if r.graph, err = newGraph(*plan); err != nil {
		return err
	}
	r.tell(Event{Type: PlanReady, Plan: plan, Resumed: true})
	for _, t := range r.graph.plan.Tasks {
		if done, ok := r.past.done[t.ID]; ok {
			r.tell(Event{Type: TaskCompleted, Task: t.ID, Wave: done.Wave, Attempt: done.Attempts, Result: &done, Resumed: true})
		}
	}
	return nil
}

// tell passes on an event that is on record already.
func (r *running) tell(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time, e.Run = time.Now().UTC(), r.journal.meta.ID
	r.opts.Watch(e)
}

// emit puts an event on record and passes it on.
func (r *running) emit(e Event) error {
	e, err := hide(r.opts.Mask, e)
	if err != nil {
		return err
	}
	e.Run = r.journal.meta.ID
	if r.share != nil && e.recorded() {
		r.sharing.Lock()
		defer r.sharing.Unlock()
		e.Time = time.Now().UTC()
		// First: another machine may know more than this one, never less.
		if err := r.share(e); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	if e.Type == Conflicted {
		r.conflicts = append(r.conflicts, *e.Conflict)
	}
	if err := r.journal.append(e); err != nil {
		return err
	}
	r.opts.Watch(e)
	return nil
}

// carryOut runs the tasks, puts their work together and brings it to the user.
func (r *running) carryOut(ctx context.Context) (Result, error) {
	result := Result{Run: r.journal.meta.ID, Files: []string{}}
	began := time.Now()
	tasks, err := RunPlan(ctx, r.graph.plan, r.executor(), Schedule{Limit: r.opts.Concurrency, TaskTimeout: r.opts.TaskTimeout,
		Remote: r.opts.Remote != nil, MaxRetries: r.opts.MaxRetries, Eager: r.opts.Eager, Done: r.past.done, Emit: r.emit})
	busy := r.past.busy + time.Since(began)
	result.Tasks, result.Usage = tasks, r.past.planned
	// After a time-out of the whole run the finished work is merged; after a
	// cancel nothing more happens.
	late := ctx
	if bridge.CodeOf(context.Cause(ctx)) == bridge.CodeTimeout {
		late = context.WithoutCancel(ctx)
	}
	if err == nil && late.Err() != nil {
		err = context.Cause(late)
	}
	if err == nil && r.trees != nil {
		err = r.merge(late, &result)
	}
	r.mu.Lock()
	result.Conflicts = r.conflicts
	r.mu.Unlock()
	if r.trees != nil {
		result.Usage = result.Usage.Add(r.trees.usage)
	} else {
		result.Files = filesOf(tasks)
	}
	result.summarize(r.graph, busy)
	result, failed := hide(r.opts.Mask, result)
	if err = errors.Join(err, failed); err != nil {
		result.Success = false
		return result, errors.Join(err, r.tidy(ctx))
	}
	if err := r.journal.put("result.json", result); err != nil {
		return result, err
	}
	if err := r.emit(Event{Type: PlanCompleted, Text: result.Summary, Outcome: &result}); err != nil {
		return result, err
	}
	return result, r.cleanUp(late, result)
}

func filesOf(tasks []TaskResult) []string {
	out, seen := []string{}, map[string]bool{}
	for _, t := range tasks {
		for _, f := range t.Files {
			if !seen[f] {
				seen[f] = true
				out = append(out, f)
			}
		}
	}
	return out
}

// tidy removes the worktrees of a run that may be resumed later.
func (r *running) tidy(ctx context.Context) error {
	if r.repo == nil {
		return nil
	}
	return r.repo.sweep(ctx, r.worktrees())
}

// clearScratch removes what a killed git or merge left in the run's directory.
func clearScratch(dir string) error {
	var errs []error
	for _, pattern := range []string{"index-*", "stage-*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		errs = append(errs, err)
		for _, n := range names {
			errs = append(errs, removeAll(n))
		}
	}
	return errors.Join(errs...)
}
