package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

const (
	// batch is how long events wait for others, to be written together.
	batch = 50 * time.Millisecond
	// queueMost bounds what waits to be written, over all sessions. Beyond it
	// events are counted and not kept.
	queueMost = 8 << 20
	// fileMost bounds a timeline.
	fileMost = 64 << 20
	// eventCost is what an event takes besides its texts, roughly.
	eventCost = 256
)

// Writer writes the timelines of a process, on one goroutine. Its methods and
// those of its recorders may be called concurrently. They never wait for the
// disk.
type Writer struct {
	log  *slog.Logger
	wake chan struct{} // has room for one
	done chan struct{} // closed when the goroutine has ended
	stop chan struct{} // closed by Close

	mu     sync.Mutex
	dirty  []*Recorder
	queued int // bytes in all recorders' queues
	closed bool
	failed bool // an error of the disk was logged
}

// NewWriter starts a writer. Whoever calls it calls Close.
func NewWriter(log *slog.Logger) *Writer {
	w := &Writer{log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), stop: make(chan struct{})}
	go w.run()
	return w
}

// Close writes what is queued and ends the writer. It waits as long as the
// context allows. What comes later is ignored.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
	}
	w.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *Writer) run() {
	defer close(w.done)
	timer := time.NewTimer(batch)
	defer timer.Stop()
	for {
		select {
		case <-w.wake:
			timer.Reset(batch)
			select {
			case <-timer.C:
			case <-w.stop:
			}
		case <-w.stop:
			w.flush()
			return
		}
		w.flush()
	}
}

// flush writes what is queued.
func (w *Writer) flush() {
	w.mu.Lock()
	dirty := w.dirty
	w.dirty = nil
	w.mu.Unlock()
	for _, r := range dirty {
		if err := r.write(); err != nil {
			w.mu.Lock()
			first := !w.failed
			w.failed = true
			w.mu.Unlock()
			if first {
				w.log.Warn("timelines.not_written", "session", r.session, "error", err)
			}
		}
	}
}

// Recorder writes one session's timeline.
type Recorder struct {
	w       *Writer
	session string
	store   *Store

	// Guarded by w.mu.
	queue   []queued
	size    int // of the queue
	gap     int // events that were not kept
	summary Summary
	changed bool // the summary was not written yet
	discard bool // the files are to be removed
	listed  bool // among the dirty

	// Used by the writer's goroutine alone.
	opened  bool
	earlier Summary // of the same session in another process
	written int64
	torn    bool // the file does not end with a whole line
	full    bool
}

// queued is an event that waits, and the pieces of text that were added to it.
type queued struct {
	Event
	more []byte
}

// Record begins or goes on with a session's timeline.
func (w *Writer) Record(s *Store, sum Summary) *Recorder {
	r := &Recorder{w: w, session: sum.ID, store: s, summary: sum}
	r.Change(func(*Summary) {})
	return r
}

// Session is the id of the recorder's session.
func (r *Recorder) Session() string { return r.session }

// Summary is what is known of the session in this process.
func (r *Recorder) Summary() Summary {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.summary
}

// Change changes the summary. The function must not wait.
func (r *Recorder) Change(f func(*Summary)) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	f(&r.summary)
	r.summary.Changed = time.Now()
	r.changed = true
	r.list()
}

// Discard removes the timeline. Nothing may be added afterwards.
func (r *Recorder) Discard() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.discard = true
	r.list()
}

// list has the writer look at the recorder. The caller holds w.mu.
func (r *Recorder) list() {
	if r.listed || r.w.closed {
		return
	}
	r.listed = true
	r.w.dirty = append(r.w.dirty, r)
	select {
	case r.w.wake <- struct{}{}:
	default: // it is awake
	}
}

// Add adds an event. It sets the time where there is none, and clips what is too
// long. Pieces of one text that wait together become one event.
func (r *Recorder) Add(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.clip()
	size := e.size()
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.w.closed {
		return
	}
	switch last := r.last(); {
	case r.w.queued+size > queueMost:
		r.gap++
	case last != nil && last.joins(&e):
		last.more = append(last.more, e.Text...)
		r.size += len(e.Text)
		r.w.queued += len(e.Text)
	default:
		r.queue = append(r.queue, queued{Event: e})
		r.size += size
		r.w.queued += size
	}
	r.list()
}

// last is the last event that waits, or nil. An event that is missing after it
// parts it from what follows.
func (r *Recorder) last() *queued {
	if len(r.queue) == 0 || r.gap > 0 {
		return nil
	}
	return &r.queue[len(r.queue)-1]
}

// joins says whether an event is the next piece of the same text.
func (q *queued) joins(e *Event) bool {
	piece := e.Type == TypeText || e.Type == TypeReasoning || e.Type == TypeProgress
	return piece && q.Type == e.Type && q.Message == e.Message && q.Agent == e.Agent && q.Call == e.Call &&
		q.Clipped == 0 && e.Clipped == 0 && len(q.Text)+len(q.more)+len(e.Text) <= Most
}

// size is about what the event takes.
func (e *Event) size() int {
	return eventCost + len(e.Text) + len(e.Args) + len(e.Error) + len(e.Diff) + len(e.Message) + len(e.Reason) + len(e.Lead)
}

// take hands the recorder's queue to the writer. A gap comes last: what was not
// kept came after what was.
func (r *Recorder) take() (events []queued, sum Summary, changed bool) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	events, sum, changed = r.queue, r.summary, r.changed
	if r.gap > 0 {
		events = append(events, queued{Event: Event{At: time.Now(), Type: TypeGap, Count: r.gap}})
	}
	r.w.queued -= r.size
	r.queue, r.size, r.gap, r.changed, r.listed = nil, 0, 0, false, false
	return events, sum, changed
}

// write writes what waits.
func (r *Recorder) write() error {
	if err := r.open(); err != nil {
		r.lose()
		return err
	}
	events, sum, changed := r.take()
	if r.discarded() {
		return r.store.Remove(r.session)
	}
	err := r.append(events)
	if !changed && err == nil {
		return nil
	}
	return errors.Join(err, r.describe(sum))
}

func (r *Recorder) discarded() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.discard
}

// lose counts what waits as lost, because the disk does not take it.
func (r *Recorder) lose() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.gap += len(r.queue)
	r.w.queued -= r.size
	r.queue, r.size, r.listed = nil, 0, false
}

// open looks at what there is of the session already.
func (r *Recorder) open() error {
	if r.opened {
		return nil
	}
	if err := os.MkdirAll(r.store.dir, 0o700); err != nil {
		return err
	}
	earlier, err := r.store.Summary(r.session)
	if err == nil {
		r.earlier = earlier
	}
	f, size, err := r.store.open(r.session)
	if f != nil {
		r.written, r.torn = size, size > 0 && !endsLine(f, size)
		_ = f.Close() // it was read
	} else if err != nil && bridge.CodeOf(err) != bridge.CodeNotFound {
		return err
	}
	r.opened = true
	return nil
}

// append adds events to the file.
func (r *Recorder) append(events []queued) error {
	if len(events) == 0 || r.full {
		return nil
	}
	data := r.encode(events)
	f, err := os.OpenFile(r.store.base(r.session)+eventsSuffix, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		var n int
		n, err = f.Write(data)
		r.written += int64(n)
		r.torn = n > 0 && data[n-1] != '\n' || n == 0 && r.torn
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.w.mu.Lock()
		r.gap += len(events)
		r.w.mu.Unlock()
	}
	return err
}

// encode returns events as lines, as far as the file may grow.
func (r *Recorder) encode(events []queued) []byte {
	var out bytes.Buffer
	if r.torn {
		out.WriteByte('\n')
	}
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i := range events {
		e := &events[i]
		if r.written+int64(out.Len()) > fileMost {
			r.full = true
			e = &queued{Event: Event{At: e.At, Type: TypeFull}}
		}
		if len(e.more) > 0 {
			e.Text += string(e.more)
		}
		if err := enc.Encode(&e.Event); err != nil {
			// Only arguments that are no JSON can be at fault.
			e.Args = nil
			_ = enc.Encode(&e.Event)
		}
		if r.full {
			break
		}
	}
	return out.Bytes()
}

// describe writes the summary.
func (r *Recorder) describe(sum Summary) error {
	if old := r.earlier; !old.Started.IsZero() {
		sum.Started = old.Started
		sum.Turns += old.Turns
		sum.Usage = old.Usage.Add(sum.Usage)
		if sum.Title == "" {
			sum.Title = old.Title
		}
	}
	sum.Size = r.written
	data, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	return durable.Replace(r.store.base(r.session)+summarySuffix, append(data, '\n'), 0o600)
}
