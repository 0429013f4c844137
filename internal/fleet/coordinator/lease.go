package coordinator

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// maxProgress bounds a worker's line of progress.
const maxProgress = 300

// listen subscribes to what the workers of the run say.
func (c *Coordinator) listen(ctx context.Context) error {
	for subject, handle := range map[string]nats.MsgHandler{
		"fleet.claim.*." + c.run:        c.onClaim,
		"fleet.beat.*." + c.run + ".>":  c.onBeat,
		"fleet.event.*." + c.run + ".>": c.onEvent,
		"fleet.ask.*." + c.run + ".>":   c.onAsk,
	} {
		s, err := c.nc.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		c.subs = append(c.subs, s)
	}
	if err := persist(ctx, c.nc.FlushWithContext); err != nil {
		return err
	}
	c.work.Go(c.watchLeases)
	c.work.Go(c.watchMembers)
	c.work.Go(c.tellProgress)
	return c.followResults(ctx)
}

// signal returns the claim that a message is of, and the sign of life that it is.
// A worker whose claim is over hears what came of it.
func (c *Coordinator) signal(m *nats.Msg) *claim {
	parts := strings.Split(m.Subject, ".") // fleet.<kind>.<worker>.<run>.<task>.<claim>
	if len(parts) != 6 {
		return nil
	}
	worker, id := parts[2], parts[5]
	c.mu.Lock()
	cl := c.claims[id]
	if cl != nil && cl.worker == worker && cl.attempt != nil {
		cl.sign = time.Now()
		c.mu.Unlock()
		return cl
	}
	waiting := false
	if r, ok := c.rows[parts[4]]; ok && r.Claim.Claim == id && r.Worker == worker && r.Owner != c.epoch {
		waiting = true // of an earlier coordinator; its attempt may come
	}
	order := fleet.Order{Kind: fleet.OrderCancel, Run: c.run, Claim: id}
	if r := c.rows[parts[4]]; waiting && r.State == fleet.StateAccepted && (c.kept[r.Result] || r.Result == r.Begin) {
		waiting, order.Kind = false, fleet.OrderAccepted // it is on record; the word did not arrive
	}
	if cl != nil && cl.worker == worker {
		order = cl.verdict(c.run)
	}
	c.mu.Unlock()
	if !waiting {
		c.order(worker, order)
	}
	return nil
}

// verdict is what a worker is told of a claim that is over.
func (cl *claim) verdict(run string) fleet.Order {
	o := fleet.Order{Kind: fleet.OrderCancel, Run: run, Claim: cl.id, Message: cl.why}
	switch cl.state {
	case accepted:
		o.Kind = fleet.OrderAccepted
	case refused:
		o.Kind = fleet.OrderRefused
	case preparing, working, delivered, lost, canceled:
	}
	return o
}

func (c *Coordinator) onBeat(m *nats.Msg) {
	cl := c.signal(m)
	var b fleet.Beat
	if cl == nil || fleet.Decode(m.Data, &b) != nil || !b.GivenUp {
		return
	}
	c.spawn(nil, func() { c.forfeit(cl, "it was given up", 0) })
}

// forfeit takes a claim back, if it has been silent for so long.
func (c *Coordinator) forfeit(cl *claim, why string, silent time.Duration) {
	c.mu.Lock()
	a := cl.attempt
	c.mu.Unlock()
	if a == nil {
		return
	}
	unlock, err := a.lock(c.ctx)
	if err != nil {
		return
	}
	defer unlock()
	c.mu.Lock()
	still := time.Since(cl.sign) >= silent
	c.mu.Unlock()
	if still {
		c.lose(a, cl, lost, why)
	}
}

func (c *Coordinator) onEvent(m *nats.Msg) {
	cl := c.signal(m)
	var e fleet.Event
	if cl == nil || fleet.Decode(m.Data, &e) != nil {
		return
	}
	c.mu.Lock()
	a := cl.attempt
	c.mu.Unlock()
	if a == nil {
		return
	}
	p := orchestrate.Progress{Text: text.FirstLine(e.Text, maxProgress), Usage: credible(e.Usage)}
	if e.Session != "" {
		p.At = orchestrate.Place{Worker: cl.name, Session: text.FirstLine(e.Session, maxProgress)}
	}
	select {
	case c.progress <- func() { a.tell(p) }:
	default: // more will come
	}
}

// tellProgress passes on what workers tell. That waits while an event is put on
// record, and the signs of life must not wait with it.
func (c *Coordinator) tellProgress() {
	for {
		select {
		case tell := <-c.progress:
			tell()
		case <-c.ctx.Done():
			return
		}
	}
}

// onAsk puts a worker's question to the person here, as long as the claim lives.
func (c *Coordinator) onAsk(m *nats.Msg) {
	worker := strings.Split(m.Subject, ".")[2]
	cl := c.signal(m)
	answer := func(raw json.RawMessage, err error) {
		reply := fleet.Reply{Schema: fleet.Schema, Answer: raw}
		if err != nil {
			reply.Answer, reply.Refused = nil, fleet.Refusal(err)
		}
		if err := fleet.Respond(m, worker, reply); err != nil {
			c.opts.Logger.Warn("fleet.question_not_answered", "run", c.run, "worker", worker, "error", err)
		}
	}
	var q fleet.Ask
	switch err := fleet.Decode(m.Data, &q); {
	case err != nil:
		answer(nil, err)
		return
	case cl == nil:
		answer(nil, refusal(bridge.CodeConflict, "the claim is not in force any more"))
		return
	case c.opts.Ask == nil:
		answer(nil, refusal(bridge.CodeDenied, "nobody answers questions at the coordinator"))
		return
	case len(q.Question) > maxQuestion:
		answer(nil, refusal(bridge.CodeDenied, "the question is too long"))
		return
	case !c.room(c.asking, worker, maxQuestions):
		answer(nil, refusal(bridge.CodeBusy, "too many questions are open"))
		return
	}
	c.spawn(nil, func() {
		defer c.leaveRoom(c.asking, worker)
		if _, err := c.member(cl.ctx, worker); err != nil { // where its connection is not cut (yet)
			answer(nil, err)
			return
		}
		ctx, cancel := cl.ctx, context.CancelFunc(func() {})
		if !q.Until.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, q.Until)
		}
		defer cancel()
		c.mu.Lock()
		a := cl.attempt
		c.mu.Unlock()
		if a == nil {
			return
		}
		answer(c.opts.Ask(ctx, Question{Member: worker, Name: cl.name, Task: a.work.Task.ID, Question: q.Question}))
	})
}

// The bounds of questions, so that one worker's leave room for the others'.
const (
	maxQuestion  = 512 << 10
	maxQuestions = 16 // open ones of a worker
)

// leaseTicks is how often in a lease the claims are looked at.
const leaseTicks = 10

// watchLeases is the one goroutine that watches over all claims. It extends the
// tickets of those that live and takes those back that gave no sign.
func (c *Coordinator) watchLeases() {
	every := c.opts.Lease / leaseTicks
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		now := time.Now()
		// Where we slept or were cut off, the silence is ours.
		deaf := now.Sub(last) > c.opts.Lease/3 || !c.nc.IsConnected()
		last = now
		extend, silent := c.checkLeases(now, deaf)
		for _, ack := range extend {
			_ = c.nc.Publish(ack, []byte("+WPI")) // the next one will do
		}
		for _, cl := range silent {
			c.spawn(nil, func() { c.forfeit(cl, "no sign of life for "+c.opts.Lease.String(), c.opts.Lease) })
		}
	}
}

// watchMembers takes the claims of workers back that were removed. Where the hub
// cannot cut their connections, they could beat until their rights end.
func (c *Coordinator) watchMembers() {
	tick := time.NewTicker(c.opts.Lease)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		held := map[string][]*claim{}
		for _, a := range c.attempts {
			if a.claim != nil {
				held[a.claim.worker] = append(held[a.claim.worker], a.claim)
			}
		}
		c.mu.Unlock()
		for worker, claims := range held {
			if _, err := c.member(c.ctx, worker); bridge.CodeOf(err) != bridge.CodeDenied {
				continue
			}
			for _, cl := range claims {
				c.spawn(nil, func() { c.forfeit(cl, "it was removed from the fleet", 0) })
			}
		}
	}
}

func (c *Coordinator) checkLeases(now time.Time, deaf bool) (extend []string, silent []*claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.attempts {
		cl := a.claim
		if cl == nil || a.over {
			continue
		}
		if deaf || cl.state != working {
			cl.sign = now
		}
		if now.Sub(cl.sign) >= c.opts.Lease {
			silent = append(silent, cl)
			continue
		}
		if a.ack != "" && now.Sub(cl.extended) >= c.opts.Lease/3 {
			cl.extended = now
			extend = append(extend, a.ack)
		}
	}
	return extend, silent
}
