package orchestrate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// recorded says whether a Remote gets the event: whether a resumption, or what
// it tells of the run, depends on it.
func (e Event) recorded() bool {
	switch e.Type {
	case RunStarted, PlanReady, Joined, Conflicted, MergeStarted, MergeDone, PlanCompleted:
		return true
	case TaskCompleted:
		return e.Result != nil && e.Result.State != Canceled
	case TaskStarted, TaskProgress, TaskRetry, TaskSkipped, Noticed:
	}
	return false
}

// The bounds of what a Remote does to its record: usually, and when the run has
// been ended.
const (
	recordPatience = 2 * time.Minute
	endPatience    = 5 * time.Second
)

// connect begins the run with its Remote. The context that it returns also ends
// when the record cannot be written, and end is to be called at last.
func (r *running) connect(ctx context.Context) (_ context.Context, end func(), err error) {
	remote, m := r.opts.Remote, r.journal.meta
	if err := r.hold(ctx, slices.Collect(maps.Values(r.past.done)), r.past.joins); err != nil {
		return ctx, func() {}, &bridge.Error{Code: bridge.CodeNotFound, Message: "the repository does not hold all that the run has done", Cause: err,
			Remedy: "resume it where they are, or start the task anew"}
	}
	if err := remote.Begin(ctx, m, r.past.events, r.repo.Repository); err != nil {
		return ctx, func() {}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := false
	var lost error // what was not recorded; nothing happens after it
	r.share = func(e Event) error {
		if lost != nil {
			return lost
		}
		within, done := outlive(ctx)
		defer done()
		if err := remote.Append(within, e); err != nil {
			lost = unrecorded(ctx, m.ID, err)
			cancel(lost)
		}
		ended = lost == nil && e.Type == PlanCompleted
		return lost
	}
	return ctx, func() {
		cancel(nil)
		within, done := outlive(ctx)
		defer done()
		if err := remote.End(within, ended); err != nil {
			r.opts.Logger.Warn("orchestrate.end_not_recorded", "run", m.ID, "error", err)
		}
	}, nil
}

// outlive returns a context that ends a little later than another.
func outlive(ctx context.Context) (context.Context, func()) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	timer := time.AfterFunc(recordPatience, cancel)
	stop := context.AfterFunc(ctx, func() { timer.Reset(endPatience) })
	return out, func() { stop(); timer.Stop(); cancel() }
}

// unrecorded is why a run ends whose record cannot be written.
func unrecorded(ctx context.Context, run string, err error) error {
	if cause := context.Cause(ctx); bridge.CodeOf(cause) == bridge.CodeCanceled {
		return cause // that is why, or comes before it
	}
	e := bridge.AsError(err)
	out := &bridge.Error{Code: e.Code, Message: "the run has ended here, because its record cannot be written", Cause: err,
		Remedy: cmp.Or(e.Remedy, "go on with `copilot-bridge orchestrate --fleet --resume "+run+"`")}
	if out.Code == bridge.CodeCanceled || out.Code == bridge.CodeTimeout {
		out.Code = bridge.CodeUnavailable // it is the record that took too long, not the run
	}
	return out
}
