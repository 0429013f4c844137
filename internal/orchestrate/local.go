package orchestrate

import (
	"context"
	"errors"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Local is the Executor that does tasks in sessions of this process: each in a
// worktree or, without trees, all in one directory.
type Local struct {
	open  Opener
	trees *trees
	dir   string
	goal  string // the whole task, for orientation
	run   string
}

// Execute does one attempt at a task.
func (l *Local) Execute(ctx context.Context, a Assignment, report func(Progress)) (out Outcome, err error) {
	report(Progress{Text: "preparing"})
	o := Opening{Dir: l.dir, Title: l.run + " " + a.Task.ID + ": " + text.FirstLine(a.Task.Description, 50), Task: a.Task.ID, Run: l.run}
	if l.trees == nil {
		return l.converse(ctx, o, prompt(l.goal, a), report)
	}
	tree, err := l.trees.enter(ctx, a, report)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, tree.remove(ctx)) }()
	o.Dir = tree.work
	out, err = l.converse(ctx, o, prompt(l.goal, a), func(p Progress) {
		if p.At.Session != "" {
			p.At.Tree, p.At.Base = tree.path, tree.base
		}
		report(p)
	})
	if err != nil {
		return out, errors.Join(err, tree.salvage(ctx, a))
	}
	err = tree.keep(ctx, a, &out)
	return out, err
}

// converse runs one turn in a new session. The scheduler bounds how many
// there are at a time.
func (l *Local) converse(ctx context.Context, o Opening, request string, report func(Progress)) (out Outcome, err error) {
	s, err := l.open(ctx, o)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	report(Progress{Text: "starting", At: Place{Session: s.ID()}})
	out, _, err = turn(ctx, s, o.Dir, bridge.Prompt{Text: request}, report)
	return out, err
}
