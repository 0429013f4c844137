package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// watchedSession is a session that is watched.
type watchedSession struct {
	o       *observer
	session *engine.Session
	request engine.Request
	opened  time.Time

	mu        sync.Mutex
	rec       *timeline.Recorder // nil before the first turn
	mask      bridge.Mask        // of the turn, where no gate has one
	turns     int
	running   int       // turns; of two at a time the agent refuses one
	began     time.Time // the turn
	spoke     bool      // it has said something
	used      bridge.Usage
	messages  map[string]bool // of which pieces were seen
	calls     []*watchedCall  // of the turn, in their order
	verdicts  []guard.Verdict // of calls that were not seen yet
	questions map[string]bool // open
	parked    map[string]string
	names     map[string]string // of sub-agents, by their ids
}

// watchedCall is a tool call of the turn.
type watchedCall struct {
	id, name, args string
	judged         bool
	allowed        bool
	over           bool
	changes        []timeline.Event // what it does to files, if it succeeds
}

// TurnBegan is part of engine.Watcher, as are the next four.
func (w *watchedSession) TurnBegan(ctx context.Context, p bridge.Prompt) {
	said, clipped := w.o.hide(p.Text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec == nil {
		title, _ := w.o.hide(w.request.Title)
		line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
		w.rec = w.o.begin(w, cmp.Or(title, text.FirstLine(line, 72)))
	}
	w.turns++
	if w.running++; w.running == 1 {
		w.began, w.spoke = time.Now(), false
		w.messages, w.calls, w.verdicts = map[string]bool{}, nil, nil
		w.questions, w.parked = map[string]bool{}, map[string]string{}
		if _, masked := w.request.Spec.Gate.(interface{ Mask() bridge.Mask }); !masked {
			w.mask = guard.Masking(w.o.redactor)
		}
	}
	client, door, turns := bridge.CallerOf(ctx).Name, w.session.Door(), w.turns
	w.rec.Change(func(s *timeline.Summary) {
		s.State, s.Turns, s.Questions, s.Door = timeline.Running, turns, 0, door
		s.Client = cmp.Or(s.Client, client)
	})
	w.rec.Add(timeline.Event{Type: timeline.TypeTurn, N: w.turns})
	w.rec.Add(timeline.Event{Type: timeline.TypePrompt, Text: said, By: p.By, Clipped: clipped})
}

func (w *watchedSession) Said(p bridge.Prompt) {
	said, clipped := w.o.hide(p.Text)
	w.note(timeline.Event{Type: timeline.TypePrompt, Text: said, By: p.By, Clipped: clipped})
}

// note adds an event to the timeline, if there is one.
func (w *watchedSession) note(e timeline.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec != nil {
		w.rec.Add(e)
	}
}

func (w *watchedSession) Event(ev bridge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mask == nil {
		w.event(ev)
		return
	}
	w.mask(ev, func(ev bridge.Event) bool { w.event(ev); return true })
}

func (w *watchedSession) Resolved(requestID string, r bridge.ToolResult) {
	said, clipped := w.o.hide(r.Text)
	w.mu.Lock()
	defer w.mu.Unlock()
	call, ok := w.parked[requestID]
	if !ok {
		return
	}
	delete(w.parked, requestID)
	ok = !r.Failed
	e := timeline.Event{Type: timeline.TypeResult, Call: call, OK: &ok, Text: said, Clipped: clipped}
	if r.Failed {
		e.Text, e.Error = "", said
	}
	if c := w.call(call); c != nil {
		c.over = true
	}
	w.rec.Add(e)
	w.state()
}

func (w *watchedSession) SessionClosed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec != nil {
		w.rec.Add(timeline.Event{Type: timeline.TypeClosed})
		w.rec.Change(func(s *timeline.Summary) { s.State, s.Questions = timeline.Ended, 0 })
	}
	w.o.end(w, w.rec)
}

// state writes down whether the turn waits for somebody. The caller holds mu, as
// in all that follows.
func (w *watchedSession) state() {
	state, questions := timeline.Running, len(w.questions)
	if questions+len(w.parked) > 0 {
		state = timeline.Waiting
	}
	if now := w.rec.Summary(); now.State != state || now.Questions != questions {
		w.rec.Change(func(s *timeline.Summary) { s.State, s.Questions = state, questions })
	}
}

// event translates an event of the engine's.
func (w *watchedSession) event(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		w.speak(e.Message)
		w.rec.Add(timeline.Event{Type: timeline.TypeText, Message: e.Message, Text: e.Text, Agent: w.name(e.AgentID)})
	case bridge.ReasoningDelta:
		w.rec.Add(timeline.Event{Type: timeline.TypeReasoning, Text: e.Text, Agent: w.name(e.AgentID)})
	case bridge.MessageDone:
		if e.Text != "" && !w.messages[e.Message] {
			w.speak(e.Message)
			w.rec.Add(timeline.Event{Type: timeline.TypeText, Message: e.Message, Text: e.Text, Agent: w.name(e.AgentID)})
		}
	case bridge.MessageRetracted:
		delete(w.messages, e.Message)
		w.rec.Add(timeline.Event{Type: timeline.TypeRetract, Message: e.Message})
	case bridge.ToolStarted:
		w.started(e.Call, w.name(e.AgentID))
	case bridge.ToolRequested:
		w.started(e.Call, "")
		w.parked[e.RequestID] = e.Call.ID
		w.state()
	case bridge.ToolProgress:
		w.rec.Add(timeline.Event{Type: timeline.TypeProgress, Call: e.CallID, Text: e.Text})
	case bridge.ToolFinished:
		w.finished(e)
	case bridge.InputAsked:
		w.ask(e.RequestID, e.Question.Text)
	case bridge.InputAnswered:
		w.answer(e.RequestID, timeline.Event{})
	case bridge.UsageReported:
		w.usage(e)
	case bridge.PlanChanged:
		w.rec.Add(timeline.Event{Type: timeline.TypePlan, Text: e.Text, Entries: e.Entries})
	case bridge.ModeChanged:
		w.rec.Add(timeline.Event{Type: timeline.TypeMode, Mode: e.Mode})
	case bridge.Notice:
		if e.AgentID != "" {
			w.names[e.AgentID] = e.Agent
		}
		w.rec.Add(timeline.Event{Type: timeline.TypeNotice, Level: e.Level, Text: e.Text})
	case bridge.ModelFailed:
		w.rec.Add(timeline.Event{Type: timeline.TypeNotice, Level: "warning", Text: fmt.Sprintf("a request to the model failed (attempt %d): %s", e.Attempt, e.Error.Error())})
	case bridge.Failed:
		w.rec.Add(timeline.Event{Type: timeline.TypeError, Code: string(e.Error.Code), Message: e.Error.Error(), Remedy: e.Error.Remedy})
	case bridge.TurnEnded:
		w.ended(e)
	default: // of no interest to those who watch
	}
}

// name is what a sub-agent is called, "" if there is none.
func (w *watchedSession) name(agent string) string { return cmp.Or(w.names[agent], agent) }

// speak notes that the model has said something.
func (w *watchedSession) speak(message string) {
	w.messages[message] = true
	if !w.spoke {
		w.spoke = true
		ms := time.Since(w.began).Milliseconds()
		w.rec.Change(func(s *timeline.Summary) { s.FirstWord = max(ms, 1) })
	}
}

func (w *watchedSession) usage(e bridge.UsageReported) {
	out := timeline.Event{Type: timeline.TypeUsage, Model: e.Usage.Model, InputTokens: e.Usage.InputTokens, OutputTokens: e.Usage.OutputTokens, Cost: e.Usage.Cost}
	if e.Call != nil {
		out.FirstWord = e.Call.FirstToken.Milliseconds()
	}
	w.rec.Add(out)
	w.rec.Change(func(s *timeline.Summary) {
		s.Usage = s.Usage.Add(e.Usage)
		s.Model = cmp.Or(s.Model, e.Usage.Model)
	})
}

func (w *watchedSession) ended(e bridge.TurnEnded) {
	if w.running--; w.running > 0 {
		return
	}
	for _, v := range w.verdicts {
		w.verdict(v)
	}
	w.verdicts, w.mask = nil, nil
	w.used = w.used.Add(e.Usage)
	total := w.used
	w.rec.Add(timeline.Event{Type: timeline.TypeEnd, Reason: string(e.Reason), MS: e.Duration.Milliseconds(), Usage: &e.Usage})
	w.rec.Change(func(s *timeline.Summary) {
		s.State, s.Questions, s.Usage = timeline.Idle, 0, total
		s.Model = cmp.Or(s.Model, total.Model)
	})
}

func (w *watchedSession) call(id string) *watchedCall {
	if i := slices.IndexFunc(w.calls, func(c *watchedCall) bool { return c.id == id }); i >= 0 {
		return w.calls[i]
	}
	return nil
}

// started notes a tool call, and the verdict about it if that came before.
func (w *watchedSession) started(c bridge.ToolCall, agent string) {
	if w.call(c.ID) != nil {
		return // it was called, and now its caller is asked
	}
	args, _ := w.o.redactor.Value(c.Args) // those of the caller's own tools are not masked
	data, err := json.Marshal(args)
	if err != nil || args == nil {
		data = nil
	}
	call := &watchedCall{id: c.ID, name: c.Name, args: string(data)}
	w.calls = append(w.calls, call)
	w.rec.Add(timeline.Event{Type: timeline.TypeTool, Call: c.ID, Name: c.Name, Args: data, Agent: agent, Server: c.Server})
	for i, v := range w.verdicts {
		if w.unjudged(v) == call {
			w.verdicts = slices.Delete(w.verdicts, i, i+1)
			w.judge(call, v)
			return
		}
	}
}

func (w *watchedSession) finished(e bridge.ToolFinished) {
	c := w.call(e.CallID)
	if c != nil {
		if c.over {
			return // its caller has told the result
		}
		c.over = true
		maps.DeleteFunc(w.parked, func(_, call string) bool { return call == c.id })
		w.state()
		if e.OK {
			for _, change := range c.changes {
				w.rec.Add(change)
			}
		}
		c.changes = nil
	}
	w.rec.Add(timeline.Event{Type: timeline.TypeResult, Call: e.CallID, OK: &e.OK, Text: e.Result, Error: e.Error, Code: e.Code, MS: e.Duration.Milliseconds()})
}

func (w *watchedSession) decided(v guard.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec == nil {
		return
	}
	c := w.unjudged(v)
	if v.Call.ID != "" {
		c = w.call(v.Call.ID)
	}
	if v.Change != nil && v.Decision.Verdict == bridge.Allow {
		w.change(c, v)
	}
	switch {
	case v.Repeated, c != nil && c.judged && c.allowed && v.Decision.Verdict == bridge.Allow:
		// Nothing new.
	case c != nil:
		w.judge(c, v)
	case v.Call.ID != "":
		w.verdict(v)
	default:
		w.verdicts = append(w.verdicts, v)
	}
}

// unjudged is the call that a verdict is about for which the runtime told no id.
func (w *watchedSession) unjudged(v guard.Verdict) (found *watchedCall) {
	args, _ := json.Marshal(v.Call.Args) // what cannot be encoded is compared by its name alone
	for _, c := range w.calls {
		if c.judged || c.over || c.name != v.Call.Name {
			continue
		}
		if c.args == string(args) {
			return c
		}
		found = cmp.Or(found, c)
	}
	return found
}

func (w *watchedSession) judge(c *watchedCall, v guard.Verdict) {
	c.judged, c.allowed = true, v.Decision.Verdict == bridge.Allow
	v.Call.ID = c.id
	w.verdict(v)
}

func (w *watchedSession) verdict(v guard.Verdict) {
	d := v.Decision
	w.rec.Add(timeline.Event{Type: timeline.TypeVerdict, Call: v.Call.ID, Tool: v.Call.Name, Verdict: d.Verdict.String(), Reason: d.Reason, Rule: d.Rule,
		By: d.Basis, Who: d.By, Confined: v.Confined, Grant: v.Grant})
}

// change notes what a call does to files. It is told when the call has succeeded.
func (w *watchedSession) change(c *watchedCall, v guard.Verdict) {
	r := v.Change
	if len(r.Paths) == 0 || r.Diff == "" {
		return
	}
	e := timeline.Event{Type: timeline.TypeDiff, Call: r.CallID, Path: r.Paths[0], Change: changeOf(r)}
	if rel, err := filepath.Rel(w.request.Spec.WorkingDir, e.Path); err == nil && filepath.IsLocal(rel) {
		e.Path = filepath.ToSlash(rel)
	}
	e.Diff = unified(e.Path, e.Change, r.Diff)
	if c == nil {
		w.rec.Add(e)
		return
	}
	c.changes = append(c.changes, e)
}

// changeOf is what a diff does to its file.
func changeOf(r *bridge.PermissionRequest) string {
	switch {
	case r.Native == "delete" || toNothing.MatchString(r.Diff):
		return "delete"
	case fromNothing.MatchString(r.Diff):
		return "add"
	}
	return "edit"
}

// The runtime writes /dev/null as if it were a file of the directory.
var (
	fromNothing = regexp.MustCompile(`(?m)^--- (?:a)?/dev/null$`)
	toNothing   = regexp.MustCompile(`(?m)^\+\+\+ (?:b)?/dev/null$`)
)

// unified is a diff with a head of the usual form. One without hunks stays as it
// is.
func unified(path, change, diff string) string {
	at := strings.Index(diff, "\n@@ ") + 1
	if at == 0 && !strings.HasPrefix(diff, "@@ ") {
		return strings.TrimLeft(diff, "\n")
	}
	from, to := "a/"+path, "b/"+path
	switch change {
	case "add":
		from = "/dev/null"
	case "delete":
		to = "/dev/null"
	}
	return "--- " + from + "\n+++ " + to + "\n" + diff[at:]
}

func (w *watchedSession) asked(id, lead string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec != nil {
		w.ask(id, lead)
	}
}

func (w *watchedSession) ask(id, lead string) {
	w.questions[id] = true
	w.rec.Add(timeline.Event{Type: timeline.TypeQuestion, Question: id, Lead: lead})
	w.state()
}

func (w *watchedSession) answered(id string, e timeline.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec != nil {
		w.answer(id, e)
	}
}

func (w *watchedSession) answer(id string, e timeline.Event) {
	if !w.questions[id] {
		return
	}
	delete(w.questions, id)
	e.Type, e.Question = timeline.TypeAnswered, id
	w.rec.Add(e)
	w.state()
}
