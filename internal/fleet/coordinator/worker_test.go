package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// begin is the commit of tests that need no repository: their results are the
// commit that they began with.
const begin = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

// lease is that of tests in which claims get lost.
const lease = time.Second

// hand is a worker whose every step a test says. It speaks what workers speak.
type hand struct {
	t      testing.TB
	conn   *fleet.Conn
	id     string
	orders chan fleet.Order
}

func newHand(t testing.TB, f *fleettest.Fleet, name string, labels ...string) *hand {
	t.Helper()
	h := &hand{t: t, conn: f.Worker(t, name, labels...), orders: make(chan fleet.Order, 1000)}
	h.id = h.conn.Member.ID
	_, err := h.conn.NC.Subscribe(fleet.OrderSubject(h.id), func(m *nats.Msg) {
		var o fleet.Order
		if json.Unmarshal(m.Data, &o) == nil {
			select {
			case h.orders <- o:
			default: // nobody listens
			}
		}
	})
	if err == nil {
		err = h.conn.NC.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ticket waits for one of a queue, ok is false when ctx ended before.
func (h *hand) ticket(ctx context.Context, queue string) (t fleet.Ticket, ack string, ok bool) {
	for ctx.Err() == nil {
		m, err := h.conn.NC.RequestWithContext(ctx, fleet.NextSubject(h.conn.Member.ID, queue), []byte(`{"schema":1,"batch":1,"expires_ns":500000000}`))
		if err == nil && m.Header.Get("Status") == "" && json.Unmarshal(m.Data, &t) == nil && t.Schema != 0 {
			return t, m.Header.Get(fleet.AckHeader), true
		}
		if err != nil || m.Header.Get("Status") != "408" {
			pause(ctx, 20*time.Millisecond) // no such queue yet, or no connection
		}
	}
	return t, "", false
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (h *hand) mustTicket() (fleet.Ticket, string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), fleettest.Timeout)
	defer cancel()
	t, ack, ok := h.ticket(ctx, "any")
	if !ok {
		h.t.Fatal("no ticket came")
	}
	return t, ack
}

// ask asks for a claim once, for a worker whose mirror has these commits.
func (h *hand) ask(ctx context.Context, t fleet.Ticket, ack string, have ...string) (fleet.ClaimReply, error) {
	return fleet.Request[fleet.ClaimReply](ctx, h.conn.NC, fleet.ClaimSubject(h.id, t.Run), fleet.ClaimRequest{Schema: fleet.Schema, Ticket: t, Ack: ack, Have: have})
}

func (h *hand) claim(ctx context.Context, t fleet.Ticket, ack string) (*fleet.Assignment, error) {
	r, err := h.ask(ctx, t, ack, begin)
	return r.Assignment, err
}

// mustClaim takes the next ticket that is in force and claims it.
func (h *hand) mustClaim() *fleet.Assignment {
	h.t.Helper()
	return h.mustClaimOn(begin)
}

// mustClaimOn is mustClaim for a worker whose mirror has a commit.
func (h *hand) mustClaimOn(have string) *fleet.Assignment {
	h.t.Helper()
	for {
		t, ack := h.mustTicket()
		r, err := h.ask(h.t.Context(), t, ack, have)
		if err == nil {
			return r.Assignment
		}
		if bridge.CodeOf(err) != bridge.CodeConflict { // an old ticket may come up again
			h.t.Fatal(err)
		}
	}
}

// say publishes what may get lost.
func (h *hand) say(kind string, a *fleet.Assignment, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		h.t.Error(err)
	}
	_ = h.conn.NC.Publish(fleet.WorkSubject(kind, h.id, a.Run, a.Task, a.Claim), data)
}

func (h *hand) beat(a *fleet.Assignment) { h.say("beat", a, fleet.Beat{Schema: fleet.Schema}) }

// beatUntil beats until ctx ends.
func (h *hand) beatUntil(ctx context.Context, a *fleet.Assignment) {
	for ctx.Err() == nil {
		h.beat(a)
		pause(ctx, lease/8)
	}
}

// result is that of an attempt that changed nothing.
func result(a *fleet.Assignment) fleet.Result {
	return fleet.Result{Schema: fleet.Schema, Run: a.Run, Task: a.Task, Attempt: a.Attempt, Claim: a.Claim, Commit: a.Begin, Summary: a.Task + " is done"}
}

func (h *hand) deliver(a *fleet.Assignment, r fleet.Result, more ...jetstream.PublishOpt) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), fleettest.Timeout)
	defer cancel()
	return persist(ctx, func(ctx context.Context) error {
		_, err := h.conn.JS.Publish(ctx, fleet.WorkSubject("result", h.id, a.Run, a.Task, a.Claim), data, more...)
		return err
	})
}

func (h *hand) mustDeliver(a *fleet.Assignment, r fleet.Result) {
	h.t.Helper()
	if err := h.deliver(a, r, jetstream.WithMsgID(a.Claim)); err != nil {
		h.t.Fatal(err)
	}
}

// wantOrder waits for an order.
func (h *hand) wantOrder(kind fleet.OrderKind, claim string) fleet.Order {
	h.t.Helper()
	end := time.NewTimer(fleettest.Timeout)
	defer end.Stop()
	for {
		select {
		case o := <-h.orders:
			if o.Kind == kind && o.Claim == claim {
				return o
			}
		case <-end.C:
			h.t.Fatalf("%s heard no %s of %s", h.id, kind, claim)
		}
	}
}

const testRun = "20261119-120000-abcdef"

// start begins a run with the usual lease, if o has none, which ends with the test.
func start(t testing.TB, conn *fleet.Conn, o Options) *Coordinator {
	t.Helper()
	return startOn(t, conn, o, begin, nil)
}

// startOn is start with a commit of a repository.
func startOn(t testing.TB, conn *fleet.Conn, o Options, base string, repo *git.Repository) *Coordinator {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Scratch, o.Host = t.TempDir(), "desk"
	if o.Owner == 0 {
		o.Owner = 2 * time.Second
	}
	c := New(conn, o)
	if err := c.Begin(t.Context(), orchestrate.Meta{ID: testRun, Task: "all of it", Dir: "/w", Base: base}, nil, repo); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.End(context.WithoutCancel(t.Context()), true); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ended is how an attempt ended.
type ended struct {
	out orchestrate.Outcome
	err error
}

func work(task, from string) orchestrate.RemoteWork {
	return orchestrate.RemoteWork{Assignment: orchestrate.Assignment{Task: orchestrate.SubTask{ID: task, Description: "do " + task}, Attempt: 1}, Run: testRun, Goal: "all of it", Begin: from}
}

// try begins an attempt and returns where its end is told.
func try(ctx context.Context, c *Coordinator, task string) <-chan ended {
	return tryOn(ctx, c, task, begin)
}

// tryOn is try from a commit.
func tryOn(ctx context.Context, c *Coordinator, task, from string, hear ...func(orchestrate.Progress)) <-chan ended {
	done := make(chan ended, 1)
	go func() {
		out, err := c.Attempt(ctx, work(task, from), func(p orchestrate.Progress) {
			for _, f := range hear {
				f(p)
			}
		})
		done <- ended{out, err}
	}()
	return done
}

func wait(t testing.TB, done <-chan ended) ended {
	t.Helper()
	return fleettest.Receive(t, "the end of the attempt", done)
}

func mustDone(t testing.TB, done <-chan ended, worker string) orchestrate.Outcome {
	t.Helper()
	e := wait(t, done)
	if e.err != nil || e.out.Work != begin || e.out.Worker != worker {
		t.Fatalf("%+v, %v; want the result of %s", e.out, e.err, worker)
	}
	return e.out
}

func taskName(i int) string { return fmt.Sprintf("t%d", i) }

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) { l.t.Log(string(p)); return len(p), nil }
