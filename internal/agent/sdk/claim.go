package sdk

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// claimWithin is how long a session may still be another process's: one that
// is ending writes the last turn down in that time.
const claimWithin = 10 * time.Second

// claim is this process's hold on a stored session. Two runtimes that write
// one session lose each other's turns, so there is a lock in its directory,
// which the system releases when its holder dies.
type claim struct {
	unlock func() error
	users  int // sessions of this process: after a crash there are two for a while
}

// claim makes a stored session this process's own until release is called.
func (a *Agent) claim(ctx context.Context, id string) error {
	if id == "" || id != filepath.Base(id) || !filepath.IsLocal(id) {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the session id " + id + " is not one"}
	}
	path := filepath.Join(a.opts.Home, "session-state", id, "bridge.lock")
	for began := time.Now(); ; {
		if a.shared(id, nil) {
			return nil
		}
		// A little at a time: it may be another session of this process that
		// has it meanwhile.
		waiting, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		unlock, err := durable.Lock(waiting, path)
		cancel()
		switch {
		case err == nil:
			a.shared(id, unlock)
			return nil
		case bridge.CodeOf(err) != bridge.CodeBusy || ctx.Err() != nil:
			return err
		case time.Since(began) > claimWithin:
			return &bridge.Error{Code: bridge.CodeConflict, Message: "session " + id + " is in use by another copilot-bridge", Cause: err,
				Remedy: "go on with it there, or end that one first"}
		}
	}
}

// shared counts one more user of a claim, which is made if there is a lock for
// it; without either it says false.
func (a *Agent) shared(id string, unlock func() error) bool {
	a.claiming.Lock()
	defer a.claiming.Unlock()
	c := a.claims[id]
	if c == nil {
		if unlock == nil {
			return false
		}
		c = &claim{unlock: unlock}
		a.claims[id] = c
	}
	c.users++
	return true
}

func (a *Agent) release(id string) error {
	a.claiming.Lock()
	defer a.claiming.Unlock()
	c := a.claims[id]
	if c == nil {
		return nil
	}
	if c.users--; c.users > 0 {
		return nil
	}
	delete(a.claims, id)
	return c.unlock()
}

// releaseAll is for the end: a session that was given up after a crash was
// never closed.
func (a *Agent) releaseAll() error {
	a.claiming.Lock()
	defer a.claiming.Unlock()
	var errs []error
	for id, c := range a.claims {
		delete(a.claims, id)
		errs = append(errs, c.unlock())
	}
	return errors.Join(errs...)
}
