package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// claim is a task that this worker does, until its result is accepted or it is
// told to forget it.
type claim struct {
	fleet.Assignment
	w     *worker
	since time.Time
	word  chan fleet.Order // the order that ends it, at most one
	ctx   context.Context  // of the attempt
	stop  context.CancelCauseFunc
	// sent says that the result was sent, so the server may have it; delivered that
	// it has.
	sent, delivered atomic.Bool

	mu    sync.Mutex
	event fleet.Event // what was reported since the last one was sent
	fresh bool        // it is not sent yet
	alive time.Time   // when the last sign of life was sent; the first one is due at once
}

// maxText bounds what a result says.
const maxText = 64 << 10

// errOrdered ends an attempt that nobody waits for.
var errOrdered = errors.New("the coordinator has ended the claim")

// ticket claims a task and does it. It owns one slot and gives it back.
func (w *worker) ticket(data []byte, ack string) {
	release := sync.OnceFunc(func() { w.release(1) })
	defer release()
	var t fleet.Ticket
	if err := json.Unmarshal(data, &t); err != nil || !word(t.Run) {
		w.log.Warn("worker.ticket_unreadable", "error", err)
		w.rest()
		return
	}
	wait := w.patience(t.Run)
	if wait == 0 {
		w.giveBack(ack)
		w.rest()
		return
	}
	a, err := w.claim(t, ack, wait)
	if err != nil {
		w.log.Info("worker.not_claimed", "run", t.Run, "task", t.Task, "error", err)
		w.giveBack(ack)
		w.rest()
		return
	}
	c := w.begin(*a)
	if c == nil {
		w.log.Info("worker.claimed_already", "run", t.Run, "task", t.Task, "claim", a.Claim)
		w.rest()
		return
	}
	w.log.Info("worker.claimed", "run", c.Run, "task", c.Task, "claim", c.Claim)
	c.do(t, release)
	w.mu.Lock()
	delete(w.claims, c.Claim)
	w.mu.Unlock()
}

// giveBack tells the hub that this worker does not claim a ticket. If that gets
// lost, the hub takes it back a little later.
func (w *worker) giveBack(ack string) {
	data, err := json.Marshal(fleet.NextRequest{Schema: fleet.Schema, Return: ack})
	if err == nil {
		err = w.conn.NC.PublishRequest(fleet.NextSubject(w.id, "any"), w.conn.NC.NewInbox(), data)
	}
	if err != nil {
		w.log.Debug("worker.ticket_not_returned", "error", err)
	}
}

// word says whether a name from outside is one word of a subject and a file name.
func word(s string) bool { return s != "" && fleet.Token(s) == s }

// rest keeps a slot for a moment after a ticket that was of no use. Without it,
// tickets that nobody stands behind would be taken as fast as the server has them.
func (w *worker) rest() {
	timer := time.NewTimer(askPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.work.Done():
	}
}

// claim asks a run's coordinator for a task, and again while its commit is on the
// way. wait is for each answer.
func (w *worker) claim(t fleet.Ticket, ack string, wait time.Duration) (*fleet.Assignment, error) {
	ctx, cancel := context.WithTimeout(w.work, transferBound)
	defer cancel()
	w.mu.Lock()
	r := fleet.ClaimRequest{Schema: fleet.Schema, Ticket: t, Ack: ack, Demo: w.ready.Answers == string(bridge.AnswersDemo), Models: w.ready.Models}
	w.mu.Unlock()
	r.Have = w.root.mirrors.Have(t.Repo)
	var reply fleet.ClaimReply
	for asked := false; !asked || reply.Later; asked = true {
		err := untilLost(ctx, w.conn.NC, func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			reply, err = fleet.Request[fleet.ClaimReply](ctx, w.conn.NC, fleet.ClaimSubject(w.id, t.Run), r)
			return err
		})
		w.answered(t.Run, bridge.CodeOf(err) != bridge.CodeUnavailable)
		if err != nil {
			return nil, err
		}
	}
	a := reply.Assignment
	if a == nil || !word(a.Claim) || a.Run != t.Run || a.Task != t.Task {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the coordinator has answered a claim with another task"}
	}
	return a, nil
}

// begin returns nil for a claim that this worker is at already: its ticket came
// once more.
func (w *worker) begin(a fleet.Assignment) *claim {
	c := &claim{Assignment: a, w: w, since: time.Now(), word: make(chan fleet.Order, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims[c.Claim] != nil {
		return nil
	}
	c.ctx, c.stop = context.WithCancelCause(w.work)
	w.claims[c.Claim] = c
	return c
}

// end carries out an order about the claim; the first one counts.
func (c *claim) end(o fleet.Order) {
	select {
	case c.word <- o:
		c.stop(errOrdered)
		c.w.log.Info("worker.ordered", "order", o.Kind, "run", c.Run, "task", c.Task, "claim", c.Claim, "message", o.Message)
	default:
	}
}

// do makes the attempt and delivers its result. The slot is free when the server
// has that.
func (c *claim) do(t fleet.Ticket, release func()) {
	defer c.stop(nil)
	r := fleet.Result{Schema: fleet.Schema, Run: c.Run, Task: c.Task, Attempt: c.Attempt, Claim: c.Claim}
	done, err := c.attempt(t)
	r.Summary, r.Usage, r.Tools, r.Denied, r.Session = text.Clip(done.Summary, maxText), done.Usage, done.Tools, done.Denied, done.Session
	if err == nil {
		r.Commit, r.Bundle = done.Commit, done.bundle
	} else {
		r.Error = plain(err)
		c.w.noteFull(err)
	}
	if c.ctx.Err() == nil {
		c.w.log.Info("worker.done", "run", c.Run, "task", c.Task, "claim", c.Claim, "error", err)
		c.tell(true)
		c.deliver(r, release)
	}
	ordered, sent := len(c.word) > 0, c.sent.Load()
	if !ordered && !sent { // the worker ends
		c.send("beat", fleet.Beat{Schema: fleet.Schema, GivenUp: true})
	}
	release()
	if r.Bundle.Object != "" && (ordered || !sent) {
		c.w.store.remove(r.Bundle.Object) // nobody will ask for it any more
	}
}

// plain is an error as it can be sent: what it says to people, and what programs
// tell it by.
func plain(err error) *bridge.Error {
	e := *bridge.AsError(err)
	if e.Message == "" {
		e.Message = e.Error()
	}
	e.Message, e.Remedy, e.Cause = text.Clip(e.Message, maxText), text.Clip(e.Remedy, maxText), nil
	return &e
}

// noteFull stops taking tasks for a while after the disk was full.
func (w *worker) noteFull(err error) {
	if !full(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = fullDisk{why: plain(err).Message, until: time.Now().Add(fullPause)}
	w.log.Error("worker.disk_full: no tasks for a while", "error", err, "pause", fullPause)
}

// made is a successful attempt and its bundle.
type made struct {
	Done
	bundle fleet.Bundle
}

var errTooLong = errors.New("the attempt took too long")

// attempt does the task, and puts its result into the bucket.
func (c *claim) attempt(t fleet.Ticket) (m made, err error) {
	if err := c.check(t); err != nil {
		return m, err
	}
	ctx := c.ctx
	if c.Limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Limits.Timeout, errTooLong)
		defer cancel()
	}
	mirror, err := c.w.root.mirrors.Open(ctx, c.Repo, c.Begin)
	if err != nil {
		return m, err
	}
	defer mirror.Close()
	dir, err := c.w.root.tree(c.Repo)
	if err != nil {
		return m, err
	}
	if err := c.receive(ctx, mirror); err != nil {
		return m, err
	}
	if err := bundle.CheckFiles(ctx, mirror.Repo, c.Begin); err != nil {
		return m, err
	}
	job := Job{Assignment: c.Assignment, Repo: mirror.Repo, Dir: dir, Ask: c.ask, Report: c.report}
	if m.Done, err = c.call(ctx, job); err != nil {
		if errors.Is(context.Cause(ctx), errTooLong) {
			err = &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the attempt took longer than %s", c.Limits.Timeout), Cause: err}
		}
		return m, err
	}
	if m.Commit == "" || m.Commit == c.Begin {
		m.Commit = c.Begin
		return m, nil
	}
	m.bundle, err = c.pack(ctx, mirror, m.Commit)
	return m, err
}

// check refuses an assignment that this worker does not understand.
func (c *claim) check(t fleet.Ticket) error {
	switch {
	case c.Schema != fleet.Schema:
		return otherSchema("the run's coordinator", c.Schema)
	case c.Attempt != t.Attempt || c.Repo != t.Repo || !word(c.Repo):
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the assignment is not for the ticket that was claimed"}
	}
	return nil
}

// call runs the attempt; a panic of it is an error of that task alone.
func (c *claim) call(ctx context.Context, j Job) (done Done, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.w.log.Error("worker.panic", "run", c.Run, "task", c.Task, "panic", p, "stack", string(debug.Stack()))
			err = &bridge.Error{Code: bridge.CodeInternal, Message: "the worker failed at this task; its log says where"}
		}
	}()
	return c.w.Attempt(ctx, j)
}

// ask puts a question to the coordinator's person.
func (c *claim) ask(ctx context.Context, question json.RawMessage, until time.Time) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	if !until.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	defer context.AfterFunc(c.ctx, cancel)()
	c.tell(true) // what led to the question comes first
	reply, err := fleet.Request[fleet.Reply](ctx, c.w.conn.NC, c.subject("ask"), fleet.Ask{Schema: fleet.Schema, Question: question, Until: until})
	return reply.Answer, err
}

func (c *claim) subject(kind string) string {
	return fleet.WorkSubject(kind, c.w.id, c.Run, c.Task, c.Claim)
}
