package coordinator

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

func TestTaskIsDone(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	c := start(t, f.Coordinator, Options{Model: "m1", Effort: "high", Policy: json.RawMessage(`{"a":1}`)})
	told := make(chan orchestrate.Progress, 100)
	done := tryOn(t.Context(), c, "a/1", begin, func(p orchestrate.Progress) { told <- p })
	a := w.mustClaim()
	if a.Task != "a/1" || a.Goal != "all of it" || a.Description != "do a/1" || a.Begin != begin || a.Bundle.Object != "" || a.Model != "m1" || a.Effort != "high" || string(a.Policy) != `{"a":1}` {
		t.Errorf("%+v", a)
	}
	w.say("event", a, fleet.Event{Schema: fleet.Schema, Text: "thinking\nmore", Session: "s1", Usage: bridge.Usage{InputTokens: 7}})
	for {
		p := fleettest.Receive(t, "the event", told)
		if p.At.Session == "s1" {
			if p.At.Worker != "alpha" || p.Text != "thinking…" || p.Usage.InputTokens != 7 {
				t.Errorf("%+v", p)
			}
			break
		}
	}
	w.mustDeliver(a, result(a))
	if out := mustDone(t, done, "alpha"); out.Summary != "a/1 is done" {
		t.Errorf("%+v", out)
	}
	w.wantOrder(fleet.OrderAccepted, a.Claim)
	fleettest.Wait(t, "an empty queue", func() bool {
		i, err := c.stores.tasks.Info(t.Context())
		return err == nil && i.State.Msgs == 0
	})
}

func TestFailedAttemptSaysWhy(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	c := start(t, f.Coordinator, Options{})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	r := result(a)
	r.Commit, r.Error = "", &bridge.Error{Code: bridge.CodeRateLimited, Message: "wait"}
	w.mustDeliver(a, r)
	if e := wait(t, done); bridge.CodeOf(e.err) != bridge.CodeRateLimited || e.err.Error() != "wait" {
		t.Errorf("%v", e.err)
	}
}

// A worker that dies after its claim loses it, and another gets the task.
func TestDeadWorker(t *testing.T) {
	f := fleettest.Up(t)
	dead, other := newHand(t, f, "dead"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{Lease: lease})
	done := try(t.Context(), c, "a")
	first := dead.mustClaim()
	begun := time.Now()
	a := other.mustClaim()
	if took := time.Since(begun); took < lease/2 || took > 10*lease {
		t.Errorf("the ticket came after %s, the lease is %s", took, lease)
	}
	if a.Claim == first.Claim || a.Attempt != 1 {
		t.Errorf("%+v", a)
	}
	other.mustDeliver(a, result(a))
	mustDone(t, done, "other")
}

// One that hangs, wakes and delivers is refused; the second one's result counts.
func TestLateResult(t *testing.T) {
	f := fleettest.Up(t)
	late, other := newHand(t, f, "late"), newHand(t, f, "other")
	r := &fleettest.Record{}
	c := start(t, f.Coordinator, Options{Lease: lease, Record: r.Add})
	done := try(t.Context(), c, "a")
	first := late.mustClaim()
	second := other.mustClaim()
	late.beat(first)
	late.wantOrder(fleet.OrderCancel, first.Claim)
	late.mustDeliver(first, result(first))
	late.wantOrder(fleet.OrderRefused, first.Claim)
	if !r.Has("fleet_result", late.id, "not in force") {
		t.Error(r.Lines())
	}
	other.mustDeliver(second, result(second))
	mustDone(t, done, "other")
	again := result(first)
	again.Summary = "once more"
	if err := late.deliver(first, again); err != nil {
		t.Fatal(err)
	}
	late.wantOrder(fleet.OrderRefused, first.Claim)
}

// A worker that beats keeps its claim and its ticket, however long it takes.
func TestBeatsExtendTheLease(t *testing.T) {
	f := fleettest.Up(t)
	w, other := newHand(t, f, "alpha"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{Lease: lease})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	ctx, cancel := context.WithTimeout(t.Context(), 3*lease)
	defer cancel()
	go w.beatUntil(ctx, a)
	if ticket, _, ok := other.ticket(ctx, "any"); ok {
		t.Errorf("the ticket came again: %+v", ticket)
	}
	w.mustDeliver(a, result(a))
	mustDone(t, done, "alpha")
}

func TestGivenUpClaimIsFreeAtOnce(t *testing.T) {
	f := fleettest.Up(t)
	w, other := newHand(t, f, "alpha"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	w.say("beat", a, fleet.Beat{Schema: fleet.Schema, GivenUp: true})
	begun := time.Now()
	b := other.mustClaim()
	if took := time.Since(begun); took > fleet.Lease/2 {
		t.Errorf("it took %s", took)
	}
	other.mustDeliver(b, result(b))
	mustDone(t, done, "other")
}

// A worker that claims again and again and gives up does not end the attempt: the
// next one has its turn.
func TestOneWorkerCannotFailAnAttempt(t *testing.T) {
	f := fleettest.Up(t)
	thief, other := newHand(t, f, "thief"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{})
	done := try(t.Context(), c, "a")
	given := 0
	for range 3 * maxLosses {
		ticket, ack := thief.mustTicket()
		a, err := thief.claim(t.Context(), ticket, ack)
		if err != nil {
			if bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), "leaves it to others") {
				t.Fatal(err)
			}
			break
		}
		given++
		thief.say("beat", a, fleet.Beat{Schema: fleet.Schema, GivenUp: true})
	}
	if given < 2 || given >= maxLosses {
		t.Errorf("the task was given to it %d times", given)
	}
	begun := time.Now()
	a := other.mustClaim()
	if took := time.Since(begun); took > fleet.Lease/2 {
		t.Errorf("the ticket came after %s", took)
	}
	other.mustDeliver(a, result(a))
	mustDone(t, done, "other")
}

// Of two workers with one ticket, one gets the task.
func TestTwoClaims(t *testing.T) {
	f := fleettest.Up(t)
	one, two := newHand(t, f, "one"), newHand(t, f, "two")
	c := start(t, f.Coordinator, Options{})
	for i := range 10 {
		done := try(t.Context(), c, taskName(i))
		ticket, ack := one.mustTicket()
		type answer struct {
			h   *hand
			a   *fleet.Assignment
			err error
		}
		answers := make(chan answer, 2)
		for _, h := range []*hand{one, two} {
			go func() {
				a, err := h.claim(t.Context(), ticket, ack)
				answers <- answer{h, a, err}
			}()
		}
		won := 0
		for range 2 {
			switch a := fleettest.Receive(t, "an answer", answers); {
			case a.err == nil:
				won++
				a.h.mustDeliver(a.a, result(a.a))
			case bridge.CodeOf(a.err) != bridge.CodeConflict:
				t.Error(a.err)
			}
		}
		if e := wait(t, done); won != 1 || e.err != nil {
			t.Fatalf("%d won, %v", won, e.err)
		}
	}
}

// A worker whose commit takes long to be sent is told so, holds the task meanwhile,
// and gets it when it asks again. One that does not ask again loses it.
func TestCommitTakesLong(t *testing.T) {
	f := fleettest.Up(t)
	slow, other := newHand(t, f, "slow"), newHand(t, f, "other")
	here := newRepository(t)
	base := here.git("rev-parse", "HEAD")
	c := startOn(t, f.Coordinator, Options{Lease: lease}, base, here.repo)
	for range cap(c.gits) { // bundles have to wait
		c.gits <- struct{}{}
	}
	done := tryOn(t.Context(), c, "big", base)
	ticket, ack := slow.mustTicket()
	for range 5 { // for longer than a lease
		if r, err := slow.ask(t.Context(), ticket, ack); err != nil || !r.Later || r.Assignment != nil {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if r, err := other.ask(t.Context(), ticket, ack); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Errorf("another worker has it too: %+v, %v", r, err)
	}
	for range cap(c.gits) {
		<-c.gits
	}
	ticket, ack = other.mustTicket() // nobody asked for the assignment
	r, err := other.ask(t.Context(), ticket, ack)
	if err == nil && r.Later {
		r, err = other.ask(t.Context(), ticket, ack)
	}
	if err != nil || r.Assignment == nil || r.Assignment.Bundle.Object == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	again, err := other.ask(t.Context(), ticket, ack) // the answer may have been lost
	if err != nil || again.Assignment == nil || again.Assignment.Claim != r.Assignment.Claim {
		t.Errorf("%+v, %v; want the claim %s", again.Assignment, err, r.Assignment.Claim)
	}
	other.mustDeliver(r.Assignment, result(r.Assignment))
	if e := wait(t, done); e.err != nil || e.out.Worker != "other" {
		t.Errorf("%+v, %v", e.out, e.err)
	}
}

// Results that are not the claim's are refused and recorded, and change nothing.
func TestForgedResults(t *testing.T) {
	f := fleettest.Up(t)
	w, thief := newHand(t, f, "alpha"), newHand(t, f, "thief")
	r := &fleettest.Record{}
	c := start(t, f.Coordinator, Options{Record: r.Add})
	done, other := try(t.Context(), c, "a"), try(t.Context(), c, "b")
	a, b := w.mustClaim(), w.mustClaim()
	if a.Task == "b" {
		a, b = b, a
	}
	for name, forge := range map[string]func() (*fleet.Assignment, fleet.Result){
		"another worker's": func() (*fleet.Assignment, fleet.Result) { return a, result(a) },
		"no such claim":    func() (*fleet.Assignment, fleet.Result) { x := *a; x.Claim = "made-up"; return &x, result(&x) },
		"another task":     func() (*fleet.Assignment, fleet.Result) { x := *a; x.Claim = "other"; return &x, result(a) },
		"version 99":       func() (*fleet.Assignment, fleet.Result) { x := result(a); x.Schema = 99; return a, x },
	} {
		at, forged := forge()
		if err := thief.deliver(at, forged); err != nil {
			t.Fatal(err)
		}
		fleettest.Wait(t, "a record of "+name, func() bool { return r.Has(thief.id, name) })
	}
	// The worker itself, with the claim of one task under another, and with a commit of its own.
	crossed := *b
	crossed.Claim = a.Claim
	if err := w.deliver(&crossed, result(&crossed)); err != nil {
		t.Fatal(err)
	}
	fleettest.Wait(t, "a record of the crossed claim", func() bool { return r.Has(w.id, "of another task") })
	w.mustDeliver(a, result(a))
	mustDone(t, done, "alpha")
	w.mustDeliver(b, result(b))
	mustDone(t, other, "alpha")
}

// A commit that does not build on the one to begin with is refused, and recorded.
func TestForgedCommit(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	here := newRepository(t)
	base := here.git("rev-parse", "HEAD")
	mirror := here.clone()
	r := &fleettest.Record{}
	c := startOn(t, f.Coordinator, Options{Record: r.Add}, base, here.repo)
	done := tryOn(t.Context(), c, "a", base)
	a := w.mustClaimOn(base)
	wrong := mirror.commitOn(mirror.commitOn(base, "one", "1"), "two", "2")
	w.deliverCommit(mirror, a, wrong)
	w.wantOrder(fleet.OrderRefused, a.Claim)
	if here.has(wrong) || !r.Has("fleet_result", w.id) {
		t.Errorf("it is there: %v; %v", here.has(wrong), r.Lines())
	}
	again := w.mustClaimOn(base)
	right := mirror.commitOn(base, "one", "1")
	w.deliverCommit(mirror, again, right)
	if e := wait(t, done); e.err != nil || e.out.Work != right || !here.has(right) {
		t.Errorf("%+v", e)
	}
}

// A worker that was removed cannot deliver what it had claimed before.
func TestRemovedWorkerCannotDeliver(t *testing.T) {
	f := fleettest.Up(t)
	w, other := newHand(t, f, "alpha"), newHand(t, f, "other")
	r := &fleettest.Record{}
	c := start(t, f.Coordinator, Options{Record: r.Add})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	markRemoved(t, c, w.id)
	w.mustDeliver(a, result(a))
	b := other.mustClaim()
	if !r.Has("fleet_result", w.id, "removed") {
		t.Error(r.Lines())
	}
	other.mustDeliver(b, result(b))
	mustDone(t, done, "other")
}

// markRemoved writes into the record of a member that it is removed, which is all
// that there is to see where its connection is not cut (yet).
func markRemoved(t *testing.T, c *Coordinator, id string) {
	t.Helper()
	e, err := c.stores.members.Get(t.Context(), id)
	if err == nil {
		_, err = c.stores.members.Put(t.Context(), id, []byte(strings.Replace(string(e.Value()), `{`, `{"removed":true,`, 1)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A result without the bundle that it names is refused, and the task is free.
func TestResultWithoutItsBundle(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	r := &fleettest.Record{}
	c := start(t, f.Coordinator, Options{Record: r.Add})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	bad := result(a)
	bad.Commit = strings.Repeat("c", 40)
	w.mustDeliver(a, bad)
	w.wantOrder(fleet.OrderRefused, a.Claim)
	again := w.mustClaim()
	w.mustDeliver(again, result(again))
	mustDone(t, done, "alpha")
}

func TestRefusedClaims(t *testing.T) {
	f := fleettest.Up(t)
	w, drained, removed := newHand(t, f, "alpha", "gpu=yes"), newHand(t, f, "drained", "gpu=yes"), newHand(t, f, "removed", "gpu=yes")
	unlabeled := newHand(t, f, "unlabeled")
	r := &fleettest.Record{}
	c := start(t, f.Coordinator, Options{Labels: []string{"gpu"}, Record: r.Add, Model: "m1"})
	done := try(t.Context(), c, "a")
	if _, err := fleet.Drain(t.Context(), f.Coordinator, "drained"); err != nil {
		t.Fatal(err)
	}
	ticket, ack, ok := w.ticket(t.Context(), fleet.Queue([]string{"gpu"}))
	if !ok {
		t.Fatal("no ticket")
	}
	ask := func(h *hand, change func(*fleet.ClaimRequest)) error {
		q := fleet.ClaimRequest{Schema: fleet.Schema, Ticket: ticket, Ack: ack, Have: []string{begin}}
		if change != nil {
			change(&q)
		}
		_, err := fleet.Request[fleet.ClaimReply](t.Context(), h.conn.NC, fleet.ClaimSubject(h.id, ticket.Run), q)
		return err
	}
	for _, test := range []struct {
		who    *hand
		change func(*fleet.ClaimRequest)
		want   string
	}{
		{drained, nil, "being drained"},
		{unlabeled, nil, "does not have the labels"},
		{w, func(q *fleet.ClaimRequest) { q.Schema = 2 }, "version 2 of the fleet's messages"},
		{w, func(q *fleet.ClaimRequest) { q.Ticket.Schema = 3 }, "version 3 of the fleet's messages"},
		{w, func(q *fleet.ClaimRequest) { q.Demo = true }, "demo model"},
		{w, func(q *fleet.ClaimRequest) { q.Models = []string{"m2"} }, "does not offer the model m1"},
		{w, func(q *fleet.ClaimRequest) { q.Ack = "fleet.journal." + testRun }, "names no ticket"},
		{w, func(q *fleet.ClaimRequest) { q.Ack = strings.Replace(ack, ".TASKS.", ".JOURNAL.", 1) }, "names no ticket"},
		{w, func(q *fleet.ClaimRequest) { q.Ticket.Attempt = 2 }, "not in force"},
		{w, func(q *fleet.ClaimRequest) { q.Ticket.Task = "b" }, "not in force"},
	} {
		if err := ask(test.who, test.change); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
	markRemoved(t, c, removed.id)
	if err := ask(removed, nil); bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(err.Error(), "removed") || !r.Has(removed.id, "removed") {
		t.Errorf("%v %v", err, r.Lines())
	}
	a, err := w.claim(t.Context(), ticket, ack)
	if err != nil {
		t.Fatal(err)
	}
	w.mustDeliver(a, result(a))
	mustDone(t, done, "alpha")
}

// A result that is delivered several times counts once.
func TestDuplicateDelivery(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	r := &fleettest.Record{}
	c := start(t, f.Coordinator, Options{Record: r.Add})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	deliver := func() { // without an id, so that the server does not drop it
		if err := w.deliver(a, result(a)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // those that come before the first one is accepted get no word of their own
		deliver()
	}
	mustDone(t, done, "alpha")
	w.wantOrder(fleet.OrderAccepted, a.Claim)
	for range 2 {
		deliver()
		w.wantOrder(fleet.OrderAccepted, a.Claim)
	}
	if len(r.Lines()) > 0 {
		t.Error(r.Lines())
	}
}

func TestCancelReachesTheWorkerAtOnce(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "alpha")
	c := start(t, f.Coordinator, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := try(ctx, c, "a")
	a := w.mustClaim()
	waiting := try(ctx, c, "b")
	fleettest.Wait(t, "a second ticket", func() bool {
		i, err := c.stores.tasks.Info(t.Context())
		return err == nil && i.State.Msgs == 2
	})
	begun := time.Now()
	cancel()
	w.wantOrder(fleet.OrderCancel, a.Claim)
	told := time.Since(begun)
	for _, d := range []<-chan ended{done, waiting} {
		if e := wait(t, d); bridge.CodeOf(e.err) != bridge.CodeCanceled {
			t.Error(e.err)
		}
	}
	t.Logf("the worker knew after %s, the attempts had ended after %s", told, time.Since(begun))
	if told > time.Second {
		t.Errorf("the worker knew after %s", told)
	}
	if i, err := c.stores.tasks.Info(t.Context()); err != nil || i.State.Msgs != 0 {
		t.Errorf("%+v %v", i, err)
	}
	w.mustDeliver(a, result(a))
	w.wantOrder(fleet.OrderRefused, a.Claim)
}

func TestQuestions(t *testing.T) {
	f := fleettest.Up(t)
	w, thief := newHand(t, f, "alpha"), newHand(t, f, "thief")
	asked := make(chan Question, 1)
	c := start(t, f.Coordinator, Options{Ask: func(ctx context.Context, q Question) (json.RawMessage, error) {
		asked <- q
		if string(q.Question) == `"wait"` {
			<-ctx.Done()
			return nil, &bridge.Error{Code: bridge.CodeDenied, Message: "nobody answered"}
		}
		return json.RawMessage(`"once"`), nil
	}})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	ask := func(h *hand, q fleet.Ask) (fleet.Reply, error) {
		return fleet.Request[fleet.Reply](t.Context(), h.conn.NC, fleet.WorkSubject("ask", h.id, a.Run, a.Task, a.Claim), q)
	}
	r, err := ask(w, fleet.Ask{Schema: fleet.Schema, Question: json.RawMessage(`"may I"`)})
	if q := fleettest.Receive(t, "the question", asked); err != nil || string(r.Answer) != `"once"` || q.Name != "alpha" || q.Task != "a" || string(q.Question) != `"may I"` {
		t.Errorf("%+v %v %+v", r, err, q)
	}
	if _, err := ask(w, fleet.Ask{Schema: fleet.Schema, Question: json.RawMessage(`"wait"`), Until: time.Now().Add(200 * time.Millisecond)}); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Error(err)
	}
	fleettest.Receive(t, "the second question", asked)
	if _, err := ask(thief, fleet.Ask{Schema: fleet.Schema, Question: json.RawMessage(`"may I"`)}); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Error(err)
	}
	w.mustDeliver(a, result(a))
	mustDone(t, done, "alpha")
}

// The time of a look-up is for one result, however many have come.
func TestManyResultsAreNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hints, looked, over := make(chan struct{}, 1), make(chan bool, 1), make(chan struct{})
	hints <- struct{}{}
	c := &Coordinator{ctx: ctx}
	go func() {
		defer close(over)
		c.pollResults(hints, func(ctx context.Context) (int, error) {
			_, bounded := ctx.Deadline()
			looked <- bounded
			cancel()
			return 1, nil
		})
	}()
	if fleettest.Receive(t, "a look", looked) {
		t.Error("all results together have a time-out")
	}
	fleettest.Receive(t, "the end", over)
}
