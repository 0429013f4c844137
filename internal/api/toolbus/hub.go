package toolbus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Hub puts questions of consent to the connections that have subscribed: an
// approval.Asker. Its methods may be called concurrently; the zero value is
// ready to use.
type Hub struct {
	mu   sync.Mutex
	subs map[*conn]subscriber
	open map[string]*question
}

// subscriber is a connection that questions are put to: all of them, or those
// about its own requests.
type subscriber struct {
	to  transport
	own bool
}

// Approval is a question as clients see it.
type Approval struct {
	ID string `json:"id"`
	// Summary and Detail are all of what would happen, without secrets and
	// with every character visible. Says is what the model says of it.
	Summary string                `json:"summary" jsonschema:"one line that begins with what would happen"`
	Detail  string                `json:"detail,omitempty" jsonschema:"all that summary does not say; show it whole"`
	Says    string                `json:"says,omitempty" jsonschema:"what the model says of it, which may be untrue"`
	Kind    bridge.PermissionKind `json:"kind"`
	SHA256  string                `json:"sha256,omitempty" jsonschema:"of what would happen, secrets included"`
	// Rules would be written for an answer of always.
	Rules []string `json:"rules,omitempty" jsonschema:"the rules that would be written into the user's policy file if the answer is always; show them. Without any that answer is refused"`
	// Permission is the same for programs.
	Permission *bridge.PermissionRequest `json:"permission,omitempty" jsonschema:"the same for programs, without secrets"`
	// Request is the id of the request that it is about, if that is one of the
	// connection that is asked.
	Request json.RawMessage `json:"request,omitempty"`
}

type closedParams struct {
	ID     string `json:"id" jsonschema:"that of the question"`
	Reason string `json:"reason" jsonschema:"answered, or expired: the answer is not needed now"`
}

// question waits for its first answer. It is closed, and by and said are set,
// under the hub's mutex.
type question struct {
	Approval
	about *call // nil if it is about no request
	asked map[*conn]bool
	done  chan struct{}
	by    *conn // nil if all who could answer have left
	said  approval.Answer
}

// concerns says whether a question is put to a subscriber.
func (q *question) concerns(c *conn, s subscriber) bool {
	return !s.own || q.about != nil && q.about.conn == c
}

// as is the question as one connection sees it.
func (q *question) as(c *conn) Approval {
	a := q.Approval
	if q.about != nil && q.about.conn == c {
		a.Request = q.about.id
	}
	return a
}

// Hears says whether a subscriber would get a question about the request of ctx.
func (h *Hub) Hears(ctx context.Context) bool {
	q := &question{about: callOf(ctx)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, s := range h.subs {
		if q.concerns(c, s) {
			return true
		}
	}
	return false
}

// Ask implements approval.Asker. Without subscribers, or when the last one
// leaves, it refuses as approval.Nobody does.
func (h *Hub) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if _, _, err := q.Whole(approval.MaxShown); err != nil {
		return approval.No, err
	}
	asked := &question{done: make(chan struct{}), about: callOf(ctx), asked: map[*conn]bool{},
		Approval: Approval{ID: rand.Text(), Summary: approval.Visible(q.Summary), Detail: approval.Lines(q.Detail), Says: approval.Visible(q.Says),
			Kind: q.Request.Kind, SHA256: q.SHA256, Rules: q.Rules, Permission: &q.Request}}
	messages := map[transport][]byte{}
	h.mu.Lock()
	for c, s := range h.subs {
		if !asked.concerns(c, s) {
			continue
		}
		message, err := notification("bridge.approval.requested", asked.as(c))
		if err != nil {
			h.mu.Unlock()
			return approval.No, err
		}
		messages[s.to], asked.asked[c] = message, true
	}
	if len(messages) == 0 {
		h.mu.Unlock()
		return approval.Nobody{}.Ask(ctx, q)
	}
	if h.open == nil {
		h.open = map[string]*question{}
	}
	h.open[asked.ID] = asked
	// A client that is slow to read does not delay the others.
	telling, enough := context.WithCancel(ctx)
	var told sync.WaitGroup
	for to, message := range messages {
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
		for c := range q.asked {
			if s, ok := h.subs[c]; ok && c != q.by {
				s.to.offer(message)
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
// One that names what it is for must name this.
func (h *Hub) answer(by *conn, id, sum string, said approval.Answer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	q, ok := h.open[id]
	if !ok {
		return &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no such question, or it needs no answer any more"}
	}
	if sum != "" && sum != q.SHA256 {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the answer is for something else than the question", Remedy: "give the question's own sha256, or none"}
	}
	if said == approval.Always && len(q.Rules) == 0 {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "no rule can be written for this question", Remedy: "answer once, session or no"}
	}
	q.by, q.said = by, said
	delete(h.open, id)
	close(q.done)
	return nil
}

// subscribe has questions put to a connection from now on, all or those about
// its own requests, and returns those that wait already. A question ends when
// the last who could answer it leaves.
func (h *Hub) subscribe(c *conn, s subscriber) (open []Approval, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[*conn]subscriber{}
	}
	h.subs[c] = s
	open = []Approval{}
	for _, q := range h.open {
		if q.concerns(c, s) {
			q.asked[c] = true
			open = append(open, q.as(c))
		}
	}
	return open, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, c)
		for id, q := range h.open {
			delete(q.asked, c)
			if len(q.asked) == 0 {
				delete(h.open, id)
				close(q.done)
			}
		}
	}
}
