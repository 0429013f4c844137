package orchestrate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// repository is the user's, seen from a directory in its working tree.
type repository struct {
	*git.Repository
	prefix  string // the directory of the run, relative to Top, with slashes
	scratch string // a directory for our own files, outside of the repository
	// lockFile is held while the list of worktrees is changed.
	lockFile string
	mayRead  func(path string) bool // see Options.MayRead
}

// openRepository finds the repository of a directory; see git.Open.
func openRepository(ctx context.Context, environ []string, scratch, dir string, confine git.Confine) (*repository, error) {
	r, err := git.Open(ctx, git.Options{Dir: dir, Environ: environ, Scratch: scratch, Confine: confine})
	if err != nil {
		return nil, err
	}
	return &repository{Repository: r, prefix: r.Prefix, scratch: scratch}, nil
}

// ask is for answers of one line.
func (r *repository) ask(ctx context.Context, args ...string) (string, error) {
	return r.Line(ctx, git.Call{Args: args})
}

// commit makes a commit of a tree, which belongs to no branch yet.
func (r *repository) commit(ctx context.Context, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-m", message}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return r.ask(ctx, args...)
}

func (r *repository) treeOf(ctx context.Context, commit string) (string, error) {
	return r.ask(ctx, "rev-parse", "--verify", commit+"^{tree}")
}

// contains says whether a commit is part of the history of another.
func (r *repository) contains(ctx context.Context, whole, part string) (bool, error) {
	_, code, err := r.Run(ctx, git.Call{Args: []string{"merge-base", "--is-ancestor", part, whole}, OK: []int{1}})
	return err == nil && code == 0, err
}

// snapshot returns the state of the user's working tree as a tree: tracked
// files as they are, and untracked ones that are not ignored and may be read.
// Nothing of the user's is touched, the index included.
func (r *repository) snapshot(ctx context.Context) (tree string, err error) {
	index, err := r.CopyIndex(r.scratch)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, git.RemoveIndex(index)) }()
	return r.WriteTree(ctx, "", index, r.keep)
}

// keep says whether an untracked file belongs into a snapshot. A link holds no
// more than a name, and what lies beside the directory where the run works is
// out of its reach anyway.
func (r *repository) keep(name string) bool {
	info, err := os.Lstat(filepath.Join(r.Top, filepath.FromSlash(name)))
	if r.mayRead == nil || err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return true
	}
	rel, err := filepath.Rel(filepath.FromSlash(r.prefix), filepath.FromSlash(name))
	return err != nil || !filepath.IsLocal(rel) || r.mayRead(rel)
}

// base is the commit on which a run builds: the user's present commit and, if
// there is uncommitted work, a commit of that on top.
func (r *repository) base(ctx context.Context) (commit string, err error) {
	if err := r.checkMerged(ctx); err != nil {
		return "", err
	}
	tree, err := r.snapshot(ctx)
	if err != nil {
		return "", err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return "", err
	}
	if head == "" {
		return r.commit(ctx, tree, "Uncommitted work")
	}
	if same, err := r.treeOf(ctx, head); err != nil || same == tree {
		return head, err
	}
	return r.commit(ctx, tree, "Uncommitted work", head)
}

// checkMerged refuses to begin in the middle of a merge.
func (r *repository) checkMerged(ctx context.Context) (err error) {
	index, err := r.CopyIndex(r.scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, git.RemoveIndex(index)) }()
	if out, err := r.Line(ctx, git.Call{Index: index, Args: []string{"ls-files", "--unmerged"}}); err != nil || strings.TrimSpace(out) == "" {
		return err
	}
	return &bridge.Error{Code: bridge.CodeConflict, Message: "the repository is in the middle of a merge with conflicts",
		Remedy: "finish or abort it first (`git status` says how)"}
}
