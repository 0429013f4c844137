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
	if l.trees == nil {
		out, _, err = converse(ctx, l.open, opening(l.run, l.dir, a.Task), prompt(l.goal, a), report)
		return out, err
	}
	begin, err := l.trees.join(ctx, a.Task.ID, a.Needs, report)
	if err != nil {
		return Outcome{}, err
	}
	tree, err := l.trees.repo.addWorktree(ctx, l.trees.path, slug(a.Task.ID), branchOf(l.run, a.Task.ID), begin)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, tree.remove(ctx)) }()
	work := RemoteWork{Assignment: a, Run: l.run, Goal: l.goal, Begin: begin}
	if out, err = tree.converse(ctx, l.open, work, report); err != nil {
		return out, errors.Join(err, l.trees.salvage(ctx, tree, a.Task))
	}
	return out, tree.keep(ctx, work, &out)
}

func opening(run, dir string, t SubTask) Opening {
	return Opening{Dir: dir, Title: run + " " + t.ID + ": " + text.FirstLine(t.Description, 50), Task: t.ID, Run: run}
}

// converse runs one turn in a new session, and returns its last message besides.
// The scheduler bounds how many there are at a time.
func converse(ctx context.Context, open Opener, o Opening, request string, report func(Progress)) (out Outcome, said string, err error) {
	s, err := open(ctx, o)
	if err != nil {
		return Outcome{}, "", err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	report(Progress{Text: "starting", At: Place{Session: s.ID()}})
	return turn(ctx, s, o.Dir, bridge.Prompt{Text: request}, report)
}
