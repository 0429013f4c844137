package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

const (
	chat  = bridge.ProfileChat
	agent = bridge.ProfileAgent
)

func admitting(t *testing.T, l engine.Limits) *engine.Engine {
	t.Helper()
	e := engine.New(engine.Options{Agent: agenttest.NewScripted(), Limits: l})
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// line is callers who wait. let has their names in the order in which they are
// let in, each followed by its seat.
type line struct {
	t       *testing.T
	e       *engine.Engine
	let     chan string
	seats   chan *engine.Seat
	refused chan error
}

func newLine(t *testing.T, l engine.Limits) *line {
	return &line{t, admitting(t, l), make(chan string, 10000), make(chan *engine.Seat, 10000), make(chan error, 10000)}
}

// comes asks for a place; what comes of it is known when everybody waits.
func (q *line) comes(p bridge.Profile, caller string) {
	go func() {
		seat, err := q.e.Admit(q.t.Context(), p, caller)
		if err != nil {
			q.refused <- err
			return
		}
		q.let <- caller
		q.seats <- seat
	}()
	synctest.Wait()
}

// leaves frees the place that was taken first, and says who has got one then.
func (q *line) leaves() string {
	(<-q.seats).Close()
	synctest.Wait()
	select {
	case who := <-q.let:
		return who
	default:
		return ""
	}
}

// One caller with many requests does not keep another's first one waiting.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(t, engine.Limits{MaxConcurrent: 2, QueueLimit: 200})
		for range 100 {
			q.comes(chat, "many")
		}
		q.comes(chat, "one")
		q.comes(chat, "other")
		<-q.let
		<-q.let
		for i, want := range []string{"one", "other", "many", "many"} {
			if got := q.leaves(); got != want {
				t.Errorf("place %d went to %q, not %q", i, got, want)
			}
		}
		for range 97 {
			q.leaves()
		}
		if len(q.seats) != 1 || len(q.refused) != 0 {
			t.Errorf("%d seats are left, %d were refused", len(q.seats), len(q.refused))
		}
		q.leaves()
	})
}

// A full queue drops a request of the caller that has most in it.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(t, engine.Limits{MaxConcurrent: 1, QueueLimit: 10})
		for range 12 {
			q.comes(chat, "many")
		}
		if len(q.refused) != 1 {
			t.Fatalf("%d were refused", len(q.refused))
		}
		q.comes(chat, "one")
		if len(q.refused) != 2 {
			t.Fatalf("%d were refused", len(q.refused))
		}
		<-q.let
		if got := q.leaves(); got != "one" {
			t.Errorf("%q is next", got)
		}
		for range 10 {
			q.leaves()
		}
		if len(q.seats) != 0 || len(q.let) != 0 {
			t.Errorf("%d seats are left", len(q.seats))
		}
	})
}

// A refused caller that comes back at the time it was told is admitted.
func TestRetryAfterIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turn, places = 3 * time.Second, 4
		e := admitting(t, engine.Limits{MaxConcurrent: places, QueueLimit: 20})
		var wg sync.WaitGroup
		for range 60 { // at any time there are some; only the first 24 find room
			wg.Go(func() {
				for {
					seat, err := e.Admit(t.Context(), chat, "many")
					if err == nil {
						<-time.After(turn)
						seat.Close()
						return
					}
					<-time.After(bridge.AsError(err).RetryAfter)
				}
			})
			<-time.After(turn / places)
		}
		synctest.Wait()
		var refused error
		for range 30 {
			wg.Go(func() {
				seat, err := e.Admit(t.Context(), chat, "many")
				if err != nil {
					refused = err
					return
				}
				<-time.After(turn)
				seat.Close()
			})
			synctest.Wait()
		}
		if bridge.CodeOf(refused) != bridge.CodeBusy {
			t.Fatalf("refused with %v", refused)
		}
		after := bridge.AsError(refused).RetryAfter
		if after < 5*turn || after > 7*turn { // 20 who wait, four at a time
			t.Errorf("to come back after %s", after)
		}
		<-time.After(after)
		came := time.Now()
		seat, err := e.Admit(t.Context(), chat, "many")
		if err != nil || time.Since(came) > turn {
			t.Fatalf("after %s let in %v, %s later", after, err, time.Since(came))
		}
		seat.Close()
		wg.Wait()
	})
}

func TestQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(t, engine.Limits{MaxConcurrent: 1, QueueLimit: 10, QueueTimeout: 7 * time.Second})
		q.comes(chat, "first")
		q.comes(chat, "second")
		began := time.Now()
		if err := <-q.refused; bridge.CodeOf(err) != bridge.CodeBusy || bridge.AsError(err).RetryAfter < time.Second || time.Since(began) != 7*time.Second {
			t.Errorf("refused with %v after %s", err, time.Since(began))
		}
		if <-q.let; q.leaves() != "" {
			t.Error("a place was given to somebody who has gone")
		}
	})
}

// Few chats are on their way to the model at a time. A request that waits for
// that alone is never refused, however short the queue is, and a start that
// hangs does not keep others out for long.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 16 * runtime.GOMAXPROCS(0)
		q := newLine(t, engine.Limits{MaxConcurrent: 5 * starts})
		for range 4 * starts {
			q.comes(chat, "many")
		}
		if len(q.let) != starts || len(q.refused) != 0 {
			t.Fatalf("%d start and %d are refused", len(q.let), len(q.refused))
		}
		seat := <-q.seats
		seat.Started()
		seat.Started()
		if synctest.Wait(); len(q.let) != starts+1 {
			t.Errorf("one has started, and %d do", len(q.let)-1)
		}
		<-time.After(2 * time.Second)
		if synctest.Wait(); len(q.let) < 2*starts {
			t.Errorf("the starts hang, and %d have been let in", len(q.let))
		}
		<-time.After(20 * time.Second)
		if synctest.Wait(); len(q.let) != 4*starts {
			t.Errorf("%d have been let in", len(q.let))
		}
		seat.Close()
		for range 4*starts - 1 {
			(<-q.seats).Close()
		}
	})
}

// Agents and chats have bounds of their own; a bound that the user has set is
// one for both.
func TestBoundsOfProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(t, engine.Limits{})
		for range 1000 {
			q.comes(agent, "many")
		}
		agents := len(q.let)
		if agents < 8 || agents > 8*runtime.GOMAXPROCS(0) || agents+len(q.refused) != 1000 {
			t.Errorf("%d agents run and %d are refused", agents, len(q.refused))
		}
		if q.comes(chat, "many"); len(q.let) != agents+1 {
			t.Error("a chat waits for agents")
		}
		for range agents + 1 {
			(<-q.seats).Close()
		}
		q = newLine(t, engine.Limits{MaxConcurrent: 3, QueueLimit: 9})
		for range 3 {
			q.comes(agent, "a")
			q.comes(chat, "b")
		}
		if len(q.let) != 3 {
			t.Errorf("%d run", len(q.let))
		}
		for range 6 {
			q.leaves()
		}
	})
}

// Whatever happens, no place is lost and none is given twice.
func TestPlacesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5
		e := admitting(t, engine.Limits{MaxConcurrent: most, QueueLimit: 8, QueueTimeout: 20 * time.Millisecond})
		var mu sync.Mutex
		open, worst := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			open += n
			worst = max(worst, open)
		}
		var wg sync.WaitGroup
		for i := range 40 {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			wg.Go(func() {
				for range 200 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(30))*time.Millisecond)
					seat, err := e.Admit(ctx, []bridge.Profile{chat, agent}[rng.IntN(2)], fmt.Sprint(rng.IntN(5)))
					if err == nil {
						count(1)
						<-time.After(time.Duration(rng.IntN(10)) * time.Millisecond)
						seat.Started()
						<-time.After(time.Duration(rng.IntN(10)) * time.Millisecond)
						count(-1)
						seat.Leave()
						seat.Close()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if worst != most {
			t.Errorf("up to %d turns were open", worst)
		}
		for range most {
			if _, err := e.Admit(t.Context(), chat, ""); err != nil {
				t.Errorf("a place was lost: %v", err)
			}
		}
	})
}

// A turn that comes back with its caller's results goes before those who have
// not begun, however long they have waited.
func TestReturningTurnsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := open(t, engine.Options{Limits: engine.Limits{MaxConcurrent: 1, QueueLimit: 9}},
			engine.Request{Spec: bridge.SessionSpec{Tools: []bridge.ToolSpec{{Name: "look"}}}})
		q := &line{t, e, make(chan string, 9), make(chan *engine.Seat, 9), make(chan error, 9)}
		requests, ended := make(chan string, 1), make(chan time.Time, 1)
		go func() {
			for ev := range s.Send(t.Context(), script("tool look {}", "next", "delay 1m", "text on")) {
				if r, ok := ev.(bridge.ToolRequested); ok {
					requests <- r.RequestID
				}
			}
			ended <- time.Now()
		}()
		id := <-requests
		q.comes(agent, "first")
		q.comes(agent, "second")
		began := time.Now()
		go func() {
			if err := s.Resolve(t.Context(), id, bridge.ToolResult{Text: "x"}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if <-q.let; q.leaves() != "" {
			t.Fatal("somebody else has got the place")
		}
		if took := (<-ended).Sub(began); took != time.Minute {
			t.Errorf("the turn went on for %s", took)
		}
		if synctest.Wait(); len(q.let) != 1 {
			t.Error("nobody has got the place after it")
		}
		(<-q.seats).Close()
	})
}
