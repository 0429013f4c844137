package app

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// diffWithin bounds the work of git for one difference.
const diffWithin = 30 * time.Second

func (r *records) Runs(limit int) ([]dashboard.Run, error) {
	list, err := r.runs.List(limit)
	out := make([]dashboard.Run, 0, len(list))
	for _, run := range list {
		out = append(out, dashboard.Run{ID: run.ID, Task: text.Clip(run.Name(), 500), Dir: run.Dir, State: run.State, Success: succeeded(run), Started: run.Created, Ended: run.Ended,
			Tasks: countTasks(run)})
	}
	return out, err
}

func succeeded(r orchestrate.Looked) bool {
	return r.State == orchestrate.StateFinished && r.Outcome != nil && r.Outcome.Success
}

func countTasks(r orchestrate.Looked) (n dashboard.RunCounts) {
	n.Total = len(r.Tasks)
	for _, t := range r.Tasks {
		switch t.State {
		case orchestrate.Done:
			n.Done++
		case orchestrate.Failed:
			n.Failed++
		case orchestrate.Skipped, orchestrate.Canceled:
			n.Skipped++
		case orchestrate.Running:
			n.Running++
		case orchestrate.Pending:
		}
	}
	return n
}

func (r *records) Run(id string) (dashboard.RunDetail, error) {
	run, err := r.runs.Look(id)
	if err != nil {
		return dashboard.RunDetail{}, err
	}
	d := dashboard.RunDetail{ID: run.ID, Task: run.Name(), Dir: run.Dir, State: run.State, Success: succeeded(run), Started: run.Created, Ended: run.Ended,
		Isolation: string(run.Isolation), Merge: string(run.Merge), Concurrency: run.Concurrency,
		Tasks: []dashboard.RunTask{}, Files: []string{}, Kept: []string{}, CriticalPath: []string{}, Notices: append([]string{}, run.Notices...)}
	for i, t := range run.Tasks {
		plan := run.Plan.Tasks[i]
		d.Tasks = append(d.Tasks, runTask(t, plan, run.Plan.Dependencies[plan.ID]))
		d.Usage = d.Usage.Add(t.Usage)
	}
	if o := run.Outcome; o != nil {
		d.Summary, d.Usage = o.Summary, o.Usage
		d.Files, d.Kept, d.CriticalPath = append(d.Files, o.Files...), append(d.Kept, o.Kept...), append(d.CriticalPath, o.CriticalPath...)
		if o.Merge != nil {
			d.Branch = o.Merge.Branch
		}
	}
	return d, nil
}

func runTask(t orchestrate.LookedTask, plan orchestrate.SubTask, needs []string) dashboard.RunTask {
	out := dashboard.RunTask{ID: t.ID, Title: text.FirstLine(plan.Description, 100), Goal: plan.Description, Complexity: string(plan.EstimatedComplexity),
		Needs: append([]string{}, needs...), Wave: t.Wave, State: string(t.State), Doing: t.Doing, Session: cmp.Or(t.Session, t.Outcome.Session), Attempts: t.Attempts,
		Started: t.Started, Ended: t.Ended, DurationMs: t.Duration.Milliseconds(), Reason: t.Reason, Summary: t.Summary, Files: append([]string{}, t.Files...),
		Tools: t.Tools, Denied: t.Denied, HeldBack: t.HeldBack, Branch: t.Branch, Usage: t.Usage}
	if e := t.Error; e != nil {
		out.Error = &dashboard.RunError{Code: string(e.Code), Message: e.Error(), Remedy: e.Remedy}
	}
	return out
}

func (r *records) RunDiff(ctx context.Context, id, name string, limit int) (dashboard.RunDiff, error) {
	run, err := r.runs.Look(id)
	if err != nil {
		return dashboard.RunDiff{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffWithin, &bridge.Error{Code: bridge.CodeTimeout, Message: "git took longer than " + diffWithin.String()})
	defer cancel()
	b := r.bridge
	d, err := run.Diff(ctx, name, orchestrate.Options{Home: b.opts.Config.Home, Environ: task.PlainEnviron(b.opts.Environ), Confine: b.confineGit()})
	if err != nil {
		return dashboard.RunDiff{}, err
	}
	// More than is shown, so that no part of a secret stays where it is cut.
	out := dashboard.RunDiff{Diff: text.Clip(b.clean(text.Clip(d.Diff, 2*limit)), limit), Files: d.Files, Clipped: max(0, len(d.Diff)-limit)}
	for i, f := range out.Files {
		out.Files[i] = b.clean(filepath.ToSlash(f))
	}
	return out, nil
}
