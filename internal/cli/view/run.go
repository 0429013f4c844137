package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// RunEvent shows an event of a run. On a terminal the tasks stand wave below
// wave, a line each, and change in place.
func (a *Activity) RunEvent(e orchestrate.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.o.JSON != nil {
		_ = WriteJSON(a.o.JSON, e) // a failure is noticed by the stream
	}
	j := a.find(e.Task)
	switch {
	case e.Type == orchestrate.RunStarted:
		what := "run "
		if e.Resumed {
			what = "resuming run "
		}
		a.c.Dim(what + e.Run)
	case e.Type == orchestrate.PlanReady:
		a.addPlan(*e.Plan)
		if e.Text != "" {
			a.c.Warn(e.Text)
		}
	case e.Type == orchestrate.Conflicted:
		c := e.Conflict
		text := fmt.Sprintf("%s and %s changed the same places in %s", c.Ours, c.Theirs, strings.Join(c.Paths, ", "))
		if c.Resolved {
			a.c.Line("· " + approval.Visible(text) + "; resolved")
		} else {
			a.c.Warn(text + "; " + c.Message)
		}
	case e.Type == orchestrate.MergeStarted:
		a.wait("merging")
	case e.Type == orchestrate.Noticed:
		a.c.Line("· " + approval.Visible(e.Text))
	case e.Type == orchestrate.TaskProgress && e.Task == "":
		a.status = planning(e.Text)
	case e.Type == orchestrate.TaskStarted && j == nil:
		a.task(a.addTask(e.Task, e.Wave), e) // of a plan that was made before
	case j != nil:
		a.task(j, e)
	}
	a.redraw()
}

// Planning shows how far planning has come.
func (a *Activity) Planning(text string) { a.Status(planning(text)) }

func planning(text string) string { return "planning: " + approval.Visible(text) }

// addPlan adds the tasks of a plan.
func (a *Activity) addPlan(p orchestrate.TaskPlan) {
	a.status, a.needs = "", p.Dependencies
	waves, err := p.Waves()
	if err != nil {
		return
	}
	for w, ids := range waves {
		for _, id := range ids {
			a.addTask(id, w+1)
		}
	}
}

func (a *Activity) addTask(id string, wave int) *job {
	j := &job{id: id, name: approval.Visible(id), wave: wave, state: pending}
	a.jobs = append(a.jobs, j)
	a.widest = min(24, max(a.widest, len([]rune(j.name))))
	return j
}

func (a *Activity) task(j *job, e orchestrate.Event) {
	if e.Usage != nil {
		j.tokens = e.Usage.InputTokens + e.Usage.OutputTokens
	}
	if e.At != nil && e.At.Worker != "" {
		where := approval.Visible(e.At.Worker)
		if where != j.where && !a.c.ErrTTY {
			a.c.Line(marks[running] + " " + j.name + " on " + where)
		}
		j.where = where
	}
	switch e.Type {
	case orchestrate.TaskStarted:
		j.where = ""
		began := j.began
		a.start(j, " started")
		if j.about = "starting"; !began.IsZero() {
			j.began = began
		}
	case orchestrate.TaskProgress:
		if e.Text != "" {
			j.about = approval.Visible(e.Text)
		}
		if e.Loses(j.where) {
			if !a.c.ErrTTY {
				a.c.Line("· " + j.name + ": " + j.about)
			}
			j.where = ""
		}
	case orchestrate.TaskRetry:
		again := "tried again in " + Duration(e.Delay)
		j.state, j.about = pending, "failed, "+again
		a.c.Warn(j.name + ": " + failure(e.Error) + "; " + again)
	case orchestrate.TaskCompleted, orchestrate.TaskSkipped:
		r := e.Result
		if r.Worker != "" { // of a part that was done before, too
			j.where = approval.Visible(r.Worker)
		}
		j.state, j.took, j.tokens, j.about = state(r.State), r.Duration, r.Usage.InputTokens+r.Usage.OutputTokens, taskEnd(r)
		if !a.c.ErrTTY {
			a.c.Line(a.line(j))
		}
	default:
	}
}

func taskEnd(r *orchestrate.TaskResult) string {
	switch {
	case r.Error != nil:
		return failure(r.Error)
	case r.Reason != "":
		return approval.Visible(r.Reason)
	case r.Denied > 0:
		return fmt.Sprintf("%s, %d denied", text.Plural(len(r.Files), "file"), r.Denied)
	}
	return text.Plural(len(r.Files), "file")
}

// waitsFor names the tasks that a task needs and that are not done.
func (a *Activity) waitsFor(j *job) []string {
	var open []string
	for _, id := range a.needs[j.id] {
		if n := a.find(id); n != nil && n.state != done && !slices.Contains(open, n.name) {
			open = append(open, n.name)
		}
	}
	return open
}

// stem draws the waves of a plan at the left: which tasks stand beside each
// other.
func (a *Activity) stem(i int, crowded bool) string {
	wave := a.jobs[i].wave
	first := i == 0 || a.jobs[i-1].wave != wave
	last := i == len(a.jobs)-1 || a.jobs[i+1].wave != wave
	switch {
	case wave == 0:
		return ""
	case crowded:
		return fmt.Sprintf("%3d ", wave)
	case first && last:
		return fmt.Sprintf("%3d ─ ", wave)
	case first:
		return fmt.Sprintf("%3d ┬ ", wave)
	case last:
		return "    └ "
	}
	return "    ├ "
}

// RunEnded leaves the tasks on the screen and shows the outcome of a run. For
// machines it is the last line.
func (a *Activity) RunEnded(r orchestrate.Result, err error, code int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.o.JSON != nil {
		return a.writeRun(r, err, code)
	}
	c, s := a.c, a.c.style()
	if a.status = ""; c.ErrTTY {
		c.show(nil)
		for i, j := range a.jobs[:min(len(a.jobs), 200)] {
			c.Line(s.state(j.state, a.stem(i, false)+a.line(j)))
		}
	}
	var parts []string
	if r.Speedup > 1.05 {
		parts = append(parts, fmt.Sprintf("%.1f times as fast as one after another", r.Speedup))
	}
	if len(r.CriticalPath) > 1 {
		parts = append(parts, "longest path "+approval.Visible(strings.Join(r.CriticalPath, " → "))+" "+Duration(r.CriticalDuration))
	}
	a.outcome(err, r.Done > 0, r.Duration, r.Usage, parts...)
	a.files(r.Files, "changed")
	if r.Merge != nil && r.Merge.Branch != "" {
		c.Line("  on the branch " + s.bold(r.Merge.Branch))
	}
	for _, k := range r.Kept {
		c.Line(s.yellow("  work that is not included is kept on the branch " + approval.Visible(k)))
	}
	if err != nil && r.Run != "" {
		c.Dim("  resume with: copilot-bridge orchestrate --resume " + r.Run)
	}
	return nil
}
