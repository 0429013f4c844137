package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// maxLosses is how many claims may get lost over one attempt.
const maxLosses = 10

// lossesOf is what a worker has lost of one attempt, or how often it has failed at
// a task.
type lossesOf struct {
	count int
	last  time.Time
}

// barred says how long a worker has to leave the attempt to others. One that is
// broken, or stolen, takes tickets faster than all others, and would use up the
// attempt's losses alone.
func (l lossesOf) barred(lease time.Duration) time.Duration {
	return time.Until(l.last.Add(time.Duration(max(l.count-1, 0)) * lease))
}

// resting says how long a worker has to leave a task to others that it has failed
// at. Where it is the only one, it gets it then.
func (l lossesOf) resting(lease time.Duration) time.Duration {
	return time.Until(l.last.Add(time.Duration(l.count) * lease / 3))
}

// attempt is one under way. Its ticket waits in a queue, or a worker has a claim.
type attempt struct {
	work    orchestrate.RemoteWork
	token   string
	report  func(orchestrate.Progress) // through tell
	telling sync.Mutex
	quiet   bool // Attempt has returned; guarded by telling
	// turn is held while the claim's row is changed and while a result is taken,
	// so that only one step is under way.
	turn chan struct{}
	// offered is closed when the ticket's sequence is known. Only offer changes it.
	done chan struct{} // closed by finish

	// Guarded by Coordinator.mu.
	offered chan struct{}
	ticket  uint64
	queued  bool   // the ticket is out
	ack     string // where the ticket is extended and ended; "" until a worker showed it
	claim   *claim // nil: nobody has it
	losses  int
	lostBy  map[string]lossesOf // by worker
	over    bool
	outcome orchestrate.Outcome
	err     error
}

// claim is one that was given. What is over stays listed, to tell late results
// from forged ones.
type claim struct {
	id, worker string
	attempt    *attempt // nil when it is over
	state      claimState
	why        string // of a refusal

	// Of one that lives.
	name     string // of the worker, for people
	givenUp  bool   // its worker has said so
	sign     time.Time
	extended time.Time
	ctx      context.Context // ends with the claim
	cancel   context.CancelFunc
	object   string // what was put into the worker's bucket
	// ready is closed when the worker can fetch what it lacks, or when that failed;
	// bundle and err are set then.
	ready  chan struct{}
	bundle fleet.Bundle
	err    error
}

type claimState int

const (
	preparing claimState = iota // the commit is being sent
	working
	delivered // the result is being taken
	accepted
	lost
	canceled
	refused // its result was
)

// row is a claim in TableClaims.
type row struct {
	fleet.Claim
	rev uint64
}

// Attempt has a worker do an attempt. See orchestrate.Remote.
func (c *Coordinator) Attempt(ctx context.Context, w orchestrate.RemoteWork, report func(orchestrate.Progress)) (orchestrate.Outcome, error) {
	a := &attempt{work: w, token: fleet.Token(w.Task.ID), report: report, turn: make(chan struct{}, 1), done: make(chan struct{}), offered: make(chan struct{}), lostBy: map[string]lossesOf{}}
	if err := c.enter(a); err != nil {
		return orchestrate.Outcome{}, err
	}
	defer c.leave(a)
	defer a.hush()
	ctx, cancel := c.within(ctx)
	defer cancel()
	adopted, err := c.adopt(ctx, a)
	if err == nil && !adopted {
		a.tell(orchestrate.Progress{Text: "waiting for a " + cmp.Or(c.opts.Wanted, "worker")})
		err = c.offer(ctx, a)
	}
	if err == nil {
		select {
		case <-a.done:
			return a.outcome, a.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	c.withdraw(a)
	select {
	case <-a.done: // it was finished before it was withdrawn
		return a.outcome, a.err
	default:
		return orchestrate.Outcome{}, err
	}
}

func (c *Coordinator) enter(a *attempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errEnded
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case c.attempts[a.token] != nil:
		return fmt.Errorf("an attempt at %s is under way already", a.work.Task.ID)
	}
	c.attempts[a.token] = a
	return nil
}

func (c *Coordinator) leave(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.attempts, a.token)
}

// tell reports progress, unless the attempt is over.
func (a *attempt) tell(p orchestrate.Progress) {
	a.telling.Lock()
	defer a.telling.Unlock()
	if !a.quiet {
		a.report(p)
	}
}

func (a *attempt) hush() {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.quiet = true
}

// lock takes the attempt's turn.
func (a *attempt) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case a.turn <- struct{}{}:
		return func() { <-a.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// finish ends the attempt. The first call counts.
func (c *Coordinator) finish(a *attempt, out orchestrate.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.over {
		a.over, a.outcome, a.err = true, out, err
		close(a.done)
	}
}

// end ends a claim; the caller holds c.mu.
func (c *Coordinator) end(cl *claim, s claimState, why string) {
	if a := cl.attempt; a != nil && a.claim == cl {
		a.claim = nil
	}
	cl.attempt, cl.state, cl.why = nil, s, why
	if cl.cancel != nil {
		cl.cancel()
	}
}

// withdraw ends an attempt that is not wanted any more: the worker hears of it
// first. If a result is being taken, that is waited for.
func (c *Coordinator) withdraw(a *attempt) {
	c.mu.Lock()
	cl := a.claim
	if cl != nil && cl.state != delivered && c.ctx.Err() == nil {
		c.order(cl.worker, fleet.Order{Kind: fleet.OrderCancel, Run: c.run, Task: a.work.Task.ID, Claim: cl.id})
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), oneTry)
	defer cancel()
	unlock, err := a.lock(ctx)
	if err != nil { // a large result; it is of no use any more
		c.mu.Lock()
		a.over = true
		c.mu.Unlock()
		return
	}
	defer unlock()
	c.mu.Lock()
	a.over = true // nobody may claim it any more
	finished := isClosed(a.done)
	cl = a.claim
	if cl != nil {
		c.end(cl, canceled, "")
	}
	queued := a.queued
	c.mu.Unlock()
	if c.ctx.Err() != nil { // another coordinator's now
		return
	}
	if cl != nil && !finished {
		c.order(cl.worker, fleet.Order{Kind: fleet.OrderCancel, Run: c.run, Task: a.work.Task.ID, Claim: cl.id})
		if err := c.setRow(ctx, a, cl, fleet.StateLost, ""); err != nil {
			c.opts.Logger.Warn("fleet.claim_not_withdrawn", "run", c.run, "task", a.work.Task.ID, "error", err)
		}
		c.tidy(cl, "")
	}
	if queued && !finished {
		c.dropTicket(ctx, a)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lose takes a claim back, and gives the ticket free or ends the attempt. The
// caller has the attempt's turn.
func (c *Coordinator) lose(a *attempt, cl *claim, s claimState, why string) {
	c.mu.Lock()
	if a.claim != cl {
		c.mu.Unlock()
		return
	}
	c.end(cl, s, why)
	a.losses++
	a.lostBy[cl.worker] = lossesOf{a.lostBy[cl.worker].count + 1, time.Now()}
	losses, ack, queued, over := a.losses, a.ack, a.queued, a.over
	c.mu.Unlock()
	c.opts.Logger.Info("fleet.claim_lost", "run", c.run, "task", a.work.Task.ID, "claim", cl.id, "worker", cl.worker, "why", why)
	c.tidy(cl, "")
	if err := c.setRow(c.ctx, a, cl, fleet.StateLost, ""); err != nil {
		c.finish(a, orchestrate.Outcome{}, err)
		return
	}
	switch {
	case over:
	case losses >= maxLosses:
		e := &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("%d claims got lost over it; the last was %s: %s", losses, cl.name, why)}
		if isClosed(cl.ready) && cl.err != nil {
			e.Remedy = bridge.AsError(cl.err).Remedy
		}
		c.finish(a, orchestrate.Outcome{}, e)
	case !queued: // taken over from an earlier coordinator
		if err := c.offer(c.ctx, a); err != nil {
			c.finish(a, orchestrate.Outcome{}, err)
		}
	default:
		// It comes again by itself if this does not arrive.
		_ = c.nc.Publish(ack, []byte("-NAK"))
	}
	if !over {
		a.tell(orchestrate.Progress{Text: fmt.Sprintf("%s was lost (%s), waiting for another worker", cl.name, why)})
	}
}
