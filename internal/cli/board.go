package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// board shows a run to a person. On a terminal the tasks stand wave below
// wave, a line each, and change in place; in a pipe each change is a line.
type board struct {
	c   *console
	now func() time.Time
	off bool // machines watch

	mu     sync.Mutex // events against the clock
	doing  string     // before there is a plan, and after the tasks
	since  time.Time
	tasks  []*boardTask // wave by wave
	byID   map[string]*boardTask
	needs  map[string][]string
	widest int // columns of the longest id
}

type boardTask struct {
	id     string
	wave   int
	state  orchestrate.State
	text   string // what it is doing, or why it ended so
	tokens int64
	began  time.Time
	took   time.Duration
}

func newBoard(c *console) *board {
	return &board{c: c, now: time.Now, since: time.Now(), doing: "planning", byID: map[string]*boardTask{}}
}

// tick keeps the times true until the returned function is called.
func (b *board) tick() (stop func()) {
	if b.off {
		return func() {}
	}
	return b.c.tick(&b.mu, b.redraw)
}

// event takes note of one event.
func (b *board) event(e orchestrate.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byID[e.Task]
	switch {
	case e.Type == orchestrate.RunStarted:
		what := "run "
		if e.Resumed {
			what = "resuming run "
		}
		b.c.line(b.c.style.dim(what + e.Run))
	case e.Type == orchestrate.PlanReady:
		b.addPlan(*e.Plan)
		if e.Text != "" {
			b.c.line(b.c.style.yellow("! " + approval.Visible(e.Text)))
		}
	case e.Type == orchestrate.Conflicted:
		b.conflict(*e.Conflict)
	case e.Type == orchestrate.MergeStarted:
		b.doing, b.since = "merging", b.now()
	case e.Type == orchestrate.Noticed:
		b.c.line("· " + approval.Visible(e.Text))
	case e.Type == orchestrate.TaskProgress && e.Task == "":
		b.doing = "planning: " + approval.Visible(e.Text)
	case e.Type == orchestrate.TaskStarted && t == nil:
		t = b.add(e.Task, e.Wave) // of a plan that was made before
		b.task(t, e)
	case t != nil:
		b.task(t, e)
	}
	b.redraw()
}

// addPlan adds the tasks of a plan.
func (b *board) addPlan(p orchestrate.TaskPlan) {
	b.doing = ""
	waves, err := p.Waves()
	if err != nil {
		return
	}
	for w, ids := range waves {
		for _, id := range ids {
			b.add(id, w+1)
		}
	}
	b.needs = p.Dependencies
}

func (b *board) add(id string, wave int) *boardTask {
	t := &boardTask{id: id, wave: wave, state: orchestrate.Pending}
	b.byID[id] = t
	b.tasks = append(b.tasks, t)
	b.widest = min(24, max(b.widest, len([]rune(approval.Visible(id)))))
	return t
}

func (b *board) task(t *boardTask, e orchestrate.Event) {
	if e.Usage != nil {
		t.tokens = e.Usage.InputTokens + e.Usage.OutputTokens
	}
	switch e.Type {
	case orchestrate.TaskStarted:
		t.state, t.text = orchestrate.Running, "starting"
		if t.began.IsZero() {
			t.began = b.now()
		}
		if !b.c.errTTY {
			b.c.line("● " + approval.Visible(t.id) + " started")
		}
	case orchestrate.TaskProgress:
		if e.Text != "" {
			t.text = approval.Visible(e.Text)
		}
	case orchestrate.TaskRetry:
		t.state, t.text = orchestrate.Pending, "failed, tried again in "+duration(e.Delay)
		b.c.line(b.c.style.yellow("! " + approval.Visible(t.id) + ": " + failure(e.Error) + "; tried again in " + duration(e.Delay)))
	case orchestrate.TaskCompleted, orchestrate.TaskSkipped:
		t.end(*e.Result)
		if !b.c.errTTY {
			b.c.line(b.line(t, b.now()))
		}
	default:
	}
}

func (t *boardTask) end(r orchestrate.TaskResult) {
	t.state, t.took, t.tokens = r.State, r.Duration, r.Usage.InputTokens+r.Usage.OutputTokens
	switch {
	case r.Error != nil:
		t.text = failure(r.Error)
	case r.Reason != "":
		t.text = approval.Visible(r.Reason)
	default:
		t.text = plural(len(r.Files), "file")
		if r.Denied > 0 {
			t.text += fmt.Sprintf(", %d denied", r.Denied)
		}
	}
}

func (b *board) conflict(c orchestrate.Conflict) {
	text := fmt.Sprintf("%s and %s changed the same places in %s", c.Ours, c.Theirs, strings.Join(c.Paths, ", "))
	if c.Resolved {
		b.c.line("· " + approval.Visible(text) + "; resolved")
		return
	}
	b.c.line(b.c.style.yellow("! " + approval.Visible(text+"; "+c.Message)))
}

var boardMarks = map[orchestrate.State]string{orchestrate.Pending: "·", orchestrate.Running: "●", orchestrate.Done: "✓", orchestrate.Failed: "✗",
	orchestrate.Skipped: "–", orchestrate.Canceled: "–"}

// line is a task: its mark, name, what it is doing, tokens and time.
func (b *board) line(t *boardTask, now time.Time) string {
	text := t.text
	if t.state == orchestrate.Pending && text == "" {
		if open := b.waitsFor(t); len(open) > 0 {
			text = "waits for " + strings.Join(open, ", ")
		} else {
			text = "waits for a place"
		}
	}
	name := approval.Visible(t.id)
	line := fmt.Sprintf("%s %s%s  %s", boardMarks[t.state], name, strings.Repeat(" ", max(0, b.widest-len([]rune(name)))), fit(text, 60))
	if t.tokens > 0 {
		line += "  " + count(t.tokens) + " tokens"
	}
	switch {
	case t.state == orchestrate.Running:
		line += elapsed(now.Sub(t.began))
	case t.took > 0:
		line += "  " + duration(t.took)
	}
	return line
}

func (b *board) waitsFor(t *boardTask) []string {
	var open []string
	for _, id := range b.needs[t.id] {
		if n := b.byID[id]; n != nil && n.state != orchestrate.Done && !slices.Contains(open, approval.Visible(id)) {
			open = append(open, approval.Visible(id))
		}
	}
	return open
}

// boardLines bounds the live region: a region taller than the screen cannot
// be drawn in place.
const boardLines = 18

func (b *board) redraw() {
	if !b.c.errTTY {
		return
	}
	b.c.show(b.drawing())
}

// drawing is the board as lines. If there are too many tasks, those that wait
// or have ended are only counted.
func (b *board) drawing() []liveLine {
	now := b.now()
	var lines []liveLine
	some := len(b.tasks) > boardLines
	counts := map[orchestrate.State]int{}
	for i, t := range b.tasks {
		if some && (t.state != orchestrate.Running || len(lines) >= boardLines) {
			counts[t.state]++
			continue
		}
		lines = append(lines, liveLine{b.stem(i, some) + b.line(t, now), b.paint(t)})
	}
	if some {
		var parts []string
		for _, s := range []orchestrate.State{orchestrate.Done, orchestrate.Failed, orchestrate.Skipped, orchestrate.Canceled, orchestrate.Running, orchestrate.Pending} {
			if counts[s] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
			}
		}
		lines = append(lines, liveLine{"  and " + strings.Join(parts, ", "), b.c.style.dim})
	}
	if b.doing != "" {
		lines = append(lines, liveLine{"… " + b.doing + elapsed(now.Sub(b.since)), b.c.style.dim})
	}
	return lines
}

// stem draws the waves at the left: which tasks stand beside each other.
func (b *board) stem(i int, some bool) string {
	t := b.tasks[i]
	if some {
		return fmt.Sprintf("%3d ", t.wave)
	}
	first := i == 0 || b.tasks[i-1].wave != t.wave
	last := i == len(b.tasks)-1 || b.tasks[i+1].wave != t.wave
	switch {
	case first && last:
		return fmt.Sprintf("%3d ─ ", t.wave)
	case first:
		return fmt.Sprintf("%3d ┬ ", t.wave)
	case last:
		return "    └ "
	}
	return "    ├ "
}

func (b *board) paint(t *boardTask) func(string) string {
	switch t.state {
	case orchestrate.Done:
		return b.c.style.green
	case orchestrate.Failed:
		return b.c.style.red
	case orchestrate.Skipped, orchestrate.Canceled:
		return b.c.style.yellow
	case orchestrate.Pending:
		return b.c.style.dim
	case orchestrate.Running:
	}
	return nil
}

// finish leaves the board on the screen and shows the run's outcome.
func (b *board) finish(r orchestrate.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing = ""
	c := b.c
	if c.errTTY {
		c.show(nil)
		if len(b.tasks) <= 200 {
			for i, t := range b.tasks {
				text := b.stem(i, false) + b.line(t, b.now())
				if paint := b.paint(t); paint != nil {
					text = paint(text)
				}
				c.line(text)
			}
		}
	}
	var parts []string
	if r.Speedup > 1.05 {
		parts = append(parts, fmt.Sprintf("%.1f times as fast as one after another", r.Speedup))
	}
	if len(r.CriticalPath) > 1 {
		parts = append(parts, "longest path "+approval.Visible(strings.Join(r.CriticalPath, " → "))+" "+duration(r.CriticalDuration))
	}
	c.outcome(err, r.Done > 0, r.Duration, r.Usage, parts...)
	b.where(r)
	if err != nil && r.Run != "" {
		c.line(c.style.dim("  resume with: copilot-bridge orchestrate --resume " + r.Run))
	}
}

// where names the changed files and the branches.
func (b *board) where(r orchestrate.Result) {
	if len(r.Files) > 0 {
		names := make([]string, 0, len(r.Files))
		for _, f := range r.Files[:min(len(r.Files), 20)] {
			names = append(names, approval.Visible(f))
		}
		if more := len(r.Files) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		b.c.line("  " + plural(len(r.Files), "file") + " changed: " + b.c.style.bold(strings.Join(names, ", ")))
	}
	if r.Merge != nil && r.Merge.Branch != "" {
		b.c.line("  on the branch " + b.c.style.bold(r.Merge.Branch))
	}
	for _, k := range r.Kept {
		b.c.line(b.c.style.yellow("  work that is not included is kept on the branch " + approval.Visible(k)))
	}
}
