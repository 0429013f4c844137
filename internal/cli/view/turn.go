package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const (
	// statusAnswering is shown only after the text has paused for a second.
	statusAnswering = "answering"
	statusModel     = "waiting for the model"
	statusLimited   = "waiting for the rate limit to pass"
)

// Event shows an event of a turn. On a terminal the answer appears as it is
// written; in a pipe it comes message by message, since a message that broke off
// cannot be taken back there.
func (a *Activity) Event(ev bridge.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeEvent(ev)
	switch e := ev.(type) {
	case bridge.TextDelta:
		a.delta(e)
	case bridge.MessageDone:
		a.message(e)
	case bridge.MessageRetracted:
		a.retract(e.Message)
	case bridge.ReasoningDelta:
		a.wait("thinking")
	case bridge.ToolStarted:
		a.start(&job{id: e.Call.ID, name: toolText(e.Call, a.o.Dir)}, "")
	case bridge.ToolProgress:
		if j := a.find(e.CallID); j != nil {
			j.printed += e.Text
			j.printed = j.printed[max(0, len(j.printed)-tailBytes):]
		}
	case bridge.ToolFinished:
		a.toolEnded(e)
	case bridge.ModelCalled:
		a.wait(statusModel)
	case bridge.ModelFailed:
		if e.Error.Code == bridge.CodeRateLimited {
			a.limited(e.Error)
			break
		}
		a.c.Warn("the model's provider failed (" + failure(e.Error) + "), retrying")
		a.wait("waiting to try again")
	case bridge.Notice:
		switch e.Level {
		case "info":
			a.detail("· " + approval.Visible(e.Text))
		case "note":
			a.c.Dim("· " + e.Text)
		default:
			a.c.Warn(e.Text)
		}
	case bridge.PlanChanged:
		a.detail("· the plan has changed")
	case bridge.SessionOpened:
		a.detail("· session " + e.Session)
	case bridge.PermissionAsked:
		select {
		case a.asked <- struct{}{}:
		default:
		}
	case bridge.TurnEnded:
		a.endTurn()
	default: // questions show themselves, and the rest is in the summary
		return
	}
	a.redraw()
}

// limited says that a rate limit is waited for, and counts down where it is known
// how long it lasts.
func (a *Activity) limited(e *bridge.Error) {
	how := "Copilot waits as long as it was asked to and tries again"
	a.until = time.Time{}
	if e.RetryAfter > 0 {
		a.until = a.now().Add(e.RetryAfter)
		how = "Copilot tries again in " + Duration(e.RetryAfter)
	}
	a.c.Warn(approval.Visible(e.Error()) + "; " + how)
	a.wait(statusLimited)
}

// detail shows details if verbose output was asked for.
func (a *Activity) detail(text string) {
	if a.o.Verbose && strings.TrimSpace(text) != "" {
		a.c.Line(a.c.style().dim(text))
	}
}

// start shows that a job runs.
func (a *Activity) start(j *job, word string) {
	if j.state, j.began = running, a.now(); !slices.Contains(a.jobs, j) {
		a.jobs = append(a.jobs, j)
	}
	if !a.c.ErrTTY {
		a.c.Line(marks[running] + " " + j.name + word)
	}
}

func (a *Activity) toolEnded(e bridge.ToolFinished) {
	j := a.find(e.CallID)
	if j == nil {
		j = &job{name: approval.Visible(e.Name)}
	}
	a.jobs = slices.DeleteFunc(a.jobs, func(j *job) bool { return j.id == e.CallID })
	a.wait(statusModel)
	a.redraw() // before the lines, which would be drawn above what is over
	s, end := a.c.style(), toolEnd(e, j.printed)
	text := s.state(end.state, marks[end.state]) + " " + j.name + s.dim(" ("+end.text+")") + "\n"
	for _, l := range end.tail {
		text += s.dim("    "+l) + "\n"
	}
	a.c.Lines(text)
}

// endTurn shows what a turn that broke off has left.
func (a *Activity) endTurn() {
	for len(a.order) > 0 {
		a.finishMessage(a.order[0], a.shown[a.order[0]])
	}
	for _, j := range a.jobs {
		a.c.Warn(j.name + " (ended)")
	}
	a.jobs, a.status = nil, ""
}

func (a *Activity) delta(e bridge.TextDelta) {
	if e.AgentID != "" {
		return
	}
	a.status, a.since = statusAnswering, a.now()
	if _, open := a.shown[e.Message]; !open {
		a.order = append(a.order, e.Message)
	}
	a.shown[e.Message] += e.Text
	if page := a.page(e.Message); page != nil {
		ended := page.add(e.Text)
		a.c.settle(ended, a.drawing())
	} else if a.c.OutTTY {
		a.c.Answer(Harmless(e.Text))
	}
}

// page renders a message; nil where it is written as it comes.
func (a *Activity) page(id string) *markdown {
	if !a.o.Chat || !a.c.OutTTY || !a.c.ErrTTY {
		return nil
	}
	if a.pages[id] == nil {
		a.pages[id] = &markdown{s: a.c.style(), width: a.c.Width}
	}
	return a.pages[id]
}

func (a *Activity) message(e bridge.MessageDone) {
	if e.AgentID != "" {
		a.detail("  " + indented(e.Text))
		return
	}
	a.detail("  " + indented(e.Reasoning))
	a.finishMessage(e.Message, e.Text)
}

// indented is text of several lines, all but the first two columns to the right.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(Harmless(text)), "\n", "\n  ")
}

func (a *Activity) retract(id string) {
	switch {
	case a.shown[id] == "":
	case a.c.OutTTY:
		a.c.Warn("the answer above was cut off; it is repeated")
	default:
		a.c.Warn("the model's answer was cut off and is asked for again")
	}
	a.forget(id)
}

// finishMessage shows what of a message is not on the screen yet.
func (a *Activity) finishMessage(id, text string) {
	shown, page := a.shown[id], a.page(id)
	a.forget(id)
	if page != nil {
		rest, ok := strings.CutPrefix(text, shown)
		if !ok {
			rest = "\n" + text
		}
		a.c.settle(page.add(rest)+page.end(), a.drawing())
		return
	}
	if !a.c.OutTTY {
		if text != "" {
			a.c.Answer(strings.TrimSuffix(text, "\n") + "\n")
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
	a.c.Answer(Harmless(rest))
}

func (a *Activity) forget(id string) {
	delete(a.shown, id)
	delete(a.pages, id)
	a.order = slices.DeleteFunc(a.order, func(o string) bool { return o == id })
}

// TurnEnded shows the outcome of a task. For machines it is the last line, after
// an error event if there was none.
func (a *Activity) TurnEnded(r engine.Result, err error, code int, took time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.o.JSON != nil {
		return a.writeTurn(r, err, code)
	}
	var parts []string
	if len(r.Tools) > 0 {
		parts = append(parts, text.Plural(len(r.Tools), "tool call")+" ("+toolCounts(r.Tools)+")")
	}
	denied, did, _ := Denials(r.Tools)
	if denied > 0 && did > 0 { // else it is the first word
		parts = append(parts, a.c.style().red(fmt.Sprintf("%d denied", denied)))
	}
	if err == nil && r.Reason == bridge.EndAborted {
		err = &bridge.Error{Code: bridge.CodeCanceled}
	}
	a.outcome(err, bridge.CodeOf(err) == bridge.CodeDenied && did > 0, took, r.Usage, parts...)
	a.files(r.Files, "written")
	if r.Session != "" && !a.o.Chat {
		a.c.Dim(fmt.Sprintf("  session %s · resume with: copilot-bridge run --resume %.8s \"…\"", r.Session, r.Session))
	}
	return nil
}

// Conversation is a session's history.
func Conversation(events []bridge.Event, dir string) string {
	var b strings.Builder
	say := func(who, text string) {
		if text = indented(text); text != "" {
			fmt.Fprintf(&b, "%s\n  %s\n\n", who, text)
		}
	}
	calls := map[string]bridge.ToolCall{}
	for _, ev := range events {
		switch e := ev.(type) {
		case bridge.UserSaid:
			say("You", e.Text)
		case bridge.MessageDone:
			if e.AgentID != "" {
				continue
			}
			who := "Assistant"
			if e.Model != "" { // the demo model's words are not to be taken for Copilot's
				who += " (" + approval.Visible(e.Model) + ")"
			}
			say(who, e.Text)
		case bridge.ToolStarted:
			calls[e.Call.ID] = e.Call
		case bridge.ToolFinished:
			end := toolEnd(e, "")
			fmt.Fprintf(&b, "%s %s (%s)\n\n", marks[end.state], toolText(calls[e.CallID], dir), end.text)
		default:
		}
	}
	if b.Len() == 0 {
		return "Nothing was said.\n"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
