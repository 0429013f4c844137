package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// Options of Run. Root, Ready and Attempt are needed.
type Options struct {
	Capacity int               // attempts at a time
	Labels   map[string]string // the machine's own
	Version  string
	// Root is the worker's directory: mirrors of repositories, and what is at work.
	// One worker uses it at a time.
	Root    string
	Environ []string // for git
	// Ready is called every few seconds.
	Ready func() Ready
	// Attempt does a task. It may be called several times at once. What it reports
	// and returns leaves the machine, so it holds no secrets.
	Attempt func(ctx context.Context, j Job) (Done, error)
	// Drain, when it is closed, makes the worker finish what it has begun, take
	// nothing new and return. Nil never is.
	Drain  <-chan struct{}
	Logger *slog.Logger
}

// Ready says what this machine can do now.
type Ready struct {
	Answers  string   // who answers here
	Models   []string // that the account offers; none means unknown
	NotReady string   // why no task can be done now, "" if one can
}

// Job is one attempt at one task.
type Job struct {
	fleet.Assignment
	// Repo is the mirror, which holds Begin. Other attempts may use it at the same time.
	Repo *git.Repository
	// Dir is where attempts at this repository make their worktrees, several at the
	// same time, and remove them again.
	Dir string
	// Ask puts a question to the coordinator's person. An error is a no.
	Ask func(ctx context.Context, question json.RawMessage, until time.Time) (json.RawMessage, error)
	// Report tells of progress. It does not wait, and may be called concurrently.
	Report func(fleet.Event)
}

// Done is what a successful attempt comes to. Commit is in Job.Repo: Begin, or a
// child of it.
type Done struct {
	Commit        string
	Summary       string
	Usage         bridge.Usage
	Tools, Denied int
	Session       string
}

// The bounds of what a worker waits for.
const (
	answerBound   = 5 * time.Second  // for an answer of the hub or the server
	claimBound    = 30 * time.Second // for an assignment; its bundle is made meanwhile
	probeBound    = 10 * time.Second // the same, of a coordinator that has not answered before
	transferBound = 15 * time.Minute // for a bundle
	askBound      = 10 * time.Minute // for an answer of a person
	keepBound     = time.Hour        // for a word on a result
	drainBound    = fleet.Lease      // the same, when the worker only waits for that
	endBound      = 30 * time.Second // for attempts to end when they are canceled
	fullPause     = 30 * time.Second // without tasks, after the disk was full
)

// worker is one Run.
type worker struct {
	Options
	conn  *fleet.Conn
	id    string
	root  *root
	store *store
	since time.Time
	log   *slog.Logger

	work  context.Context // of all attempts; its cause is why they end
	abort context.CancelCauseFunc
	idle  context.Context // ends when no more tickets are to be taken
	drain context.CancelFunc
	tasks sync.WaitGroup // tickets and claims
	wake  chan struct{}  // a reason to ask for tickets, see takeTickets

	mu     sync.Mutex
	free   int // slots that nobody uses
	queues []string
	ready  Ready
	full   fullDisk
	claims map[string]*claim
	runs   map[string]*backOff
}

// fullDisk is why no tasks are taken until a time.
type fullDisk struct {
	why   string
	until time.Time
}

// Run takes tasks until it is drained or ctx ends, which is no error, or until
// the fleet refuses this machine. When it returns, all attempts have ended and
// nothing but mirrors is left in Root.
func Run(ctx context.Context, conn *fleet.Conn, o Options) (err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &worker{Options: o, conn: conn, id: conn.Member.ID, since: time.Now(), log: o.Logger,
		wake: make(chan struct{}, 1), free: max(o.Capacity, 1), ready: Ready{NotReady: fleet.Starting},
		claims: map[string]*claim{}, runs: map[string]*backOff{}}
	w.Capacity = w.free
	if w.root, err = openRoot(o.Root, w.id, o.Environ); err != nil {
		return err
	}
	w.store = &store{conn: conn, bucket: fleet.WorkerBucket(w.id)}
	w.work, w.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	w.idle, w.drain = context.WithCancel(ctx)
	defer w.abort(nil)
	defer w.drain()

	stopOrders, err := w.takeOrders()
	if err != nil {
		return closeRoot(w.root, err)
	}
	pulse, stopPulse := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { w.watchReady(pulse) })
	loops.Go(func() { w.greet(pulse) })
	loops.Go(func() { w.beat(pulse) })
	loops.Go(func() {
		select {
		case <-w.Drain:
			w.beginDrain()
		case <-pulse.Done():
		}
	})
	w.takeTickets()
	err = w.finish(ctx)
	stopPulse()
	loops.Wait()
	stopOrders()
	if conn.NC.IsConnected() {
		_ = conn.NC.FlushTimeout(answerBound) // what was given up; a lost word is made up for by the lease
	}
	return closeRoot(w.root, err)
}

// finish waits for the claims after the last ticket was taken.
func (w *worker) finish(ctx context.Context) error {
	ended := make(chan struct{})
	go func() { // ends with the last claim; only a stuck attempt can outlive Run
		w.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended: // drained
	case <-w.work.Done():
	case <-ctx.Done():
		w.abort(errShutdown)
	}
	bound := time.NewTimer(endBound)
	defer bound.Stop()
	select {
	case <-ended:
	case <-bound.C:
		return &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("an attempt has not ended %s after it was canceled", endBound), Remedy: "end this process"}
	}
	if err := context.Cause(w.work); err != nil && !errors.Is(err, errShutdown) {
		return err
	}
	return nil
}

var errShutdown = errors.New("the worker ends")

// end makes Run cancel everything and return an error.
func (w *worker) end(err error) {
	w.abort(err)
	w.drain()
}

// greet tells the hub of this worker, and does what it answers.
func (w *worker) greet(ctx context.Context) {
	host, _ := os.Hostname() // without one the name says enough
	tick := time.NewTicker(fleet.HelloEvery)
	defer tick.Stop()
	silent, anew := false, true
	for {
		hello := fleet.Hello{Anew: anew, Host: host, Version: w.Version, OS: runtime.GOOS, Arch: runtime.GOARCH,
			Labels: w.Labels, Capacity: w.Capacity, Since: w.since}
		w.describe(&hello)
		if err := w.hello(ctx, hello); err != nil && !silent && ctx.Err() == nil && w.conn.NC.IsConnected() { // else that is told already
			w.log.Warn("worker.hub_silent: the hub does not answer; the worker goes on", "error", err)
			silent = true
		} else if err == nil {
			silent, anew = false, false
		}
		select {
		case <-ctx.Done():
			return
		case <-w.conn.Done():
			w.end(w.conn.Err())
			return
		case <-tick.C:
		}
	}
}

// watchReady asks whether this machine can do tasks, which may take a while.
func (w *worker) watchReady(ctx context.Context) {
	tick := time.NewTicker(fleet.HelloEvery)
	defer tick.Stop()
	for {
		ready := w.Ready()
		w.mu.Lock()
		changed := ready.NotReady != w.ready.NotReady
		w.ready = ready
		w.mu.Unlock()
		if changed {
			w.log.Info("worker.ready", "not_ready", ready.NotReady)
			w.poke()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// cannot is why no tasks are taken now, "" if they are. The caller holds mu.
func (w *worker) cannot() string {
	if w.ready.NotReady == "" && time.Now().Before(w.full.until) {
		return w.full.why
	}
	return w.ready.NotReady
}

// describe adds the present state to a hello.
func (w *worker) describe(h *fleet.Hello) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.Answers, h.NotReady, h.Draining, h.Running = w.ready.Answers, w.cannot(), w.idle.Err() != nil, []fleet.Running{}
	for _, c := range w.claims {
		if !c.delivered.Load() {
			h.Running = append(h.Running, fleet.Running{Run: c.Run, Task: c.Task, Claim: c.Claim, Since: c.since})
		}
	}
	slices.SortFunc(h.Running, func(a, b fleet.Running) int { return a.Since.Compare(b.Since) })
}

// hello says hello. A refusal ends the worker; an error is that nobody answers.
func (w *worker) hello(ctx context.Context, h fleet.Hello) error {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	reply, err := w.conn.Hello(ctx, h)
	switch bridge.CodeOf(err) {
	case "":
	case bridge.CodeDenied, bridge.CodeUnauthenticated, bridge.CodeUnsupported:
		w.end(err)
		return nil
	default:
		return err
	}
	w.setQueues(reply.Queues)
	if reply.Draining {
		w.beginDrain()
	}
	return nil
}

func otherSchema(who string, schema int) *bridge.Error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("%s speaks version %d of the fleet's messages, this worker version %d", who, schema, fleet.Schema),
		Remedy: "run the same version of copilot-bridge on all machines of the fleet"}
}

func (w *worker) setQueues(queues []string) {
	w.mu.Lock()
	changed := !slices.Equal(queues, w.queues)
	w.queues = slices.Clone(queues)
	w.mu.Unlock()
	if changed {
		w.poke()
	}
}

func (w *worker) beginDrain() {
	if w.idle.Err() == nil {
		w.log.Info("worker.draining: what is begun is finished, nothing new is taken")
		w.drain()
	}
}

// poke makes takeTickets look again.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
