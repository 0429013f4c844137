package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// hello answers a member's sign of life: what it should do, and a new right if
// half of the old one is over.
func (k *keeper) hello(ctx context.Context, id string, data []byte) fleet.HelloReply {
	var h fleet.Hello
	m, err := k.present(id)
	if err == nil {
		err = decodeHello(data, &h)
	}
	if err != nil {
		return fleet.HelloReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
	}
	reply := fleet.HelloReply{Schema: fleet.Schema, Draining: m.Draining}
	if time.Until(h.Expires) < k.hub.keys.lasts/2 {
		if reply.JWT, reply.Renewal, err = k.hub.keys.memberRights(m); err != nil {
			return fleet.HelloReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
		}
	}
	if m.Role != fleet.RoleWorker {
		return reply
	}
	anew := h.Anew && m.Draining
	if offers := fleet.Offers(m.Labels, h.Labels); anew || !slices.Equal(offers, m.Offers) {
		m, err = k.updateMember(ctx, id, func(m *fleet.MemberRecord) error {
			m.Offers, m.Draining = offers, m.Draining && !anew
			return nil
		})
		if err != nil {
			return fleet.HelloReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
		}
		reply.Draining = m.Draining
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[id] = presence{hello: h, at: time.Now()}
	reply.Queues = k.queuesFor(m)
	return reply
}

// A hello is kept, and shown with those of all others.
const (
	maxHello  = 128 << 10
	maxLabels = 64
)

func decodeHello(data []byte, h *fleet.Hello) error {
	if len(data) > maxHello {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("a hello of %d bytes is too long", len(data))}
	}
	if err := fleet.Decode(data, h); err != nil {
		return err
	}
	if len(h.Labels) > maxLabels {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("a worker has at most %d labels of its own", maxLabels)}
	}
	for _, l := range fleet.Offers(nil, h.Labels) {
		if !fleet.IsLabel(l) {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.80q is no label of a worker", l)}
		}
	}
	return nil
}

// renew answers a member whose right has ended.
func (k *keeper) renew(id string, data []byte) fleet.HelloReply {
	reply := fleet.HelloReply{Schema: fleet.Schema}
	err := fleet.Decode(data, &fleet.Hello{})
	var m fleet.MemberRecord
	if err == nil {
		m, err = k.present(id)
	}
	if err == nil {
		reply.JWT, reply.Renewal, err = k.hub.keys.memberRights(m)
	}
	if err != nil {
		k.hub.refuse(refusal{kind: RefusedConnection, member: id, text: err.Error()})
		return fleet.HelloReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
	}
	return reply
}

// present is a member, unless it was removed.
func (k *keeper) present(id string) (fleet.MemberRecord, error) {
	m, ok := k.member(id)
	if !ok || m.Removed {
		return m, &bridge.Error{Code: bridge.CodeDenied, Message: "this machine was removed from the fleet",
			Remedy: "If it should be in the fleet, make an invitation with `copilot-bridge fleet invite` and join with it."}
	}
	return m, nil
}

// queuesFor is which queues a worker may take from. The caller holds mu.
func (k *keeper) queuesFor(m fleet.MemberRecord) []string {
	out := []string{}
	for _, queue := range slices.Sorted(maps.Keys(k.queues)) {
		if fleet.Fits(m.Offers, k.queues[queue].Labels) {
			out = append(out, queue)
		}
	}
	return out
}

// watchQueues follows the table of queues and tells workers of new ones at once.
func (k *keeper) watchQueues(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.followQueues(ctx); err != nil && ctx.Err() == nil {
			k.hub.log.Warn("fleet.queues_lost", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (k *keeper) followQueues(ctx context.Context) error {
	watch, err := k.queueTable.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }() // its connection is ours
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry, open := <-watch.Updates():
			if !open {
				return errors.New("the watch has ended")
			}
			if entry != nil {
				k.queueChanged(entry)
			}
		}
	}
}

func (k *keeper) queueChanged(entry jetstream.KeyValueEntry) {
	var row fleet.QueueRecord
	k.mu.Lock()
	if entry.Operation() != jetstream.KeyValuePut {
		delete(k.queues, entry.Key())
		k.mu.Unlock()
		return
	}
	if err := fleet.Decode(entry.Value(), &row); err != nil {
		k.mu.Unlock()
		k.hub.log.Warn("fleet.queue_unreadable", "queue", entry.Key(), "error", err)
		return
	}
	k.queues[entry.Key()] = row
	orders := map[string]fleet.Order{}
	for id, p := range k.seen {
		if m := k.members[id]; time.Since(p.at) < offlineAfter && !m.Removed && fleet.Fits(m.Offers, row.Labels) {
			orders[id] = fleet.Order{Kind: fleet.OrderQueues, Queues: k.queuesFor(m)}
		}
	}
	k.mu.Unlock()
	for id, order := range orders {
		k.order(id, order)
	}
}

// order tells a worker something. It may get lost; the next hello says the same.
func (k *keeper) order(id string, o fleet.Order) {
	o.Schema = fleet.Schema
	data, err := json.Marshal(o)
	if err == nil {
		err = k.hub.nc.Publish(fleet.OrderSubject(id), data)
	}
	if err != nil {
		k.hub.log.Debug("fleet.order_lost", "member", id, "kind", o.Kind, "error", err)
	}
}
