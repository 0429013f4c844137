package orchestrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// branchOf is where the work of a task is kept. Ids may hold what branch names
// may not; a piece of a hash keeps those apart.
func branchOf(run, task string) string { return branchPrefix(run) + "task-" + slug(task) }

func branchPrefix(run string) string { return "copilot-bridge/" + run + "/" }

func resultBranch(run string) string { return branchPrefix(run) + "result" }

func slug(id string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, id)
	if safe == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return strings.Trim(safe, "-") + "-" + hex.EncodeToString(sum[:4])
}

// worktree is a git worktree for one attempt at one task.
type worktree struct {
	repo   *repository
	path   string
	gitDir string // as git made it: a task may change what says so in the worktree
	index  string // ours: a task may change the worktree's own
	base   string
	branch string // "" for none
}

// addWorktree checks a commit out into a new directory below dir. A branch, if
// named, is made for it or moved to it.
func (r *repository) addWorktree(ctx context.Context, dir, name, branch, commit string) (*worktree, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(dir, name+"-*")
	if err != nil {
		return nil, err
	}
	w := &worktree{repo: r, path: path, index: filepath.Join(r.scratch, "index-"+filepath.Base(path)), base: commit, branch: branch}
	err = w.register(ctx)
	if err == nil {
		// Apart from the above, so that several can be filled at a time.
		err = w.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.remove(ctx))
	}
	return w, nil
}

// register makes an empty worktree. git looks at all of a repository's
// worktrees meanwhile and fails if it finds one half-made, so ours are made
// and removed under a lock; those of others can only be tried again for.
func (w *worktree) register(ctx context.Context) error {
	unlock, err := w.repo.lock(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		if w.gitDir, err = w.repo.AddWorktree(ctx, w.path, w.branch, w.base); err == nil || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(err, unlock())
}

// fill writes the files, and gives the worktree an index, since the task may use git
// there.
func (w *worktree) fill(ctx context.Context) error {
	if _, _, err := w.repo.Run(ctx, git.Call{Tree: w.path, Index: w.index, Args: []string{"read-tree", "--reset", "-u", w.base}}); err != nil {
		return err
	}
	return git.CopyFile(w.index, filepath.Join(w.gitDir, "index"))
}

// lock excludes other processes of ours from the list of worktrees.
func (r *repository) lock(ctx context.Context) (unlock func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return durable.Lock(ctx, r.lockFile)
}

// work is the directory of the worktree that corresponds to the user's.
func (w *worktree) work() (string, error) {
	root, err := os.OpenRoot(w.path)
	if err != nil {
		return "", err
	}
	err = root.MkdirAll(filepath.FromSlash(cmp.Or(w.repo.prefix, ".")), 0o755) // it may hold only ignored files
	if err = errors.Join(err, root.Close()); err != nil {
		return "", err
	}
	dir := filepath.Join(w.path, filepath.FromSlash(w.repo.prefix))
	top, err1 := filepath.EvalSymlinks(w.path)
	at, err2 := filepath.EvalSymlinks(dir)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if at != filepath.Join(top, filepath.FromSlash(w.repo.prefix)) {
		// Another part made a link of it: the guard would stand elsewhere.
		return "", &bridge.Error{Code: bridge.CodeDenied, Message: "an earlier part has made " + w.repo.prefix + " a link", Remedy: "start the task anew without that part"}
	}
	return dir, nil
}

// converse does an attempt in the worktree.
func (w *worktree) converse(ctx context.Context, open Opener, work RemoteWork, report func(Progress)) (Outcome, error) {
	dir, err := w.work()
	if err != nil {
		return Outcome{}, err
	}
	out, said, err := converse(ctx, open, opening(work.Run, dir, work.Task), prompt(work.Goal, work.Assignment), func(p Progress) {
		if p.At.Session != "" {
			p.At.Tree, p.At.Base = w.path, w.base
		}
		report(p)
	})
	if isAll(work.Goal, work.Assignment) {
		out.Summary = text.Clip(said, maxAnswer)
	}
	return out, err
}

// keep commits the work of a finished attempt.
func (w *worktree) keep(ctx context.Context, work RemoteWork, out *Outcome) (err error) {
	title := strings.Map(func(r rune) rune { // git log shows it to terminals as it is
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text.FirstLine(work.Task.Description, 72))
	message := title + "\n\nTask " + work.Task.ID + " of run " + work.Run + "."
	if out.Work, err = w.commit(ctx, message); err != nil {
		return err
	}
	out.Files, err = w.repo.changed(ctx, w.base, out.Work)
	return err
}

// commit makes one commit of the work in the worktree, whatever was
// committed there meanwhile, and puts it on the branch. Without changes it is
// the base.
func (w *worktree) commit(ctx context.Context, message string, parents ...string) (string, error) {
	tree, err := w.repo.WriteTree(ctx, w.path, w.index, nil)
	if err != nil {
		return "", err
	}
	commit := w.base
	before, err := w.repo.treeOf(ctx, w.base)
	if err != nil {
		return "", err
	}
	if tree != before || len(parents) > 0 {
		if len(parents) == 0 {
			parents = []string{w.base}
		}
		if commit, err = w.repo.commit(ctx, tree, message, parents...); err != nil {
			return "", err
		}
	}
	if w.branch != "" {
		err = w.repo.SetRef(ctx, "refs/heads/"+w.branch, commit)
	}
	return commit, err
}

// remove deletes the worktree; its commits stay. git's own way would read
// files in the worktree that a task may have changed.
func (w *worktree) remove(ctx context.Context) error {
	err := errors.Join(removeAll(w.path), git.RemoveIndex(w.index))
	if w.gitDir == "" {
		return err
	}
	unlock, lockErr := w.repo.lock(context.WithoutCancel(ctx))
	if lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return errors.Join(err, removeAll(w.gitDir), unlock())
}

// sweep removes all worktrees in a directory, also those of a run that was
// killed, and the directory.
func (r *repository) sweep(ctx context.Context, dir string) error {
	if err := r.unregister(ctx, dir); err != nil {
		return err
	}
	return removeAll(dir)
}

// unregister removes what the repository has on record of the worktrees in a
// directory. Those of other runs may be in the making and are not touched,
// which is why git's own prune is not used.
func (r *repository) unregister(ctx context.Context, dir string) (err error) {
	unlock, err := r.lock(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	admin := filepath.Join(r.Common, "worktrees")
	entries, err := os.ReadDir(admin)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		at, err := os.ReadFile(filepath.Join(admin, e.Name(), "gitdir"))
		if err != nil {
			continue // another's, half-made
		}
		if inside(dir, filepath.FromSlash(strings.TrimSpace(string(at)))) {
			errs = append(errs, removeAll(filepath.Join(admin, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// removeAll deletes a directory, read-only parts of it too.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	walkErr := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return &bridge.Error{Code: bridge.CodeInternal, Message: "a worktree could not be removed", Cause: errors.Join(err, walkErr), Remedy: "remove " + dir + " by hand"}
	}
	return nil
}

// changed lists what differs between two commits or trees, relative to the
// directory where the run works if it is inside.
func (r *repository) changed(ctx context.Context, from, to string) ([]string, error) {
	changes, err := r.diff(ctx, from, to)
	return r.names(changes), err
}

func (r *repository) names(changes []change) []string {
	out := []string{}
	for _, e := range changes {
		name := e.path
		if r.prefix != "" {
			if rel, ok := strings.CutPrefix(name, r.prefix+"/"); ok {
				name = rel
			} else {
				name = strings.Repeat("../", strings.Count(r.prefix, "/")+1) + name
			}
		}
		out = append(out, name)
	}
	return out
}
