package toolbus

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Hub puts questions of consent to the connections that have subscribed: an
// approval.Asker. Its methods may be called concurrently; the zero value is
// ready to use.
type Hub struct {
	mu   sync.Mutex
	subs map[*conn]transport
	open map[string]*question
}

// Approval is a question as clients see it.
type Approval struct {
	ID      string                `json:"id"`
	Summary string                `json:"summary"` // one line
	Detail  string                `json:"detail,omitempty"`
	Kind    bridge.PermissionKind `json:"kind"`
}

type closedParams struct {
	ID     string `json:"id" jsonschema:"that of the question"`
	Reason string `json:"reason" jsonschema:"answered, or expired: nobody waits for the answer any more"`
}

// question waits for its first answer. It is closed, and by and said are set,
// under the hub's mutex.
type question struct {
	Approval
	done chan struct{}
	by   *conn // nil if all who could answer have left
	said approval.Answer
}

// Ask implements approval.Asker. If nobody has subscribed, or those who have
// leave, it refuses as approval.Nobody does.
func (h *Hub) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	asked := &question{done: make(chan struct{}),
		Approval: Approval{ID: rand.Text(), Summary: q.Summary, Detail: q.Detail, Kind: q.Request.Kind}}
	message, err := notification("bridge.approval.requested", asked.Approval)
	if err != nil {
		return approval.No, err
	}
	h.mu.Lock()
	if len(h.subs) == 0 {
		h.mu.Unlock()
		return approval.Nobody{}.Ask(ctx, q)
	}
	if h.open == nil {
		h.open = map[string]*question{}
	}
	h.open[asked.ID] = asked
	// A client that is slow to read holds up nobody else.
	telling, enough := context.WithCancel(ctx)
	var told sync.WaitGroup
	for _, to := range h.subs {
		// One that is gone leaves by itself.
		told.Go(func() { _ = to.send(telling, message) })
	}
	h.mu.Unlock()
	select {
	case <-asked.done:
	case <-ctx.Done():
	}
	enough()
	told.Wait()
	return h.settle(ctx, asked, q)
}

// settle takes a question back and tells those who need not answer it now.
func (h *Hub) settle(ctx context.Context, q *question, asked approval.Question) (approval.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, q.ID)
	closed := closedParams{ID: q.ID, Reason: "answered"}
	answered := false
	select {
	case <-q.done:
		answered = true
	default:
		closed.Reason = "expired"
	}
	if message, err := notification("bridge.approval.closed", closed); err == nil {
		for c, to := range h.subs {
			if c != q.by {
				to.offer(message)
			}
		}
	}
	switch {
	case !answered:
		return approval.No, ctx.Err()
	case q.by == nil:
		return approval.Nobody{}.Ask(ctx, asked)
	default:
		return q.said, nil
	}
}

// answer gives a question its answer, if it is the first.
func (h *Hub) answer(by *conn, id string, said approval.Answer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	q, ok := h.open[id]
	if !ok {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no such question, or it needs no answer any more"}
	}
	q.by, q.said = by, said
	delete(h.open, id)
	close(q.done)
	return nil
}

// subscribe has questions put to a connection from now on, and returns those
// that wait already. The last who leaves ends all of them.
func (h *Hub) subscribe(c *conn, to transport) (open []Approval, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[*conn]transport{}
	}
	h.subs[c] = to
	open = []Approval{}
	for _, q := range h.open {
		open = append(open, q.Approval)
	}
	return open, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, c)
		if len(h.subs) > 0 {
			return
		}
		for id, q := range h.open {
			delete(h.open, id)
			close(q.done)
		}
	}
}
