package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
)

// clear reads the claims of earlier coordinators of the run and removes their
// tickets.
func (c *Coordinator) clear(ctx context.Context) error {
	if c.before.Epoch == "" {
		return nil // a new run
	}
	if err := c.purgeTickets(ctx); err != nil {
		return err
	}
	var rows []jetstream.KeyValueEntry
	err := fleet.Persist(ctx, fleet.RowsTimeout, func(ctx context.Context) (err error) {
		rows, err = fleet.Rows(ctx, c.stores.claims, c.run+".*")
		return err
	})
	if err != nil {
		return err
	}
	for _, e := range rows {
		var r row
		if err := json.Unmarshal(e.Value(), &r.Claim); err != nil {
			return damaged(c.run, err)
		}
		if r.Schema != fleet.Schema {
			return otherSchema("a claim of the run", r.Schema)
		}
		r.rev = e.Revision()
		c.rows[strings.TrimPrefix(e.Key(), c.run+".")] = r
	}
	return nil
}

// setRow writes the claim's row by compare-and-set. The caller has the attempt's
// turn. A row that somebody else wrote meanwhile is overwritten only if the run is
// still ours: then its writer is an earlier coordinator that does not know yet.
func (c *Coordinator) setRow(ctx context.Context, a *attempt, cl *claim, state, result string) error {
	r := row{Claim: fleet.Claim{Schema: fleet.Schema, Owner: c.epoch, Claim: cl.id, Worker: cl.worker, Attempt: a.work.Attempt, At: time.Now().UTC(),
		State: state, Begin: a.work.Begin, Result: result}}
	data, err := json.Marshal(r.Claim)
	if err != nil {
		return err
	}
	c.mu.Lock()
	rev := c.rows[a.token].rev
	c.mu.Unlock()
	key := fleet.ClaimKey(c.run, a.work.Task.ID)
	err = persist(ctx, func(ctx context.Context) error {
		next, err := c.stores.claims.Update(ctx, key, data, rev)
		if err == nil {
			r.rev = next
		}
		if !overtaken(err) {
			return err
		}
		e, err := c.stores.claims.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			rev = 0
			return fleet.ErrAgain
		}
		if err != nil {
			return err
		}
		if string(e.Value()) == string(data) { // an earlier try has come through
			r.rev = e.Revision()
			return nil
		}
		rev = e.Revision()
		if err := c.owner.renew(ctx); err != nil {
			return err
		}
		return fleet.ErrAgain
	})
	if err != nil {
		if bridge.CodeOf(err) == bridge.CodeConflict {
			c.cancel(err)
		}
		return err
	}
	c.mu.Lock()
	c.rows[a.token] = r
	c.mu.Unlock()
	return nil
}

// adopt goes on with the claim that an earlier coordinator gave for the same
// work: its worker may be at it still, or have delivered.
func (c *Coordinator) adopt(ctx context.Context, a *attempt) (bool, error) {
	c.mu.Lock()
	r, known := c.rows[a.token]
	early, has := c.early[r.Claim.Claim]
	fits := known && r.Owner != c.epoch && r.Begin == a.work.Begin && (has && early.result.Error == nil || r.State == fleet.StateClaimed && !has)
	if known {
		delete(c.early, r.Claim.Claim)
		stale := r
		stale.Owner = c.epoch // whoever has it is told that it is over
		c.rows[a.token] = stale
	}
	c.mu.Unlock()
	if !fits {
		if has {
			c.deny(early, "it is of an attempt that an earlier coordinator began and that was begun anew")
		}
		return false, nil
	}
	member, err := c.member(ctx, r.Worker)
	if err != nil {
		return false, ignoreRefusal(err)
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	cl := c.newClaim(a, r.Claim.Claim, r.Worker, member.Name)
	cl.state = working
	state := r.State
	if state != fleet.StateAccepted {
		state = fleet.StateClaimed
	}
	if err := c.setRow(ctx, a, cl, state, r.Result); err != nil {
		return false, err
	}
	c.mu.Lock()
	a.claim, c.claims[cl.id] = cl, cl
	c.mu.Unlock()
	a.tell(orchestrate.Progress{Text: "at work since before", At: orchestrate.Place{Worker: cl.name}})
	if has {
		c.spawn(nil, func() { c.take(cl, early) })
	}
	return true, nil
}

// ignoreRefusal drops an error that is about a worker and not about the run.
func ignoreRefusal(err error) error {
	if e := bridge.AsError(err); e != nil && (e.Code == bridge.CodeDenied || e.Code == bridge.CodeUnsupported) {
		return nil
	}
	return err
}

func (c *Coordinator) newClaim(a *attempt, id, worker, name string) *claim {
	now := time.Now()
	cl := &claim{id: id, worker: worker, name: name, attempt: a, sign: now, extended: now, ready: make(chan struct{})}
	cl.ctx, cl.cancel = context.WithCancel(c.ctx)
	return cl
}

// member returns the record of a worker that may take part.
func (c *Coordinator) member(ctx context.Context, id string) (m fleet.MemberRecord, err error) {
	err = persist(ctx, func(ctx context.Context) error {
		e, err := c.stores.members.Get(ctx, id)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return refusal(bridge.CodeDenied, "%s is not in the fleet", id)
		}
		if err == nil {
			err = json.Unmarshal(e.Value(), &m)
		}
		return err
	})
	switch {
	case err != nil:
	case m.Schema != fleet.Schema:
		err = otherSchema("the record of "+id, m.Schema)
	case m.Removed:
		err = refusal(bridge.CodeDenied, "%s was removed from the fleet", m.Name)
	case m.Role != fleet.RoleWorker:
		err = refusal(bridge.CodeDenied, "%s is not a worker", m.Name)
	}
	return m, err
}

func refusal(code bridge.Code, format string, args ...any) *bridge.Error {
	return &bridge.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// onClaim answers a worker that wants a task.
func (c *Coordinator) onClaim(m *nats.Msg) {
	worker := strings.Split(m.Subject, ".")[2]
	if err := fleet.CheckReply(m, worker); err != nil {
		c.opts.Record("fleet_claim", worker, err.Error())
		return
	}
	if !c.room(c.giving, worker, maxClaims) {
		c.postpone(m, worker)
		return
	}
	c.spawn(c.claiming, func() {
		defer c.leaveRoom(c.giving, worker)
		reply := fleet.ClaimReply{Schema: fleet.Schema}
		assignment, err := c.give(worker, m.Data)
		switch {
		case errors.Is(err, errLater):
			reply.Later = true
		case err != nil:
			reply.Refused = fleet.Refusal(err)
		default:
			reply.Assignment = assignment
		}
		if err := fleet.Respond(m, worker, reply); err != nil {
			c.opts.Logger.Warn("fleet.claim_not_answered", "run", c.run, "worker", worker, "error", err)
		}
	})
}

// maxClaims is how many claims of one worker are answered at a time.
const maxClaims = 64

// postpone refuses a claim of a worker that has too many open. Its ticket comes up
// again by itself.
func (c *Coordinator) postpone(m *nats.Msg, worker string) {
	busy := fleet.ClaimReply{Schema: fleet.Schema, Refused: refusal(bridge.CodeBusy, "too many claims of %s are open", worker)}
	if err := fleet.Respond(m, worker, busy); err != nil {
		c.opts.Logger.Debug("fleet.claim_not_answered", "run", c.run, "worker", worker, "error", err)
	}
}

// room counts one more of a worker's, unless it has the most already. leaveRoom
// takes it back.
func (c *Coordinator) room(of map[string]int, worker string, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of[worker] >= most {
		return false
	}
	of[worker]++
	return true
}

func (c *Coordinator) leaveRoom(of map[string]int, worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of[worker]--; of[worker] == 0 {
		delete(of, worker)
	}
}

// errLater says that a worker has a claim and is to ask again for its assignment.
var errLater = errors.New("the commit is being sent")

// give gives the task of a ticket to a worker, if it may have it. One that asks
// again gets the same claim again.
func (c *Coordinator) give(worker string, data []byte) (*fleet.Assignment, error) {
	ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
	defer cancel()
	var req fleet.ClaimRequest
	if err := fleet.Decode(data, &req); err != nil {
		return nil, err
	}
	if req.Ticket.Schema != fleet.Schema {
		return nil, otherSchema("the ticket", req.Ticket.Schema)
	}
	member, err := c.member(ctx, worker)
	switch {
	case err != nil:
		if bridge.CodeOf(err) == bridge.CodeDenied {
			c.opts.Record("fleet_claim", worker, err.Error())
		}
		return nil, err
	case member.Draining:
		return nil, refusal(bridge.CodeDenied, "%s is being drained and gets no new tasks", member.Name)
	case !fleet.Fits(member.Offers, c.opts.Labels):
		return nil, refusal(bridge.CodeDenied, "%s does not have the labels that the run asks for: %s", member.Name, strings.Join(c.opts.Labels, ", "))
	case req.Demo && !c.opts.Demo:
		return nil, refusal(bridge.CodeDenied, "%s answers with the demo model, which the run does not want", member.Name)
	case c.opts.Model != "" && len(req.Models) > 0 && !slices.Contains(req.Models, c.opts.Model):
		return nil, refusal(bridge.CodeUnsupported, "the account of %s does not offer the model %s", member.Name, c.opts.Model)
	}
	a, err := c.find(ctx, req)
	if err != nil {
		return nil, err
	}
	cl, err := c.assign(ctx, a, member, req)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(c.opts.Lease / 3)
	defer late.Stop()
	select {
	case <-cl.ready:
	case <-late.C:
		a.tell(orchestrate.Progress{Text: "sending the commit", At: orchestrate.Place{Worker: cl.name}})
		return nil, errLater
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if cl.err != nil {
		return nil, cl.err
	}
	c.mu.Lock()
	over := a.over || a.claim != cl
	c.mu.Unlock()
	if over {
		return nil, refusal(bridge.CodeConflict, "the task was canceled")
	}
	a.tell(orchestrate.Progress{Text: "begun", At: orchestrate.Place{Worker: cl.name}})
	return c.assignment(a, cl), nil
}

// find returns the attempt whose ticket a worker shows.
func (c *Coordinator) find(ctx context.Context, req fleet.ClaimRequest) (*attempt, error) {
	stale := refusal(bridge.CodeConflict, "the ticket is not in force any more")
	seq, ok := ticketOf(req.Ack, fleet.Queue(c.opts.Labels))
	if !ok || req.Ticket.Run != c.run {
		return nil, refusal(bridge.CodeInvalid, "the claim names no ticket of the run %s", c.run)
	}
	c.mu.Lock()
	a := c.attempts[fleet.Token(req.Ticket.Task)]
	c.mu.Unlock()
	if a == nil {
		c.endStale(ctx, seq, req.Ack)
		return nil, stale
	}
	select { // a worker may be faster than the answer to us
	case <-a.offered:
	case <-a.done:
		return nil, stale
	case <-ctx.Done():
		return nil, stale
	}
	c.mu.Lock()
	inForce := a.ticket == seq && !a.over && a.work.Attempt == req.Ticket.Attempt
	if inForce {
		a.ack = req.Ack // the newest one is the one to extend
	}
	other := a.ticket != seq
	c.mu.Unlock()
	if other {
		c.endStale(ctx, seq, req.Ack)
	}
	if !inForce {
		return nil, stale
	}
	return a, nil
}

// assign writes a claim and begins to send the worker what it lacks.
func (c *Coordinator) assign(ctx context.Context, a *attempt, member fleet.MemberRecord, req fleet.ClaimRequest) (*claim, error) {
	unlock, err := a.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c.mu.Lock()
	holder, over := a.claim, a.over
	barred := max(a.lostBy[member.ID].barred(c.opts.Lease), c.failed[a.token+" "+member.ID].resting(c.opts.Lease))
	again := holder != nil && holder.worker == member.ID && (holder.state == preparing || holder.state == working)
	c.mu.Unlock()
	switch {
	case over:
		return nil, refusal(bridge.CodeConflict, "the ticket is not in force any more")
	case again:
		return holder, nil
	case holder != nil:
		_ = c.nc.Publish(req.Ack, []byte("+WPI")) // the task has a worker; if this is lost, the ticket only comes up too early
		return nil, refusal(bridge.CodeConflict, "%s has the task already", holder.name)
	}
	if barred > 0 {
		// Puts the ticket back soon. If this is lost, the ticket comes back with its time.
		_ = c.nc.Publish(req.Ack, fmt.Appendf(nil, `-NAK {"delay": %d}`, c.opts.Lease/leaseTicks))
		return nil, refusal(bridge.CodeConflict, "%s has lost this task before, or failed at it, and leaves it to others for %s", member.Name, barred.Round(time.Second))
	}
	cl := c.newClaim(a, newID(), member.ID, member.Name)
	if err := c.setRow(ctx, a, cl, fleet.StateClaimed, ""); err != nil {
		cl.cancel()
		return nil, err
	}
	c.mu.Lock()
	a.claim, c.claims[cl.id] = cl, cl
	c.mu.Unlock()
	_ = c.nc.Publish(req.Ack, []byte("+WPI")) // tells the hub of the claim; if this is lost, another worker is told that the task is taken
	c.spawn(nil, func() { c.prepare(a, cl, req.Have) })
	return cl, nil
}

// prepare sends what the worker of a claim lacks. From then on it has to give
// signs of life.
func (c *Coordinator) prepare(a *attempt, cl *claim, have []string) {
	cl.bundle, cl.err = c.send(cl.ctx, cl, a.work.Begin, have)
	c.mu.Lock()
	if cl.err == nil && cl.state == preparing {
		cl.state, cl.sign = working, time.Now()
	}
	c.mu.Unlock()
	close(cl.ready)
	if cl.err == nil {
		return
	}
	if unlock, err := a.lock(c.ctx); err == nil {
		defer unlock()
		c.lose(a, cl, lost, "the commit could not be sent: "+cl.err.Error())
	}
}

func (c *Coordinator) assignment(a *attempt, cl *claim) *fleet.Assignment {
	w := a.work
	out := &fleet.Assignment{Schema: fleet.Schema, Run: c.run, Task: w.Task.ID, Attempt: w.Attempt, Claim: cl.id, Goal: w.Goal, Description: w.Task.Description,
		Complexity: string(w.Task.EstimatedComplexity), Repo: c.repoID, Begin: w.Begin, Prefix: w.Prefix, Bundle: cl.bundle, Labels: c.opts.Labels,
		Policy: c.opts.Policy, PolicyDigest: c.opts.PolicyDigest, Model: c.opts.Model, Effort: c.opts.Effort, Limits: c.opts.Limits}
	for _, n := range w.Needs {
		out.Needs = append(out.Needs, fleet.Need{ID: n.ID, Summary: n.Summary, Files: n.Files})
	}
	return out
}

// order tells a worker something. It may get lost: a worker that goes on beating
// hears it again.
func (c *Coordinator) order(worker string, o fleet.Order) {
	o.Schema = fleet.Schema
	data, err := json.Marshal(o)
	if err == nil {
		err = c.nc.Publish(fleet.OrderSubject(worker), data)
	}
	if err != nil {
		c.opts.Logger.Warn("fleet.order_not_sent", "run", c.run, "worker", worker, "order", o.Kind, "error", err)
	}
}
