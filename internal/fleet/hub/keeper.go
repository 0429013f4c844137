package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	// offlineAfter is how long a worker may say nothing and still counts as there.
	offlineAfter = 3 * fleet.HelloEvery
	// lookEvery is how often the store is looked at.
	lookEvery = 5 * time.Second
	// handlers is how many requests are answered at the same time.
	handlers = 8
	// maxHellos is how many hellos of one member wait for their answer. It sends the
	// next one when it has the answer to the last one. maxRequests is for all else.
	maxHellos   = 2
	maxRequests = 256
	// updateTries bounds a compare-and-set that others keep winning.
	updateTries = 20
)

// keeper answers the members: it lets machines in, knows who is there, tells of
// queues and does what coordinators ask for.
type keeper struct {
	hub      *Hub
	replicas int
	since    time.Time

	memberTable, invites, queueTable jetstream.KeyValue

	requests chan request
	joins    chan request
	tickets  *tickets
	subs     []*nats.Subscription

	mu      sync.Mutex
	members map[string]fleet.MemberRecord // as in the table
	queues  map[string]fleet.QueueRecord
	seen    map[string]presence
	waiting map[string]int // requests without an answer, by verb and sender
	dropped map[string]int // of those to join, by invitation
	// delivered is by worker; floods are the workers whose results are too many.
	delivered map[string]delivered
	floods    chan string
	abused    chan string // invitations that are to end
}

// presence is the last sign of life of a worker.
type presence struct {
	hello fleet.Hello
	at    time.Time
}

func newKeeper(ctx context.Context, h *Hub, replicas int) (*keeper, error) {
	k := &keeper{hub: h, replicas: replicas, since: time.Now(), requests: make(chan request, 16<<10), joins: make(chan request, 4*maxJoins), tickets: newTickets(h),
		members: map[string]fleet.MemberRecord{}, queues: map[string]fleet.QueueRecord{}, seen: map[string]presence{},
		waiting: map[string]int{}, dropped: map[string]int{}, delivered: map[string]delivered{}, floods: make(chan string, 16),
		abused: make(chan string, 16)}
	for name, table := range map[string]*jetstream.KeyValue{fleet.TableMembers: &k.memberTable, fleet.TableInvites: &k.invites, fleet.TableQueues: &k.queueTable} {
		var err error
		if *table, err = h.js.KeyValue(ctx, h.names.Of(name)); err != nil {
			return nil, fmt.Errorf("open the table %s: %w", name, err)
		}
	}
	if err := k.loadMembers(ctx); err != nil {
		return nil, err
	}
	return k, k.sweepInvites(ctx)
}

// loadMembers reads who is in the fleet. Who was removed stays out, also if the
// hub died half-way through removing.
func (k *keeper) loadMembers(ctx context.Context) error {
	rows, err := fleet.Rows(ctx, k.memberTable, jetstream.AllKeys)
	if err != nil {
		return err
	}
	var removed []string
	for _, entry := range rows {
		var m fleet.MemberRecord
		if err := fleet.Decode(entry.Value(), &m); err != nil {
			return fmt.Errorf("read the member %s: %w", entry.Key(), err)
		}
		k.members[m.ID] = m
		if m.Removed {
			removed = append(removed, m.Key)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	return k.hub.cut(removed...)
}

func (k *keeper) listen() error {
	for _, subject := range []string{"fleet.join.*", "fleet.hello.*", "fleet.renew.*", "fleet.next.*.*", "fleet.admin.*"} {
		// One of several hubs answers. Each subscription has its own goroutine, so that
		// a flood on one does not delay the others.
		sub, err := k.hub.nc.QueueSubscribe(subject, hubName, k.receive)
		if err != nil {
			return err
		}
		k.subs = append(k.subs, sub)
	}
	sub, err := k.hub.nc.Subscribe("fleet.result.>", k.countResult)
	if err != nil {
		return err
	}
	k.subs = append(k.subs, sub)
	if k.tickets.acks, err = k.hub.nc.ChanSubscribe("$JS.ACK.>", k.tickets.msgs); err != nil {
		return err
	}
	k.subs = append(k.subs, k.tickets.acks)
	return k.hub.nc.FlushTimeout(apiTimeout)
}

// end takes no more requests.
func (k *keeper) end() {
	for _, sub := range k.subs {
		_ = sub.Unsubscribe() // the connection is closed next
	}
}

// run answers requests until ctx ends.
func (k *keeper) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { k.watchQueues(ctx) })
	wg.Go(func() { k.upkeep(ctx) })
	wg.Go(func() { k.removeFloods(ctx) })
	wg.Go(func() { k.endAbused(ctx) })
	wg.Go(func() { k.tickets.run(ctx) })
	for range joinHandlers {
		wg.Go(func() { k.answerAll(ctx, k.joins) })
	}
	for range handlers {
		wg.Go(func() { k.answerAll(ctx, k.requests) })
	}
}

// upkeep does now and then what is due, and looks whether the store still works:
// the server goes on without it when the disk is full or fails.
func (k *keeper) upkeep(ctx context.Context) {
	tick, look := time.NewTicker(time.Hour), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if k.hub.server != nil && !k.hub.server.JetStreamEnabled() {
				k.hub.fail(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the fleet's server can no longer write to " + k.hub.options.Dir,
					Remedy: "Look whether the disk is full or failing, then start the hub again; nothing that it has answered for is lost."})
			}
			k.boundConnections(maxConns)
			continue
		case <-tick.C:
		}
		err := k.sweepInvites(ctx)
		if k.hub.server != nil {
			err = errors.Join(err, k.hub.server.renew())
		}
		if err != nil && ctx.Err() == nil {
			k.hub.log.Warn("fleet.upkeep_failed", "error", err)
		}
	}
}

// request comes from a member, or from a machine that wants to become one. what is
// the queue for a request for tickets, and the verb for a coordinator's request.
type request struct {
	msg             *nats.Msg
	verb, who, what string
}

// parse reads who asks for what. A message that the server sends at a member's
// bidding keeps its own subject, so that may be any.
func parse(msg *nats.Msg) request {
	r := request{msg: msg}
	parts := strings.Split(msg.Subject, ".")
	if len(parts) == 3 {
		r.verb, r.who = parts[1], parts[2]
	} else if len(parts) == 4 && parts[1] == "next" {
		r.verb, r.who, r.what = parts[1], parts[2], parts[3]
	}
	if r.verb == "admin" { // by any coordinator; nobody else may publish there
		r.what = r.who
		r.who, _, _ = strings.Cut(strings.TrimPrefix(msg.Reply, fleet.Inbox("")), ".")
	}
	return r
}

// receive passes a request to those who answer it. It does not wait, and drops the
// requests of a member that has too many waiting, so that others are still answered.
func (k *keeper) receive(msg *nats.Msg) {
	r := parse(msg)
	if err := fleet.CheckReply(msg, r.who); err != nil {
		k.hub.refuse(refusal{kind: RefusedMessage, member: r.who, text: err.Error()})
		return
	}
	to, most := k.requests, maxRequests
	switch r.verb {
	case "hello":
		most = maxHellos
	case "join":
		to, most = k.joins, maxJoins
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := r.verb + "." + r.who; k.waiting[key] < most {
		select {
		case to <- r:
			k.waiting[key]++
			return
		default: // too many members at once
		}
	}
	if r.verb == "join" {
		k.dropJoin(r.who)
	}
}

// answerAll answers requests until ctx ends.
func (k *keeper) answerAll(ctx context.Context, from <-chan request) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-from:
			k.answer(ctx, r)
		}
	}
}

func (k *keeper) answer(ctx context.Context, r request) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	defer k.answered(r)
	var answer any
	switch r.verb {
	case "join":
		answer = k.join(ctx, r.who, r.msg.Data)
	case "renew":
		answer = k.renew(r.who, r.msg.Data)
	case "next":
		k.next(r.msg, r.who, r.what)
		return
	case "hello":
		answer = k.hello(ctx, r.who, r.msg.Data)
	case "admin":
		answer = k.admin(ctx, r.who, r.what, r.msg.Data)
	default:
		return
	}
	if err := fleet.Respond(r.msg, r.who, answer); err != nil {
		k.hub.log.Warn("fleet.answer_failed", "subject", r.msg.Subject, "error", err)
	}
}

func (k *keeper) answered(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := r.verb + "." + r.who
	if k.waiting[key]--; k.waiting[key] == 0 {
		delete(k.waiting, key)
		delete(k.dropped, r.who)
	}
}

// member is what the fleet knows of a member.
func (k *keeper) member(id string) (fleet.MemberRecord, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.members[id]
	return m, ok
}

// updateMember changes a member's record by compare-and-set. Change may be called
// more than once.
func (k *keeper) updateMember(ctx context.Context, id string, change func(*fleet.MemberRecord) error) (fleet.MemberRecord, error) {
	m, err := update(ctx, k.memberTable, id, change)
	if err == nil {
		k.mu.Lock()
		k.members[id] = m
		k.mu.Unlock()
	}
	return m, err
}

// update changes a row by compare-and-set; a row that is not there begins empty.
func update[T any](ctx context.Context, table jetstream.KeyValue, key string, change func(*T) error) (T, error) {
	for range updateTries {
		var row T
		var revision uint64
		entry, err := table.Get(ctx, key)
		switch {
		case err == nil:
			if err := fleet.Decode(entry.Value(), &row); err != nil {
				return row, err
			}
			revision = entry.Revision()
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return row, err
		}
		if err := change(&row); err != nil {
			return row, err
		}
		data, err := json.Marshal(row)
		if err != nil {
			return row, err
		}
		if revision == 0 {
			_, err = table.Create(ctx, key, data)
		} else {
			_, err = table.Update(ctx, key, data, revision)
		}
		if !overtaken(err) {
			return row, err
		}
	}
	var none T
	return none, &bridge.Error{Code: bridge.CodeBusy, Message: "others change " + key + " all the time", Remedy: "Try again."}
}

// overtaken says whether a write failed because somebody else wrote first. A
// server alone and a cluster say it differently.
func overtaken(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}

// newCoordinator makes this machine a coordinator.
func (k *keeper) newCoordinator(ctx context.Context, dir string) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	name, _ := os.Hostname()
	id := fleet.MemberID(name, public)
	record, err := k.updateMember(ctx, id, func(m *fleet.MemberRecord) error {
		*m = fleet.MemberRecord{Schema: fleet.Schema, ID: id, Name: name, Role: fleet.RoleCoordinator, Key: public, Joined: time.Now().UTC()}
		return nil
	})
	if err != nil {
		return err
	}
	token, renewal, err := k.hub.keys.memberRights(record)
	if err != nil {
		return err
	}
	m := fleet.Member{Fleet: k.hub.keys.fleet, ID: id, Name: name, Role: fleet.RoleCoordinator, URLs: k.hub.local, CA: k.hub.ca}
	return fleet.Store(dir, m, seed, token, renewal)
}

// refreshCoordinator brings this machine's membership up to date: the right, which
// may have ended, and the addresses.
func (k *keeper) refreshCoordinator(dir string, m fleet.Member) error {
	record, ok := k.member(m.ID)
	if !ok || record.Removed {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "this machine was removed from its own fleet as a coordinator", Remedy: "Remove " + dir + "; it then becomes one again."}
	}
	token, renewal, err := k.hub.keys.memberRights(record)
	if err != nil {
		return err
	}
	m.URLs, m.CA = k.hub.local, k.hub.ca
	return fleet.Renew(dir, m, token, renewal)
}

// newID is a random name, long enough that nobody guesses it.
func newID() string { return strings.ToLower(rand.Text()) }
