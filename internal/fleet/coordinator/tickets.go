package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// queue makes the consumer of the run's queue and its row, once.
func (c *Coordinator) queue(ctx context.Context) (string, error) {
	name := fleet.Queue(c.opts.Labels)
	c.mu.Lock()
	known := c.queues[name]
	c.mu.Unlock()
	if known {
		return name, nil
	}
	labels := slices.Compact(slices.Sorted(slices.Values(c.opts.Labels)))
	data, err := json.Marshal(fleet.QueueRecord{Schema: fleet.Schema, Labels: labels})
	if err != nil {
		return "", err
	}
	err = persist(ctx, func(ctx context.Context) error {
		_, err := c.js.CreateOrUpdateConsumer(ctx, fleet.StreamTasks, jetstream.ConsumerConfig{Durable: name, FilterSubject: "fleet.task." + name + ".>",
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.opts.Lease, MaxDeliver: -1, MaxAckPending: -1})
		return err
	})
	if err == nil {
		err = persist(ctx, func(ctx context.Context) error {
			_, err := c.stores.queues.Create(ctx, name, data)
			if errors.Is(err, jetstream.ErrKeyExists) {
				return nil
			}
			return err
		})
	}
	if err == nil {
		c.mu.Lock()
		c.queues[name] = true
		c.mu.Unlock()
	}
	return name, err
}

// offer puts the ticket of an attempt out.
func (c *Coordinator) offer(ctx context.Context, a *attempt) error {
	queue, err := c.queue(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(fleet.Ticket{Schema: fleet.Schema, Run: c.run, Task: a.work.Task.ID, Attempt: a.work.Attempt, Labels: c.opts.Labels, Repo: c.repoID})
	if err != nil {
		return err
	}
	// Each ticket has an id of its own: one that was removed must not hide it.
	id := fmt.Sprintf("%s/%s/%d/%s", c.run, a.token, a.work.Attempt, newID())
	c.mu.Lock()
	a.queued = true
	c.mu.Unlock()
	return persist(ctx, func(ctx context.Context) error {
		ack, err := c.js.Publish(ctx, c.stores.names.To(fleet.TaskSubject(queue, c.run, a.work.Task.ID)), data, jetstream.WithMsgID(id))
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		a.ticket = ack.Sequence
		close(a.offered)
		return nil
	})
}

// dropTicket removes a ticket, whether it was given to a worker or not.
func (c *Coordinator) dropTicket(ctx context.Context, a *attempt) {
	err := persist(ctx, func(ctx context.Context) error {
		return c.stores.tasks.Purge(ctx, jetstream.WithPurgeSubject(fleet.TaskSubject(fleet.Queue(c.opts.Labels), c.run, a.work.Task.ID)))
	})
	if err != nil { // the ticket is refused when it comes up
		c.opts.Logger.Warn("fleet.ticket_not_removed", "run", c.run, "task", a.work.Task.ID, "error", err)
	}
}

// endStale ends a ticket that a worker shows and that is not in force, if it is one
// of this run: it would come up again and again.
func (c *Coordinator) endStale(ctx context.Context, seq uint64, ack string) {
	m, err := c.stores.tasks.GetMsg(ctx, seq)
	if err != nil {
		return // gone, or for the next time
	}
	parts := strings.Split(m.Subject, ".")
	if len(parts) != 5 || parts[3] != c.run {
		return
	}
	c.mu.Lock()
	a := c.attempts[parts[4]]
	inForce := a != nil && !a.over && (a.ticket == seq || !isClosed(a.offered)) // whatever task the worker has named
	c.mu.Unlock()
	if !inForce {
		_ = c.nc.Publish(ack, []byte("+TERM")) // else the next time
	}
}

func (c *Coordinator) purgeTickets(ctx context.Context) error {
	return c.purge(ctx, fleet.StreamTasks, "fleet.task.*."+c.run+".>")
}

// ticketOf reads the sequence of a ticket from the reply subject of its message,
// $JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>[.<more>].
// What is published there is published with this coordinator's rights, so it
// must be exactly of that form, and of the run's queue.
func ticketOf(ack, queue string) (uint64, bool) {
	parts := strings.Split(ack, ".")
	if n := len(parts); len(ack) > 400 || n != 9 && n != 11 && n != 12 || parts[0] != "$JS" || parts[1] != "ACK" || strings.ContainsAny(ack, "*> \t\r\n") {
		return 0, false
	}
	parts = parts[2:]
	if len(parts) >= 9 { // with domain and account
		parts = parts[2:]
	}
	if parts[0] != fleet.StreamTasks || parts[1] != queue {
		return 0, false
	}
	for _, n := range parts[2:7] {
		if _, err := strconv.ParseUint(n, 10, 64); err != nil {
			return 0, false
		}
	}
	seq, err := strconv.ParseUint(parts[3], 10, 64)
	return seq, err == nil
}
