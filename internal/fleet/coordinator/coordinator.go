package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet/bundle"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/orchestrate"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Options are what a coordinator needs.
type Options struct {
	Host    string // of this machine, for people
	Scratch string // a directory of its own for bundles, which End removes
	// Labels are those that a worker must have, as k=v or k.
	Labels []string
	// Policy, PolicyDigest, Model, Effort and Limits go into each assignment.
	Policy       json.RawMessage
	PolicyDigest string
	Model        string
	Effort       string
	Limits       fleet.Limits
	// Wanted is such a worker, for people; "" for any.
	Wanted string
	// Demo: workers that answer with the demo model may do tasks.
	Demo bool
	// Ask puts a question of a worker's session to the person here; nil says no.
	Ask func(context.Context, Question) (json.RawMessage, error)
	// Record hears of what smells of an attack.
	Record func(kind, member, text string)
	Logger *slog.Logger
	// Lease is how long a claim lives without a sign of life; 0 means fleet.Lease.
	// A coordinator that died may be replaced after Owner; 0 means 20 s.
	Lease, Owner time.Duration
}

// Question is one of a worker's session.
type Question struct {
	Member, Name string // the worker
	Task         string
	Question     json.RawMessage
}

// ownerBeats is how often a coordinator shows that it lives before it may be
// taken for dead.
const ownerBeats = 4

func (o Options) withDefaults() Options {
	if o.Lease <= 0 {
		o.Lease = fleet.Lease
	}
	if o.Owner <= 0 {
		o.Owner = 20 * time.Second
	}
	if o.Record == nil {
		o.Record = func(string, string, string) {}
	}
	o.Record = fleet.LimitRecord(o.Record)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Coordinator is the orchestrate.Remote of one run in a fleet. Begin comes
// first, or Take and then Begin; End is last. Attempt and Append may be called by
// several goroutines at once.
type Coordinator struct {
	opts   Options
	conn   *fleet.Conn
	nc     *nats.Conn
	js     jetstream.JetStream
	stores stores

	// Set by own and Begin.
	run     string
	epoch   string
	before  fleet.Owner // who had the run until then
	owner   *owner
	journal *journal
	repo    *git.Repository
	repoID  string // names the mirrors of the workers

	// The run's own context; its cause is why it ended.
	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // all goroutines of this package
	subs   []*nats.Subscription

	gits     chan struct{} // bounds how many bundles are made or read at a time
	claiming chan struct{} // and how many claims are answered
	progress chan func()   // to be told

	mu       sync.Mutex
	closed   bool
	queues   map[string]bool     // whose consumer is there
	attempts map[string]*attempt // at work, by task (Token)
	claims   map[string]*claim   // all that this coordinator gave or took over
	rows     map[string]row      // TableClaims, by task (Token)
	failed   map[string]lossesOf // by task (Token) and worker
	early    map[string]delivery // results of claims from before, until their attempt comes
	buckets  map[string]jetstream.ObjectStore
	bundles  map[string]*thin // by name
	sent     map[string]*sent // by worker and name
	kept     map[string]bool  // commits on record
	asking   map[string]int   // open questions, by worker
	giving   map[string]int   // claims being answered, by worker
	known    map[string]bool  // events on record when the run was taken, as they are written
}

// stores are what the hub made.
type stores struct {
	names                           fleet.Names
	tasks, results, journal         jetstream.Stream
	members, queues, owners, claims jetstream.KeyValue
	runs                            jetstream.ObjectStore
}

func openStores(ctx context.Context, js jetstream.JetStream) (s stores, err error) {
	if s.names, err = fleet.FindNames(ctx, js); err != nil {
		return s, err
	}
	for name, table := range map[string]*jetstream.KeyValue{fleet.TableMembers: &s.members, fleet.TableQueues: &s.queues, fleet.TableOwners: &s.owners, fleet.TableClaims: &s.claims} {
		if *table, err = js.KeyValue(ctx, s.names.Of(name)); err != nil {
			return s, fmt.Errorf("open the table %s of the fleet: %w", name, err)
		}
	}
	for name, stream := range map[string]*jetstream.Stream{fleet.StreamTasks: &s.tasks, fleet.StreamResults: &s.results, fleet.StreamJournal: &s.journal} {
		if *stream, err = js.Stream(ctx, name); err != nil {
			return s, fmt.Errorf("open the stream %s of the fleet: %w", name, err)
		}
	}
	if s.runs, err = js.ObjectStore(ctx, s.names.Of(fleet.BucketRuns)); err != nil {
		return s, fmt.Errorf("open the bucket %s of the fleet: %w", fleet.BucketRuns, err)
	}
	return s, nil
}

// New returns a coordinator for one run. It does nothing yet.
func New(conn *fleet.Conn, o Options) *Coordinator {
	return &Coordinator{opts: o.withDefaults(), conn: conn, nc: conn.NC, js: conn.JS,
		gits: make(chan struct{}, 4), claiming: make(chan struct{}, 256), progress: make(chan func(), 1024),
		queues: map[string]bool{}, attempts: map[string]*attempt{}, claims: map[string]*claim{}, rows: map[string]row{}, failed: map[string]lossesOf{},
		early: map[string]delivery{}, buckets: map[string]jetstream.ObjectStore{}, bundles: map[string]*thin{},
		sent: map[string]*sent{}, kept: map[string]bool{}, known: map[string]bool{}, asking: map[string]int{}, giving: map[string]int{}}
}

func newID() string { return strings.ToLower(rand.Text()) }

// Check implements orchestrate.Remote.
func (c *Coordinator) Check(ctx context.Context, repo *git.Repository, base string) error {
	return bundle.Check(ctx, repo, base)
}

// Begin makes the run this coordinator's, unless Take did, and starts to answer
// workers.
func (c *Coordinator) Begin(ctx context.Context, m orchestrate.Meta, past []orchestrate.Event, repo *git.Repository) error {
	if c.run == "" {
		id := m.ID
		if repo != nil {
			var err error
			if id, err = bundle.RepoID(ctx, repo, m.Base); err != nil {
				return err
			}
		}
		if err := c.own(ctx, m.ID, &m, id); err != nil {
			return err
		}
		err := c.recall(ctx, func(entry) {})
		if err == nil {
			err = c.checkNewest(past)
		}
		if err != nil {
			return errors.Join(err, c.End(ctx, false))
		}
	}
	c.repo = repo
	c.owner.describe(m.Name(), m.Dir)
	err := c.clear(ctx)
	if err == nil && repo != nil {
		err = c.catchUp(ctx, m, past)
	}
	if err == nil {
		err = c.listen(ctx)
	}
	if err != nil {
		return errors.Join(err, c.End(ctx, false))
	}
	c.work.Go(c.forget)
	return nil
}

// recall reads the run's record so far.
func (c *Coordinator) recall(ctx context.Context, f func(entry)) error {
	return c.journal.read(ctx, func(e entry) error {
		if e.Repo != "" && c.repoID == "" {
			c.repoID = e.Repo
		}
		if e.Commit != nil {
			c.kept[e.Commit.Commit] = true
		}
		if e.Event != nil {
			c.known[string(e.Event)] = true
		}
		f(e)
		return nil
	})
}

// checkNewest returns an error if the fleet has events of the run that this machine lacks.
func (c *Coordinator) checkNewest(past []orchestrate.Event) error {
	here := map[string]bool{}
	for _, e := range past {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		here[string(data)] = true
	}
	for line := range c.known {
		if !here[line] {
			return &bridge.Error{Code: bridge.CodeConflict, Message: "the run went on on another machine",
				Remedy: "go on with `copilot-bridge orchestrate --fleet --resume " + c.run + "`"}
		}
	}
	return nil
}

// catchUp puts on record what is missing there: of a new run its beginning, and
// of one that went on without the fleet what happened then.
func (c *Coordinator) catchUp(ctx context.Context, m orchestrate.Meta, past []orchestrate.Event) error {
	have, err := c.repo.RefCommits(ctx, "refs/remotes") // other clones have these too
	if err != nil {
		return err
	}
	if err := c.keep(ctx, m.Base, have); err != nil {
		return err
	}
	for _, e := range past {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if c.known[string(data)] {
			continue
		}
		if e.Result != nil {
			if err := c.keep(ctx, e.Result.Work, []string{m.Base}); err != nil {
				return err
			}
		}
		if err := c.Append(ctx, e); err != nil {
			return err
		}
	}
	c.known = nil
	return nil
}

// own takes the run and fences its former owner off.
func (c *Coordinator) own(ctx context.Context, run string, m *orchestrate.Meta, repoID string) (err error) {
	err = persist(ctx, func(ctx context.Context) error { c.stores, err = openStores(ctx, c.js); return err })
	if err != nil {
		return err
	}
	epoch := newID()
	o := &owner{table: c.stores.owners, run: run, row: fleet.Owner{Schema: fleet.Schema, Member: c.conn.Member.ID, Host: c.opts.Host, PID: os.Getpid(), Epoch: epoch}}
	if m != nil {
		o.row.Task, o.row.Dir = text.FirstLine(m.Name(), 100), m.Dir
	}
	before, err := o.take(ctx, c.opts.Owner)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.opts.Scratch, 0o700); err != nil {
		return err
	}
	j := &journal{js: c.js, stream: c.stores.journal, objects: c.stores.runs, bucket: c.stores.names.Of(fleet.BucketRuns), run: run, to: c.stores.names.To(fleet.JournalSubject(run)), epoch: epoch, in: make(chan appending), taken: func(ctx context.Context) error {
		if err := o.renew(ctx); err != nil {
			return err
		}
		return takenOver(run, fleet.Owner{})
	}}
	if err := j.own(ctx, m, repoID); err != nil {
		return errors.Join(err, o.release(context.WithoutCancel(ctx), false))
	}
	c.run, c.epoch, c.before, c.owner, c.journal = run, epoch, before, o, j
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.work.Go(func() { c.journal.write(c.ctx) })
	c.work.Go(c.beat)
	return nil
}

// beat shows that this coordinator lives, until the run ends or is another's.
func (c *Coordinator) beat() {
	tick := time.NewTicker(c.opts.Owner / ownerBeats)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, oneTry)
		err := c.owner.renew(ctx)
		cancel()
		if bridge.CodeOf(err) == bridge.CodeConflict {
			c.cancel(err)
		} else if err != nil && c.ctx.Err() == nil && c.nc.IsConnected() { // else that is told already
			c.opts.Logger.Warn("fleet.owner_beat_failed", "run", c.run, "error", err)
		}
	}
}

// Append puts an event on the run's record. It fails for good when the run is
// another coordinator's.
func (c *Coordinator) Append(ctx context.Context, e orchestrate.Event) error {
	if c.ctx == nil {
		return errors.New("the run has not begun")
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Join != nil {
		if err := c.keep(ctx, e.Join.Commit, e.Join.Works); err != nil {
			return err
		}
	}
	return c.put(ctx, entry{Event: data})
}

// put appends an entry. What a canceled run still says must not take long.
func (c *Coordinator) put(ctx context.Context, e entry) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), oneTry)
		defer cancel()
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	err := c.journal.append(ctx, e)
	if bridge.CodeOf(err) == bridge.CodeConflict {
		c.cancel(err)
	}
	return err
}

// within returns a context that ends with ctx or the run, with its cause.
func (c *Coordinator) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// spawn runs f on a goroutine for which End waits, when there is room in bound.
// A nil bound is none.
func (c *Coordinator) spawn(bound chan struct{}, f func()) {
	leave := func() {}
	if bound != nil {
		select {
		case bound <- struct{}{}:
			leave = func() { <-bound }
		case <-c.ctx.Done():
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		leave()
		return
	}
	c.work.Go(func() { defer leave(); f() })
}

// errEnded is why the context of a run that is over ended.
var errEnded = errors.New("the run is over")

// End stops answering workers and lets the run go. With ended, nobody needs to
// go on with it, and what lies about of it is removed. A run that was taken and did
// not begin is left as it was. A second call does nothing.
func (c *Coordinator) End(ctx context.Context, ended bool) error {
	if c.ctx == nil {
		return nil
	}
	mine := c.ctx.Err() == nil
	ended = ended || c.before.Ended && len(c.subs) == 0
	for _, s := range c.subs {
		_ = s.Unsubscribe() // fails only if the connection is closed
	}
	c.cancel(errEnded)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.work.Wait()
	if err := os.RemoveAll(c.opts.Scratch); err != nil || !mine { // another's by now
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*oneTry)
	defer cancel()
	err := persist(ctx, c.owner.renew) // what follows must not hit another's run
	if err != nil {
		return err
	}
	err = c.purgeTickets(ctx)
	if ended {
		err = errors.Join(err, c.purge(ctx, fleet.StreamResults, "fleet.result.*."+c.run+".>"), c.purgeClaims(ctx, c.run))
	}
	return errors.Join(err, c.owner.release(ctx, ended))
}

// purgeClaims removes the claims of a run.
func (c *Coordinator) purgeClaims(ctx context.Context, run string) error {
	table := c.stores.names.Of(fleet.TableClaims)
	return c.purge(ctx, "KV_"+table, "$KV."+table+"."+run+".>")
}

// purge removes the messages of a subject from a stream.
func (c *Coordinator) purge(ctx context.Context, stream, subject string) error {
	return persist(ctx, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	})
}
