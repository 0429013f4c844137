package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

// ownerAlive is how old the beat of a run's owner may be.
const ownerAlive = 20 * time.Second

// admin does what a coordinator asks for.
func (k *keeper) admin(ctx context.Context, who, verb string, data []byte) any {
	var request fleet.MemberRequest
	err := fleet.Decode(data, &request)
	switch {
	case err != nil:
	case verb == "invite":
		var r fleet.InviteRequest
		if err = fleet.Decode(data, &r); err == nil {
			var reply fleet.InviteReply
			if reply, err = k.invite(ctx, r); err == nil {
				return reply
			}
		}
	case verb == "status":
		var status fleet.Status
		if status, err = k.status(ctx); err == nil {
			return status
		}
	case verb == "drain", verb == "remove":
		act := k.drain
		if verb == "remove" {
			act = k.remove
		}
		var m fleet.MemberRecord
		if m, err = k.find(request.Member); err == nil && verb == "remove" && m.ID == who {
			err = &bridge.Error{Code: bridge.CodeInvalid, Message: "a machine cannot remove itself from the fleet", Remedy: "Do it on another coordinator."}
		} else if err == nil {
			err = act(ctx, m)
		}
		if err == nil {
			k.hub.log.Info("fleet.member_"+verb, "member", m.ID)
			return fleet.MemberReply{Schema: fleet.Schema, Member: m.ID}
		}
	default:
		err = &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("the hub does not know %q", verb)}
	}
	return fleet.MemberReply{Schema: fleet.Schema, Refused: fleet.Refusal(err)}
}

// find looks a member up by its id, the beginning of one, or its name.
func (k *keeper) find(name string) (fleet.MemberRecord, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m, ok := k.members[name]; ok && m.Removed {
		return m, &bridge.Error{Code: bridge.CodeNotFound, Message: m.ID + " was removed from the fleet already", Remedy: "`copilot-bridge fleet status` lists the members."}
	} else if ok {
		return m, nil
	}
	var found []fleet.MemberRecord
	for _, m := range k.members {
		if !m.Removed && name != "" && (m.Name == name || strings.HasPrefix(m.ID, name)) {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return fleet.MemberRecord{}, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("the fleet has no member %q", name), Remedy: "`copilot-bridge fleet status` lists them."}
	}
	ids := []string{}
	for _, m := range found {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return fleet.MemberRecord{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%q means several members: %s", name, strings.Join(ids, ", ")), Remedy: "Say the id."}
}

func (k *keeper) drain(ctx context.Context, m fleet.MemberRecord) error {
	if m.Role != fleet.RoleWorker {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: m.ID + " is no worker", Remedy: "`copilot-bridge fleet remove` takes a coordinator out."}
	}
	if _, err := k.updateMember(ctx, m.ID, func(m *fleet.MemberRecord) error { m.Draining = true; return nil }); err != nil {
		return err
	}
	k.order(m.ID, fleet.Order{Kind: fleet.OrderDrain})
	return nil
}

// remove takes a member out. Its record goes first, so that no coordinator takes
// anything from it; then its connection is cut; then its bucket goes.
func (k *keeper) remove(ctx context.Context, m fleet.MemberRecord) error {
	if _, err := k.updateMember(ctx, m.ID, func(m *fleet.MemberRecord) error { m.Removed = true; return nil }); err != nil {
		return err
	}
	k.order(m.ID, fleet.Order{Kind: fleet.OrderRemoved, Message: "this machine was removed from the fleet"})
	if err := k.hub.nc.FlushWithContext(ctx); err != nil {
		k.hub.log.Debug("fleet.order_lost", "member", m.ID, "error", err)
	}
	if err := k.hub.cut(m.Key); err != nil {
		return err
	}
	k.mu.Lock()
	delete(k.seen, m.ID)
	k.mu.Unlock()
	err := k.hub.js.DeleteStream(ctx, "OBJ_"+fleet.WorkerBucket(m.ID))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = nil
	}
	return errors.Join(err, k.purgeResults(ctx, m.ID)) // nobody takes them
}

func (k *keeper) status(ctx context.Context) (fleet.Status, error) {
	s := fleet.Status{Schema: fleet.Schema, Fleet: k.hub.keys.fleet, URLs: k.hub.urls(), Version: k.hub.options.Version, Since: k.since.UTC(),
		Workers: []fleet.WorkerStatus{}, Queues: []fleet.QueueStatus{}, Runs: []fleet.RunStatus{}}
	k.mu.Lock()
	for id, m := range k.members {
		if m.Removed {
			continue
		}
		if m.Role == fleet.RoleCoordinator {
			s.Coordinators = append(s.Coordinators, m)
			continue
		}
		w := fleet.WorkerStatus{MemberRecord: m}
		if p, ok := k.seen[id]; ok {
			w.Online, w.Seen, w.Hello, w.Lag = time.Since(p.at) < offlineAfter, p.at.UTC(), &p.hello, p.hello.Lag
		}
		s.Workers = append(s.Workers, w)
	}
	for queue, row := range k.queues {
		s.Queues = append(s.Queues, fleet.QueueStatus{Queue: queue, Labels: row.Labels})
	}
	k.mu.Unlock()
	slices.SortFunc(s.Workers, func(a, b fleet.WorkerStatus) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Coordinators, func(a, b fleet.MemberRecord) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Queues, func(a, b fleet.QueueStatus) int { return cmp.Compare(a.Queue, b.Queue) })
	for i, q := range s.Queues {
		consumer, err := k.hub.js.Consumer(ctx, fleet.StreamTasks, q.Queue)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		} else if err != nil {
			return s, err
		}
		info := consumer.CachedInfo()
		s.Queues[i].Waiting, s.Queues[i].Claimed = int(info.NumPending), info.NumAckPending
	}
	var err error
	s.Runs, err = k.runs(ctx)
	return s, err
}

// runs are those whose owner the fleet knows, the newest beat first.
func (k *keeper) runs(ctx context.Context) ([]fleet.RunStatus, error) {
	out := []fleet.RunStatus{}
	owners, err := k.hub.js.KeyValue(ctx, k.hub.names.Of(fleet.TableOwners))
	if err != nil {
		return out, err
	}
	rows, err := fleet.Rows(ctx, owners, jetstream.AllKeys)
	if err != nil {
		return out, err
	}
	for _, entry := range rows {
		var owner fleet.Owner
		if err := fleet.Decode(entry.Value(), &owner); err != nil {
			continue // another version's
		}
		out = append(out, fleet.RunStatus{Run: entry.Key(), Owner: owner, Alive: !owner.Ended && !owner.Beat.IsZero() && time.Since(entry.Created()) < ownerAlive})
	}
	slices.SortFunc(out, func(a, b fleet.RunStatus) int { return b.Owner.Beat.Compare(a.Owner.Beat) })
	return out, nil
}
