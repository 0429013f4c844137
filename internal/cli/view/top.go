package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/live"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
	"github.com/copilot-bridge/copilot-bridge/internal/usagelog"
)

// Board is what goes on in all processes of the bridge at one moment.
type Board struct {
	At        time.Time          `json:"at"`
	Approvals []live.Question    `json:"approvals"`
	Sessions  []timeline.Summary `json:"sessions"` // those that live first
	Runs      []TopRun           `json:"runs"`
	Today     usagelog.Record    `json:"today"` // what was used, in UTC
}

// TopRun is an orchestration.
type TopRun struct {
	ID      string    `json:"id"`
	Task    string    `json:"task"`
	Dir     string    `json:"dir"`
	State   string    `json:"state"`
	Started time.Time `json:"started"`
	Done    int       `json:"done"`
	Failed  int       `json:"failed,omitempty"`
	Total   int       `json:"total"`
}

// Text is the board for where nobody can press a key, cut to so many columns
// unless that is 0.
func (b Board) Text(columns int, home string) string {
	if columns <= 0 {
		columns = 120
	}
	t := newTop(TopOptions{Home: home}, style{})
	t.board, t.now = b, func() time.Time { return b.At }
	out := Fit(t.title(), columns) + "\n" + Fit(t.used(), columns) + "\n\n"
	for _, i := range t.items(columns) {
		out += strings.TrimRight(Fit(i.text, columns), " ") + "\n"
	}
	return out
}

// TopOptions are what Top shows, and how it does what the person wants.
type TopOptions struct {
	Board   func() (Board, error)
	Changed <-chan struct{} // the board may be another
	// Events reads a session's timeline from a place on, and says where it ended.
	// From -1 it begins near the end.
	Events func(s timeline.Summary, from int64) ([]timeline.Event, int64, error)
	// Answer and Order are nil where only looking is allowed; Why says why.
	Answer func(q live.Question, r live.Reply) error
	Gone   func(q live.Question) error // why a question is not open any more
	Order  func(ctx context.Context, s timeline.Summary, o live.Order) error
	Why    string
	Home   string // the user's, shown as ~
}

// Top shows a board on the whole terminal until the person leaves, or wants to
// resume a session, which it returns.
func Top(ctx context.Context, c *Console, o TopOptions) (resume string, err error) {
	s, err := openScreen(c)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	t := newTop(o, style{c.Colour && c.OutTTY})
	t.ctx, t.flush, t.crashed = ctx, s.flush, s.crashed
	defer func() {
		cancel()
		t.orders.Wait()
		s.close()
	}()
	defer s.crashed()
	t.refresh()
	return t.resume, s.run(ctx, t)
}

// top is the state of the screen. It draws nothing itself: see frame. All of it
// belongs to one goroutine; orders that are under way post what came of them.
type top struct {
	o   TopOptions
	s   style
	now func() time.Time

	board  Board
	cursor string // the item of the list that is chosen
	first  int    // of its rows that is shown
	pages  []page // what covers the list, the one in sight last
	typing *typing
	notice string // shown instead of the keys for a while, or until the next key
	told   time.Time
	resume string
	left   bool

	ctx     context.Context // of orders
	orders  sync.WaitGroup
	posts   chan func()
	flush   func() // forgets the keys that were typed ahead
	crashed func() // deferred by goroutines
}

// page covers the list.
type page interface {
	rows(t *top, columns, rows int) []liveLine
	press(t *top, k key)
	keys(t *top) string
	refresh(t *top)
}

// typing is a line under the person's hands.
type typing struct {
	editor
	prompt string
	enter  func(text string)
	tab    func() // may be nil
}

func newTop(o TopOptions, s style) *top {
	return &top{o: o, s: s, now: time.Now, posts: make(chan func(), 16), flush: func() {}, crashed: func() {}}
}

// refresh reads everything anew.
func (t *top) refresh() {
	b, err := t.o.Board()
	if err != nil {
		t.say("! " + approval.Visible(Shown(err).Error()))
		return
	}
	t.board = b
	if p := t.page(); p != nil {
		p.refresh(t)
	}
}

// page is the page in sight; nil for the list.
func (t *top) page() page {
	if len(t.pages) == 0 {
		return nil
	}
	return t.pages[len(t.pages)-1]
}

// open shows a page. What was typed before it was seen is no answer to it.
func (t *top) open(p page) {
	t.pages = append(t.pages, p)
	t.typing, t.notice = nil, ""
	t.flush()
	p.refresh(t)
}

func (t *top) back() {
	t.pages, t.typing = t.pages[:len(t.pages)-1], nil
	if p := t.page(); p != nil {
		p.refresh(t)
	}
}

// say shows a notice.
func (t *top) say(notice string) { t.notice, t.told = notice, t.now() }

// noticeFor is how long a notice is shown.
const noticeFor = 5 * time.Second

// tick follows what a session does. Who may only look is told of no changes.
func (t *top) tick() {
	if t.o.Answer == nil {
		t.refresh()
	}
	if t.now().Sub(t.told) > noticeFor {
		t.notice = ""
	}
	if p, ok := t.page().(*sessionPage); ok {
		p.read(t)
	}
}

// do runs something that may take a moment beside the screen.
func (t *top) do(said string, f func(context.Context) error) {
	t.say("…")
	t.orders.Go(func() {
		defer t.crashed()
		err := f(t.ctx)
		after := func() {
			t.refresh()
			if err != nil {
				said = "! " + approval.Visible(Shown(err).Error())
			}
			t.say(said)
		}
		select {
		case t.posts <- after:
		case <-t.ctx.Done(): // the person has left
		}
	})
}

// press does what a key asks for.
func (t *top) press(k key) (done bool) {
	t.notice = ""
	_, asked := t.page().(*questionPage) // which one key answers, and no text that was pasted
	if letters := []rune(k.text); k.code == keyText && len(letters) > 1 && t.typing == nil && !asked {
		return t.press(key{text: string(letters[:1])}) || t.press(key{text: string(letters[1:])})
	}
	switch {
	case k.code == keyInterrupt:
		return true
	case t.typing != nil:
		t.edit(k)
	case t.page() != nil && (k.is("q") || k.code == keyEscape || k.code == keyLeft):
		t.back()
	case t.page() != nil:
		t.page().press(t, k)
	case k.is("q") || k.code == keyEOF:
		return true
	default:
		t.choose(k)
	}
	return t.left
}

// is says whether a key is a letter that was typed alone.
func (k key) is(letter string) bool { return k.code == keyText && strings.EqualFold(k.text, letter) }

// edit gives a key to the line that is being typed.
func (t *top) edit(k key) {
	line := t.typing
	switch {
	case k.code == keyEscape:
		t.typing = nil
	case k.code == keyTab && line.tab != nil:
		line.tab()
	default:
		if text, ok := line.edit(k); ok {
			t.typing = nil
			line.enter(strings.TrimSpace(text))
		}
	}
}

// choose moves in the list, and opens what is chosen.
func (t *top) choose(k key) {
	items := t.items(80) // for their order, which does not depend on the columns
	at := t.chosen(items)
	step := 0
	switch {
	case k.code == keyUp || k.is("k"):
		step = -1
	case k.code == keyDown || k.is("j"):
		step = 1
	case k.code == keyPageUp:
		step = -10
	case k.code == keyPageDown:
		step = 10
	case k.code == keyHome:
		step = -len(items)
	case k.code == keyEnd:
		step = len(items)
	case (k.code == keyEnter || k.code == keyRight) && at >= 0 && items[at].open != nil:
		t.cursor = items[at].id
		items[at].open()
	}
	if step == 0 || at < 0 {
		return
	}
	ids := selectable(items)
	i := min(max(0, slices.Index(ids, items[at].id)+step), len(ids)-1)
	t.cursor = ids[i]
}

// item is a row of the list. Those with an id can be chosen.
type item struct {
	liveLine
	id   string
	open func()
}

func selectable(items []item) (ids []string) {
	for _, i := range items {
		if i.id != "" {
			ids = append(ids, i.id)
		}
	}
	return ids
}

// chosen is the item under the cursor, or the first one; -1 if there is none.
func (t *top) chosen(items []item) int {
	at := slices.IndexFunc(items, func(i item) bool { return i.id != "" && i.id == t.cursor })
	if at < 0 {
		at = slices.IndexFunc(items, func(i item) bool { return i.id != "" })
	}
	return at
}

// frame is the whole screen.
func (t *top) frame(columns, rows int) frame {
	var lines []liveLine
	columns, rows = max(columns, 20), max(rows, 4)
	bottom := t.bottom(columns)
	if room := rows - len(bottom.rows); t.page() != nil {
		lines = t.page().rows(t, columns, room)
	} else {
		lines = t.list(columns, room)
	}
	if t.typing == nil && t.notice == "" {
		bottom = t.bottom(columns) // some keys go by what is in sight
	}
	f := frame{cursor: bottom.cursor, y: rows - len(bottom.rows) + bottom.y, x: bottom.x}
	for i := range rows - len(bottom.rows) {
		if i >= len(lines) {
			f.rows = append(f.rows, "")
			continue
		}
		row := Fit(lines[i].text, columns)
		if lines[i].paint != nil {
			row = lines[i].paint(row)
		}
		f.rows = append(f.rows, row)
	}
	f.rows = append(f.rows, bottom.rows...)
	return f
}

// bottom is the line that is being typed, or what there is to say, or the keys.
func (t *top) bottom(columns int) frame {
	if line := t.typing; line != nil {
		rows, y, x := line.rows(line.prompt, columns-1)
		return frame{rows: rows, cursor: true, y: y, x: x}
	}
	if t.notice != "" {
		rows := rowsOf(t.notice, columns)
		return frame{rows: rows[:min(len(rows), 4)]}
	}
	keys := "↑↓ choose  Enter open  q leave"
	if t.page() != nil {
		keys = t.page().keys(t)
	}
	return frame{rows: []string{t.s.dim(Fit(keys, columns))}}
}

// list is the list as far as it fits, with what is chosen in sight.
func (t *top) list(columns, rows int) []liveLine {
	head := []liveLine{{t.title(), t.s.bold}, {t.used(), t.s.dim}}
	items, room := t.items(columns-2), max(1, rows-len(head))
	at := t.chosen(items)
	t.first = max(0, min(t.first, len(items)-room))
	if at >= 0 {
		t.first = min(max(t.first, at-room+1), at)
	}
	if at >= 0 && at < room { // then the headings above are in sight too
		t.first = 0
	}
	out := head
	for i, one := range items[t.first:min(len(items), t.first+room)] {
		mark := "  "
		if t.first+i == at {
			mark = "› "
		}
		out = append(out, liveLine{mark + one.text, one.paint})
	}
	return out
}

func (t *top) title() string {
	counts := map[string]int{}
	for _, s := range t.board.Sessions {
		counts[string(s.State)]++
	}
	parts := []string{"copilot-bridge"}
	for _, state := range []string{"waiting", "running", "idle"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if n := len(t.board.Approvals); n > 0 {
		parts = append(parts, text.Plural(n, "question")+" for you")
	}
	return strings.Join(parts, " · ")
}

// used is what was used today.
func (t *top) used() string {
	u := t.board.Today
	parts := []string{"today: " + text.Plural(u.Turns, "turn"), Count(u.InputTokens) + " tokens in, " + Count(u.OutputTokens) + " out"}
	return strings.Join(append(parts, spent(usageOf(u))...), " · ")
}

// items are all rows of the list.
func (t *top) items(columns int) (items []item) {
	heading := func(title string) {
		if len(items) > 0 {
			items = append(items, item{})
		}
		items = append(items, item{liveLine: liveLine{title, t.s.dim}})
	}
	if len(t.board.Approvals) > 0 {
		heading("QUESTIONS")
	}
	for _, q := range t.board.Approvals {
		items = append(items, t.questionItem(q, columns))
	}
	shape := columnsFor(columns)
	heading(shape.head())
	ended := false
	for _, s := range t.board.Sessions {
		if over(s) && !ended {
			heading("ENDED")
			ended = true
		}
		items = append(items, t.sessionItem(s, shape))
	}
	if len(t.board.Sessions) == 0 {
		items = append(items, item{liveLine: liveLine{"no session yet; start one with: copilot-bridge run, chat, serve …", t.s.dim}})
	}
	if len(t.board.Runs) > 0 {
		heading("ORCHESTRATIONS")
	}
	for _, r := range t.board.Runs {
		items = append(items, t.runItem(r, columns))
	}
	return items
}

// over says whether a session has ended.
func over(s timeline.Summary) bool {
	return s.State == timeline.Ended || s.State == timeline.Interrupted
}

func (t *top) questionItem(q live.Question, columns int) item {
	end := "  " + Age(t.now().Sub(q.Asked))
	if q.Door != "" {
		end = "  " + approval.Visible(q.Door) + end
	}
	lead := Fit("? "+approval.Visible(q.Lead), columns-cells(end))
	lead += strings.Repeat(" ", max(0, columns-cells(end)-cells(lead)))
	return item{liveLine: liveLine{lead + end, t.s.loud}, id: "question " + q.ID, open: func() { t.open(&questionPage{q: q}) }}
}

func (t *top) sessionItem(s timeline.Summary, shape shape) item {
	paint := map[timeline.State]func(string) string{timeline.Running: t.s.green, timeline.Waiting: t.s.yellow, timeline.Ended: t.s.dim, timeline.Interrupted: t.s.dim}[s.State]
	since := s.Started
	if over(s) {
		since = s.Changed
	}
	cost := strings.Join(spentShort(s.Usage), " ")
	row := shape.row(map[string]string{"STATE": string(s.State), "DOOR": s.Door, "CLIENT": s.Client, "MODEL": s.Model, "DIR": Shorten(s.Dir, "", t.o.Home),
		"AGE": Age(t.now().Sub(since)), "TOKENS": short(s.Usage.InputTokens + s.Usage.OutputTokens), "COST": cost, "TITLE": s.Title})
	return item{liveLine: liveLine{row, paint}, id: "session " + s.ID, open: func() { t.open(&sessionPage{s: s, follow: true}) }}
}

func (t *top) runItem(r TopRun, columns int) item {
	state := r.State
	if r.Total > 0 {
		state += fmt.Sprintf("  %s %d of %d", bar(r.Done, r.Total, 10), r.Done, r.Total)
	}
	if r.Failed > 0 {
		state += fmt.Sprintf(", %d failed", r.Failed)
	}
	return item{liveLine: liveLine{Fit(state+"  "+Age(t.now().Sub(r.Started))+"  "+approval.Visible(r.Task), columns), nil}, id: "run " + r.ID,
		open: func() {
			t.say("run " + r.ID + " in " + approval.Visible(Shorten(r.Dir, "", t.o.Home)) + ": " + approval.Visible(r.Task))
		}}
}

// bar is progress in so many columns.
func bar(done, total, columns int) string {
	full := done * columns / max(1, total)
	return strings.Repeat("━", full) + strings.Repeat("·", columns-full)
}
