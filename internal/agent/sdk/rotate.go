package sdk

import (
	"context"
	"errors"
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
	lanes := a.lanes[p]
	a.mu.Unlock()
	for _, h := range lanes {
		var bytes int64
		if pid := h.programPID(); pid != 0 {
			bytes = residentBytes(pid)
		}
		if most == nil || bytes > held {
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
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if closed {
		return errClosed()
	}
	h, _ := a.largest(p)
	if h == nil {
		return nil
	}
	return h.rotate(ctx)
}

func (h *host) rotate(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.proc == nil || h.dead {
		return nil
	}
	next, err := h.start(ctx)
	if err != nil {
		return err // the old one is still there
	}
	old := h.proc
	h.proc = next
	h.present.Store(next)
	if h.retired == nil {
		h.retired = map[*process]struct{}{}
	}
	h.retired[old] = struct{}{}
	return h.endIfLeft(ctx, old)
}

// current says whether new sessions are opened on p.
func (h *host) current(p *process) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proc == p && !h.dead
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
