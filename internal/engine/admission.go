package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	// turnMemory is what an open chat may cost: a session that has had many
	// turns holds 12 MB in the runtime, and half of the machine is not ours.
	turnMemory = 32 << 20
	// AgentTurns is how many agents run at a time at least. Their tools use the
	// processor, so there are not many more, see agentsPerCore.
	AgentTurns    = 8
	agentsPerCore = 2
	// Agents' turns take minutes, and it is worth while to wait for them longer.
	agentPatience = 10
	// startsPerCore is how many chats may be on their way to the model at a
	// time. That is the part of a turn that needs the processor most; waiting
	// for the model needs next to none. With fewer the first word comes later at
	// 256 callers, without a bound fewer turns get done.
	startsPerCore = 16
	// A start that takes longer waits for something else.
	startWithin = 2 * time.Second
	// averaged is how many turns the average time of one looks back at.
	averaged = 16
)

// admission decides which turn may begin. A place is free while fewer turns
// are open than memory (chats) or processors (agents) allow, and few of them
// are just starting. The rest wait. Next is the caller with the fewest open
// turns, and of equals the one whose turn was longest ago, so that one with
// hundreds of requests does not keep another's first one out. mu guards all
// that follows it, and every Seat and caller.
type admission struct {
	limits Limits
	most   map[bridge.Profile]int
	starts int

	mu       sync.Mutex
	open     map[bridge.Profile]int
	starting int
	callers  map[string]*caller
	waiting  []*waiter                        // the first to come is the first
	turns    int                              // let in so far
	takes    map[bridge.Profile]time.Duration // how long a place is held, on average
}

// caller is one that has turns open or waiting.
type caller struct {
	open, waiting int
	last          int // number of the turn that was let in last
}

type waiter struct {
	*Seat
	again bool       // its turn was let in before and only left its place
	done  chan error // gets one value
}

func newAdmission(l Limits) *admission {
	a := &admission{limits: l, starts: startsPerCore * runtime.GOMAXPROCS(0), open: map[bridge.Profile]int{}, callers: map[string]*caller{}, takes: map[bridge.Profile]time.Duration{},
		most: map[bridge.Profile]int{
			bridge.ProfileChat:  max(16, int(MachineMemory()/turnMemory)),
			bridge.ProfileAgent: max(AgentTurns, agentsPerCore*runtime.GOMAXPROCS(0)),
		}}
	if n := l.MaxConcurrent; n > 0 {
		a.most[bridge.ProfileChat], a.most[bridge.ProfileAgent] = n, n
	}
	return a
}

// free is how many more turns of a profile there is room for. mu is held.
func (a *admission) free(p bridge.Profile) int {
	free := a.most[p] - a.open[p]
	if n := a.limits.MaxConcurrent; n > 0 {
		free = min(free, n-a.open[bridge.ProfileChat]-a.open[bridge.ProfileAgent])
	}
	return free
}

// dispatch admits every turn that has a place. mu is held.
func (a *admission) dispatch() {
	for {
		var next *waiter
		for _, w := range a.waiting {
			switch {
			case w.closed, w.held: // the turn has ended, or another has taken its place for it
				next = w
			case a.free(w.profile) <= 0 || w.profile == bridge.ProfileChat && a.starting >= a.starts:
				continue
			case next == nil || w.before(next):
				next = w
			}
			if next.closed || next.held {
				break
			}
		}
		if next == nil {
			return
		}
		var err error
		if next.closed {
			err = errTurnOver()
		} else if !next.held {
			next.take()
		}
		a.remove(next)
		next.done <- err
	}
}

// before reports whether w is served before x. mu is held.
func (w *waiter) before(x *waiter) bool {
	if w.again != x.again {
		return w.again
	}
	one, two := w.admission.callers[w.caller], w.admission.callers[x.caller]
	return one.open < two.open || one.open == two.open && one.last < two.last
}

// count notes that a caller has more turns open or waiting, or fewer. mu is
// held.
func (a *admission) count(name string, open, waiting int) {
	c := a.callers[name]
	if c == nil {
		c = &caller{}
		a.callers[name] = c
	}
	c.open += open
	c.waiting += waiting
	if open > 0 {
		a.turns++
		c.last = a.turns
	}
	if c.open == 0 && c.waiting == 0 {
		delete(a.callers, name)
	}
}

func (a *admission) remove(w *waiter) bool {
	i := slices.Index(a.waiting, w)
	if i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.count(w.caller, 0, -1)
	}
	return i >= 0
}

// enter waits for a place. A turn that was let in before is not refused.
func (a *admission) enter(ctx context.Context, t *Seat, again bool) error {
	w := &waiter{Seat: t, again: again, done: make(chan error, 1)}
	a.mu.Lock()
	a.waiting = append(a.waiting, w)
	a.count(t.caller, 0, 1)
	a.dispatch()
	a.refuseSurplus()
	a.mu.Unlock()
	select {
	case err := <-w.done: // without a timer, which most turns need not pay for
		return err
	default:
	}
	if !again {
		patience := a.limits.QueueTimeout
		if t.profile == bridge.ProfileAgent {
			patience *= agentPatience
		}
		limited, cancel := context.WithTimeoutCause(ctx, patience, errLate)
		defer cancel()
		ctx = limited
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.remove(w) { // just now
		if err := <-w.done; err != nil {
			return err
		}
		t.leave()
	}
	if err := context.Cause(ctx); !errors.Is(err, errLate) {
		return err
	}
	return a.busy(t.profile)
}

// refuseSurplus refuses requests beyond the queue's limit: the last one of the
// caller that has the most in the queue. Requests that only wait for others to
// start do not count. mu is held.
func (a *admission) refuseSurplus() {
	surplus := map[bridge.Profile]int{}
	for _, w := range a.waiting {
		if !w.again {
			surplus[w.profile]++
		}
	}
	for p, n := range surplus {
		if n-max(0, a.free(p)) <= a.limits.QueueLimit {
			continue
		}
		var last *waiter
		for _, w := range a.waiting {
			if w.profile == p && !w.again && (last == nil || a.callers[w.caller].waiting >= a.callers[last.caller].waiting) {
				last = w
			}
		}
		a.remove(last)
		last.done <- a.busy(p)
	}
}

var errLate = errors.New("the turn has waited too long")

// busy refuses a turn. RetryAfter is the time until the waiting turns have
// begun, if turns take as long as the last ones did. mu is held.
func (a *admission) busy(p bridge.Profile) error {
	waiting := 0
	for _, w := range a.waiting {
		if w.profile == p {
			waiting++
		}
	}
	after := a.takes[p] * time.Duration(waiting+1) / time.Duration(max(1, a.open[p]))
	return &bridge.Error{Code: bridge.CodeBusy, RetryAfter: max(time.Second, after),
		Message: fmt.Sprintf("busy: %d %s turns are open and %d requests are waiting", a.open[p], p, waiting),
		Remedy:  "try again later, or raise engine.max_concurrent or engine.queue_limit"}
}

// Seat is the place of one turn among those that are open. A turn that waits
// for its caller's own tools leaves it, so that it blocks no other turn meanwhile,
// and takes one again before it continues.
type Seat struct {
	admission *admission
	profile   bridge.Profile
	caller    string
	held      bool
	since     time.Time
	closed    bool
	starting  *time.Timer // ends the start if nothing else does; nil when it is over
}

// Admit waits for a place in which a turn may run, or fails with CodeBusy if
// there are too many who wait. It is for callers that would otherwise prepare
// what they cannot use; see Session.SendSeated. Turns of one caller wait for
// those of another that has fewer.
func (e *Engine) Admit(ctx context.Context, p bridge.Profile, caller string) (*Seat, error) {
	if p != bridge.ProfileAgent {
		p = bridge.ProfileChat
	}
	t := &Seat{admission: e.admission, profile: p, caller: caller}
	if err := t.admission.enter(ctx, t, false); err != nil {
		return nil, err
	}
	return t, nil
}

// take makes the seat the turn's. admission.mu is held.
func (t *Seat) take() {
	a := t.admission
	t.held, t.since = true, time.Now()
	a.open[t.profile]++
	a.count(t.caller, 1, 0)
	if t.profile == bridge.ProfileChat {
		a.starting++
		t.starting = time.AfterFunc(startWithin, t.Started)
	}
}

// Started says that the turn has reached the model: the start, which needs the
// processor most, is over.
func (t *Seat) Started() {
	t.admission.mu.Lock()
	defer t.admission.mu.Unlock()
	t.started()
}

func (t *Seat) started() {
	if t.starting != nil {
		t.starting.Stop()
		t.starting = nil
		t.admission.starting--
		t.admission.dispatch()
	}
}

// Leave gives the seat back until the turn continues.
func (t *Seat) Leave() {
	t.admission.mu.Lock()
	defer t.admission.mu.Unlock()
	t.leave()
}

func (t *Seat) leave() {
	a := t.admission
	if !t.held {
		return
	}
	t.held = false
	took := time.Since(t.since)
	if average, known := a.takes[t.profile]; known {
		took = average + (took-average)/averaged
	}
	a.takes[t.profile] = took
	a.open[t.profile]--
	a.count(t.caller, -1, 0)
	t.started()
	a.dispatch()
}

// retake waits for a seat again, however long the queue is: the turn was let
// in before. It fails if the turn is over.
func (t *Seat) retake(ctx context.Context) error {
	t.admission.mu.Lock()
	held := t.held
	t.admission.mu.Unlock()
	if held {
		return nil
	}
	return t.admission.enter(ctx, t, true)
}

func errTurnOver() error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "the turn is over"}
}

// Close gives the seat back for good.
func (t *Seat) Close() {
	t.admission.mu.Lock()
	defer t.admission.mu.Unlock()
	t.closed = true
	t.leave()
	t.admission.dispatch() // for a turn that waits to take it
}

// Load says how many turns of a profile are open, and how many wait.
func (e *Engine) Load(p bridge.Profile) (open, waiting int) {
	a := e.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		if w.profile == p {
			waiting++
		}
	}
	return a.open[p], waiting
}
