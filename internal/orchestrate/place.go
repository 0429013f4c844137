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

// look returns what is at a path, or nil if there is nothing.
func look(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil && gone(err) {
		return nil, nil
	}
	return info, err
}

// unchanged checks that a file is still the one that was looked at.
func (d *delivery) unchanged(path string, was fs.FileInfo) error {
	now, err := look(path)
	switch {
	case err != nil:
		return err
	case now == nil && was == nil:
		return nil
	case now == nil || was == nil || !os.SameFile(now, was) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) || now.Mode() != was.Mode():
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
	// Directories that are empty now go too, as git does it.
	dir := filepath.Dir(path)
	for len(dir) > len(d.repo.top) && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
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
