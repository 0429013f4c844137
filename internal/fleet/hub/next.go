package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	// nextBatch is the most that a worker may have of tickets, whatever its capacity;
	// nextUnknown what one may have that has not said its capacity yet.
	nextBatch   = 256
	nextUnknown = 8
	nextWaits   = 10 * time.Second
	nextSlack   = 2 * time.Second // that an answer of the queue may be late
	// claimWithin is how long a ticket may lie with a worker before a coordinator
	// gives it the claim.
	claimWithin = 5 * time.Second
	// A ticket that comes to a worker again which left it to others is put back for
	// so long.
	passBy = time.Second
)

// tickets passes on what workers ask of the queues. It remembers who has
// which ticket until a coordinator accepts or refuses the claim. So a worker never
// has more tickets than its capacity, and tickets that it does not claim go back to
// the queue.
type tickets struct {
	hub  *Hub
	msgs chan *nats.Msg // answers of the queues, and what coordinators say of tickets
	acks *nats.Subscription

	mu     sync.Mutex
	asks   map[*nats.Subscription]*ask
	given  map[string]given // by the reply subject of the ticket
	takers map[string]*taker
	left   map[leaving]time.Time // until when
}

// leaving is a ticket, by its sequence, that a worker leaves to others for a while.
type leaving struct {
	worker string
	seq    uint64
}

// ask is a worker's request that a queue has not answered to its end.
type ask struct {
	worker, reply string
	left          int
	short         bool // it asked for more
	until         time.Time
}

type given struct {
	leaving
	at time.Time
}

// taker is a worker with tickets, or with asks that may bring some.
type taker struct {
	out    int
	lapsed int // in a row: tickets that it did not claim in time
}

func newTickets(h *Hub) *tickets {
	return &tickets{hub: h, msgs: make(chan *nats.Msg, 64<<10), asks: map[*nats.Subscription]*ask{}, given: map[string]given{}, takers: map[string]*taker{}, left: map[leaving]time.Time{}}
}

// next passes on a worker's request for tickets, of a queue whose labels it has.
// The answers go to the worker's inbox, which answer has checked.
func (k *keeper) next(msg *nats.Msg, worker, queue string) {
	var r fleet.NextRequest
	err := fleet.Decode(msg.Data, &r)
	if err == nil && r.Return != "" {
		k.tickets.takeBack(worker, r.Return)
		return
	}
	if err == nil {
		err = k.mayTake(worker, queue)
	}
	taken := false
	if err != nil {
		k.hub.refuse(refusal{kind: RefusedMessage, member: worker, text: "a request for tickets: " + err.Error()})
	} else if taken, err = k.tickets.take(worker, queue, msg.Reply, r, k.capacity(worker)); err != nil {
		k.hub.log.Warn("fleet.request_not_passed_on", "worker", worker, "queue", queue, "error", err)
	}
	if taken {
		return
	}
	// As the server says no: the worker does not wait for an answer then.
	if err := msg.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"409"}}}); err != nil {
		k.hub.log.Warn("fleet.answer_failed", "subject", msg.Subject, "error", err)
	}
}

// capacity is what a worker says that it can do at a time.
func (k *keeper) capacity(worker string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, known := k.seen[worker]; known {
		return min(max(p.hello.Capacity, 1), nextBatch)
	}
	return nextUnknown
}

// mayTake says why a worker may not take tickets of a queue, if so.
func (k *keeper) mayTake(worker, queue string) error {
	m, err := k.present(worker)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if row, known := k.queues[queue]; known && !fleet.Fits(m.Offers, row.Labels) {
		return fmt.Errorf("it does not have the labels of the queue %s", queue)
	} else if !known {
		return fmt.Errorf("there is no queue %.60q", queue)
	}
	return nil
}

// take asks a queue for a worker, unless that has as many tickets as it may.
func (t *tickets) take(worker, queue, reply string, r fleet.NextRequest, capacity int) (taken bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.takers[worker]
	if w == nil {
		w = &taker{}
		t.takers[worker] = w
	}
	// Who leaves tickets lying gets fewer, until it has claimed one again.
	room := max(capacity>>min(w.lapsed, 16), 1) - w.out
	if room <= 0 {
		return false, nil
	}
	wanted, waits := max(r.Batch, 1), max(min(r.Expires, nextWaits), 0)
	a := &ask{worker: worker, reply: reply, left: min(wanted, room), short: wanted > room, until: time.Now().Add(waits + nextSlack)}
	data, err := json.Marshal(struct {
		Batch   int           `json:"batch"`
		Expires time.Duration `json:"expires,omitempty"`
		NoWait  bool          `json:"no_wait,omitempty"`
	}{a.left, waits, waits == 0})
	if err != nil {
		return false, err
	}
	inbox := t.hub.nc.NewInbox()
	sub, err := t.hub.nc.ChanSubscribe(inbox, t.msgs)
	if err != nil {
		return false, err
	}
	t.asks[sub] = a
	w.out += a.left
	if err := t.hub.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+fleet.StreamTasks+"."+queue, inbox, data); err != nil {
		t.close(sub, a)
		return false, err
	}
	return true, nil
}

// run passes tickets on until ctx ends.
func (t *tickets) run(ctx context.Context) {
	tick := time.NewTicker(claimWithin / 20)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-t.msgs:
			if m.Sub == t.acks {
				t.settle(m.Subject, m.Data)
			} else {
				t.pass(m)
			}
		case now := <-tick.C:
			t.expire(now)
		}
	}
}

// pass gives the answer of a queue to who has asked.
func (t *tickets) pass(m *nats.Msg) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, status := t.asks[m.Sub], m.Header.Get("Status")
	meta, err := m.Metadata()
	ticket := status == "" && err == nil
	switch {
	case a == nil && ticket: // too late
		t.putBack(m.Reply, 0)
	case a == nil || !ticket && status == "" || status == "100": // a sign of life
	case !ticket:
		t.send(a, &nats.Msg{Header: m.Header})
		t.close(m.Sub, a)
	default:
		a.left--
		if l := (leaving{a.worker, meta.Sequence.Stream}); time.Now().Before(t.left[l]) {
			a.short = true
			t.less(a.worker, 1)
			t.putBack(m.Reply, passBy)
		} else {
			t.given[m.Reply] = given{l, time.Now()}
			t.send(a, m)
		}
		if a.left == 0 {
			t.close(m.Sub, a)
			if a.short {
				t.send(a, &nats.Msg{Header: nats.Header{"Status": {"408"}}})
			}
		}
	}
}

// send publishes for a worker. A ticket that gets lost comes up again by itself.
func (t *tickets) send(a *ask, m *nats.Msg) {
	header := nats.Header{}
	if m.Reply != "" {
		header.Set(fleet.AckHeader, m.Reply)
	} else {
		header.Set("Status", m.Header.Get("Status"))
	}
	if err := t.hub.nc.PublishMsg(&nats.Msg{Subject: a.reply, Header: header, Data: m.Data}); err != nil {
		t.hub.log.Warn("fleet.ticket_not_passed_on", "worker", a.worker, "error", err)
	}
}

// close ends an ask; the caller holds mu.
func (t *tickets) close(sub *nats.Subscription, a *ask) {
	delete(t.asks, sub)
	_ = sub.Unsubscribe() // fails only if the connection is closed
	t.less(a.worker, a.left)
}

// less takes back what a worker has of tickets; the caller holds mu.
func (t *tickets) less(worker string, n int) {
	if w := t.takers[worker]; n > 0 {
		if w.out -= n; w.out == 0 && w.lapsed == 0 {
			delete(t.takers, worker)
		}
	}
}

// settle hears what a coordinator says of a ticket. From then on it looks after
// the ticket, and not the hub.
func (t *tickets) settle(ack string, says []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.given[ack]
	if !ok {
		return
	}
	delete(t.given, ack)
	if !bytes.HasPrefix(says, []byte("-NAK")) { // the worker has the claim
		t.takers[g.worker].lapsed = 0
	}
	t.less(g.worker, 1)
}

// takeBack takes a ticket that a worker has no use for now.
func (t *tickets) takeBack(worker, ack string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g, ok := t.given[ack]; ok && g.worker == worker {
		t.toOthers(ack, g)
	}
}

// toOthers puts a ticket back for other workers; the caller holds mu.
func (t *tickets) toOthers(ack string, g given) {
	delete(t.given, ack)
	t.left[g.leaving] = time.Now().Add(fleet.Lease)
	t.less(g.worker, 1)
	t.putBack(ack, 0)
}

// expire ends asks that the queue did not answer in time, and takes back tickets
// that were not claimed in time.
func (t *tickets) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for sub, a := range t.asks {
		if now.After(a.until) {
			t.close(sub, a)
		}
	}
	maps.DeleteFunc(t.left, func(_ leaving, until time.Time) bool { return now.After(until) })
	for ack, g := range t.given {
		if now.Sub(g.at) >= claimWithin {
			t.takers[g.worker].lapsed++
			t.toOthers(ack, g)
			t.hub.log.Debug("fleet.ticket_not_claimed", "worker", g.worker)
		}
	}
}

// putBack gives a ticket back to its queue. If that gets lost, it comes up by itself.
func (t *tickets) putBack(ack string, after time.Duration) {
	_ = t.hub.nc.Publish(ack, fmt.Appendf(nil, `-NAK {"delay": %d}`, after))
}
