package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
)

// file is where the new contents of a change are.
func (l landing) file(c change) string { return filepath.Join(l.stage, filepath.FromSlash(c.path)) }

// write brings the changes into the working tree, deletions first, since a
// file may take the place of a directory.
func (d *delivery) write(l landing) error {
	for _, c := range l.changes {
		if c.status == 'D' {
			if err := d.delete(c, l.before[c.path]); err != nil {
				return err
			}
		}
	}
	for _, c := range l.changes {
		if c.status == 'D' || c.mode == modeGitlink {
			continue
		}
		if err := d.place(c, l.file(c), l.before[c.path]); err != nil {
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
	c := git.Call{Args: []string{"read-tree", tree}, Index: filepath.Join(d.repo.scratch, fmt.Sprintf("index-stage-%d", time.Now().UnixNano()))}
	defer func() { err = errors.Join(err, git.RemoveIndex(c.Index)) }()
	if _, _, err := d.repo.Run(ctx, c); err != nil {
		return err
	}
	c.Args, c.Input = []string{"checkout-index", "--force", "-z", "--stdin", "--prefix=" + filepath.ToSlash(stage) + "/"}, names.String()
	_, _, err = d.repo.Run(ctx, c)
	return err
}

// blocked says that a path leads through something that is no directory.
type blocked struct {
	path string
	link bool
}

func (b *blocked) Error() string { return b.path + " is not a directory" }

// isAbsent says that there cannot be anything at a path.
func isAbsent(err error) bool {
	var b *blocked
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &b)
}

// parent opens the directory in which a path lies. It goes down one directory
// at a time, each through the one before, and takes none that is a link: what
// is done in it afterwards happens there and nowhere else, whatever becomes of
// the names. The caller closes it.
func (d *delivery) parent(name string, create bool) (dir *os.Root, base string, err error) {
	if dir, err = d.root.OpenRoot("."); err != nil {
		return nil, "", err
	}
	at := ""
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		at = path.Join(at, part)
		next, err := descend(dir, part, at, create)
		if err = errors.Join(err, dir.Close()); err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

func descend(dir *os.Root, name, at string, create bool) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := dir.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		info, err = dir.Lstat(name)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &blocked{path: at, link: info.Mode()&fs.ModeSymlink != 0}
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := next.Stat("."); err != nil || !os.SameFile(info, now) {
		return nil, errors.Join(err, errMoved, next.Close())
	}
	return next, nil
}

// look returns the file at a path, or nil if there is none.
func (d *delivery) look(name string) (info fs.FileInfo, err error) {
	dir, base, err := d.parent(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return lstatIn(dir, base)
}

func lstatIn(dir *os.Root, base string) (fs.FileInfo, error) {
	info, err := dir.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// survey notes the file at the place of a change, and finds obstacles:
// links, and files that git does not know of because they are ignored. Those
// that the work itself deletes are not.
func (d *delivery) survey(l landing, c change, deleted map[string]bool) error {
	info, err := d.look(c.path)
	var b *blocked
	if errors.As(err, &b) && (c.status == 'D' || deleted[b.path]) {
		return nil
	}
	if b != nil {
		what := "a file of your own that is not part of the run"
		if b.link {
			what = "a link"
		}
		return d.inTheWay(fmt.Sprintf("the work writes %s, but %s is %s, where it needs a directory", c.path, b.path, what))
	}
	if err != nil {
		return err
	}
	l.before[c.path] = info
	switch {
	case info == nil || c.status == 'D' || c.mode == modeGitlink:
		return nil
	case info.IsDir():
		return d.checkEmptied(c, deleted)
	case c.status == 'A':
		same, err := d.holds(c, l.file(c), info)
		if err != nil || same {
			return err
		}
		return d.inTheWay(fmt.Sprintf("the work adds %s, where you have a file of your own that is not part of the run", c.path))
	}
	return nil
}

func (d *delivery) inTheWay(message string) error {
	return &bridge.Error{Code: bridge.CodeConflict, Message: message,
		Remedy: "move it away, then go on with `copilot-bridge orchestrate --resume " + d.run + "`"}
}

// checkEmptied checks that a directory that becomes a file holds nothing that
// stays.
func (d *delivery) checkEmptied(c change, deleted map[string]bool) (err error) {
	dir, _, err := d.parent(c.path+"/x", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return fs.WalkDir(dir.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() && !deleted[c.path+"/"+name] {
			return d.inTheWay(fmt.Sprintf("the work makes %s a file, where you have a directory with %s in it, which git ignores", c.path, name))
		}
		return nil
	})
}

// holds says whether a file that is there already is the one to be written.
func (d *delivery) holds(c change, from string, info fs.FileInfo) (same bool, err error) {
	fresh, err := os.Lstat(from)
	if err != nil || !fresh.Mode().IsRegular() || !info.Mode().IsRegular() || fresh.Size() != info.Size() {
		return false, err
	}
	dir, base, err := d.parent(c.path, false)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	theirs, err1 := os.ReadFile(from)
	mine, err2 := dir.ReadFile(base)
	return err1 == nil && err2 == nil && string(theirs) == string(mine), nil
}

// unchanged checks that a file is still the one that was looked at.
func unchanged(dir *os.Root, base string, was fs.FileInfo) error {
	now, err := lstatIn(dir, base)
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
	if was == nil || was.IsDir() {
		return nil
	}
	dir, base, err := d.parent(c.path, false)
	if err != nil {
		if isAbsent(err) {
			err = errMoved
		}
		return err
	}
	if err = unchanged(dir, base, was); err == nil {
		err = dir.Remove(base)
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	return d.prune(path.Dir(c.path))
}

// prune removes directories that are empty now, as git does it.
func (d *delivery) prune(name string) error {
	for ; name != "."; name = path.Dir(name) {
		dir, base, err := d.parent(name, false)
		if err != nil {
			if isAbsent(err) {
				return nil
			}
			return err
		}
		info, err := dir.Lstat(base)
		full := err != nil || !info.IsDir() || dir.Remove(base) != nil
		if err := dir.Close(); err != nil || full {
			return err
		}
	}
	return nil
}

// temporary is the name under which a file is written before it is moved into
// place. One a directory is enough, and a later run of ours finds it again.
func (d *delivery) temporary() string { return ".copilot-bridge-" + d.run + ".tmp" }

// place moves a new version of a file into place in one step.
func (d *delivery) place(c change, from string, was fs.FileInfo) (err error) {
	if c.status == 'A' && was != nil && !was.IsDir() {
		return nil // survey has found the same contents there
	}
	dir, base, err := d.parent(c.path, true)
	if err != nil {
		if isAbsent(err) {
			err = errMoved
		}
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	temporary := d.temporary()
	if err := removeFile(dir, temporary); err != nil {
		return err
	}
	err = copyFile(from, dir, temporary, c.mode, was)
	if err == nil {
		err = unchanged(dir, base, was)
	}
	if err == nil && was != nil && was.IsDir() {
		// Only an empty directory can be in the way of a file by now.
		err = dir.Remove(base)
	}
	if err == nil {
		err = dir.Rename(temporary, base)
	}
	if err != nil {
		return errors.Join(err, removeFile(dir, temporary))
	}
	return nil
}

// copyFile copies a file or a link. Permissions that the user has set stay.
func copyFile(from string, dir *os.Root, to, mode string, was fs.FileInfo) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return dir.Symlink(target, to)
	}
	perm := fs.FileMode(0o666) // less what the umask takes away
	if was != nil && was.Mode().IsRegular() {
		perm = was.Mode().Perm() &^ 0o111
	}
	if mode == modeProgram {
		perm |= (perm & 0o444) >> 2 // those who may read it may run it
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := dir.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
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
