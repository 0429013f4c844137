package orchestrate

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// merge puts the works of the tasks together and brings them to the user.
func (r *running) merge(ctx context.Context, result *Result) error {
	head, held, err := r.trees.integrate(ctx, r.graph, result.Tasks)
	if err != nil {
		return err
	}
	m := r.journal.meta
	for i := range result.Tasks {
		t := &result.Tasks[i]
		switch {
		case slices.Contains(held, i):
			t.HeldBack, t.Branch = true, branchOf(m.ID, t.ID)
			result.Kept = append(result.Kept, t.Branch)
		case r.trees.salvaged[t.ID] != "" && t.State != Done:
			t.Branch = r.trees.salvaged[t.ID]
			result.Kept = append(result.Kept, t.Branch)
		}
	}
	base := m.Base
	if past := r.past.merged; past != nil {
		base = past.Whole
	}
	if head == base {
		result.Merge = r.past.merged
		if result.Merge != nil {
			result.Files = result.Merge.Files
		}
		return nil
	}
	if m.Merge == MergeBranch {
		return r.mergeBranch(ctx, result, head)
	}
	return r.mergeTree(ctx, result, base, head)
}

func (r *running) mergeBranch(ctx context.Context, result *Result, head string) (err error) {
	m := r.journal.meta
	out := &Merge{Mode: MergeBranch, Base: m.Base, Target: head, Branch: resultBranch(m.ID), Whole: head}
	if out.Files, err = r.repo.changed(ctx, m.Base, head); err != nil {
		return err
	}
	if err := r.repo.SetRef(ctx, "refs/heads/"+out.Branch, head); err != nil {
		return err
	}
	result.Merge, result.Files = out, out.Files
	return r.emit(Event{Type: MergeDone, Merge: out})
}

// mergeTree writes the work into the user's tree. If the user has changed the
// same places meanwhile, it is kept on a branch instead.
func (r *running) mergeTree(ctx context.Context, result *Result, base, head string) error {
	m := r.journal.meta
	out := &Merge{Mode: MergeTree, Base: base, Whole: head}
	if err := r.repo.SetRef(ctx, keptRef(m.ID, "whole"), head); err != nil {
		return err
	}
	files, held, err := r.delivery(ctx, out).deliver(ctx, base, head)
	if err != nil {
		return err
	}
	if held != nil {
		return r.leaveOnBranch(ctx, result, head, held)
	}
	return r.merged(ctx, result, out, files)
}

func (r *running) merged(ctx context.Context, result *Result, out *Merge, files []string) (err error) {
	// What the user sees changed is all that the run has done so far, not
	// only what this sitting added.
	out.Files, err = r.repo.changed(ctx, r.journal.meta.Base, out.Whole)
	if err != nil {
		out.Files = files
	}
	if result != nil {
		result.Merge, result.Files = out, out.Files
	}
	return r.emit(Event{Type: MergeDone, Merge: out})
}

func (r *running) delivery(ctx context.Context, out *Merge) *delivery {
	id := r.journal.meta.ID
	return &delivery{repo: r.repo, run: id, admit: r.opts.Admit, begin: func(onto, target string) error {
		for name, commit := range map[string]string{"before": onto, "target": target} {
			if err := r.repo.SetRef(ctx, keptRef(id, name), commit); err != nil {
				return err
			}
		}
		out.Onto, out.Target = onto, target
		return r.emit(Event{Type: MergeStarted, Merge: out})
	}}
}

// leaveOnBranch is for work that is not written to the user's files.
func (r *running) leaveOnBranch(ctx context.Context, result *Result, head string, held *unfit) error {
	branch := resultBranch(r.journal.meta.ID)
	if err := r.repo.SetRef(ctx, "refs/heads/"+branch, head); err != nil {
		return err
	}
	result.Kept = append(result.Kept, branch)
	return r.emit(Event{Type: Conflicted, Conflict: &Conflict{Paths: held.paths, Ours: "your working tree", Theirs: branch,
		Message: held.why + ", so nothing was written to your files; the work is on the branch " + branch}})
}

// finishMerge continues a merge in which an earlier process was killed.
func (r *running) finishMerge(ctx context.Context) error {
	p := r.past.pending
	if p == nil || p.Mode != MergeTree {
		return nil
	}
	out := &Merge{Mode: MergeTree, Base: p.Onto, Whole: p.Whole}
	files, held, err := r.delivery(ctx, out).deliver(ctx, p.Onto, p.Target)
	if err != nil {
		return err
	}
	if held != nil {
		return &bridge.Error{Code: bridge.CodeConflict, Remedy: "undo your changes there, then resume again; the whole work is at " + keptRef(r.journal.meta.ID, "whole"),
			Message: "a merge was interrupted and cannot go on: " + held.why + " (" + strings.Join(held.paths, ", ") + ")"}
	}
	r.past.pending, r.past.merged = nil, out
	return r.merged(ctx, nil, out, files)
}

// cleanUp removes the worktrees and the names that a finished run no longer
// needs. The directory of its worktrees goes last: while it exists, the run
// counts as interrupted.
func (r *running) cleanUp(ctx context.Context, result Result) error {
	if r.repo == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := r.repo.unregister(ctx, r.worktrees()); err != nil {
		return err
	}
	if err := r.deleteNames(ctx, result); err != nil {
		return err
	}
	return removeAll(r.worktrees())
}

// deleteNames deletes branches and other names of a finished run. Branches
// with work that is nowhere else stay, and so does the state of the user's
// files before the merge, unless a commit of theirs holds it.
func (r *running) deleteNames(ctx context.Context, result Result) error {
	id := r.journal.meta.ID
	keep := append(slices.Clone(result.Kept), resultBranch(id))
	var gone []string
	branches, err := r.repo.Refs(ctx, "refs/heads/"+branchPrefix(id))
	if err != nil {
		return err
	}
	for _, ref := range branches {
		if name := strings.TrimPrefix(ref, "refs/heads/"); !slices.Contains(keep, name) {
			gone = append(gone, ref)
		}
	}
	if !result.Success {
		// --resume builds on all of it, but the user does not need
		// to see it among the branches.
		if err := r.hold(ctx, result.Tasks, nil); err != nil {
			return err
		}
		return r.repo.DeleteRefs(ctx, gone...)
	}
	others, err := r.repo.Refs(ctx, keptRef(id, ""))
	if err != nil {
		return err
	}
	dirty, err := r.wasDirty(ctx, result)
	if err != nil {
		return err
	}
	for _, ref := range others {
		if ref != keptRef(id, "before") || !dirty {
			gone = append(gone, ref)
		}
	}
	return r.repo.DeleteRefs(ctx, gone...)
}

// hold gives works names of ours, so that git does not throw them away.
func (r *running) hold(ctx context.Context, tasks []TaskResult, joins []Join) error {
	id, refs := r.journal.meta.ID, map[string]string{}
	for _, t := range tasks {
		if t.Work != "" {
			refs[keptRef(id, "task-"+slug(t.ID))] = t.Work
		}
	}
	for _, j := range joins {
		refs[keptRef(id, "join-"+j.Commit)] = j.Commit
	}
	return r.repo.SetRefs(ctx, refs)
}

// wasDirty says whether the user had uncommitted work when the run's was
// merged into it.
func (r *running) wasDirty(ctx context.Context, result Result) (bool, error) {
	if result.Merge == nil || result.Merge.Onto == "" {
		return false, nil
	}
	head, err := r.repo.Head(ctx)
	if err != nil || head == "" {
		return true, err
	}
	a, err := r.repo.treeOf(ctx, head)
	if err != nil {
		return true, err
	}
	b, _, err := r.repo.Run(ctx, git.Call{Args: []string{"rev-parse", "--quiet", "--verify", result.Merge.Onto + "^{tree}"}, OK: []int{1, 128}})
	return a != strings.TrimSpace(b), err
}

func makePrivate(dir string) error { return os.MkdirAll(dir, 0o700) }
