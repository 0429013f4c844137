package orchestrate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Discarded is what Discard has removed of a run, and what it has not.
type Discarded struct {
	Run     string   `json:"run"`
	Removed []string `json:"removed"` // names of git and directories
	Kept    []string `json:"kept"`    // names of git with work of yours
	Notice  string   `json:"notice,omitempty"`
}

// Discard removes a run that is not going on: its worktrees, its branches and
// other names, and its record. It cannot be resumed afterwards. A branch with
// the whole result stays, and so does what the user's files were before a
// merge.
func Discard(ctx context.Context, id string, o Options) (d Discarded, err error) {
	m, err := FindRun(o.Home, id)
	if err != nil {
		return d, err
	}
	d = Discarded{Run: m.ID, Removed: []string{}, Kept: []string{}}
	j, past, err := openJournal(ctx, o.Home, m.ID)
	if err != nil {
		return d, err
	}
	defer func() {
		if err == nil {
			// First the file that makes it a run, so that a process that waits for the lock finds none.
			err = os.Remove(filepath.Join(j.dir, "run.json"))
		}
		if err = errors.Join(err, j.close()); err == nil {
			d.Removed = append(d.Removed, j.dir)
			err = removeAll(j.dir)
		}
	}()
	worktrees := filepath.Join(WorktreesDir(o.Home), m.ID)
	if _, err := os.Lstat(worktrees); err == nil {
		d.Removed = append(d.Removed, worktrees)
	}
	if m.Isolation == IsolationShared {
		return d, nil
	}
	repo, err := openRepository(ctx, o.Environ, j.dir, m.Dir, o.Confine)
	if err != nil {
		if _, gone := os.Stat(m.Dir); !errors.Is(gone, fs.ErrNotExist) && bridge.CodeOf(err) != bridge.CodeNotFound {
			return d, err
		}
		d.Notice = "the repository is not there any more"
		return d, removeAll(worktrees)
	}
	repo.lockFile = filepath.Join(o.Home, "worktrees.lock")
	defer func() { err = errors.Join(err, repo.Close()) }()
	if err := repo.sweep(ctx, worktrees); err != nil {
		return d, err
	}
	keep := []string{"refs/heads/" + resultBranch(m.ID)}
	if past.merged != nil {
		keep = append(keep, keptRef(m.ID, "before"))
	}
	if p := past.pending; p != nil && p.Mode == MergeTree {
		d.Notice = "its merge into your files was interrupted: some may be changed; what they were is at " + keptRef(m.ID, "before") + ", the whole work at " + keptRef(m.ID, "whole")
		keep = append(keep, keptRef(m.ID, "before"), keptRef(m.ID, "whole"))
		root, err := os.OpenRoot(repo.Top)
		if err == nil {
			merge := &delivery{repo: repo, run: m.ID, root: root}
			err = errors.Join(merge.tidy(ctx, p.Onto, p.Target), root.Close())
		}
		if err != nil {
			return d, err
		}
	}
	return d, repo.discardNames(ctx, m.ID, keep, &d)
}

// discardNames removes the names that git has for a run, except some.
func (r *repository) discardNames(ctx context.Context, run string, keep []string, d *Discarded) error {
	var gone []string
	for _, prefix := range []string{"refs/heads/" + branchPrefix(run), keptRef(run, "")} {
		if err := r.Unlock(prefix); err != nil {
			return err
		}
		refs, err := r.Refs(ctx, prefix)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if slices.Contains(keep, ref) {
				d.Kept = append(d.Kept, strings.TrimPrefix(ref, "refs/heads/"))
			} else {
				gone = append(gone, ref)
			}
		}
	}
	if err := r.DeleteRefs(ctx, gone...); err != nil {
		return err
	}
	for _, ref := range gone {
		d.Removed = append(d.Removed, strings.TrimPrefix(ref, "refs/heads/"))
	}
	return nil
}

// The states of a run.
const (
	StateRunning     = "running"
	StateInterrupted = "interrupted" // killed, or ended before it had an outcome and was cleaned up
	StateFinished    = "finished"    // with an outcome, good or bad
)

// stateOf says where a run is in its life.
func (l Listed) stateOf(home string) string {
	if goesOn(home, l.ID) {
		return StateRunning
	}
	return stateAfter(home, l.ID, l.Outcome)
}

// goesOn says whether a process carries the run out. It holds a lock.
func goesOn(home, id string) bool {
	unlock, free, err := durable.TryLock(filepath.Join(RunsDir(home), id, "lock"))
	if err == nil && free {
		_ = unlock() // the lock of a file that is open no more
	}
	return err == nil && !free
}

// stateAfter is the state of a run that does not go on.
func stateAfter(home, id string, outcome *Result) string {
	if _, err := os.Lstat(filepath.Join(WorktreesDir(home), id)); outcome == nil || err == nil {
		return StateInterrupted
	}
	return StateFinished
}

// Orphans are directories of worktrees whose run does not exist.
func Orphans(home string) ([]string, error) {
	entries, err := os.ReadDir(WorktreesDir(home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(RunsDir(home), e.Name())); errors.Is(err, fs.ErrNotExist) {
			out = append(out, filepath.Join(WorktreesDir(home), e.Name()))
		}
	}
	return out, err
}

// RemoveOrphan removes a directory that Orphans has named, and what the
// repository of its worktrees has on record of them.
func RemoveOrphan(dir string) error {
	links, err := filepath.Glob(filepath.Join(dir, "*", ".git"))
	if err != nil {
		return err
	}
	for _, link := range links {
		text, err := os.ReadFile(link)
		admin, isLink := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
		if err != nil || !isLink || filepath.Base(filepath.Dir(admin)) != "worktrees" {
			continue
		}
		// Only if the repository says so too: a task may have changed the link.
		at, err := os.ReadFile(filepath.Join(admin, "gitdir"))
		if err == nil && filepath.Clean(strings.TrimSpace(string(at))) == link {
			if err := removeAll(admin); err != nil {
				return err
			}
		}
	}
	return removeAll(dir)
}
