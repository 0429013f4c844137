// Package view is what a person at a terminal, or a program that reads JSON
// lines, sees of the commands: lines and a live region on a Console, work under
// way as an Activity, questions at a Keyboard, logs, tables, sizes and times. It
// decides nothing. Only package cli uses it.
package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Activity shows work under way and how it ended: a turn, a run in parts, an
// install. On a terminal what runs stands below the lines with its time; in a
// pipe each change is a line; for machines each event is a JSON line. Its
// methods may be called concurrently.
type Activity struct {
	c   *Console
	o   Options
	now func() time.Time

	mu     sync.Mutex // events against the clock
	status string     // what is waited for when no job runs; "" for nothing
	since  time.Time
	until  time.Time // when a rate limit will have passed; zero if that is not known
	jobs   []*job
	asked  chan struct{} // has a value when a question has been reached
	failed bool          // an error event was written as JSON

	shown map[string]string    // a turn's messages that are not finished: what has come of them
	order []string             // of them
	pages map[string]*markdown // of them, where Markdown is rendered

	needs  map[string][]string // a plan's dependencies
	widest int                 // columns of the longest name in a plan

	step  string // of an install
	tenth int64  // of it
}

// Options say for whom an Activity is.
type Options struct {
	JSON    io.Writer // where machines read events as JSON lines; people see nothing then
	Verbose bool      // show reasoning, sub-agents and the runtime's own events
	Dir     string    // paths inside it are shown without it
	Home    string    // the user's, shown as ~
	// Chat: a person reads turn after turn. Markdown is rendered, and what is
	// said of a turn is short.
	Chat bool
}

// NewActivity is an Activity on a console.
func NewActivity(c *Console, o Options) *Activity {
	if o.JSON != nil {
		c = &Console{Out: io.Discard, Err: io.Discard}
	}
	return &Activity{c: c, o: o, now: time.Now, asked: make(chan struct{}, 1), shown: map[string]string{}, pages: map[string]*markdown{}}
}

// Begin sets the status and keeps the times true until stop is called, which
// takes all that runs off the screen.
func (a *Activity) Begin(status string) (stop func()) {
	a.Status(status)
	return a.c.tick(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.redraw()
	})
}

// Status sets what is shown while no job runs.
func (a *Activity) Status(status string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait(status)
	a.redraw()
}

func (a *Activity) wait(status string) {
	if a.status != status {
		a.status, a.since = status, a.now()
	}
}

// state is how far a job has come.
type state string

// A run's tasks have these states under the same names, but for warned.
const (
	pending  state = "pending"
	running  state = "running"
	done     state = "done"
	warned   state = "warned"
	failed   state = "failed"
	skipped  state = "skipped"
	canceled state = "canceled"
)

var marks = map[state]string{pending: "·", running: "●", done: "✓", warned: "!", failed: "✗", skipped: "–", canceled: "–"}

func (s style) state(of state, text string) string {
	switch of {
	case done:
		return s.green(text)
	case failed:
		return s.red(text)
	case warned, skipped, canceled:
		return s.yellow(text)
	case pending:
		return s.dim(text)
	case running:
	}
	return text
}

// job is a tool call or a task of a plan.
type job struct {
	id, name string
	state    state
	about    string // what it is doing, or how it ended
	where    string // the machine that does it; "" for this one
	printed  string // the end of what a command has printed
	tokens   int64
	wave     int // of a plan; 0 for a tool call
	began    time.Time
	took     time.Duration
}

func (a *Activity) find(id string) *job {
	if i := slices.IndexFunc(a.jobs, func(j *job) bool { return j.id == id }); i >= 0 {
		return a.jobs[i]
	}
	return nil
}

// line is a job: its mark, name, what it is doing, tokens and time.
func (a *Activity) line(j *job) string {
	about := j.about
	if j.state == pending && about == "" {
		about = "waits for a place"
		if open := a.waitsFor(j); len(open) > 0 {
			about = "waits for " + strings.Join(open, ", ")
		}
	}
	line := marks[j.state] + " " + j.name
	if about != "" {
		line += strings.Repeat(" ", max(0, a.widest-len([]rune(j.name)))) + "  " + Fit(about, 60)
	}
	if j.where != "" {
		line += "  on " + Fit(j.where, 30)
	}
	if j.tokens > 0 {
		line += "  " + Count(j.tokens) + " tokens"
	}
	if j.state == running {
		return line + elapsed(a.now().Sub(j.began))
	}
	if j.took > 0 {
		line += "  " + Duration(j.took)
	}
	return line
}

// liveLines bounds the live region: one taller than the screen cannot be drawn
// in place.
const liveLines = 18

func (a *Activity) redraw() {
	if a.c.ErrTTY {
		a.c.show(a.drawing())
	}
}

// drawing is the jobs, with the last that their commands printed, and the
// status. If there are too many jobs, those that do not run are only counted.
func (a *Activity) drawing() []liveLine {
	s := a.c.style()
	var lines []liveLine
	for _, id := range a.order {
		if page := a.pages[id]; page != nil {
			rows := page.unfinished()
			for _, row := range rows[max(0, len(rows)-liveLines/2):] {
				lines = append(lines, painted(row))
			}
		}
	}
	counts := map[state]int{}
	crowded := len(a.jobs) > liveLines
	for i, j := range a.jobs {
		tail := lastLines(j.printed, 3)
		if crowded && j.state != running || len(lines)+len(tail) >= liveLines {
			counts[j.state]++
			continue
		}
		lines = append(lines, liveLine{a.stem(i, crowded) + a.line(j), func(t string) string { return s.state(j.state, t) }})
		for _, l := range tail {
			lines = append(lines, liveLine{"    " + l, s.dim})
		}
	}
	var rest []string
	for _, of := range []state{done, failed, skipped, canceled, running, pending} {
		if counts[of] > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", counts[of], of))
		}
	}
	if len(rest) > 0 {
		lines = append(lines, liveLine{"  and " + strings.Join(rest, ", "), s.dim})
	}
	waited := a.now().Sub(a.since)
	idle := !slices.ContainsFunc(a.jobs, func(j *job) bool { return j.state == running })
	if idle && a.status != "" && (a.status != statusAnswering || waited >= time.Second) {
		length := elapsed(waited)
		if left := a.until.Sub(a.now()); a.status == statusLimited && left > 0 {
			length = ", " + strings.TrimSpace(elapsed(max(left, time.Second))) + " left"
		}
		lines = append(lines, liveLine{"… " + a.status + length, s.dim})
	}
	return lines
}

// painted is a row that has its colours, which are lost if it must be cut.
func painted(row string) liveLine {
	bare := escape.ReplaceAllString(row, "")
	return liveLine{bare, func(cut string) string {
		if cut == bare {
			return row
		}
		return cut
	}}
}

// elapsed is a running time, which changes once a second, to stand at the end
// of a line.
func elapsed(d time.Duration) string {
	switch {
	case d < time.Second:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("  %d s", int(d.Seconds()))
	}
	return "  " + Duration(d)
}

// outcome is the last line of a task: how it ended, after which time, and parts
// that say more about it.
func (a *Activity) outcome(err error, partly bool, took time.Duration, u bridge.Usage, parts ...string) {
	s := a.c.style()
	after := " after " + Duration(took)
	if took == 0 { // it did not begin
		after = ""
	}
	how := s.red("failed" + after)
	switch code := bridge.CodeOf(err); {
	case err == nil:
		how = s.green("done in " + Duration(took))
	case code == bridge.CodeCanceled:
		how = s.yellow("interrupted" + after)
	case partly:
		how = s.yellow("partly done" + after)
	case code == bridge.CodeDenied:
		how = s.red("denied" + after)
	}
	parts = append([]string{how}, parts...)
	if u.Calls > 0 {
		parts = append(parts, Count(u.InputTokens)+" tokens in, "+Count(u.OutputTokens)+" out")
	}
	parts = append(parts, spent(u)...)
	a.c.Line(strings.Join(parts, s.dim(" · ")))
}

// files names files that were changed.
func (a *Activity) files(files []string, how string) {
	const most = 20
	if len(files) == 0 {
		return
	}
	var names []string
	for _, f := range files[:min(len(files), most)] {
		names = append(names, approval.Visible(Shorten(f, a.o.Dir, a.o.Home)))
	}
	if more := len(files) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	a.c.Line("  " + text.Plural(len(files), "file") + " " + how + ": " + a.c.style().bold(strings.Join(names, ", ")))
}

func failure(e *bridge.Error) string {
	if e.Status != 0 && !strings.Contains(e.Error(), fmt.Sprint(e.Status)) {
		return fmt.Sprintf("%d %s", e.Status, approval.Visible(e.Error()))
	}
	return approval.Visible(e.Error())
}
