package coordinator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// What a worker says of itself is believed within bounds: two costs of 1e308 have no
// sum that can be written down, and a pause of a century ends no run.
func TestAbsurdResults(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "liar")
	c := start(t, f.Coordinator, Options{})
	absurd := bridge.Usage{Model: strings.Repeat("m", 1000), Calls: -1, InputTokens: math.MaxInt64, OutputTokens: math.MinInt64, Cost: math.MaxFloat64, Premium: -math.MaxFloat64, Credits: math.MaxFloat64}
	heard := make(chan orchestrate.Progress, 100)
	done := tryOn(t.Context(), c, "a", begin, func(p orchestrate.Progress) { heard <- p })
	a := w.mustClaim()
	w.say("event", a, fleet.Event{Schema: fleet.Schema, Text: "x", Usage: absurd})
	told := fleettest.Receive(t, "the event", heard)
	for told.Text != "x" {
		told = fleettest.Receive(t, "the event", heard)
	}
	r := result(a)
	r.Usage, r.Tools, r.Denied, r.Summary = absurd, -5, math.MaxInt, strings.Repeat("s", 200<<10)
	w.mustDeliver(a, r)
	out := mustDone(t, done, "liar")
	for _, u := range []bridge.Usage{told.Usage, out.Usage, out.Usage.Add(out.Usage).Add(out.Usage)} {
		if _, err := json.Marshal(u); err != nil || u.Calls < 0 || u.InputTokens < 0 || u.OutputTokens < 0 || u.Cost > 1e10 || u.Premium < 0 || len(u.Model) > 400 {
			t.Errorf("%+v, %v", u, err)
		}
	}
	if out.Tools != 0 || out.Denied > 1<<30 || len(out.Summary) > maxSummary+len("…") {
		t.Errorf("%d %d %d", out.Tools, out.Denied, len(out.Summary))
	}

	done = try(t.Context(), c, "b")
	a = w.mustClaim()
	r = result(a)
	r.Error = &bridge.Error{Code: "no\x1b[2Jcode", Message: strings.Repeat("m", 200<<10), Remedy: strings.Repeat("r", 200<<10), RetryAfter: 100 * 365 * 24 * time.Hour,
		Detail: &bridge.ErrorDetail{Type: "quota", URL: "https://evil.example/login"}}
	w.mustDeliver(a, r)
	e := bridge.AsError(wait(t, done).err)
	if e.Code != bridge.CodeInternal || len(e.Message) > maxSummary+len("…") || len(e.Remedy) > maxRemedy+len("…") || e.RetryAfter > maxRetryAfter || e.Detail == nil || e.Detail.URL != "" {
		t.Errorf("%.200q %d %d %s %+v", e.Code, len(e.Message), len(e.Remedy), e.RetryAfter, e.Detail)
	}
}

// A worker that was removed, and whose connection is not cut, loses what it holds
// however it beats, and asks nobody any more.
func TestRemovedWorkerHoldsNothing(t *testing.T) {
	f := fleettest.Up(t)
	w, other := newHand(t, f, "alpha"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{Lease: lease, Ask: func(context.Context, Question) (json.RawMessage, error) {
		return json.RawMessage(`"once"`), nil
	}})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	ctx, cancel := context.WithCancel(t.Context())
	beating := make(chan struct{})
	go func() { w.beatUntil(ctx, a); close(beating) }()
	defer func() { cancel(); <-beating }()
	markRemoved(t, c, w.id)
	ask := fleet.Ask{Schema: fleet.Schema, Question: json.RawMessage(`"may I"`)}
	if _, err := fleet.Request[fleet.Reply](t.Context(), w.conn.NC, fleet.WorkSubject("ask", w.id, a.Run, a.Task, a.Claim), ask); err == nil {
		t.Error("a person was asked")
	}
	b := other.mustClaim()
	other.mustDeliver(b, result(b))
	mustDone(t, done, "other")
}

// One worker's questions leave room for those of others, and one that is too long
// is not kept.
func TestManyQuestions(t *testing.T) {
	f := fleettest.Up(t)
	w, other := newHand(t, f, "loud"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{Ask: func(ctx context.Context, q Question) (json.RawMessage, error) {
		if q.Name == "loud" {
			<-ctx.Done()
		}
		return json.RawMessage(`"once"`), nil
	}})
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	second := try(t.Context(), c, "b")
	b := other.mustClaim()
	answers, err := w.conn.NC.SubscribeSync(fleet.Inbox(w.id) + ".answers")
	if err != nil {
		t.Fatal(err)
	}
	question, err := json.Marshal(fleet.Ask{Schema: fleet.Schema, Question: json.RawMessage(`"may I"`)})
	if err != nil {
		t.Fatal(err)
	}
	const busy = 500
	for range maxQuestions + busy {
		if err := w.conn.NC.PublishRequest(fleet.WorkSubject("ask", w.id, a.Run, a.Task, a.Claim), answers.Subject, question); err != nil {
			t.Fatal(err)
		}
	}
	for range busy {
		m, err := answers.NextMsg(fleettest.Timeout)
		if err != nil || !strings.Contains(string(m.Data), "too many questions") {
			t.Fatalf("%v %s", err, m.Data)
		}
	}
	ask := func(h *hand, a *fleet.Assignment, n int) error {
		long := fleet.Ask{Schema: fleet.Schema, Question: json.RawMessage(`"` + strings.Repeat("x", n) + `"`)}
		_, err := fleet.Request[fleet.Reply](t.Context(), h.conn.NC, fleet.WorkSubject("ask", h.id, a.Run, a.Task, a.Claim), long)
		return err
	}
	if err := ask(other, b, 10); err != nil {
		t.Error(err)
	}
	if err := ask(other, b, maxQuestion); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Error(err)
	}
	w.mustDeliver(a, result(a))
	other.mustDeliver(b, result(b))
	mustDone(t, done, "loud")
	mustDone(t, second, "other")
}

// A bundle that is a link to itself, or larger than any result, is not fetched.
func TestEndlessBundles(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "thief")
	here := newRepository(t)
	base := here.git("rev-parse", "HEAD")
	var r fleettest.Record
	c := New(f.Coordinator, Options{Scratch: t.TempDir(), Record: r.Add})
	if err := c.Begin(t.Context(), orchestrate.Meta{ID: testRun, Base: base}, nil, here.repo); err != nil {
		t.Fatal(err)
	}
	done := tryOn(t.Context(), c, "a", base)
	bucket := fleet.WorkerBucket(w.id)
	for _, size := range []int64{0, 1 << 50} {
		a := w.mustClaimOn(base)
		link := fmt.Sprintf(`{"name":%q,"bucket":%q,"nuid":"x","size":0,"chunks":0,"options":{"link":{"bucket":%q,"name":%q}}}`, a.Claim, bucket, bucket, a.Claim)
		subject := "$O." + bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(a.Claim))
		if _, err := w.conn.JS.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, Data: []byte(link)}); err != nil {
			t.Fatal(err)
		}
		bad := result(a)
		bad.Commit, bad.Bundle = strings.Repeat("c", 40), fleet.Bundle{Object: a.Claim, Size: size, SHA256: strings.Repeat("0", 64)}
		begun := time.Now()
		w.mustDeliver(a, bad)
		w.wantOrder(fleet.OrderRefused, a.Claim)
		if took := time.Since(begun); took > getBound/2 {
			t.Errorf("it took %s", took)
		}
	}
	if !r.Has(w.id, "not the one that was announced") || !r.Has(w.id, "and the limit is") {
		t.Error(r.Lines())
	}
	if err := c.End(t.Context(), true); err != nil {
		t.Error(err)
	}
	if e := wait(t, done); e.err == nil {
		t.Errorf("%+v", e.out)
	}
}

// Forged results do not fill the record.
func TestManyForgedResults(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "thief")
	var r fleettest.Record
	c := start(t, f.Coordinator, Options{Record: r.Add})
	for i := range 100 {
		forged := &fleet.Assignment{Run: testRun, Task: "a", Claim: fmt.Sprint("claim-", i), Begin: begin}
		w.mustDeliver(forged, result(forged))
	}
	w.wantOrder(fleet.OrderRefused, "claim-99")
	if n := len(r.Lines()); n == 0 || n > 20 {
		t.Errorf("%d lines", n)
	}
	done := try(t.Context(), c, "a")
	a := w.mustClaim()
	w.mustDeliver(a, result(a))
	mustDone(t, done, "thief")
}

// A ticket that is in force cannot be ended by a worker that shows it for another
// task: without its ticket, a task would wait for good.
func TestTicketsStay(t *testing.T) {
	f := fleettest.Up(t)
	thief, holder, other := newHand(t, f, "thief"), newHand(t, f, "holder"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{})
	done := try(t.Context(), c, "a")
	ticket, ack := holder.mustTicket()
	forge := func() {
		for _, task := range []string{"none", "b"} {
			if _, err := thief.claim(t.Context(), fleet.Ticket{Schema: fleet.Schema, Run: testRun, Task: task, Attempt: 1}, ack); bridge.CodeOf(err) != bridge.CodeConflict {
				t.Errorf("%s: %v", task, err)
			}
		}
	}
	forge()
	second := try(t.Context(), c, "b")
	fleettest.Wait(t, "the second ticket", func() bool {
		i, err := c.stores.tasks.Info(t.Context())
		return err == nil && i.State.LastSeq == 2
	})
	forge()
	a, err := holder.claim(t.Context(), ticket, ack)
	if err != nil {
		t.Fatal(err)
	}
	forge()
	holder.say("beat", a, fleet.Beat{Schema: fleet.Schema, GivenUp: true})
	for range 2 {
		again := other.mustClaim()
		other.mustDeliver(again, result(again))
	}
	mustDone(t, done, "other")
	mustDone(t, second, "other")
}

// A worker that claims without end does not keep the coordinator from others.
func TestManyClaims(t *testing.T) {
	f := fleettest.Up(t)
	thief, other := newHand(t, f, "thief"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{})
	done := try(t.Context(), c, "a")
	ticket, ack := other.mustTicket()
	forged, err := json.Marshal(fleet.ClaimRequest{Schema: fleet.Schema, Ticket: fleet.Ticket{Schema: fleet.Schema, Run: testRun, Task: "b", Attempt: 1}, Ack: ack})
	if err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		if err := thief.conn.NC.PublishRequest(fleet.ClaimSubject(thief.id, testRun), fleet.Inbox(thief.id)+".x", forged); err != nil {
			t.Fatal(err)
		}
	}
	if err := thief.conn.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	a, err := other.claim(t.Context(), ticket, ack)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("claimed after %s", time.Since(begun))
	other.mustDeliver(a, result(a))
	mustDone(t, done, "other")
}

// asExecutor has attempts done by a coordinator, without a repository.
type asExecutor struct{ c *Coordinator }

func (x asExecutor) Execute(ctx context.Context, a orchestrate.Assignment, report func(orchestrate.Progress)) (orchestrate.Outcome, error) {
	return x.c.Attempt(ctx, orchestrate.RemoteWork{Assignment: a, Run: testRun, Goal: "all of it", Begin: begin}, report)
}

// A worker that beats for ever keeps a task until the task's own time-out, by the
// clock here. Then its claim is over, and so is the ticket.
func TestBeatingForEver(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "thief")
	c := start(t, f.Coordinator, Options{Lease: lease})
	ended := make(chan orchestrate.TaskResult, 1)
	go func() {
		plan := orchestrate.TaskPlan{Tasks: []orchestrate.SubTask{{ID: "a", Description: "do a", EstimatedComplexity: "S"}}}
		results, err := orchestrate.RunPlan(t.Context(), plan, asExecutor{c}, orchestrate.Schedule{Limit: 1, TaskTimeout: 2 * lease, Remote: true, Emit: func(orchestrate.Event) error { return nil }})
		if err != nil || len(results) != 1 {
			t.Errorf("%+v, %v", results, err)
			results = make([]orchestrate.TaskResult, 1)
		}
		ended <- results[0]
	}()
	a := w.mustClaim()
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	beating := make(chan struct{})
	go func() { w.beatUntil(ctx, a); close(beating) }()
	defer func() { cancel(); <-beating }()
	r := fleettest.Receive(t, "the end of the task", ended)
	if took := time.Since(begun); r.Error == nil || r.Error.Code != bridge.CodeTimeout || took < lease || took > 10*lease {
		t.Errorf("%+v after %s", r, took)
	}
	w.wantOrder(fleet.OrderCancel, a.Claim)
	w.mustDeliver(a, result(a))
	w.wantOrder(fleet.OrderRefused, a.Claim)
	if i, err := c.stores.tasks.Info(t.Context()); err != nil || i.State.Msgs != 0 {
		t.Errorf("the ticket is there still: %v", err)
	}
}

// What a worker has failed at goes to another one, if there is one, however fast
// the first one asks.
func TestFailingWorker(t *testing.T) {
	f := fleettest.Up(t)
	bad, other := newHand(t, f, "bad"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{Lease: 4 * lease})
	attempt := func(n int) <-chan ended {
		done := make(chan ended, 1)
		go func() {
			w := work("a", begin)
			w.Attempt = n
			out, err := c.Attempt(t.Context(), w, func(orchestrate.Progress) {})
			done <- ended{out, err}
		}()
		return done
	}
	fail := func(n int) {
		t.Helper()
		done := attempt(n)
		a := bad.mustClaim()
		r := result(a)
		r.Error = &bridge.Error{Code: bridge.CodeInternal, Message: "no"}
		bad.mustDeliver(a, r)
		if e := wait(t, done); e.err == nil {
			t.Fatal("it has not failed")
		}
	}
	fail(1)
	done := attempt(2)
	ticket, ack := bad.mustTicket()
	if _, err := bad.claim(t.Context(), ticket, ack); bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), "leaves it to others") {
		t.Errorf("it got the task again: %v", err)
	}
	begun := time.Now()
	a := other.mustClaim()
	if took := time.Since(begun); took > 2*lease {
		t.Errorf("the other got it after %s", took)
	}
	other.mustDeliver(a, result(a))
	mustDone(t, done, "other")
	// Alone, it gets the task a little later.
	done = attempt(3)
	a = bad.mustClaim()
	bad.mustDeliver(a, result(a))
	mustDone(t, done, "bad")
}

// A worker that says very long things without end does not cut the coordinator off.
func TestLongMessages(t *testing.T) {
	f := fleettest.Up(t)
	thief, other := newHand(t, f, "thief"), newHand(t, f, "other")
	c := start(t, f.Coordinator, Options{})
	done := try(t.Context(), c, "a")
	long := make([]byte, 7<<20)
	fleettest.Flood(t, func() {
		for _, n := range []int{len(long), 1 << 20} { // the first is refused
			_ = thief.conn.NC.Publish(fleet.WorkSubject("event", thief.id, testRun, "a", "claim"), long[:n]) // the hub may cut it off
		}
	})
	for i := range 10 {
		a := other.mustClaim()
		other.mustDeliver(a, result(a))
		mustDone(t, done, "other")
		done = try(t.Context(), c, taskName(i))
	}
	if n := f.Coordinator.NC.Stats().Reconnects; n > 0 {
		t.Errorf("the coordinator had to connect again %d times", n)
	}
}

// A worker that claims and gives up, and says each time that it has other commits,
// does not fill the disk with bundles.
func TestManyBundles(t *testing.T) {
	f := fleettest.Up(t)
	w := newHand(t, f, "thief")
	here := newRepository(t)
	base := here.git("rev-parse", "HEAD")
	scratch := t.TempDir()
	c := New(f.Coordinator, Options{Scratch: scratch, Lease: lease})
	if err := c.Begin(t.Context(), orchestrate.Meta{ID: testRun, Base: base}, nil, here.repo); err != nil {
		t.Fatal(err)
	}
	bundles := func() []string {
		files, err := filepath.Glob(filepath.Join(scratch, "begin-*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	for i := range 5 {
		done := tryOn(t.Context(), c, taskName(i), base)
		a := w.mustClaimOn(strings.Repeat(fmt.Sprint(i), 40))
		if a.Bundle.Object == "" || len(bundles()) != 1 {
			t.Errorf("%+v, %q", a.Bundle, bundles())
		}
		if i%2 == 0 {
			w.say("beat", a, fleet.Beat{Schema: fleet.Schema, GivenUp: true})
			a = w.mustClaimOn(base)
		}
		w.mustDeliver(a, result(a))
		if e := wait(t, done); e.err != nil {
			t.Fatal(e.err)
		}
		fleettest.Wait(t, "no bundle", func() bool { return len(bundles()) == 0 })
	}
	if err := c.End(t.Context(), true); err != nil {
		t.Error(err)
	}
}
