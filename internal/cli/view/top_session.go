package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// sessionPage is what one session does, as it happens.
type sessionPage struct {
	s      timeline.Summary
	from   int64 // where reading goes on; 0 for nothing read yet
	events []timeline.Event
	story  *story
	first  int
	room   int
	follow bool // the end stays in sight
	failed string
	stop   time.Time // when x was pressed for the first time
}

// maxEvents is how many events of a session are held.
const maxEvents = 5000

func (p *sessionPage) refresh(t *top) {
	if i := slices.IndexFunc(t.board.Sessions, func(s timeline.Summary) bool { return s.ID == p.s.ID && s.Process == p.s.Process }); i >= 0 {
		p.s = t.board.Sessions[i]
	}
	p.read(t)
}

// read takes what has been added to the timeline.
func (p *sessionPage) read(t *top) {
	from := p.from
	if p.story == nil && from == 0 {
		from = -1
	}
	for {
		events, next, err := t.o.Events(p.s, from)
		if err != nil {
			p.failed = approval.Visible(Shown(err).Error())
			return
		}
		p.failed = ""
		for _, e := range events {
			p.events = append(p.events, e)
			if p.story != nil {
				p.story.add(e)
			}
		}
		if len(p.events) > maxEvents {
			p.events = slices.Clone(p.events[len(p.events)-maxEvents/2:])
			p.story = nil // told anew
		}
		if len(events) == 0 || next == from {
			p.from = next
			return
		}
		p.from, from = next, next
	}
}

func (p *sessionPage) rows(t *top, columns, rows int) []liveLine {
	head := p.head(t, columns)
	if p.story == nil || p.story.columns != columns {
		p.story = newStory(t.s, columns, p.s.Dir)
		for _, e := range p.events {
			p.story.add(e)
		}
	}
	p.room = max(1, rows-len(head))
	all := slices.Concat(p.story.done, p.story.open)
	if p.failed != "" {
		all = append(all, liveLine{"! " + p.failed, t.s.yellow})
	}
	if p.follow {
		p.first = len(all)
	}
	out := window(all, &p.first, p.room)
	p.follow = p.first+len(out) >= len(all)
	return append(head, out...)
}

func (p *sessionPage) head(t *top, columns int) []liveLine {
	s := p.s
	title := s.Title
	if title == "" {
		title = s.ID
	}
	parts := []string{string(s.State)}
	for _, part := range []string{s.Door, s.Client, s.Model, Shorten(s.Dir, "", t.o.Home)} {
		if part != "" {
			parts = append(parts, approval.Visible(part))
		}
	}
	age := Age(t.now().Sub(s.Started))
	if over(s) {
		age = Age(t.now().Sub(s.Changed)) + " ago"
	}
	parts = append(parts, age, Count(s.Usage.InputTokens)+" tokens in, "+Count(s.Usage.OutputTokens)+" out")
	parts = append(parts, spent(s.Usage)...)
	if s.Answers != "" {
		parts = append(parts, approval.Visible(s.Answers))
	}
	return []liveLine{{approval.Visible(title), t.s.bold}, {strings.Join(parts, " · "), t.s.dim}, {strings.Repeat("─", columns), t.s.dim}}
}

// question is the session's oldest open question.
func (p *sessionPage) question(t *top) (live.Question, bool) {
	i := slices.IndexFunc(t.board.Approvals, func(q live.Question) bool { return q.Session == p.s.ID && q.Process == p.s.Process })
	if i < 0 {
		return live.Question{}, false
	}
	return t.board.Approvals[i], true
}

func (p *sessionPage) resumable() bool { return over(p.s) && p.s.Profile == bridge.ProfileAgent }

func (p *sessionPage) busy() bool {
	return p.s.State == timeline.Running || p.s.State == timeline.Waiting
}

// takesMessages says whether the session can be told something: a chat hears
// its client alone.
func (p *sessionPage) takesMessages(t *top) bool {
	return t.o.Order != nil && !over(p.s) && p.s.Profile != bridge.ProfileChat
}

func (p *sessionPage) keys(t *top) string {
	words := []string{}
	if q, asked := p.question(t); asked {
		words = append(words, "Enter: "+Fit(approval.Visible(q.Lead), 40))
	}
	switch {
	case t.o.Order == nil && !over(p.s):
		words = append(words, t.o.Why)
	case p.resumable():
		words = append(words, "r resume")
	case p.busy():
		words = append(words, "x stop")
	}
	if p.takesMessages(t) {
		words = append(words, "m message")
	}
	if !p.follow {
		words = append(words, "End follow")
	}
	return strings.Join(append(words, "↑↓ scroll", "q back"), "  ")
}

// stopAgain is within which time x must be pressed again.
const stopAgain = 3 * time.Second

func (p *sessionPage) press(t *top, k key) {
	if scroll(k, &p.first, p.room) {
		p.follow = k.code == keyEnd
		return
	}
	switch {
	case k.code == keyEnter:
		if q, asked := p.question(t); asked {
			t.open(&questionPage{q: q})
		}
	case k.is("r") && p.resumable():
		t.resume, t.left = p.s.ID, true
	case t.o.Order == nil || over(p.s):
	case k.is("x") && p.busy() && t.now().Sub(p.stop) > stopAgain:
		p.stop = t.now()
		t.say("x again stops the turn")
	case k.is("x") && p.busy():
		p.stop = time.Time{}
		t.do("the turn was stopped", p.order(t, live.Order{Kind: live.OrderStop}))
	case k.is("m") && p.takesMessages(t):
		p.message(t, live.ModeSteer)
	}
}

// message has the person type one for the session.
func (p *sessionPage) message(t *top, mode string) {
	line := &typing{}
	say := func() {
		line.prompt = "into the turn (Tab: after it)> "
		if mode == live.ModeQueue {
			line.prompt = "after the turn (Tab: into it)> "
		}
		if p.s.State == timeline.Idle {
			line.prompt = "message> "
		}
	}
	line.tab = func() {
		mode = map[string]string{live.ModeSteer: live.ModeQueue, live.ModeQueue: live.ModeSteer}[mode]
		say()
	}
	line.enter = func(text string) {
		if text != "" {
			t.do("sent", p.order(t, live.Order{Kind: live.OrderSend, Text: text, Mode: mode}))
		}
	}
	say()
	t.typing = line
}

func (p *sessionPage) order(t *top, o live.Order) func(context.Context) error {
	s := p.s
	o.Session, o.By = s.ID, byTop
	return func(ctx context.Context) error { return t.o.Order(ctx, s, o) }
}

// story is a timeline in rows. Those that are done do not change any more; the
// open ones are the end of a text that still comes.
type story struct {
	s       style
	columns int
	dir     string
	done    []liveLine
	open    []liveLine
	page    *markdown // of the text that still comes
	paint   func(string) string
	of      string            // which text that is
	calls   map[string]string // what each tool call does
	printed map[string]int    // rows of its output
}

const (
	maxDiff    = 60 // lines of one that are shown
	maxPrinted = 60 // and of what one command prints
)

func newStory(s style, columns int, dir string) *story {
	return &story{s: s, columns: columns, dir: dir, calls: map[string]string{}, printed: map[string]int{}}
}

// line adds a text that is already visible.
func (y *story) line(text string, paint func(string) string) {
	y.finish()
	for i, row := range rowsOf(text, y.columns-2) {
		if i > 0 {
			row = "  " + row
		}
		y.done = append(y.done, liveLine{row, paint})
	}
}

// finish ends the text that still comes.
func (y *story) finish() {
	if y.page == nil {
		return
	}
	rest := y.page.end()
	y.page, y.open = nil, nil
	y.settled(rest)
}

func (y *story) settled(rows string) {
	for row := range strings.Lines(rows) {
		y.done = append(y.done, y.row(strings.TrimSuffix(row, "\n")))
	}
}

func (y *story) row(row string) liveLine {
	if y.paint != nil {
		return liveLine{row, y.paint}
	}
	return painted(row)
}

// text adds a piece of a text.
func (y *story) text(of, piece string, dim bool) {
	if y.page == nil || y.of != of {
		y.finish()
		y.of, y.paint = of, nil
		y.page = &markdown{s: y.s, width: func() int { return y.columns }}
		if dim {
			y.paint, y.page.s = y.s.dim, style{}
		}
	}
	y.settled(y.page.add(piece))
	y.open = nil
	for _, row := range y.page.unfinished() {
		y.open = append(y.open, y.row(row))
	}
}

// add tells one event.
func (y *story) add(e timeline.Event) {
	who := ""
	if e.Agent != "" {
		who = approval.Visible(e.Agent) + ": "
	}
	switch e.Type {
	case timeline.TypeText:
		y.text("text "+e.Agent+" "+e.Message, e.Text, e.Agent != "")
	case timeline.TypeReasoning:
		y.text("reasoning "+e.Agent, e.Text, true)
	case timeline.TypePrompt:
		by := ""
		if e.By != "" {
			by = " (" + approval.Visible(e.By) + ")"
		}
		if y.finish(); len(y.done) > 0 {
			y.done = append(y.done, liveLine{})
		}
		y.line("> "+Harmless(e.Text)+by, y.s.bold)
	case timeline.TypeRetract:
		y.line("! the answer above was cut off; it is repeated", y.s.yellow)
	case timeline.TypeTool:
		y.calls[e.Call] = who + callText(e, y.dir)
		y.line(marks[running]+" "+y.calls[e.Call], nil)
	case timeline.TypeProgress:
		y.progress(e)
	case timeline.TypeResult:
		y.result(e)
	case timeline.TypeVerdict:
		y.verdict(e)
	case timeline.TypeQuestion:
		y.line("? "+approval.Visible(e.Lead), y.s.yellow)
	case timeline.TypeAnswered:
		y.line("  → "+approval.Visible(answeredText(e)), y.s.yellow)
	case timeline.TypeDiff:
		y.diff(e)
	case timeline.TypePlan:
		y.plan(e)
	case timeline.TypeMode:
		y.line("· mode "+approval.Visible(e.Mode), y.s.dim)
	case timeline.TypeNotice:
		y.line("· "+Harmless(e.Text), y.s.dim)
	case timeline.TypeError:
		text := "✗ " + Harmless(e.Message)
		if e.Remedy != "" {
			text += "\n→ " + advice(e.Remedy)
		}
		y.line(text, y.s.red)
	case timeline.TypeEnd:
		y.line(fmt.Sprintf("— %s after %s", approval.Visible(e.Reason), Duration(ms(e.MS))), y.s.dim)
	case timeline.TypeClosed:
		y.line("— closed", y.s.dim)
	case timeline.TypeGap:
		y.line(fmt.Sprintf("— %d events are missing here", e.Count), y.s.dim)
	case timeline.TypeFull:
		y.line("— the timeline is full; what came after is not in it", y.s.dim)
	default: // what is used stands above; a turn begins with its prompt
	}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// callText is a tool call on one line.
func callText(e timeline.Event, dir string) string {
	call := bridge.ToolCall{ID: e.Call, Name: e.Name, Server: e.Server}
	_ = json.Unmarshal(e.Args, &call.Args) // without arguments it is known by its name
	return toolText(call, dir)
}

// progress adds whole lines of what a command prints.
func (y *story) progress(e timeline.Event) {
	for _, line := range lastLines(e.Text, maxPrinted) {
		if n := y.printed[e.Call]; n < maxPrinted {
			y.line("    "+line, y.s.dim)
		} else if n == maxPrinted {
			y.line("    …", y.s.dim)
		}
		y.printed[e.Call]++
	}
}

func (y *story) result(e timeline.Event) {
	ok := e.OK != nil && *e.OK
	end := toolEnd(bridge.ToolFinished{CallID: e.Call, OK: ok, Result: e.Text, Error: e.Error, Code: e.Code, Duration: ms(e.MS)}, "")
	name := y.calls[e.Call]
	if name == "" {
		name = approval.Visible(e.Name)
	}
	delete(y.calls, e.Call)
	y.line(marks[end.state]+" "+name+" ("+end.text+")", func(t string) string { return y.s.state(end.state, t) })
	if y.printed[e.Call] == 0 {
		for _, l := range end.tail {
			y.line("    "+l, y.s.dim)
		}
	}
	delete(y.printed, e.Call)
}

// verdict tells of a decision that is not just what the policy allows.
func (y *story) verdict(e timeline.Event) {
	why := approval.Visible(e.Reason)
	if e.Rule != "" {
		why += " (" + approval.Visible(e.Rule) + ")"
	}
	switch {
	case e.Verdict == bridge.Deny.String():
		y.line("✗ "+approval.Visible(e.Tool)+" was denied: "+why, y.s.red)
	case e.By != "" && e.By != "policy":
		y.line("  allowed by "+approval.Visible(e.By), y.s.dim)
	}
}

// answeredText is how a question was answered.
func answeredText(e timeline.Event) string {
	text := e.Reason
	switch {
	case e.Answer == bridge.Deny.String() && text != "":
		text = "denied: " + text
	case e.Answer == bridge.Deny.String():
		text = "denied"
	case text == "":
		text = "answered"
	}
	if e.By != "" {
		text += " (" + e.By + ")"
	}
	return text
}

func (y *story) diff(e timeline.Event) {
	y.line("± "+approval.Visible(Shorten(e.Path, y.dir, ""))+" ("+approval.Visible(e.Change)+")", y.s.bold)
	lines := strings.Split(strings.TrimRight(e.Diff, "\n"), "\n")
	for _, line := range lines[:min(len(lines), maxDiff)] {
		line = approval.Visible(strings.ReplaceAll(line, "\t", "    "))
		y.line("    "+line, y.s.diff(line))
	}
	if more := len(lines) - maxDiff; more > 0 {
		y.line(fmt.Sprintf("    … %d more lines", more), y.s.dim)
	}
}

func (y *story) plan(e timeline.Event) {
	if e.Text != "" {
		y.line("· the plan: "+Harmless(e.Text), y.s.dim)
	}
	for _, entry := range e.Entries {
		y.line("    "+approval.Visible(string(entry.Status)+" "+entry.Text), y.s.dim)
	}
}
