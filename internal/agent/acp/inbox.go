package acp

import (
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// coalesceAbove is how much may wait before pieces of text are joined: a slow
// reader then costs memory by the byte, not by the piece. The inbox cannot
// simply block, since all sessions of a link are read in one loop.
const coalesceAbove = 512

// item is something that happened in a turn: an update of the agent's, or an
// event of our own making.
type item struct {
	update acpwire.Update
	event  bridge.Event
}

// turn is what Send reads from, in the order in which things happened.
type turn struct {
	mu    sync.Mutex
	queue []item
	ended bool
	resp  acpwire.PromptResponse
	err   error         // of the request
	fault error         // why we have ended it ourselves
	wake  chan struct{} // holds at most one token
}

func newTurn() *turn { return &turn{wake: make(chan struct{}, 1)} }

func (t *turn) push(it item) {
	t.mu.Lock()
	if !t.join(it) {
		t.queue = append(t.queue, it)
	}
	t.mu.Unlock()
	t.signal()
}

// join adds a piece of text to the one before it, if many wait.
func (t *turn) join(it item) bool {
	n := len(t.queue)
	next, ok := it.update.(*acpwire.Chunk)
	if n < coalesceAbove || !ok || next.Content.Type != acpwire.ContentText {
		return false
	}
	last, ok := t.queue[n-1].update.(*acpwire.Chunk)
	if !ok || last.Type != next.Type || last.MessageID != next.MessageID || last.Content.Type != acpwire.ContentText {
		return false
	}
	joined := *last
	joined.Content.Text += next.Content.Text
	t.queue[n-1].update = &joined
	return true
}

// end closes the turn with the agent's answer.
func (t *turn) end(resp acpwire.PromptResponse, err error) {
	t.mu.Lock()
	if !t.ended {
		t.ended, t.resp, t.err = true, resp, err
	}
	t.mu.Unlock()
	t.signal()
}

// fail remembers why the turn is being ended; the first reason counts.
func (t *turn) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault == nil {
		t.fault = err
	}
}

func (t *turn) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fault
}

func (t *turn) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns what has come and whether that is all.
func (t *turn) take() ([]item, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	items := t.queue
	t.queue = nil
	return items, t.ended
}
