package sdk

import (
	"context"
	"errors"
	"slices"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Memory is what the largest runtime of a profile holds of the machine's
// memory, in bytes; 0 if none runs or this platform does not tell.
func (a *Agent) Memory(p bridge.Profile) int64 {
	_, held := a.largest(p)
	return held
}

func (a *Agent) largest(p bridge.Profile) (most *host, held int64) {
	a.mu.Lock()
	lanes := slices.DeleteFunc(slices.Clone(a.lanes[p]), func(h *host) bool { return h.going })
	a.mu.Unlock()
	for _, h := range lanes {
		if bytes := h.present.Load().resident(); most == nil || bytes > held {
			most, held = h, bytes
		}
	}
	return most, held
}

// Rotate starts a new runtime in place of a profile's largest, in which its
// sessions are opened from then on. The old one goes on with those that it has
// and ends with the last of them: a runtime never gives back the memory of a
// deleted session. Without a running one it does nothing.
func (a *Agent) Rotate(ctx context.Context, p bridge.Profile) error {
	if h, _ := a.largest(p); h != nil {
		return a.rotate(ctx, h)
	}
	return nil
}

// Shrink is for quiet times after much has been done. A profile goes back to
// one runtime: those beside it end with their last session, unless a crowd
// comes back before that. If the one that stays holds more than so many times
// what it did when it was young it is replaced, which is what true says.
func (a *Agent) Shrink(ctx context.Context, p bridge.Profile, times float64) (renewed bool, err error) {
	a.mu.Lock()
	lanes := a.lanes[p]
	for i, h := range lanes {
		h.going = i > 0
	}
	a.mu.Unlock()
	for i, h := range lanes {
		if i > 0 {
			a.narrow(ctx, h)
		}
	}
	if len(lanes) == 0 || !lanes[0].present.Load().grown(times) {
		return false, nil
	}
	return true, a.rotate(ctx, lanes[0])
}

// rotate replaces the process of a host. Others go on using the old one until
// the new one has started.
func (a *Agent) rotate(ctx context.Context, h *host) error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return errClosed()
	}
	a.starting.Add(1)
	a.mu.Unlock()
	defer a.starting.Done()
	old := h.present.Load()
	if old == nil {
		return nil
	}
	next, err := h.start(ctx)
	if err != nil {
		return err // the old one is still there
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.dead || h.proc != old {
		return h.end(context.WithoutCancel(ctx), next, next.tree.Stop)
	}
	h.proc = next
	h.present.Store(next)
	if h.retired == nil {
		h.retired = map[*process]struct{}{}
	}
	h.retired[old] = struct{}{}
	return h.endIfLeft(ctx, old)
}

// grownTurns is how many turns a runtime must have had before it is worth
// while to replace it in quiet times: what it holds may be needed, and would
// only be told to the next one.
const grownTurns = 64

// grown says that a process holds so many times what it did when it was young,
// which it will not give back.
func (p *process) grown(times float64) bool {
	if p == nil || p.served.Load() < grownTurns {
		return false
	}
	young := p.young.Load()
	return young > 0 && float64(p.resident()) > times*float64(young)
}

// resident is what the process has of the machine's memory; 0 if there is
// none.
func (p *process) resident() int64 {
	if p == nil {
		return 0
	}
	return residentBytes(p.tree.ProgramPID())
}

// serves holds a process that can still be used for the sessions that it has.
// There is no done if it cannot.
func (h *host) serves(ctx context.Context, p *process) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, retired := h.retired[p]; retired || h.proc == p && !h.dead {
		return h.hold(ctx, p)
	}
	return nil
}

// left is called when a session has gone from p.
func (h *host) left(ctx context.Context, p *process) {
	h.mu.Lock()
	err := h.endIfLeft(ctx, p)
	h.mu.Unlock()
	if err != nil {
		h.opts.Logger.Warn("ending a runtime that was replaced", "error", err)
	}
	h.agent.narrow(ctx, h)
}

// endIfLeft ends a retired process without sessions. mu is held.
func (h *host) endIfLeft(ctx context.Context, p *process) error {
	if _, ok := h.retired[p]; !ok || !p.idle() {
		return nil
	}
	delete(h.retired, p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return h.end(ctx, p, h.shutdown(ctx, p))
}

// endRetired ends them all. mu is held.
func (h *host) endRetired(ctx context.Context) error {
	var errs []error
	for p := range h.retired {
		delete(h.retired, p)
		errs = append(errs, h.end(ctx, p, h.shutdown(ctx, p)))
	}
	return errors.Join(errs...)
}

// shutdown lets the process write what it holds and returns how to end it.
func (h *host) shutdown(ctx context.Context, p *process) func(context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := p.call(func(c *copilot.Client) error {
		_, err := c.RPC.Runtime.Shutdown(ctx)
		return err
	})
	if err != nil {
		h.opts.Logger.Debug("runtime shutdown", "error", err)
		return p.tree.Stop
	}
	return p.tree.Kill // it has put everything in order and waits for that
}

func (h *host) end(ctx context.Context, p *process, how func(context.Context) error) error {
	err := how(ctx)
	p.disconnect()
	p.stop()
	return errors.Join(err, p.bury())
}
