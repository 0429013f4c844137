package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// A task is claimed, done and delivered; for the second one nothing is sent that
// the worker has.
func TestDelivers(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.judge = func(fleet.Result) fleet.OrderKind { return "" }
	w := y.start(Options{Attempt: commit})
	y.put("any", "one")
	fleettest.Wait(t, "the claim", func() bool { y.mu.Lock(); defer y.mu.Unlock(); return len(y.given) == 1 })
	if len(y.asked[0].Have) != 0 || y.asked[0].Ticket.Task != "one" || !slices.Equal(y.asked[0].Models, ready().Models) || !strings.HasPrefix(y.asked[0].Ack, "$JS.ACK."+fleet.StreamTasks+".") {
		t.Errorf("the first claim is %+v", y.asked[0])
	}
	one := y.wait(1)["one"]
	if one.Error != nil || one.Summary != "did one" || one.Usage.Calls != 1 || one.Session != "session" || one.Bundle.Object != one.Claim {
		t.Errorf("the first result is %+v", one)
	}
	if files := y.fetch(w.id, one); files != "done-one\nnumbers" {
		t.Errorf("the result has %q", files)
	}
	y.order(w.id, fleet.Order{Kind: fleet.OrderAccepted, Claim: one.Claim})
	y.put("any", "task two, with a long name that is no word of a subject")
	y.wait(2)
	y.order(w.id, fleet.Order{Kind: fleet.OrderRefused, Claim: "claim-2", Message: "its parent is another"})
	y.mu.Lock()
	defer y.mu.Unlock()
	second := y.given["claim-2"]
	if len(y.asked[1].Have) == 0 || second.Bundle.Object != "" {
		t.Errorf("the second claim has %v and was given %+v", y.asked[1].Have, second.Bundle)
	}
	// Not List: it never ends when an object goes while it is under way.
	store, err := y.boss.JS.ObjectStore(t.Context(), fleet.WorkerBucket(w.id))
	y.must(err)
	for _, name := range []string{"claim-1", "claim-2"} {
		fleettest.Wait(t, name+" to go", func() bool {
			_, err := store.GetInfo(t.Context(), name)
			return errors.Is(err, jetstream.ErrObjectNotFound)
		})
	}
	if _, err := store.GetInfo(t.Context(), y.given["claim-1"].Bundle.Object); err != nil {
		t.Errorf("the coordinator's object: %v", err)
	}
}

// A worker whose commit is still on the way asks again until it has the task.
func TestAsksAgain(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.reply = func(_ fleet.ClaimRequest, a *fleet.Assignment) (*fleet.Assignment, error) {
		y.mu.Lock()
		defer y.mu.Unlock()
		if len(y.asked) < 3 {
			return nil, errLater
		}
		return a, nil
	}
	y.start(Options{Attempt: commit})
	y.put("any", "big")
	if r := y.wait(1)["big"]; r.Error != nil || r.Claim != "claim-3" {
		t.Errorf("%+v", r)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.asked) != 3 || len(y.given) != 1 || y.asked[0].Ack != y.asked[2].Ack {
		t.Errorf("asked %+v, given %v", y.asked, y.given)
	}
}

// The bundle of a later commit has only what is new.
func TestThinBundle(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.start(Options{Attempt: commit})
	y.put("any", "one")
	y.wait(1)
	y.sh(y.repo.Top, "echo more >more && git add . && git commit -qm second")
	y.mu.Lock()
	y.begin = y.sh(y.repo.Top, "git rev-parse HEAD")
	y.mu.Unlock()
	y.put("any", "two")
	if r := y.wait(2)["two"]; r.Error != nil {
		t.Error(r.Error)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	first, second := y.given["claim-1"].Bundle, y.given["claim-2"].Bundle
	if second.Object == "" || second.Size > first.Size/5 {
		t.Errorf("the bundles have %d and %d bytes", first.Size, second.Size)
	}
}

// No more tasks are begun, and no more tickets taken, than there are slots.
func TestCapacity(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any", "k=a")
	var now, most atomic.Int32
	begun := make(chan string, 100)
	finish := make(chan struct{})
	y.start(Options{Capacity: 4, Attempt: func(ctx context.Context, j Job) (Done, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		begun <- j.Task
		return hold(ctx, j, finish)
	}})
	for i := range 6 {
		y.put("any", fmt.Sprint("any", i))
		y.put("k=a", fmt.Sprint("a", i))
	}
	for range 4 {
		fleettest.Receive(t, "the begin of a task", begun)
	}
	// All slots are taken now. What was handed out beyond them would be lost until
	// its time is up.
	for _, queue := range []string{"any", fleet.Queue([]string{"k=a"})} {
		info, err := y.boss.JS.Consumer(t.Context(), fleet.StreamTasks, queue)
		y.must(err)
		if n := info.CachedInfo().NumAckPending; n != 0 {
			t.Errorf("%d tickets of %s are handed out and not claimed", n, queue)
		}
	}
	close(finish)
	y.wait(12)
	if most.Load() != 4 {
		t.Errorf("%d attempts at a time", most.Load())
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.asked) != 12 {
		t.Errorf("%d claims for 12 tasks", len(y.asked))
	}
}

// Where all queues have tickets, they take turns.
func TestFair(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any", "k=a")
	for i := range 10 {
		y.put("any", fmt.Sprint("any", i))
		y.put("k=a", fmt.Sprint("a", i))
	}
	begun, finish := make(chan string), make(chan struct{})
	y.start(Options{Capacity: 2, Attempt: func(ctx context.Context, j Job) (Done, error) {
		select {
		case begun <- j.Task:
		case <-ctx.Done():
			return Done{}, ctx.Err()
		}
		return hold(ctx, j, finish)
	}})
	share := map[bool]int{}
	for i := range 12 {
		share[strings.HasPrefix(fleettest.Receive(t, "the begin of a task", begun), "any")]++
		if i > 0 { // both slots are taken
			select {
			case finish <- struct{}{}:
			case <-time.After(fleettest.Timeout):
				t.Fatal("no task waits for its end")
			}
		}
	}
	close(finish)
	if share[true] < 5 || share[false] < 5 {
		t.Errorf("of twelve tasks %d and %d were begun", share[true], share[false])
	}
}

// A worker with one slot and two queues finds a ticket of either soon.
func TestFewSlots(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any", "k=a", "k=b")
	y.start(Options{Attempt: func(_ context.Context, j Job) (Done, error) { return Done{Commit: j.Begin}, nil }})
	y.seen("the worker", func(*fleet.Hello) bool { return true })
	slow := 0 // a busy machine may make one or two so
	for i := range 9 {
		begun := time.Now()
		y.put([]string{"any", "k=a", "k=b"}[i%3], fmt.Sprint("t", i))
		y.wait(i + 1)
		took := time.Since(begun)
		t.Logf("task %d took %s", i, took)
		if took > 2*time.Second {
			slow++
		}
	}
	if slow > 2 {
		t.Errorf("%d of 9 tasks took more than two seconds", slow)
	}
}

// hold ends an attempt that changes nothing when it may.
func hold(ctx context.Context, j Job, finish <-chan struct{}) (Done, error) {
	select {
	case <-finish:
	case <-ctx.Done():
	}
	return Done{Commit: j.Begin}, ctx.Err()
}

// blocked is an attempt that only ends when it is canceled.
func blocked(began chan<- string) func(context.Context, Job) (Done, error) {
	return func(ctx context.Context, j Job) (Done, error) {
		began <- j.Claim
		<-ctx.Done()
		return Done{}, context.Cause(ctx)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	began, stopped := make(chan string, 2), make(chan time.Time, 2)
	block := blocked(began)
	w := y.start(Options{Attempt: func(ctx context.Context, j Job) (Done, error) {
		d, err := block(ctx, j)
		stopped <- time.Now()
		return d, err
	}})
	y.put("any", "one")
	claim := fleettest.Receive(t, "the begin", began)
	at := time.Now()
	y.order(w.id, fleet.Order{Kind: fleet.OrderCancel, Claim: claim})
	took := fleettest.Receive(t, "the end", stopped).Sub(at)
	t.Logf("canceled after %s", took)
	if took > time.Second {
		t.Errorf("canceled after %s", took)
	}
	// One of the whole run ends its claims, too.
	y.put("any", "two")
	fleettest.Receive(t, "the second begin", began)
	y.order(w.id, fleet.Order{Kind: fleet.OrderCancel, Run: run})
	fleettest.Receive(t, "the second end", stopped)
	w.stop()
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.results) != 0 {
		t.Errorf("canceled claims delivered %v", y.results)
	}
	for claim, signs := range y.signs {
		for _, s := range signs {
			if s.beat.GivenUp {
				t.Errorf("the canceled %s was given up", claim)
			}
		}
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	began, finish := make(chan string, 2), make(chan struct{})
	w := y.start(Options{Capacity: 2, Attempt: func(ctx context.Context, j Job) (Done, error) {
		began <- j.Claim
		return hold(ctx, j, finish)
	}})
	y.put("any", "one")
	fleettest.Receive(t, "the begin", began)
	_, err := fleet.Drain(t.Context(), y.boss, w.id)
	y.must(err)
	y.seen("the drain", func(h *fleet.Hello) bool { return h.Draining })
	y.put("any", "two")
	close(finish)
	if err := w.end(nil); err != nil {
		t.Error(err)
	}
	if got := y.wait(1); got["one"].Error != nil || len(got) != 1 {
		t.Errorf("the results are %v", got)
	}
}

func TestRemoved(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	began := make(chan string, 1)
	w := y.start(Options{Attempt: blocked(began)})
	y.put("any", "one")
	fleettest.Receive(t, "the begin", began)
	at := time.Now()
	_, err := fleet.Remove(t.Context(), y.boss, w.id)
	y.must(err)
	err = w.end(errors.New("removed"))
	if err == nil || !strings.Contains(err.Error(), "removed") || bridge.AsError(err).Remedy == "" {
		t.Errorf("the worker ended with %v", err)
	}
	t.Logf("ended after %s", time.Since(at))
}

// While the connection is away an attempt goes on. Its result is delivered once,
// when the connection is back.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	began, finish := make(chan string, 1), make(chan struct{})
	w := y.start(Options{Attempt: func(ctx context.Context, j Job) (Done, error) {
		began <- j.Claim
		select {
		case <-finish:
			return commit(ctx, j)
		case <-ctx.Done():
			return Done{}, context.Cause(ctx)
		}
	}})
	y.put("any", "one")
	fleettest.Receive(t, "the begin", began)
	y.must(y.fleet.Hub.Close(t.Context()))
	fleettest.Wait(t, "the loss", func() bool { return !w.conn.NC.IsConnected() })
	close(finish)
	fleettest.Wait(t, "the result", func() bool {
		found, _ := filepath.Glob(filepath.Join(y.root, "results", "*"))
		return len(found) == 1
	})
	y.fleet.Start(t)
	one := y.wait(1)["one"]
	if one.Error != nil {
		t.Fatal(one.Error)
	}
	y.put("any", "two")
	fleettest.Receive(t, "the second begin", began)
	y.wait(2)
	if n := y.kept(); n != 2 {
		t.Errorf("%d results of 2 tasks", n)
	}
}

// A claim that was given to another while the connection was away is canceled by
// the answer to its next beat, and delivers nothing.
func TestClaimLost(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	began := make(chan string, 1)
	w := y.start(Options{Attempt: blocked(began)})
	y.put("any", "one")
	fleettest.Receive(t, "the begin", began)
	y.must(y.fleet.Hub.Close(t.Context()))
	fleettest.Wait(t, "the loss", func() bool { return !w.conn.NC.IsConnected() })
	y.mu.Lock()
	y.beatBack = fleet.OrderCancel
	y.mu.Unlock()
	y.fleet.Start(t)
	y.seen("the end of the claim", func(h *fleet.Hello) bool { return len(h.Running) == 0 })
	w.stop()
	y.wantNothing()
}

// The answer to a beat also tells of an acceptance that got lost.
func TestAcceptanceLost(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.judge = func(fleet.Result) fleet.OrderKind { return "" }
	w := y.start(Options{Attempt: commit})
	y.put("any", "one")
	one := y.wait(1)["one"]
	if y.fetch(w.id, one) == "" {
		t.Error("the result is empty")
	}
	y.mu.Lock()
	y.beatBack = fleet.OrderAccepted
	y.mu.Unlock()
	_, err := fleet.Drain(t.Context(), y.boss, w.id)
	y.must(err)
	at := time.Now()
	_ = w.end(nil) // it has told the test of an error
	if took := time.Since(at); took > drainBound-time.Second {
		t.Errorf("the worker waited %s for a word", took)
	}
}

// A coordinator that is not there is not asked again and again, and its tickets do
// not keep others from being done.
func TestCoordinatorGone(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	const dead = "20250101-000000-dead00"
	var asked atomic.Int32
	_, err := y.boss.NC.Subscribe("fleet.claim.*."+dead, func(m *nats.Msg) {
		asked.Add(1)
		refusal := fleet.ClaimReply{Schema: fleet.Schema, Refused: &bridge.Error{Code: bridge.CodeUnavailable, Message: "nobody is there"}}
		if err := fleet.Respond(m, strings.Split(m.Subject, ".")[2], refusal); err != nil {
			t.Error(err)
		}
	})
	y.must(err)
	for i := range 40 {
		y.ticket(fleet.Ticket{Schema: fleet.Schema, Run: dead, Task: fmt.Sprint("t", i), Attempt: 1, Repo: y.id})
	}
	y.put("any", "good") // behind the others
	begun := time.Now()
	y.start(Options{Capacity: 4, Attempt: commit})
	y.wait(1)
	took := time.Since(begun)
	t.Logf("asked %d times, and done after %s", asked.Load(), took)
	// All slots ask at the same time, then one after a second, after two more, …
	if n := asked.Load(); n == 0 || n > 4+int32(took/time.Second) {
		t.Errorf("asked %d times in %s", n, took)
	}
}

// A coordinator that vanishes with a claim, or after it, holds one slot, and what
// is done for it stays on the server.
func TestCoordinatorVanishes(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.reply = func(r fleet.ClaimRequest, a *fleet.Assignment) (*fleet.Assignment, error) {
		if r.Ticket.Task == "silent" {
			return nil, nil
		}
		return a, nil
	}
	y.judge = func(fleet.Result) fleet.OrderKind { return "" }
	w := y.start(Options{Capacity: 2, Attempt: commit})
	y.put("any", "silent")
	for _, task := range []string{"one", "two", "three"} {
		y.put("any", task)
	}
	y.wait(3)
	w.stop()
	if n := y.kept(); n != 3 {
		t.Errorf("%d results are kept", n)
	}
	for _, r := range y.wait(3) {
		if y.fetch(w.id, r) == "" {
			t.Errorf("the result of %s is not kept", r.Task)
		}
	}
}

// Tasks that begin with the same commit fetch it once; nobody takes it from the others.
func TestOneBeginForAll(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.whole = true
	y.start(Options{Capacity: 4, Attempt: commit})
	for i := range 8 {
		y.put("any", fmt.Sprint("t", i))
	}
	for task, r := range y.wait(8) {
		if r.Error != nil {
			t.Errorf("%s: %v", task, r.Error)
		}
	}
}

// A machine that cannot do tasks takes none, and says why; also after its disk
// was full.
func TestNotReady(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	var why atomic.Pointer[string]
	say := func(s string) { why.Store(&s) }
	say("nobody is logged in")
	w := y.start(Options{Ready: func() Ready { return Ready{Answers: "github", NotReady: *why.Load()} }, Attempt: func(context.Context, Job) (Done, error) {
		return Done{}, &fs.PathError{Op: "write", Path: "/data/x", Err: syscall.ENOSPC}
	}})
	y.put("any", "one")
	y.seen("the reason", func(h *fleet.Hello) bool { return strings.Contains(h.NotReady, "logged in") })
	y.mu.Lock()
	if len(y.asked) > 0 {
		t.Error("it has claimed a task nevertheless")
	}
	y.mu.Unlock()
	say("")
	if e := y.wait(1)["one"].Error; e == nil || e.Code != bridge.CodeUnavailable || !strings.Contains(e.Message, "full") {
		t.Errorf("the full disk is told as %+v", e)
	}
	y.put("any", "two")
	y.seen("the full disk", func(h *fleet.Hello) bool { return strings.Contains(h.NotReady, "full") })
	w.stop()
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.asked) != 1 {
		t.Errorf("%d claims with a full disk", len(y.asked))
	}
}

// A refusal is no reason to stop.
func TestRefused(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.reply = func(r fleet.ClaimRequest, a *fleet.Assignment) (*fleet.Assignment, error) {
		if r.Ticket.Task == "one" {
			return nil, &bridge.Error{Code: bridge.CodeConflict, Message: "another worker has it"}
		}
		return a, nil
	}
	y.start(Options{Attempt: commit})
	y.put("any", "one")
	y.put("any", "two")
	if got := y.wait(1); got["two"].Error != nil || len(got) != 1 {
		t.Errorf("the results are %v", got)
	}
}

// What cannot be used is refused with a sentence, and the next task is done.
func TestBadAssignments(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	y.whole = true
	y.reply = func(r fleet.ClaimRequest, a *fleet.Assignment) (*fleet.Assignment, error) {
		switch r.Ticket.Task {
		case "schema":
			a.Schema = 7
		case "hash":
			a.Bundle.SHA256 = strings.Repeat("0", 64)
		case "size":
			a.Bundle.Size++
		case "object":
			a.Bundle.Object = "another"
		case "repo":
			a.Repo = "../../elsewhere"
		case "empty":
			a.Begin, a.Bundle = strings.Repeat("1", 40), fleet.Bundle{}
		}
		return a, nil
	}
	y.start(Options{Attempt: func(ctx context.Context, j Job) (Done, error) {
		switch j.Task {
		case "panic":
			panic("at the disco")
		case "fail":
			return Done{}, &bridge.Error{Code: bridge.CodeRateLimited, Message: "wait", RetryAfter: time.Minute, Cause: errors.New("secret")}
		case "full":
			return Done{}, &bridge.Error{Code: bridge.CodeInternal, Message: "git failed: No space left"}
		case "good":
			return commit(ctx, j)
		}
		t.Errorf("%s was begun", j.Task)
		return Done{}, nil
	}})
	want := map[string]string{"schema": "version 7", "hash": "SHA-256", "size": "ends after", "object": "not found", "repo": "ticket", "empty": "not among them"}
	for task := range want {
		y.put("any", task)
	}
	y.wait(len(want))
	for task, words := range map[string]string{"panic": "its log says where", "fail": "wait", "full": "No space"} {
		want[task] = words
		y.put("any", task)
	}
	y.wait(len(want))
	y.put("any", "good")
	got := y.wait(len(want) + 1)
	for task, words := range want {
		if e := got[task].Error; e == nil || !strings.Contains(e.Message, words) || strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %+v", task, e)
		}
	}
	if e := got["fail"].Error; e.Code != bridge.CodeRateLimited || e.RetryAfter != time.Minute {
		t.Errorf("the failure came as %+v", e)
	}
	if got["good"].Error != nil {
		t.Error(got["good"].Error)
	}
}

// Progress is joined, the latest wins; beats come when there is none.
func TestSigns(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	const reports = 600
	var once sync.Once
	quiet := make(chan struct{})
	y.start(Options{Attempt: func(ctx context.Context, j Job) (Done, error) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := range reports {
			j.Report(fleet.Event{Text: fmt.Sprint(i)})
			once.Do(func() { j.Report(fleet.Event{Session: "s"}) })
			<-tick.C
		}
		return hold(ctx, j, quiet)
	}})
	y.put("any", "one")
	count := func(kind string) (list []sign) {
		y.mu.Lock()
		defer y.mu.Unlock()
		for _, s := range y.signs["claim-1"] {
			if s.kind == kind {
				list = append(list, s)
			}
		}
		return list
	}
	fleettest.Wait(t, "a beat", func() bool { return len(count("beat")) == 1 })
	close(quiet)
	y.wait(1)
	events := count("event")
	last := events[len(events)-1]
	if last.Text != fmt.Sprint(reports-1) || last.Session != "s" {
		t.Errorf("the last event is %+v", last.Event)
	}
	took := last.at.Sub(events[0].at)
	if most := int(took/eventEvery) + 3; len(events) > most || len(events) < 3 {
		t.Errorf("%d events in %s", len(events), took)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	sub, err := y.boss.NC.SubscribeSync("fleet.ask.>")
	y.must(err)
	type said struct {
		answer json.RawMessage
		err    error
	}
	answers := make(chan said, 3)
	y.start(Options{Attempt: func(ctx context.Context, j Job) (Done, error) {
		for range 2 {
			a, err := j.Ask(ctx, json.RawMessage(`{"may":"I"}`), time.Now().Add(time.Minute))
			answers <- said{a, err}
		}
		a, err := j.Ask(ctx, json.RawMessage(`{"may":"I"}`), time.Now().Add(50*time.Millisecond))
		answers <- said{a, err}
		return Done{Commit: j.Begin}, nil
	}})
	y.put("any", "one")
	for _, r := range []fleet.Reply{{Schema: 1, Answer: json.RawMessage(`"yes"`)}, {Schema: 1, Refused: &bridge.Error{Code: bridge.CodeDenied, Message: "no"}}} {
		m, err := sub.NextMsg(fleettest.Timeout)
		y.must(err)
		var q fleet.Ask
		y.must(fleet.Decode(m.Data, &q))
		if string(q.Question) != `{"may":"I"}` || q.Until.IsZero() {
			t.Errorf("the question is %+v", q)
		}
		y.must(fleet.Respond(m, strings.Split(m.Subject, ".")[2], r))
		got := fleettest.Receive(t, "the answer", answers)
		if string(got.answer) != string(r.Answer) || (got.err != nil) != (r.Refused != nil) {
			t.Errorf("%+v was answered with %s, %v", r, got.answer, got.err)
		}
	}
	if got := fleettest.Receive(t, "the end of the question", answers); got.err == nil {
		t.Errorf("no answer came as %s", got.answer)
	}
	y.wait(1)
}

// A worker that ends gives its claims up.
func TestShutdown(t *testing.T) {
	t.Parallel()
	y := newYard(t, "any")
	began := make(chan string, 2)
	w := y.start(Options{Capacity: 2, Attempt: blocked(began)})
	y.put("any", "one")
	y.put("any", "two")
	claims := []string{fleettest.Receive(t, "the begin", began), fleettest.Receive(t, "the second begin", began)}
	at := time.Now()
	w.stop()
	t.Logf("ended after %s", time.Since(at))
	for _, claim := range claims {
		fleettest.Wait(t, "giving "+claim+" up", func() bool {
			y.mu.Lock()
			defer y.mu.Unlock()
			signs := y.signs[claim]
			return len(signs) > 0 && signs[len(signs)-1].beat.GivenUp
		})
	}
	y.wantNothing()
}

// Two workers do not share a directory, and the second one says who is there.
func TestOneWorkerADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	first, err := openRoot(dir, "alice", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	_, err = openRoot(dir, "bob", os.Environ())
	if e := bridge.AsError(err); err == nil || e.Code != bridge.CodeBusy || !strings.Contains(e.Message, "alice") || !strings.Contains(e.Message, fmt.Sprint(os.Getpid())) {
		t.Errorf("the second worker got %v", err)
	}
	if err := closeRoot(first, nil); err != nil {
		t.Error(err)
	}
	second, err := openRoot(dir, "bob", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if err := closeRoot(second, nil); err != nil {
		t.Error(err)
	}
}
