package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// Check says why a run that begins with a commit cannot be given to other
// machines, if so: its commits must hold all that a task works on. Submodules may
// be there: their directories are empty, as they are in every worktree of a run.
// Git LFS is refused: without its files a task builds on pointers, and what it
// writes in their place would come back as one, with the contents left behind.
func Check(ctx context.Context, repo *git.Repository, commit string) error {
	if info, err := os.Stat(filepath.Join(repo.Common, "shallow")); err == nil && info.Size() > 0 {
		return no("it is a shallow clone, without its history", "run `git fetch --unshallow`, or leave out --fleet")
	}
	packs, err := os.ReadDir(filepath.Join(repo.Common, "objects", "pack"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, p := range packs {
		if strings.HasSuffix(p.Name(), ".promisor") {
			return no("it is a partial clone, with files missing", "clone it whole, or leave out --fleet")
		}
	}
	return CheckFiles(ctx, repo, commit)
}

func no(what, remedy string) error {
	return &bridge.Error{Code: bridge.CodeUnsupported, Message: "the fleet cannot be used for this repository: " + what, Remedy: remedy}
}

// CheckFiles is the part of Check that is about the commit alone. A worker looks
// too: where Git LFS is set up, it would fetch files, from wherever the commit
// says, as soon as the commit is checked out.
func CheckFiles(ctx context.Context, repo *git.Repository, commit string) error {
	out, _, err := repo.Run(ctx, git.Call{OK: []int{1}, Args: []string{"grep", "--no-color", "-l", "-z", "-E", "-e", "^[^#]*filter=lfs", commit, "--", ":(top,glob,icase)**/.gitattributes"}})
	if err != nil {
		return err
	}
	if out != "" {
		first, _, _ := strings.Cut(strings.TrimPrefix(out, commit+":"), "\x00")
		return no("it keeps files with Git LFS ("+first+"), whose contents are not in its commits", "leave out --fleet")
	}
	return nil
}

// RepoID names a repository by the roots of a commit's history, hashed: the same
// in every clone, and telling nothing about it to who does not have it.
func RepoID(ctx context.Context, repo *git.Repository, commit string) (string, error) {
	out, err := repo.Line(ctx, git.Call{Args: []string{"rev-list", "--max-parents=0", "--end-of-options", commit}})
	if err != nil {
		return "", err
	}
	roots := strings.Fields(out)
	slices.Sort(roots)
	sum := sha256.Sum256([]byte("copilot-bridge repository\n" + strings.Join(roots, "\n")))
	return hex.EncodeToString(sum[:16]), nil
}
