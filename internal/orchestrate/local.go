package orchestrate

import (
	"context"
	"errors"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Local is the Executor that does tasks in sessions of this process.
type Local struct {
	pool   *SessionPool
	places places
	goal   string // the whole task, for orientation
	run    string
}

// places are where tasks work.
type places interface {
	// enter makes a place in which all that the task depends on is present.
	enter(ctx context.Context, a Assignment, report func(Progress)) (place, error)
}

// place is where one attempt works.
type place interface {
	dir() string
	// keep holds on to what was done there.
	keep(ctx context.Context, a Assignment, out *Outcome) error
	// salvage holds on to what was done in an attempt that failed, for a
	// person to look at.
	salvage(ctx context.Context, a Assignment) error
	// leave takes the place down; what was kept stays.
	leave(ctx context.Context) error
}

// Execute does one attempt at a task.
func (l *Local) Execute(ctx context.Context, a Assignment, report func(Progress)) (out Outcome, err error) {
	report(Progress{Text: "preparing"})
	where, err := l.places.enter(ctx, a, report)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, where.leave(ctx)) }()
	title := l.run + " " + a.Task.ID + ": " + firstLine(a.Task.Description, 50)
	out, err = l.converse(ctx, Opening{Dir: where.dir(), Title: title, Task: a.Task.ID}, prompt(l.goal, a), report)
	if err != nil {
		return out, errors.Join(err, where.salvage(ctx, a))
	}
	return out, where.keep(ctx, a, &out)
}

// converse runs one turn in a session of the pool.
func (l *Local) converse(ctx context.Context, o Opening, text string, report func(Progress)) (out Outcome, err error) {
	lease, err := l.pool.Acquire(ctx, o)
	if err != nil {
		return Outcome{}, err
	}
	tainted := true
	defer func() { err = errors.Join(err, lease.Release(ctx, tainted)) }()
	out, err = turn(ctx, lease, o.Dir, bridge.Prompt{Text: text}, report)
	tainted = err != nil || out.Denied > 0
	return out, err
}

// sharedPlaces is the one directory for all.
type sharedPlaces struct{ path string }

func (s sharedPlaces) enter(context.Context, Assignment, func(Progress)) (place, error) {
	return s, nil
}
func (s sharedPlaces) dir() string                                      { return s.path }
func (s sharedPlaces) keep(context.Context, Assignment, *Outcome) error { return nil }
func (s sharedPlaces) salvage(context.Context, Assignment) error        { return nil }
func (s sharedPlaces) leave(context.Context) error                      { return nil }
