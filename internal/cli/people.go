package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// people shows a turn to a person. On a terminal the answer appears as it is
// written, and what runs stands below it with its time; in a pipe the answer
// comes message by message, since a message that broke off cannot be taken
// back there.
type people struct {
	c       *console
	now     func() time.Time
	dir     string // paths inside it are shown without it
	verbose bool

	mu      sync.Mutex // events against the clock
	status  string     // what is waited for when no tool runs; "" between turns
	since   time.Time
	running []*toolRun
	shown   map[string]string // messages that are not finished: what is on the screen
	order   []string          // of them
}

type toolRun struct {
	id, text string
	began    time.Time
	printed  string
}

func newPeople(c *console, dir string, verbose bool) *people {
	return &people{c: c, now: time.Now, dir: dir, verbose: verbose, shown: map[string]string{}}
}

// statusAnswering is shown only after the text has paused for a second.
const statusAnswering = "answering"

// wait sets the status that is shown while no tool runs.
func (v *people) wait(what string) {
	if v.status != what {
		v.status, v.since = what, v.now()
	}
}

// begin is called when a prompt was sent.
func (v *people) begin(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wait(what)
	v.redraw()
}

// event shows one event.
func (v *people) event(ev bridge.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := ev.(type) {
	case bridge.TextDelta, bridge.MessageDone, bridge.MessageRetracted, bridge.ReasoningDelta:
		v.words(ev)
	case bridge.ToolStarted, bridge.ToolProgress, bridge.ToolFinished:
		v.tool(ev)
	case bridge.ModelCalled:
		v.wait("waiting for the model")
	case bridge.ModelFailed:
		v.c.line(v.c.style.yellow("! the model's provider failed (" + failure(e.Error) + "), retrying"))
		v.wait("waiting to try again")
	case bridge.Notice:
		if e.Level == "info" {
			v.detail("· " + approval.Visible(e.Text))
		} else {
			v.c.line(v.c.style.yellow("! " + approval.Visible(e.Text)))
		}
	case bridge.PlanChanged:
		v.detail("· the plan has changed")
	case bridge.SessionOpened:
		v.detail("· session " + e.Session)
	case bridge.TurnEnded:
		v.endTurn()
	case bridge.ToolRequested, bridge.PermissionAsked, bridge.PermissionDecided, bridge.InputAsked, bridge.InputAnswered,
		bridge.UsageReported, bridge.ModeChanged, bridge.ContextMeasured, bridge.UserSaid, bridge.Failed, bridge.Other:
		// Questions show themselves, and the rest is in the summary.
		return
	}
	v.redraw()
}

// detail shows details if verbose output was asked for.
func (v *people) detail(text string) {
	if v.verbose {
		v.c.line(v.c.style.dim(text))
	}
}

func failure(e *bridge.Error) string {
	text := approval.Visible(e.Error())
	if e.Status != 0 {
		return fmt.Sprintf("%d %s", e.Status, text)
	}
	return text
}

// endTurn shows what a turn that broke off has left.
func (v *people) endTurn() {
	for len(v.order) > 0 {
		id := v.order[0]
		v.finishMessage(id, v.shown[id])
	}
	for _, r := range v.running {
		v.c.line(v.c.style.yellow("! " + r.text + " (ended)"))
	}
	v.running, v.status = nil, ""
}

func (v *people) tool(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.ToolStarted:
		r := &toolRun{id: e.Call.ID, text: toolText(e.Call, v.dir), began: v.now()}
		v.running = append(v.running, r)
		if !v.c.errTTY {
			v.c.line("● " + r.text)
		}
	case bridge.ToolProgress:
		if r := v.find(e.CallID); r != nil {
			r.printed += e.Text
			r.printed = r.printed[max(0, len(r.printed)-tailBytes):]
		}
	case bridge.ToolFinished:
		r := v.find(e.CallID)
		if r == nil {
			r = &toolRun{text: approval.Visible(e.Name)}
		}
		v.running = slices.DeleteFunc(v.running, func(r *toolRun) bool { return r.id == e.CallID })
		v.wait("waiting for the model")
		v.redraw() // before the lines, which would be drawn above what is over
		end := judge(e, r.printed)
		text := end.paint(v.c.style, end.mark) + " " + r.text + v.c.style.dim(" ("+end.text+")") + "\n"
		for _, l := range end.tail {
			text += v.c.style.dim("    "+l) + "\n"
		}
		v.c.lines(text)
	default:
	}
}

func (v *people) find(id string) *toolRun {
	if i := slices.IndexFunc(v.running, func(r *toolRun) bool { return r.id == id }); i >= 0 {
		return v.running[i]
	}
	return nil
}

// redraw sets the live region: the tools that run and the last of their
// output, or the status.
func (v *people) redraw() {
	const most, tail = 4, 3
	now := v.now()
	var lines []liveLine
	for i, r := range v.running {
		if i == most {
			lines = append(lines, liveLine{fmt.Sprintf("● and %d more", len(v.running)-most), v.c.style.dim})
			break
		}
		lines = append(lines, liveLine{"● " + r.text + elapsed(now.Sub(r.began)), nil})
		for _, l := range lastLines(r.printed, tail) {
			lines = append(lines, liveLine{"    " + l, v.c.style.dim})
		}
	}
	if len(lines) == 0 && v.status != "" && (v.status != statusAnswering || now.Sub(v.since) >= time.Second) {
		lines = append(lines, liveLine{"… " + v.status + elapsed(now.Sub(v.since)), v.c.style.dim})
	}
	v.c.show(lines)
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
	return "  " + duration(d)
}

// words shows what the model says and thinks.
func (v *people) words(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		if e.AgentID != "" {
			return
		}
		v.status, v.since = statusAnswering, v.now()
		if _, open := v.shown[e.Message]; !open {
			v.order = append(v.order, e.Message)
		}
		v.shown[e.Message] += e.Text
		if v.c.outTTY {
			v.c.answer(harmless(e.Text))
		}
	case bridge.MessageDone:
		if e.AgentID != "" {
			if e.Text != "" {
				v.detail("  " + strings.ReplaceAll(harmless(strings.TrimSpace(e.Text)), "\n", "\n  "))
			}
			return
		}
		if v.verbose && e.Reasoning != "" {
			v.detail("  " + strings.ReplaceAll(harmless(strings.TrimSpace(e.Reasoning)), "\n", "\n  "))
		}
		v.finishMessage(e.Message, e.Text)
	case bridge.MessageRetracted:
		if v.shown[e.Message] != "" {
			text := "! the model's answer was cut off and is asked for again"
			if v.c.outTTY {
				text = "! the answer above was cut off; it is repeated"
			}
			v.c.line(v.c.style.yellow(text))
		}
		v.forget(e.Message)
	case bridge.ReasoningDelta:
		v.wait("thinking")
	default:
	}
}

// finishMessage shows what of a message is not on the screen yet.
func (v *people) finishMessage(id, text string) {
	shown := v.shown[id]
	v.forget(id)
	if !v.c.outTTY {
		if text != "" {
			v.c.answer(strings.TrimSuffix(text, "\n") + "\n")
		}
		return
	}
	rest, ok := strings.CutPrefix(text, shown)
	if !ok {
		rest = "\n" + text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		rest += "\n"
	}
	v.c.answer(harmless(rest))
}

func (v *people) forget(id string) {
	delete(v.shown, id)
	v.order = slices.DeleteFunc(v.order, func(o string) bool { return o == id })
}
