package orchestrate

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// AttemptOptions are what an attempt for another machine needs.
type AttemptOptions struct {
	RemoteWork
	// Repo has the commit to begin with, and gets that of the result.
	Repo *git.Repository
	// Dir is where worktrees are made, with files of ours beside them. Attempts
	// of one process may share it, and nothing else may be in it.
	Dir  string
	Open Opener
}

// Attempt does one attempt in a worktree of its own, as Local does it. The work
// is one commit that no name holds, with Begin as its only parent, or Begin if
// nothing was changed. The outcome holds what there is even if the error is not
// nil, but no work.
func Attempt(ctx context.Context, o AttemptOptions, report func(Progress)) (out Outcome, err error) {
	repo := &repository{Repository: o.Repo, prefix: o.Prefix, scratch: o.Dir, lockFile: filepath.Join(o.Dir, "lock")}
	report(Progress{Text: "preparing"})
	tree, err := repo.addWorktree(ctx, o.Dir, slug(o.Task.ID), "", o.Begin)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, tree.remove(ctx)) }()
	if out, err = tree.converse(ctx, o.Open, o.RemoteWork, report); err != nil {
		return out, err
	}
	return out, tree.keep(ctx, o.RemoteWork, &out)
}

// SweepAttempts removes a directory of attempts with all that a process that
// was killed left in it, and what their repositories have on record of the
// worktrees. No attempt may be under way in it.
func SweepAttempts(dir string) error { return RemoveOrphan(dir) }
