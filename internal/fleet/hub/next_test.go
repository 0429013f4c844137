package hub_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/fleettest"
)

// queueOf makes the queue of all workers, with some tickets. Its own time-out of a
// ticket does not come within a test.
func queueOf(t *testing.T, f *fleettest.Fleet, tickets int) {
	t.Helper()
	js := f.Coordinator.JS
	_, err := js.CreateOrUpdateConsumer(t.Context(), fleet.StreamTasks, jetstream.ConsumerConfig{Durable: "any", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: time.Hour, MaxAckPending: -1, FilterSubject: "fleet.task.any.>"})
	if err != nil {
		t.Fatal(err)
	}
	table, err := js.KeyValue(t.Context(), f.Names(t).Of(fleet.TableQueues))
	if err == nil {
		_, err = table.Put(t.Context(), "any", []byte(`{"schema":1}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range tickets {
		if _, err := js.Publish(t.Context(), f.Names(t).To(fleet.TaskSubject("any", "run", fmt.Sprint("t", i))), []byte(`{"schema":1,"run":"run"}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// grab asks for tickets and returns the reply subjects of those that came, and how
// the hub ended it.
func grab(t *testing.T, w *fleet.Conn, n int) (acks []string, status string) {
	t.Helper()
	inbox := w.NC.NewInbox()
	sub, err := w.NC.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	data, err := json.Marshal(fleet.NextRequest{Schema: fleet.Schema, Batch: n})
	if err == nil {
		err = w.NC.PublishRequest(fleet.NextSubject(w.Member.ID, "any"), inbox, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	for len(acks) < n {
		m, err := sub.NextMsg(fleettest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		if status = m.Header.Get("Status"); status != "" {
			return acks, status
		}
		acks = append(acks, m.Header.Get(fleet.AckHeader))
	}
	return acks, ""
}

// A worker has as many tickets as its capacity, however many it asks for, until a
// coordinator has given it the claims.
func TestTicketsWithinCapacity(t *testing.T) {
	f := fleettest.Up(t)
	w := f.Worker(t, "thief")
	queueOf(t, f, 20)
	if _, err := w.Hello(t.Context(), fleet.Hello{Capacity: 3}); err != nil {
		t.Fatal(err)
	}
	fleettest.Wait(t, "the queue", func() bool {
		s, err := fleet.GetStatus(t.Context(), f.Coordinator)
		return err == nil && len(s.Queues) == 1
	})
	acks, status := grab(t, w, 1000)
	if len(acks) != 3 || status != "408" {
		t.Errorf("%d tickets, %s", len(acks), status)
	}
	if more, status := grab(t, w, 1); len(more) != 0 || status != "409" {
		t.Errorf("%d more tickets, %s", len(more), status)
	}
	say := func(nc *nats.Conn, ack, word string) {
		t.Helper()
		if err := nc.Publish(ack, []byte(word)); err != nil {
			t.Fatal(err)
		}
	}
	say(f.Coordinator.NC, acks[0], "+WPI")
	say(f.Coordinator.NC, acks[1], "+ACK")
	fleettest.Wait(t, "two tickets more", func() bool {
		more, _ := grab(t, w, 1)
		acks = append(acks, more...)
		return len(acks) == 5
	})
	// What it gives back, it may have again; it cannot give back what is another's.
	other := f.Worker(t, "other")
	for _, c := range []*fleet.Conn{other, w} {
		data, err := json.Marshal(fleet.NextRequest{Schema: fleet.Schema, Return: acks[2]})
		if err == nil {
			err = c.NC.PublishRequest(fleet.NextSubject(c.Member.ID, "any"), c.NC.NewInbox(), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Hello(t.Context(), fleet.Hello{Capacity: 3}); err != nil {
			t.Fatal(err)
		}
		if c == other {
			if more, status := grab(t, w, 1); len(more) != 0 || status != "409" {
				t.Errorf("%d tickets after a return of another's, %s", len(more), status)
			}
		}
	}
	fleettest.Wait(t, "a ticket in place of the one given back", func() bool { more, _ := grab(t, w, 1); return len(more) == 1 })
}

// What a worker gives back goes to others at once, and not to itself again: it could
// keep all tickets on their way.
func TestReturnedTickets(t *testing.T) {
	f := fleettest.Up(t)
	w, other := f.Worker(t, "thief"), f.Worker(t, "other")
	queueOf(t, f, 1)
	var acks []string
	fleettest.Wait(t, "a ticket", func() bool { acks, _ = grab(t, w, 1); return len(acks) == 1 })
	data, err := json.Marshal(fleet.NextRequest{Schema: fleet.Schema, Return: acks[0]})
	if err == nil {
		err = w.NC.PublishRequest(fleet.NextSubject(w.Member.ID, "any"), w.NC.NewInbox(), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Wait(t, "that the ticket passes by", func() bool {
		more, status := grab(t, w, 1)
		if len(more) > 0 {
			t.Fatal("it came back")
		}
		return status == "408"
	})
	begun := time.Now()
	fleettest.Wait(t, "the ticket", func() bool { more, _ := grab(t, other, 1); return len(more) == 1 })
	if took := time.Since(begun); took > fleet.Lease/3 {
		t.Errorf("it came after %s", took)
	}
}

// Tickets that a worker does not claim go to others after a few seconds, whatever
// the queue's own time-out; and it gets fewer from then on.
func TestTicketsAreTakenBack(t *testing.T) {
	f := fleettest.Up(t)
	w, other := f.Worker(t, "thief"), f.Worker(t, "other")
	queueOf(t, f, 4)
	for _, c := range []*fleet.Conn{w, other} {
		if _, err := c.Hello(t.Context(), fleet.Hello{Capacity: 4}); err != nil {
			t.Fatal(err)
		}
	}
	var held []string
	fleettest.Wait(t, "all tickets", func() bool { more, _ := grab(t, w, 4); held = append(held, more...); return len(held) == 4 })
	begun := time.Now()
	var got []string
	fleettest.Wait(t, "tickets for another", func() bool { more, _ := grab(t, other, 4); got = append(got, more...); return len(got) == 4 })
	if took := time.Since(begun); took > fleet.Lease/2 {
		t.Errorf("they came after %s", took)
	}
	for _, ack := range got {
		if err := f.Coordinator.NC.Publish(ack, []byte("+TERM")); err != nil {
			t.Fatal(err)
		}
	}
	queueOf(t, f, 4)
	fleettest.Wait(t, "a ticket for the thief", func() bool {
		more, _ := grab(t, w, 4)
		if len(more) > 1 {
			t.Fatalf("it gets %d tickets still", len(more))
		}
		return len(more) == 1
	})
}

// A worker that asks for tickets without end does not keep the hub from others.
func TestManyRequestsForTickets(t *testing.T) {
	f := fleettest.Up(t)
	a, w := f.Worker(t, "thief"), f.Worker(t, "worker")
	queueOf(t, f, 4)
	fleettest.Flood(t, func() {
		_ = a.NC.PublishRequest(fleet.NextSubject(a.Member.ID, "any"), fleet.Inbox(a.Member.ID)+".x", []byte(`{"schema":1,"batch":1}`)) // the hub may cut it off
	})
	end := time.Now().Add(3 * time.Second)
	for time.Now().Before(end) {
		begun := time.Now()
		if _, err := w.Hello(t.Context(), fleet.Hello{Capacity: 2}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 5*time.Second { // longer than a worker waits
			t.Errorf("the hub answered after %s", took)
		}
	}
}
