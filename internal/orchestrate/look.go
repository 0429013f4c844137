package orchestrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Looked is a run as its journal tells it, of whatever process and whether it is
// still going on or not. It does not change.
type Looked struct {
	Meta
	State string // running, interrupted or finished
	// Plan is nil as long as there is none, and Tasks are in its order.
	Plan    *TaskPlan
	Tasks   []LookedTask
	Begun   time.Time // when it was started, or resumed last
	Ended   time.Time // when something happened last; zero while it goes on
	Notices []string
	Outcome *Result // nil before it was finished
}

// LookedTask is a task of such a run.
type LookedTask struct {
	TaskResult
	Place
	Doing string // the present step
	Ended time.Time
}

// Looker reads runs. It remembers what it has read, so that looking again costs
// little; methods may be called concurrently.
type Looker struct {
	home string

	mu   sync.Mutex
	runs map[string]*looking
}

// NewLooker looks at the runs of a home.
func NewLooker(home string) *Looker { return &Looker{home: home, runs: map[string]*looking{}} }

// looking is how far a run's journal was read, and what it says.
type looking struct {
	read  int64
	last  Looked
	index map[string]int // of the tasks, by id
}

// List returns the newest runs, the newest first.
func (l *Looker) List(limit int) ([]Looked, error) {
	entries, err := os.ReadDir(RunsDir(l.home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Ids begin with the second in which the run began, and those of one second are in
	// no order: all of it are looked at before the list is cut.
	slices.Reverse(entries)
	l.mu.Lock()
	defer l.mu.Unlock()
	out, present := []Looked{}, map[string]bool{}
	for _, e := range entries {
		if n := len(out); limit >= 0 && n >= limit && (n == 0 || secondOf(e.Name()) != secondOf(out[n-1].ID)) {
			break
		}
		r, err := l.look(e.Name())
		if err != nil {
			continue // not a run, or one that cannot be read
		}
		present[e.Name()] = true
		out = append(out, r)
	}
	maps.DeleteFunc(l.runs, func(id string, _ *looking) bool { return !present[id] })
	slices.SortStableFunc(out, func(a, b Looked) int { return b.Created.Compare(a.Created) })
	if limit >= 0 {
		out = out[:min(limit, len(out))]
	}
	return out, nil
}

// secondOf is an id without what is random in it.
func secondOf(id string) string { return id[:max(strings.LastIndexByte(id, '-'), 0)] }

// Look returns one run.
func (l *Looker) Look(id string) (Looked, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.look(id)
}

// look brings what is known of a run up to date; mu is held.
func (l *Looker) look(id string) (Looked, error) {
	dir := filepath.Join(RunsDir(l.home), id)
	if id != filepath.Base(dir) {
		return Looked{}, noRun(id)
	}
	at := l.runs[id]
	if at == nil {
		m, err := readMeta(dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = noRun(id)
		}
		if err != nil {
			return Looked{}, err
		}
		at = &looking{last: Looked{Meta: m}}
		l.runs[id] = at
	}
	events := filepath.Join(dir, "events.jsonl")
	// The lock before the journal, so that the journal of a run that has ended is
	// read to its end. One that is not going on and has not grown need not be tried.
	info, err := os.Stat(events)
	runs := (err != nil || at.last.State == "" || at.last.State == StateRunning || info.Size() != at.read) && goesOn(l.home, id)
	if err != nil || info.Size() != at.read {
		err = at.follow(events)
	}
	if err != nil {
		delete(l.runs, id)
		return Looked{}, err
	}
	if at.last.State = StateRunning; !runs {
		at.last.State = stateAfter(l.home, id, at.last.Outcome)
	}
	out := at.last
	out.Tasks, out.Notices = slices.Clone(out.Tasks), slices.Clone(out.Notices)
	if runs {
		out.Ended = time.Time{}
		return out, nil
	}
	for i := range out.Tasks {
		if t := &out.Tasks[i]; t.State == Running {
			t.State, t.Doing = Pending, "" // until the run is resumed
		}
	}
	return out, nil
}

// follow reads the lines that were added to a journal.
func (l *looking) follow(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if l.read > 0 {
			return noRun(l.last.ID) // not any more
		}
		return nil // it has just begun
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() < l.read: // the end was cut off when it was resumed
		*l = looking{last: Looked{Meta: l.last.Meta}}
	}
	if info.Size()-l.read > maxEvents {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the journal of the run is larger than anything we write", Remedy: "start the task anew"}
	}
	data, err := io.ReadAll(io.NewSectionReader(f, l.read, info.Size()-l.read))
	if err != nil {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return nil // it is being written
		}
		var e Event
		if json.Unmarshal(line, &e) == nil {
			l.add(e)
		}
		l.read += int64(len(line)) + 1
		data = rest
	}
}

// maxNotices bounds the notices of a run that are kept.
const maxNotices = 50

func (l *looking) add(e Event) {
	r := &l.last
	r.Ended = e.Time
	t := &LookedTask{} // of no task
	if i, known := l.index[e.Task]; known {
		t = &r.Tasks[i]
	}
	switch e.Type {
	case RunStarted:
		r.Begun, r.Outcome = e.Time, nil
		for i := range r.Tasks {
			if t := &r.Tasks[i]; t.State != Done {
				*t = LookedTask{TaskResult: TaskResult{ID: t.ID, State: Pending, Wave: t.Wave}}
			}
		}
	case PlanReady:
		l.plan(e.Plan)
	case TaskStarted:
		if t.Started.IsZero() {
			t.Started = e.Time
		}
		t.State, t.Wave, t.Attempts, t.Doing, t.Place = Running, e.Wave, e.Attempt, "", Place{}
	case TaskProgress:
		t.Doing = e.Text
		if e.Usage != nil {
			t.Usage = *e.Usage
		}
		if e.At != nil {
			t.Place = *e.At
		}
	case TaskRetry:
		t.State, t.Error, t.Doing = Pending, e.Error, ""
	case TaskCompleted, TaskSkipped:
		if e.Result != nil {
			t.TaskResult, t.Doing, t.Ended = *e.Result, "", e.Time
			t.Session = cmp.Or(e.Result.Session, t.Session)
			t.Worker = cmp.Or(e.Result.Worker, t.Worker)
		}
	case Conflicted:
		if c := e.Conflict; c != nil {
			l.notice("conflict in " + strings.Join(c.Paths, ", ") + map[bool]string{true: ", resolved", false: ": " + c.Message}[c.Resolved])
		}
	case Noticed:
		l.notice(e.Text)
	case PlanCompleted:
		r.Outcome = e.Outcome
		if e.Outcome == nil {
			return
		}
		for _, done := range e.Outcome.Tasks { // what the end has made of them
			if i, known := l.index[done.ID]; known {
				r.Tasks[i].TaskResult = done
			}
		}
	case Joined, MergeStarted, MergeDone:
	}
}

func (l *looking) plan(p *TaskPlan) {
	if p == nil || l.last.Plan != nil {
		return
	}
	l.last.Plan, l.index = p, make(map[string]int, len(p.Tasks))
	for i, t := range p.Tasks {
		l.index[t.ID] = i
		l.last.Tasks = append(l.last.Tasks, LookedTask{TaskResult: TaskResult{ID: t.ID, State: Pending}})
	}
	if g, err := newGraph(*p); err == nil {
		for i := range l.last.Tasks {
			l.last.Tasks[i].Wave = g.wave[i]
		}
	}
}

func (l *looking) notice(text string) {
	if len(l.last.Notices) < maxNotices {
		l.last.Notices = append(l.last.Notices, text)
	}
}
