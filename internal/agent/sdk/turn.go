package sdk

import (
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// coalesceAbove is how many events may wait before pieces of text are joined:
// a slow reader then costs memory by the byte, not by the event. The queue
// cannot simply block, since the SDK reads all sessions in one loop.
const coalesceAbove = 512

// turn is the queue between the SDK's event goroutine and Send's reader.
type turn struct {
	mu    sync.Mutex
	queue []bridge.Event
	spare []bridge.Event
	ended bool
	err   error
	abort bool          // the runtime says that it was aborted
	wake  chan struct{} // holds at most one token
	late  *time.Timer   // ends a turn whose last event was lost
}

func newTurn() *turn { return &turn{wake: make(chan struct{}, 1)} }

func (t *turn) push(ev bridge.Event) {
	t.mu.Lock()
	if n := len(t.queue); n >= coalesceAbove {
		if d, ok := ev.(bridge.TextDelta); ok {
			if last, ok := t.queue[n-1].(bridge.TextDelta); ok && last.Message == d.Message && last.AgentID == d.AgentID {
				last.Text += d.Text
				t.queue[n-1] = last
				t.mu.Unlock()
				return
			}
		}
	}
	t.queue = append(t.queue, ev)
	t.mu.Unlock()
	t.signal()
}

// end closes the queue; the first caller's word counts.
func (t *turn) end(aborted bool, err error) {
	t.mu.Lock()
	if !t.ended {
		t.ended, t.abort = true, aborted
		if t.err == nil {
			t.err = err
		}
	}
	t.mu.Unlock()
	t.signal()
}

// fail remembers why the turn will end; end follows.
func (t *turn) fail(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.mu.Unlock()
}

// endWithin ends the turn after d, and then calls f if there is one, unless it
// has ended by then; settle calls that off.
func (t *turn) endWithin(d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.late = time.AfterFunc(d, func() {
		if f != nil {
			f()
		}
		t.end(f != nil, nil)
	})
}

func (t *turn) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late != nil {
		t.late.Stop()
	}
}

func (t *turn) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns what has come and whether that is all. The slice is valid
// until the next call.
func (t *turn) take() (events []bridge.Event, ended, aborted bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	events = t.queue
	t.queue, t.spare = t.spare[:0], events
	return events, t.ended, t.abort, t.err
}
