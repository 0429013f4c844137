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
	// Repo is a mirror of ours. It has the commit to begin with, and gets that of
	// the result.
	Repo *git.Repository
	Dir  string // of ours, for the worktree and a file beside it
	Open Opener
}

// Attempt does one attempt in a worktree of its own, as Local does it. The work
// is one commit that no name holds, with Begin as its only parent, or Begin if
// nothing was changed. The outcome holds what there is even if the error is not
// nil, but no work.
func Attempt(ctx context.Context, o AttemptOptions, report func(Progress)) (out Outcome, err error) {
	repo := &repository{Repository: o.Repo, prefix: o.Prefix, scratch: o.Dir, lockFile: filepath.Join(o.Repo.Common, "worktrees-lock")}
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
