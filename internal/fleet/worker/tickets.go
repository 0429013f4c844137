package worker

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// The times of asking for tickets.
const (
	waitOne  = 2 * time.Second        // for a ticket, where there is one queue
	waitSome = 500 * time.Millisecond // where there are several
	waitFew  = 100 * time.Millisecond // where there are more queues than free slots
	askPause = 250 * time.Millisecond // after a queue could not be asked, or a ticket was of no use
	slack    = 2 * time.Second        // that an answer may be late
)

// tickets asks the queues. There are never more tickets asked for and taken than
// there are slots: one that is not claimed at once keeps others waiting. One
// goroutine uses it.
//
// A look takes what a queue has, at once. When one look at each queue has found
// nothing, the free slots are shared among the queues, to wait a while.
type tickets struct {
	w     *worker
	msgs  chan *nats.Msg
	open  map[*nats.Subscription]*ask
	next  int  // the queue whose turn it is
	empty int  // asks in a row that got less than they could
	look  bool // one is open
	later map[string]time.Time
}

// ask is a request for tickets of one queue.
type ask struct {
	queue string
	left  int // tickets that may still come, each with a slot of its own
	until time.Time
	look  bool
}

// takeTickets asks for tickets and starts a goroutine for each, until the worker
// drains or ends.
func (w *worker) takeTickets() {
	t := &tickets{w: w, msgs: make(chan *nats.Msg, 2*w.Capacity+64), open: map[*nats.Subscription]*ask{}, later: map[string]time.Time{}}
	defer func() {
		for sub := range t.open {
			t.close(sub)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.idle.Done():
			return
		case m := <-t.msgs:
			t.receive(m)
		case <-w.wake:
		case <-timer.C:
		}
		now := time.Now()
		t.expire(now)
		t.ask(now)
		timer.Reset(t.pause(now))
	}
}

// pause is how long nothing needs to be done, if nothing comes.
func (t *tickets) pause(now time.Time) time.Duration {
	pause := waitOne
	if t.w.slots(0) > 0 { // not connected, not ready, or no queue
		pause = askPause
	}
	for _, a := range t.open {
		pause = min(pause, a.until.Sub(now))
	}
	return max(pause, time.Millisecond)
}

// ask uses the free slots.
func (t *tickets) ask(now time.Time) {
	queues := t.queues(now)
	free := t.w.slots(0)
	switch n := len(queues); {
	case n == 0 || free == 0 || t.look:
	case t.empty < n:
		rest := n - t.empty
		t.send(now, queues[t.next%n], (free+rest-1)/rest, 0)
	default:
		for i := range min(n, free) {
			share := free / n
			if i < free%n {
				share++
			}
			t.send(now, queues[t.next%n], share, waitFor(n, free))
		}
	}
}

func waitFor(queues, free int) time.Duration {
	switch {
	case queues == 1:
		return waitOne
	case queues <= free:
		return waitSome
	}
	return waitFew
}

// queues are those that can be asked now.
func (t *tickets) queues(now time.Time) []string {
	var out []string
	for _, q := range t.w.open() {
		if !now.Before(t.later[q]) {
			out = append(out, q)
		}
	}
	return out
}

// open are the queues to take tickets from, none if the worker cannot.
func (w *worker) open() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cannot() != "" || !w.conn.NC.IsConnected() {
		return nil
	}
	return w.queues
}

// slots takes n slots, which must be free, and returns how many are free then.
func (w *worker) slots(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free -= n
	return w.free
}

// release gives n slots back.
func (w *worker) release(n int) {
	w.slots(-n)
	w.poke()
}

// send asks a queue for n tickets, by way of the hub.
func (t *tickets) send(now time.Time, queue string, n int, wait time.Duration) {
	t.next++
	nc := t.w.conn.NC
	data, err := json.Marshal(fleet.NextRequest{Schema: fleet.Schema, Batch: n, Expires: wait})
	if err == nil {
		inbox := nc.NewInbox()
		var sub *nats.Subscription
		if sub, err = nc.ChanSubscribe(inbox, t.msgs); err == nil {
			t.w.slots(n)
			t.open[sub] = &ask{queue: queue, left: n, until: now.Add(wait + slack), look: wait == 0}
			t.look = t.look || wait == 0
			if err = nc.PublishRequest(fleet.NextSubject(t.w.id, queue), inbox, data); err != nil {
				t.close(sub)
			}
		}
	}
	if err != nil {
		t.later[queue] = now.Add(askPause)
	}
}

// receive takes a ticket, or the end of an ask.
func (t *tickets) receive(m *nats.Msg) {
	a := t.open[m.Sub]
	switch status := m.Header.Get("Status"); {
	case a == nil || status == "100": // too late, or a sign of life
	case status == "":
		t.empty = 0
		a.left-- // its slot is the ticket's now
		if a.left == 0 {
			t.close(m.Sub)
		}
		t.w.tasks.Go(func() { t.w.ticket(m.Data, m.Header.Get(fleet.AckHeader)) })
	case status == "404", status == "408": // nothing there, or no longer
		t.close(m.Sub)
	default: // no such consumer yet, or too many ask it
		t.later[a.queue] = time.Now().Add(askPause)
		t.close(m.Sub)
	}
}

// expire ends asks whose answer got lost.
func (t *tickets) expire(now time.Time) {
	for sub, a := range t.open {
		if !now.Before(a.until) {
			t.close(sub)
		}
	}
}

func (t *tickets) close(sub *nats.Subscription) {
	a := t.open[sub]
	delete(t.open, sub)
	_ = sub.Unsubscribe() // the connection may be closed
	if a.look {
		t.look = false
	}
	if a.left > 0 {
		t.empty++
		t.w.slots(-a.left)
	}
}
