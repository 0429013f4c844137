package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// maxSummary bounds what a result says in words.
const maxSummary = 64 << 10

// delivery is a result as it came.
type delivery struct {
	worker string
	result fleet.Result
}

// resultsEvery is how often the results are looked through without a hint.
const resultsEvery = time.Second

// followResults takes what workers deliver. It returns when it has seen all that
// was delivered before.
//
// The stream is read by sequence: that needs no state on the server, which would
// have to be made anew when that restarts. A subscription to what the workers
// publish only says when to look.
func (c *Coordinator) followResults(ctx context.Context) error {
	subject := "fleet.result.*." + c.run + ".>"
	hints := make(chan struct{}, 4096) // one that does not fit is no loss
	sub, err := c.nc.Subscribe(subject, func(*nats.Msg) {
		select {
		case hints <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	c.subs = append(c.subs, sub)
	from := uint64(1)
	read := func(ctx context.Context) (n int, err error) {
		for {
			look, cancel := context.WithTimeout(ctx, oneTry) // each: many may have come at once
			m, err := next(look, c.stores.results, subject, from)
			cancel()
			if m == nil || err != nil {
				return n, err
			}
			from = m.Sequence + 1
			n++
			c.onResult(m.Subject, m.Data)
		}
	}
	err = persist(ctx, func(ctx context.Context) error { _, err := read(ctx); return err })
	if err == nil {
		c.work.Go(func() { c.pollResults(hints, read) })
	}
	return err
}

// pollResults looks at hints, until the results that they announced are there,
// and now and then without one.
func (c *Coordinator) pollResults(hints <-chan struct{}, read func(context.Context) (int, error)) {
	owed, wait := 0, resultsEvery
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-hints:
			owed++
			wait = time.Millisecond // the server is still writing it to disk
		case <-timer.C:
			wait = min(2*wait, resultsEvery)
		case <-c.ctx.Done():
			return
		}
		n, err := read(c.ctx)
		if err != nil && c.ctx.Err() == nil && c.nc.IsConnected() { // else that is told already
			c.opts.Logger.Warn("fleet.results_interrupted", "run", c.run, "error", err)
		}
		if owed = max(owed-n, 0); owed == 0 || wait == resultsEvery {
			owed, wait = 0, resultsEvery // a hint may be of a result that the server dropped as sent twice
		}
		timer.Reset(wait)
	}
}

// next returns the first message of a subject from a sequence on, nil if there is
// none.
func next(ctx context.Context, s jetstream.Stream, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	m, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// onResult looks at a result that was delivered. Only the present claim of a task
// may deliver; everything else is refused.
func (c *Coordinator) onResult(subject string, data []byte) {
	parts := strings.Split(subject, ".") // fleet.result.<worker>.<run>.<task>.<claim>
	if len(parts) != 6 {
		return
	}
	d := delivery{worker: parts[2]}
	if err := fleet.Decode(data, &d.result); err != nil {
		d.result = fleet.Result{Claim: parts[5]}
		c.deny(d, err.Error())
		return
	}
	if r := d.result; r.Run != c.run || fleet.Token(r.Task) != parts[4] || r.Claim != parts[5] {
		d.result.Claim = parts[5]
		c.deny(d, "its subject is that of another task")
		return
	}
	c.mu.Lock()
	cl := c.claims[d.result.Claim]
	row, known := c.rows[parts[4]]
	switch {
	case cl != nil && cl.worker != d.worker:
		c.mu.Unlock()
		c.deny(d, "the claim is another worker's")
	case cl != nil && (cl.attempt == nil || cl.state == delivered):
		again := cl.state == accepted || cl.state == delivered
		order := cl.verdict(c.run)
		c.mu.Unlock()
		if again { // the same one once more
			c.order(d.worker, order)
		} else {
			c.deny(d, "the claim is not in force any more")
		}
	case cl != nil && cl.attempt.token != parts[4]:
		c.mu.Unlock()
		c.deny(d, "the claim is of another task")
	case cl != nil:
		c.mu.Unlock()
		c.spawn(nil, func() { c.take(cl, d) })
	case known && row.Owner != c.epoch && row.Claim.Claim == d.result.Claim && row.Worker == d.worker:
		c.early[d.result.Claim] = d // its attempt may come
		c.mu.Unlock()
	default:
		c.mu.Unlock()
		c.deny(d, "there is no such claim")
	}
}

// deny refuses a result and records that.
func (c *Coordinator) deny(d delivery, why string) {
	c.opts.Logger.Debug("fleet.result_refused", "run", c.run, "task", text.FirstLine(d.result.Task, 80), "claim", d.result.Claim, "worker", d.worker, "why", why)
	c.opts.Record("fleet_result", d.worker, fmt.Sprintf("the result for %q of run %s (claim %s) was refused: %s", text.FirstLine(d.result.Task, 80), c.run, d.result.Claim, why))
	c.order(d.worker, fleet.Order{Kind: fleet.OrderRefused, Run: c.run, Task: d.result.Task, Claim: d.result.Claim, Message: why})
}

// take takes a result: it checks the commit, accepts it by compare-and-set, puts
// it on record and ends the attempt.
func (c *Coordinator) take(cl *claim, d delivery) {
	c.mu.Lock()
	a := cl.attempt
	c.mu.Unlock()
	if a == nil {
		c.deny(d, "the claim is not in force any more")
		return
	}
	unlock, err := a.lock(c.ctx)
	if err != nil {
		return
	}
	defer unlock()
	c.mu.Lock()
	current := a.claim == cl && !a.over && cl.state == working
	if current {
		cl.state = delivered
	}
	again := cl.state == accepted || cl.state == delivered
	c.mu.Unlock()
	if !current {
		if !again {
			c.deny(d, "the claim is not in force any more")
		}
		return
	}
	out, err := c.accept(c.ctx, a, cl, d.result)
	switch {
	case err == nil:
	case bridge.CodeOf(err) == bridge.CodeDenied:
		c.deny(d, err.Error())
		c.lose(a, cl, refused, "its result was refused: "+err.Error())
		return
	case c.ctx.Err() != nil:
		c.finish(a, out, context.Cause(c.ctx))
		return
	default: // ours: the disk, git, the server
		c.lose(a, cl, lost, "its result could not be taken: "+err.Error())
		return
	}
	c.settle(a, cl, d.result)
	if r := d.result; r.Error != nil {
		c.mu.Lock()
		key := a.token + " " + cl.worker
		c.failed[key] = lossesOf{c.failed[key].count + 1, time.Now()}
		c.mu.Unlock()
		c.finish(a, out, bounded(r.Error))
	} else {
		c.finish(a, out, nil)
	}
}

// accept checks a result and makes it the one that counts.
func (c *Coordinator) accept(ctx context.Context, a *attempt, cl *claim, r fleet.Result) (out orchestrate.Outcome, err error) {
	out = orchestrate.Outcome{Summary: text.Clip(r.Summary, maxSummary), Usage: credible(r.Usage), Tools: min(max(r.Tools, 0), maxCount), Denied: min(max(r.Denied, 0), maxCount),
		Session: text.FirstLine(r.Session, maxProgress), Worker: cl.name}
	if _, err := c.member(ctx, cl.worker); err != nil {
		return out, err
	}
	if r.Error != nil {
		return out, c.setRow(ctx, a, cl, fleet.StateAccepted, "")
	}
	if r.Attempt != a.work.Attempt && r.Attempt < 1 {
		return out, refusal(bridge.CodeDenied, "it is of attempt %d", r.Attempt)
	}
	file := ""
	if r.Commit != a.work.Begin {
		if c.repo == nil {
			return out, refusal(bridge.CodeDenied, "there is no repository for it")
		}
		if file, err = c.fetch(ctx, cl, a.work.Begin, r); err != nil {
			return out, err
		}
	}
	if err := c.setRow(ctx, a, cl, fleet.StateAccepted, r.Commit); err != nil {
		return out, err
	}
	if file != "" && !c.isKept(r.Commit) {
		if err := c.keepFile(ctx, r.Commit, a.work.Begin, file, r.Bundle); err != nil {
			return out, err
		}
	}
	out.Work = r.Commit
	return out, nil
}

// settle ends an accepted claim: its ticket, the worker's copy, the objects.
func (c *Coordinator) settle(a *attempt, cl *claim, r fleet.Result) {
	c.mu.Lock()
	ack, queued := a.ack, a.queued
	c.end(cl, accepted, "")
	order := cl.verdict(c.run)
	c.mu.Unlock()
	order.Task = r.Task
	c.order(cl.worker, order)
	if queued && ack != "" {
		_ = c.nc.Publish(ack, []byte("+ACK")) // else it comes up again, and is ended then
	}
	c.tidy(cl, r.Bundle.Object)
}
