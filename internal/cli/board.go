package cli

import (
	"fmt"
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
	if b.off || !b.c.errTTY {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				b.mu.Lock()
				b.redraw()
				b.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-done
		b.c.show(nil)
	})
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
			what = "going on with run "
		}
		b.c.line(b.c.style.dim(what + e.Run))
	case e.Type == orchestrate.PlanReady:
		b.lay(*e.Plan)
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

// lay puts the tasks of a plan on the board.
func (b *board) lay(p orchestrate.TaskPlan) {
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
