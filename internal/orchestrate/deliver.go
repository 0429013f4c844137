package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// change is one path that differs between two trees.
type change struct {
	path   string
	mode   string // of the new side; all zeros if it is deleted
	status byte   // A, D, M or T
}

const (
	modeGitlink = "160000"
	modeProgram = "100755"
)

// diff lists what differs between two commits or trees.
func (r *repository) diff(ctx context.Context, from, to string) ([]change, error) {
	out, _, err := r.git.run(ctx, r.at("diff-tree", "-r", "-z", "--raw", "--no-renames", from, to))
	if err != nil {
		return nil, err
	}
	return parseDiff(out)
}

// parseDiff reads ":mode mode object object status\0path\0" entries.
func parseDiff(out string) ([]change, error) {
	fields := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	var changes []change
	for i := 0; i+1 < len(fields); i += 2 {
		words := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(words) != 5 || words[4] == "" {
			return nil, &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("git diff-tree said %q", fields[i])}
		}
		changes = append(changes, change{path: fields[i+1], mode: words[1], status: words[4][0]})
	}
	return changes, nil
}

// delivery brings a tree into the user's working tree.
type delivery struct {
	repo *repository
	run  string
	// begin is called with what is about to be written, before it is.
	begin func(onto, target string) error
}

// errMoved says that the user's files changed under our hands.
var errMoved = errors.New("files changed while they were being written")

// rounds is how often a delivery begins anew because the user goes on working
// meanwhile.
const rounds = 5

// deliver adds what target has made of base to the user's working tree, beside
// whatever the user has made of it. It changes files only: not the index, no
// commit. If both have changed the same place nothing is written and the
// conflicting paths are returned. After a failure or a crash in the middle,
// deliver with the arguments of the last begin goes on.
func (d *delivery) deliver(ctx context.Context, base, target string) (files, conflicts []string, err error) {
	for range rounds {
		files, conflicts, err = d.round(ctx, base, target)
		if !errors.Is(err, errMoved) {
			return files, conflicts, err
		}
	}
	return nil, nil, &bridge.Error{Code: bridge.CodeConflict, Message: "the files keep changing while the work is merged into them", Cause: err,
		Remedy: "stop what changes them, then go on with `copilot-bridge orchestrate --resume " + d.run + "`"}
}

func (d *delivery) round(ctx context.Context, base, target string) (files, conflicts []string, err error) {
	r := d.repo
	if err := d.tidy(ctx, base, target); err != nil {
		return nil, nil, err
	}
	onto, err := r.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	wanted, err := r.treeOf(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	m, err := r.mergeTrees(ctx, base, onto, wanted)
	if err != nil || len(m.conflicts) > 0 {
		return nil, m.paths(), err
	}
	changes, err := r.diff(ctx, onto, m.tree)
	if err != nil {
		return nil, nil, err
	}
	before := map[string]fs.FileInfo{}
	for _, c := range changes {
		if info, err := os.Lstat(d.path(c.path)); err == nil {
			before[c.path] = info
		}
	}
	// Only now that the files' times are known can a change be told.
	if again, err := r.snapshot(ctx); err != nil || again != onto {
		return nil, nil, errors.Join(err, errMoved)
	}
	ontoCommit, err := r.commit(ctx, onto, "Before the merge", base)
	if err != nil {
		return nil, nil, err
	}
	newTarget, err := r.commit(ctx, m.tree, "The merge", ontoCommit)
	if err != nil {
		return nil, nil, err
	}
	if err := d.begin(ontoCommit, newTarget); err != nil {
		return nil, nil, err
	}
	if err := d.write(ctx, m.tree, changes, before); err != nil {
		return nil, nil, err
	}
	files, err = r.changed(ctx, onto, m.tree)
	return files, nil, err
}

func (d *delivery) path(name string) string {
	return filepath.Join(d.repo.top, filepath.FromSlash(name))
}

// temporary is the name under which a file is written before it is moved into
// place. One a directory is enough, and a later run of ours finds it again.
func (d *delivery) temporary(path string) string {
	return filepath.Join(filepath.Dir(path), ".copilot-bridge-"+d.run+".tmp")
}

// tidy removes what a killed delivery left behind.
func (d *delivery) tidy(ctx context.Context, base, target string) error {
	changes, err := d.repo.diff(ctx, base, target)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := os.Remove(d.temporary(d.path(c.path))); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

func gone(err error) bool {
	// A parent that is a file now has no entries either.
	return errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "not a directory")
}

// write brings the changes into the working tree, deletions first, since a
// file may take the place of a directory.
func (d *delivery) write(ctx context.Context, tree string, changes []change, before map[string]fs.FileInfo) (err error) {
	stage, err := os.MkdirTemp(d.repo.git.scratch, "stage-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(stage)) }()
	if err := d.checkOut(ctx, tree, changes, stage); err != nil {
		return err
	}
	for _, c := range changes {
		if c.status == 'D' {
			if err := d.delete(c, before[c.path]); err != nil {
				return err
			}
		}
	}
	for _, c := range changes {
		if c.status == 'D' || c.mode == modeGitlink {
			continue
		}
		if err := d.place(c, filepath.Join(stage, filepath.FromSlash(c.path)), before[c.path]); err != nil {
			return err
		}
	}
	return nil
}

// checkOut writes the new contents to a directory of ours, as git would write
// them to the working tree: line endings, filters and all.
func (d *delivery) checkOut(ctx context.Context, tree string, changes []change, stage string) (err error) {
	var names strings.Builder
	for _, c := range changes {
		if c.status != 'D' && c.mode != modeGitlink {
			names.WriteString(c.path + "\x00")
		}
	}
	if names.Len() == 0 {
		return nil
	}
	c := d.repo.at("read-tree", tree)
	c.index = filepath.Join(d.repo.git.scratch, fmt.Sprintf("index-stage-%d", time.Now().UnixNano()))
	defer func() { err = errors.Join(err, removeIndex(c.index)) }()
	if _, _, err := d.repo.git.run(ctx, c); err != nil {
		return err
	}
	c.args, c.input = []string{"checkout-index", "--force", "-z", "--stdin", "--prefix=" + filepath.ToSlash(stage) + "/"}, names.String()
	_, _, err = d.repo.git.run(ctx, c)
	return err
}

// unchanged checks that a file is still the one that was looked at.
func (d *delivery) unchanged(path string, was fs.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case err != nil && !gone(err):
		return err
	case (err != nil) != (was == nil):
		return errMoved
	case err != nil:
		return nil
	case !os.SameFile(now, was) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) || now.Mode() != was.Mode():
		return errMoved
	}
	return nil
}

func (d *delivery) delete(c change, was fs.FileInfo) error {
	path := d.path(c.path)
	if err := d.unchanged(path, was); err != nil {
		return err
	}
	if was == nil || was.IsDir() {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != d.repo.top && len(dir) > len(d.repo.top); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// place moves a new version of a file into place in one step.
func (d *delivery) place(c change, from string, was fs.FileInfo) error {
	path := d.path(c.path)
	if c.status == 'A' && was != nil && !was.IsDir() {
		return d.occupied(c, from, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := d.temporary(path)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := copyFile(from, temporary, c.mode, was); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := d.unchanged(path, was); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if was != nil && was.IsDir() {
		// Only an empty directory can be in the way of a file by now.
		if err := os.Remove(path); err != nil {
			return errors.Join(err, os.Remove(temporary))
		}
	}
	return os.Rename(temporary, path)
}

// occupied is a new file where the user has one that git does not know of,
// because it is ignored. It is never overwritten.
func (d *delivery) occupied(c change, from, path string) error {
	theirs, err1 := os.ReadFile(from)
	mine, err2 := os.ReadFile(path)
	if err1 == nil && err2 == nil && string(theirs) == string(mine) {
		return nil
	}
	return &bridge.Error{Code: bridge.CodeConflict, Message: fmt.Sprintf("the work adds %s, where you have a file of your own that git ignores", c.path),
		Remedy: "move your file away, then go on with `copilot-bridge orchestrate --resume " + d.run + "`"}
}

// copyFile copies a file or a link. Permissions that the user has set stay.
func copyFile(from, to, mode string, was fs.FileInfo) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	perm := fs.FileMode(0o666) // less what the umask takes away
	if was != nil && was.Mode().IsRegular() {
		perm = was.Mode().Perm() &^ 0o111
	}
	if mode == modeProgram {
		perm |= (perm & 0o444) >> 2 // whoever may read it may run it
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	if err == nil && was != nil {
		err = out.Chmod(perm)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close(), in.Close())
}
