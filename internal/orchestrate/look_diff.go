package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// TaskDiff is what a task has changed so far.
type TaskDiff struct {
	Diff  string
	Files []string // relative to the directory of the run
}

// Diff compares the work of a task, finished or not, with what it began with. Of o
// it needs what git needs.
func (r Looked) Diff(ctx context.Context, task string, o Options) (d TaskDiff, err error) {
	d.Files = []string{}
	i := slices.IndexFunc(r.Tasks, func(t LookedTask) bool { return t.ID == task })
	if i < 0 {
		return d, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("the run %s has no task %q", r.ID, task), Remedy: "see the tasks of the run"}
	}
	t := r.Tasks[i]
	switch {
	case r.Isolation == IsolationShared:
		return d, &bridge.Error{Code: bridge.CodeUnsupported, Message: "the tasks of this run work in one directory, so their changes are not told apart",
			Remedy: "see the session of the task; in a git repository tasks get a worktree each"}
	case t.Work == "" && t.State == Running && t.Worker != "":
		return d, &bridge.Error{Code: bridge.CodeUnsupported, Message: task + " is at work on " + t.Worker + "; what it changes arrives when it is done", Remedy: "look again then"}
	case t.Work == "" && t.Tree == "" || t.Work != "" && len(t.Files) == 0:
		return d, nil // nothing yet, or nothing at all
	}
	// A directory of our own: the run's process may be at work in the run's.
	scratch, err := os.MkdirTemp(filepath.Join(RunsDir(o.Home), r.ID), "stage-diff-*")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, removeAll(scratch)) }()
	repo, err := openRepository(ctx, o.Environ, scratch, r.Dir, o.Confine)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	from, to := t.Work+"^", t.Work // it is one commit, see worktree.commit
	if t.Work == "" {
		from = t.Base
		if to, err = repo.present(ctx, filepath.Join(RunsDir(o.Home), r.ID), scratch, t.Tree); err != nil {
			return d, gone(task, t.Tree, err)
		}
	} else if _, err := repo.treeOf(ctx, t.Work); err != nil {
		return d, gone(task, t.Tree, err)
	}
	if d.Files, err = repo.changed(ctx, from, to); err != nil {
		return d, err
	}
	d.Diff, err = repo.patch(ctx, from, to)
	return d, err
}

// present writes the files of a worktree in which a task is at work as a tree. The
// task's own index stays as it is.
func (r *repository) present(ctx context.Context, run, scratch, tree string) (string, error) {
	index := filepath.Join(scratch, "index")
	if err := git.CopyFile(filepath.Join(run, "index-"+filepath.Base(tree)), index); err != nil {
		return "", err
	}
	return r.WriteTree(ctx, tree, index, nil)
}

// gone words the error for work that is not there any more.
func gone(task, tree string, err error) error {
	if tree != "" {
		if _, there := os.Lstat(tree); there == nil {
			return err
		}
	}
	return &bridge.Error{Code: bridge.CodeNotFound, Message: "the work of " + task + " is not kept any more", Cause: err, Remedy: "see the changes in your files, or in the session of the task"}
}
