package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The functions below use the repository itself, see named.

// Head is the user's present commit, or "" before the first.
func (r *Repository) Head(ctx context.Context) (string, error) {
	out, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"rev-parse", "--quiet", "--verify", "HEAD^{commit}"}, OK: []int{1}})
	return strings.TrimSpace(out), err
}

// SetRef puts a commit under a name, so that git does not throw it away.
func (r *Repository) SetRef(ctx context.Context, ref, commit string) error {
	_, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"update-ref", ref, commit}})
	return err
}

// SetRefs is SetRef for many names, from each to its commit.
func (r *Repository) SetRefs(ctx context.Context, refs map[string]string) error {
	if len(refs) == 0 {
		return nil
	}
	var b strings.Builder
	for ref, commit := range refs {
		fmt.Fprintf(&b, "update %s %s\n", ref, commit)
	}
	_, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"update-ref", "--stdin"}, Input: b.String()})
	return err
}

// DeleteRefs removes names, those that do not exist too.
func (r *Repository) DeleteRefs(ctx context.Context, refs ...string) error {
	if len(refs) == 0 {
		return nil
	}
	var b strings.Builder
	for _, ref := range refs {
		fmt.Fprintf(&b, "delete %s\n", ref)
	}
	_, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"update-ref", "--stdin"}, Input: b.String()})
	return err
}

// Refs lists the names below a prefix.
func (r *Repository) Refs(ctx context.Context, prefix string) ([]string, error) {
	out, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"for-each-ref", "--format=%(refname)", prefix}})
	if out = strings.TrimRight(out, "\r\n"); err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// RefCommits lists what the names below a prefix stand for.
func (r *Repository) RefCommits(ctx context.Context, prefix string) ([]string, error) {
	out, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"for-each-ref", "--format=%(objectname)", prefix}})
	return strings.Fields(out), err
}

// Unlock removes the locks that a killed git has left on the names below a
// prefix. No other process may be using them.
func (r *Repository) Unlock(prefix string) error {
	root, err := os.OpenRoot(r.Common)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), path.Clean(prefix), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".lock") {
			return err
		}
		return root.Remove(name)
	})
	if errors.Is(err, fs.ErrNotExist) { // its git may have been about to end
		return nil
	}
	return err
}

// AddWorktree registers an empty directory as a worktree and returns its git
// directory. A branch, if named, is made or moved to the commit. No file is
// written there but .git.
func (r *Repository) AddWorktree(ctx context.Context, dir, branch, commit string) (gitDir string, err error) {
	args := []string{"worktree", "add", "--quiet", "--force", "--no-checkout"}
	if branch != "" {
		args = append(args, "-B", branch)
	} else {
		args = append(args, "--detach")
	}
	if _, _, err := r.answer(ctx, r.Top, r.named(), Call{New: dir, Args: append(args, dir, commit)}); err != nil {
		return "", err
	}
	data, err := readData(filepath.Join(dir, ".git"))
	if err != nil {
		return "", err
	}
	at, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	if gitDir = resolved(filepath.FromSlash(at)); !ok || !same(filepath.Dir(gitDir), filepath.Join(r.Common, "worktrees")) {
		return "", &bridge.Error{Code: bridge.CodeInternal, Message: "git made a worktree somewhere else: " + gitDir}
	}
	return gitDir, nil
}
