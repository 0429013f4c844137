package toolbus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// Hub puts questions to the connections that have subscribed: those of consent, as
// an approval.Asker, and those of agents, through Person. Its methods may be called concurrently; the zero value is
// ready to use.
type Hub struct {
	mu   sync.Mutex
	subs map[*conn]subscriber
	open map[string]*question
}

// subscriber is a connection that questions are put to: those of consent, all of
// them or those about its own requests, and also those of agents.
type subscriber struct {
	to     transport
	own    bool
	agents bool
}

// Approval is a question of consent as clients see it.
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

// question waits for its first answer. It is closed, and by and the answer are
// set, under the hub's mutex.
type question struct {
	Approval           // of consent
	agent    *Question // or an agent's, with the same id
	about    *call     // nil if it is about no request
	asked    map[*conn]bool
	done     chan struct{}
	by       *conn // nil if all who could answer have left
	said     approval.Consent
	reply    bridge.ElicitationAnswer // to an agent
}

// concerns says whether a question is put to a subscriber.
func (q *question) concerns(c *conn, s subscriber) bool {
	if q.agent != nil {
		return s.agents
	}
	return !s.own || q.about != nil && q.about.conn == c
}

// kind is part of the names of a question's messages.
func (q *question) kind() string {
	if q.agent != nil {
		return "question"
	}
	return "approval"
}

// as is a question of consent as one connection sees it.
func (q *question) as(c *conn) Approval {
	a := q.Approval
	if q.about != nil && q.about.conn == c {
		a.Request = q.about.id
	}
	return a
}

// message is the notification of a question.
func (q *question) message(c *conn) ([]byte, error) {
	if q.agent != nil {
		return notification("bridge.question.requested", q.agent)
	}
	return notification("bridge.approval.requested", q.as(c))
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
		return approval.Answer{}, err
	}
	asked := &question{about: callOf(ctx), Approval: Approval{Summary: approval.Visible(q.Summary), Detail: approval.Lines(q.Detail),
		Says: approval.Visible(q.Says), Kind: q.Request.Kind, SHA256: q.SHA256, Rules: q.Rules, Permission: &q.Request}}
	switch answered, err := h.put(ctx, asked); {
	case err != nil:
		return approval.Answer{}, err
	case !answered:
		return approval.Nobody{}.Ask(ctx, q)
	}
	return approval.Answer{Consent: asked.said, By: "tool bus client"}, nil
}

// put puts a question and waits for its answer. Without subscribers, or when the
// last one leaves, there is none.
func (h *Hub) put(ctx context.Context, q *question) (answered bool, err error) {
	q.ID, q.asked, q.done = rand.Text(), map[*conn]bool{}, make(chan struct{})
	if q.agent != nil {
		q.agent.ID = q.ID
	}
	messages := map[transport][]byte{}
	h.mu.Lock()
	for c, s := range h.subs {
		if !q.concerns(c, s) {
			continue
		}
		message, err := q.message(c)
		if err != nil {
			h.mu.Unlock()
			return false, err
		}
		messages[s.to], q.asked[c] = message, true
	}
	if len(messages) == 0 {
		h.mu.Unlock()
		return false, nil
	}
	if h.open == nil {
		h.open = map[string]*question{}
	}
	h.open[q.ID] = q
	// A client that is slow to read does not delay the others.
	telling, enough := context.WithCancel(ctx)
	var told sync.WaitGroup
	for to, message := range messages {
		// One that is gone leaves by itself.
		told.Go(func() { _ = to.send(telling, message) })
	}
	h.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	enough()
	told.Wait()
	return h.settle(ctx, q)
}

// settle takes a question back and tells those who need not answer it now.
func (h *Hub) settle(ctx context.Context, q *question) (answered bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, q.ID)
	closed := closedParams{ID: q.ID, Reason: "answered"}
	select {
	case <-q.done:
	default:
		if err = ctx.Err(); approval.Elsewhere(ctx) == nil {
			closed.Reason = "expired"
		}
	}
	if message, err := notification("bridge."+q.kind()+".closed", closed); err == nil {
		for c := range q.asked {
			if s, ok := h.subs[c]; ok && c != q.by {
				s.to.offer(message)
			}
		}
	}
	return q.by != nil, err
}

// find returns an open question of a kind. h.mu is held.
func (h *Hub) find(id string, agents bool) (*question, error) {
	q, ok := h.open[id]
	if !ok || (q.agent != nil) != agents {
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no such question, or it needs no answer any more"}
	}
	return q, nil
}

// answered ends the wait of a question. h.mu is held.
func (h *Hub) answered(q *question, by *conn) {
	q.by = by
	delete(h.open, q.ID)
	close(q.done)
}

// answer gives a question of consent its answer, if it is the first.
// One that names what it is for must name this.
func (h *Hub) answer(by *conn, id, sum string, said approval.Consent) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	q, err := h.find(id, false)
	if err != nil {
		return err
	}
	if sum != "" && sum != q.SHA256 {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the answer is for something else than the question", Remedy: "give the question's own sha256, or none"}
	}
	if said == approval.Always && len(q.Rules) == 0 {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "no rule can be written for this question", Remedy: "answer once, session or no"}
	}
	q.said = said
	h.answered(q, by)
	return nil
}

// subscribe has questions put to a connection from now on, all or those about
// its own requests, and returns those that wait already. A question ends when
// the last who could answer it leaves.
func (h *Hub) subscribe(c *conn, s subscriber) (open Subscribed, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[*conn]subscriber{}
	}
	h.subs[c] = s
	open.Open = []Approval{}
	for _, q := range h.open {
		if !q.concerns(c, s) {
			continue
		}
		if q.asked[c] = true; q.agent != nil {
			open.Questions = append(open.Questions, *q.agent)
		} else {
			open.Open = append(open.Open, q.as(c))
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
