package coordinator

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// Workers die, hang, deliver twice, late or for another: each task still gets
// exactly one result, that of the claim which was current.
func TestRandomWorkers(t *testing.T) {
	const workers, tasks, limit = 6, 60, 12
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := fleettest.Up(t)
	c := start(t, f.Coordinator, Options{Lease: lease})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range workers {
		h := newHand(t, f, "w"+taskName(i))
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				if ticket, ack, ok := h.ticket(ctx, "any"); ok {
					h.misbehave(ctx, r, ticket, ack)
				}
			}
		})
	}
	slots := make(chan struct{}, limit)
	results := make(chan ended, tasks)
	bound, cancel := context.WithTimeout(t.Context(), 3*fleettest.Timeout)
	defer cancel()
	for i := range tasks {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results <- <-try(bound, c, taskName(i))
		})
	}
	for range tasks {
		if e := fleettest.Receive(t, "the end of a task", results); e.err != nil {
			t.Error(e.err)
		}
	}
	counts := map[claimState]int{}
	c.mu.Lock()
	for _, cl := range c.claims {
		counts[cl.state]++
	}
	for i := range tasks {
		if r := c.rows[taskName(i)]; r.State != fleet.StateAccepted || c.claims[r.Claim.Claim].state != accepted {
			t.Errorf("%s: %+v", taskName(i), r)
		}
	}
	c.mu.Unlock()
	if counts[accepted] != tasks {
		t.Errorf("%d results were accepted for %d tasks", counts[accepted], tasks)
	}
	t.Logf("%d claims, %d lost", len(c.claims), counts[lost])
}

// misbehave does something with a ticket.
func (h *hand) misbehave(ctx context.Context, r *rand.Rand, ticket fleet.Ticket, ack string) {
	bound, cancel := context.WithTimeout(ctx, fleettest.Timeout)
	defer cancel()
	if r.IntN(20) == 0 {
		return // it died with the ticket
	}
	a, err := h.claim(bound, ticket, ack)
	if err != nil {
		return
	}
	deliver := func() {
		if err := h.deliver(a, result(a)); err != nil && ctx.Err() == nil {
			h.t.Error(err)
		}
	}
	switch r.IntN(10) {
	case 0: // it died
	case 1: // it hung, and delivers late
		pause(ctx, lease+time.Duration(r.Int64N(int64(lease))))
		deliver()
	case 2: // it beats and hangs on the border
		h.beat(a)
		pause(ctx, lease*9/10+time.Duration(r.Int64N(int64(lease/5))))
		deliver()
	case 3: // twice
		deliver()
		deliver()
	case 4: // its task under another's claim
		x := *a
		x.Claim = newID()
		_ = h.deliver(&x, result(&x))
		deliver()
	case 5:
		h.say("beat", a, fleet.Beat{Schema: fleet.Schema, GivenUp: true})
	default:
		deliver()
	}
}
