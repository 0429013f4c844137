// Package upkeep removes what the bridge no longer needs on disk: sessions past
// their time, conversations of killed processes, caches and temporary files. A
// running bridge does a part of it in the background; the commands that clean
// and delete do it when they are asked to. It starts no runtime.
package upkeep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/sessionstore"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

const (
	// sweepWithin bounds the removal of what killed processes left. The rest is
	// done by the next command.
	sweepWithin = 2 * time.Second
	// pruneAfter is how long a command has run before it looks for sessions
	// past their time: the first word comes first.
	pruneAfter = time.Second
	// pruneEvery is the time between two such looks, of all processes together.
	pruneEvery = 10 * time.Minute
	// pruneAtEnd is what a command that ended sooner may spend on it.
	pruneAtEnd = 25 * time.Millisecond
	// pruneAtOnce is how many sessions leave the list in one go.
	pruneAtOnce = 64
)

// Options say where things are.
type Options struct {
	Config   *config.Config
	Store    *sessionstore.Store
	Records  string // the directory of process records, see supervise
	Personal string // the directory of Copilot's own CLI
	Logger   *slog.Logger
}

// Upkeep removes conversations that a killed process left, and sessions past
// their time, in the background. It has one goroutine, which Close ends.
type Upkeep struct {
	opts   Options
	stop   context.CancelFunc
	wg     sync.WaitGroup
	looked bool // for old sessions; the goroutine's until it has ended
}

// Start begins. The caller must call Close.
func Start(o Options) *Upkeep {
	ctx, stop := context.WithCancel(context.Background())
	u := &Upkeep{opts: o, stop: stop}
	u.wg.Go(func() {
		sweepCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepWithin)
		u.sweep(sweepCtx)
		cancel()
		timer := time.NewTimer(pruneAfter)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				u.looked = true
				u.prune(ctx)
				timer.Reset(pruneEvery)
			case <-ctx.Done():
				return
			}
		}
	})
	return u
}

// Close ends the goroutine and waits for it.
func (u *Upkeep) Close() {
	u.stop()
	u.wg.Wait()
	if !u.looked {
		ctx, cancel := context.WithTimeout(context.Background(), pruneAtEnd)
		defer cancel()
		u.prune(ctx)
	}
}

// sweep removes the conversations of killed processes that cannot be resumed.
func (u *Upkeep) sweep(ctx context.Context) {
	left, err := abandoned(ctx, u.opts)
	removed := 0
	for _, c := range left {
		if ctx.Err() != nil {
			break
		}
		if e := c.Remove(); e != nil {
			err = errors.Join(err, e)
			continue
		}
		removed++
	}
	if err != nil {
		u.opts.Logger.Warn("conversations.sweep_failed", "error", err)
	}
	if removed > 0 {
		u.opts.Logger.Info("conversations.removed: a killed copilot-bridge had left them", "count", removed)
	}
}

// abandoned lists the conversations of ended processes that are not on the list
// of sessions. Those that are can be resumed and stay.
func abandoned(ctx context.Context, o Options) ([]sdk.Conversation, error) {
	left, err := sdk.Abandoned(o.Records)
	errs := []error{err}
	var out []sdk.Conversation
	for _, conv := range left {
		switch _, err := o.Store.Find(ctx, conv.ID); {
		case err == nil:
			errs = append(errs, conv.Forget())
		case bridge.CodeOf(err) == bridge.CodeNotFound:
			out = append(out, conv)
		default:
			return nil, err // without the list nothing can be said of any
		}
	}
	return out, errors.Join(errs...)
}

// prune removes the sessions and timelines past their time, unless a process has looked for
// them lately.
func (u *Upkeep) prune(ctx context.Context) {
	r, stamp := RetentionOf(u.opts.Config), u.opts.Config.Path("sessions", "pruned")
	before := oldTimelines(u.opts.Config, time.Now())
	if r == (sessionstore.Retention{}) && before.IsZero() {
		return
	}
	info, err := os.Stat(stamp)
	if err == nil && time.Since(info.ModTime()).Abs() < pruneEvery {
		return
	}
	if _, err := os.Stat(filepath.Dir(stamp)); err != nil {
		return // there are no sessions yet
	}
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		return // a disk that is full or read-only; others say so
	}
	if _, err := Timelines(u.opts.Config).Prune(before); err != nil {
		u.opts.Logger.Warn("timelines.prune_failed", "error", err)
	}
	entries, err := u.opts.Store.List(ctx)
	if err == nil {
		var gone []sessionstore.Entry
		gone, _, err = DeleteSessions(ctx, u.opts, r.Expired(entries, time.Now()))
		if len(gone) > 0 {
			u.opts.Logger.Info("sessions.pruned", "count", len(gone))
		}
	}
	if err != nil && ctx.Err() == nil {
		u.opts.Logger.Warn("sessions.prune_failed", "error", err)
	}
}

// Timelines is where the timelines of a configuration are kept.
func Timelines(c *config.Config) *timeline.Store { return timeline.Open(timeline.Dir(c.Home)) }

// oldTimelines is before when timelines are past their time; the zero time if
// they are kept for ever.
func oldTimelines(c *config.Config, now time.Time) (before time.Time) {
	days, keep := c.Sessions.TimelineDays()
	switch {
	case !keep:
		return now.Add(-unkept)
	case days > 0:
		return now.AddDate(0, 0, -days)
	}
	return before
}

// unkept is how old a timeline has to be to be removed where none are kept:
// another process may keep some.
const unkept = time.Hour

// RetentionOf is how long a configuration has sessions kept.
func RetentionOf(c *config.Config) sessionstore.Retention {
	return sessionstore.Retention{Age: time.Duration(c.Sessions.KeepDays) * 24 * time.Hour, Keep: c.Sessions.Keep}
}

// DeleteSessions removes sessions from the list and what a runtime has stored
// of them. No runtime is needed for it. Those that a process uses stay, and are
// returned as busy.
func DeleteSessions(ctx context.Context, o Options, entries []sessionstore.Entry) (gone, busy []sessionstore.Entry, err error) {
	own := o.Config.Path("copilot")
	var ids []string
	flush := func() error {
		// The stored part is deleted, so the list follows even if ctx has ended.
		err := o.Store.DeleteAll(context.WithoutCancel(ctx), ids)
		ids = nil
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		err := sdk.Erase(own, e.ID)
		if err == nil && sdk.Claimed(o.Personal, e.ID) {
			err = sdk.Erase(o.Personal, e.ID)
		}
		if code := bridge.CodeOf(err); code == "" || code == bridge.CodeInvalid {
			err = cmp.Or(err, Timelines(o.Config).Remove(e.ID))
		}
		switch bridge.CodeOf(err) {
		case "":
			gone, ids = append(gone, e), append(ids, e.ID)
		case bridge.CodeBusy:
			busy = append(busy, e)
		case bridge.CodeInvalid: // the id is no name of a directory, so nothing is stored by it
			gone, ids = append(gone, e), append(ids, e.ID)
		default:
			return gone, busy, errors.Join(err, flush())
		}
		if len(ids) == pruneAtOnce {
			if err := flush(); err != nil {
				return gone, busy, err
			}
		}
	}
	return gone, busy, errors.Join(flush(), ctx.Err())
}
