package sdk

import (
	"context"
	"errors"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// A profile has one lane, which is a host, or for a while others beside it: a
// runtime does part of its work one thing after another, so that with many
// turns at once two of them get a quarter more done on the same machine, and
// three another 7 %. A fourth adds too little for its 100 MB. Those beside the
// first are there while they have sessions.
const (
	mostLanes = 3
	// crowd is how many sessions more than another lane has are too many.
	crowd = 2
)

// first returns the host of a profile that is always there.
func (a *Agent) first(p bridge.Profile) (*host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errClosed()
	}
	if len(a.lanes[p]) == 0 {
		a.lanes[p] = []*host{newHost(a, p)}
	}
	return a.lanes[p][0], nil
}

// lane returns the host that a new session of a profile is opened on, which is
// the one with the fewest, and its process. They are not taken away until done
// is called.
func (a *Agent) lane(ctx context.Context, p bridge.Profile) (h *host, proc *process, done func(), err error) {
	if h, err = a.first(p); err != nil {
		return nil, nil, nil, err
	}
	a.mu.Lock()
	for _, x := range a.lanes[p] {
		if !x.going && x.load()+x.pending < h.load()+h.pending {
			h = x
		}
	}
	h.pending++
	a.mu.Unlock()
	proc, leave, err := h.ensure(ctx)
	if err != nil {
		a.arrived(h)
		return nil, nil, nil, err
	}
	return h, proc, func() { leave(); a.arrived(h) }, nil
}

func (a *Agent) arrived(h *host) {
	a.mu.Lock()
	h.pending--
	a.mu.Unlock()
}

// stay keeps a lane from being ended until the function is called that it
// returns.
func (a *Agent) stay(h *host) (leave func(context.Context)) {
	a.mu.Lock()
	h.pending++
	a.mu.Unlock()
	return func(ctx context.Context) {
		a.arrived(h)
		a.narrow(ctx, h)
	}
}

// Widen gives a profile one more runtime, unless it has enough, and lets it run
// a turn first; see Warm. Sessions that were there before stay where they are.
// One that was about to end stays instead.
func (a *Agent) Widen(ctx context.Context, p bridge.Profile, provider bridge.Provider, model string) error {
	a.mu.Lock()
	lanes := a.lanes[p]
	enough := a.closed || a.widening || len(lanes) == 0
	for _, h := range lanes {
		if h.going && !enough {
			h.going, enough = false, true
		}
	}
	enough = enough || len(lanes) >= mostLanes
	if !enough {
		a.widening = true
		a.starting.Add(1)
	}
	a.mu.Unlock()
	if enough {
		return nil
	}
	defer a.starting.Done()
	h := newHost(a, p)
	err := a.warmUp(ctx, h, provider, model)
	a.mu.Lock()
	a.widening = false
	if err == nil && !a.closed {
		a.lanes[p] = append(a.lanes[p], h)
		h = nil
	}
	a.mu.Unlock()
	if h != nil {
		err = errors.Join(err, h.close(context.WithoutCancel(ctx)))
	}
	return err
}

// narrow is called when a session has gone from h: a lane beside the first
// that has no more of them is ended.
func (a *Agent) narrow(ctx context.Context, h *host) {
	a.mu.Lock()
	lanes := a.lanes[h.profile]
	i := slices.Index(lanes, h)
	gone := i > 0 && h.pending == 0 && h.empty() && !a.closed
	if gone {
		a.lanes[h.profile] = slices.Delete(slices.Clone(lanes), i, i+1)
		a.starting.Add(1)
	}
	a.mu.Unlock()
	if !gone {
		return
	}
	defer a.starting.Done()
	if err := h.close(context.WithoutCancel(ctx)); err != nil {
		a.opts.Logger.Warn("ending a runtime that has nothing left to do", "error", err)
	}
}

// crowded says whether h has more than its share of the profile's sessions.
func (a *Agent) crowded(h *host) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.lanes[h.profile] {
		if x != h && !x.going && h.load() > x.load()+x.pending+crowd {
			return true
		}
	}
	return false
}

// current says whether sessions are opened on h, and in p.
func (a *Agent) current(h *host, p *process) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !h.going && h.present.Load() == p
}

// aside says whether h is a lane beside the first.
func (a *Agent) aside(h *host) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Index(a.lanes[h.profile], h) > 0
}

// load is how many sessions the host's process has; none if it is dead.
func (h *host) load() int {
	p := h.present.Load()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

// empty says that no session is left in any process of the host. It does not
// wait for a host that is busy with a start: that one is not empty for long.
func (h *host) empty() bool {
	p := h.present.Load()
	if p != nil && !p.idle() || !h.mu.TryLock() {
		return false
	}
	defer h.mu.Unlock()
	return len(h.retired) == 0
}

// warmUp has a host run one turn in a session that is deleted again.
func (a *Agent) warmUp(ctx context.Context, h *host, provider bridge.Provider, model string) error {
	proc, done, err := h.ensure(ctx)
	if err != nil {
		return err
	}
	defer done()
	s := newSession(h, proc, bridge.SessionSpec{Profile: h.profile, Provider: &provider, Model: model})
	if err := s.create(ctx); err != nil {
		return h.noticed(proc, h.explain(err, "open a session"))
	}
	var turnErr error
	for _, err := range s.Send(ctx, bridge.Prompt{Text: "warm-up"}) {
		turnErr = err
	}
	return errors.Join(turnErr, s.Remove(context.WithoutCancel(ctx)))
}
