package patch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
)

// stageIgnore is the .gitignore of a staging directory: git status shows
// nothing of it, and git add takes nothing.
const stageIgnore = "*\n"

// stageFiles is the directory below a staging directory that holds the files.
// It is removed before the .gitignore is.
const stageFiles = "f"

// stage is a staging directory, open.
type stage struct {
	*os.Root
	at   *os.File // the same, for system calls that os.Root lacks
	path string   // in the workspace
}

// newName and oldName are what a step's files are called in its stage. The new
// file has newName until it takes the place of the old one; what came away then
// has one of the two.
func newName(step int) string { return "n" + strconv.Itoa(step) }
func oldName(step int) string { return "o" + strconv.Itoa(step) }

// assignStages decides where files are kept meanwhile: in a directory at the
// top of the workspace or, since files cannot be moved between file systems, at
// the top of the other one where that is mounted.
func (r *record) assignStages(d *disk) error {
	name := newStage()
	top, err := d.dir(".")
	if err != nil {
		return err
	}
	known := map[string]int{}
	for _, s := range r.Steps {
		if s.Kind == stepMkdir || s.Kind == stepRmdir {
			continue
		}
		s.above = path.Dir(s.path)
		seen, err := d.dir(s.above)
		for err == nil && seen.lead != leadDir {
			s.above = path.Dir(s.above)
			seen, err = d.dir(s.above)
		}
		if err != nil {
			return err
		}
		at := name
		if !sameDevice(seen.info, top.info) {
			at = path.Join(s.above, name)
		}
		i, ok := known[at]
		if !ok {
			i = len(r.Stages)
			known[at] = i
			r.Stages = append(r.Stages, []byte(at))
		}
		s.Stage = i
	}
	return nil
}

// openStages opens the staging directories of a record, and makes them first if
// they are to be new. One that is not there is nil.
func (b *lockedJournal) openStages(r *record, makeThem bool) (err error) {
	b.closeStages()
	for _, raw := range r.Stages {
		dir := string(raw)
		if makeThem {
			if err := b.makeStage(dir); err != nil {
				return err
			}
		}
		s := &stage{path: path.Join(dir, stageFiles)}
		if s.Root, err = b.root.OpenRoot(s.path); isMissing(err) && !makeThem {
			b.stages = append(b.stages, nil)
			continue
		} else if err != nil {
			return err
		}
		b.stages = append(b.stages, s)
		if s.at, err = s.Open("."); err != nil {
			return err
		}
	}
	return nil
}

func (b *lockedJournal) makeStage(dir string) error {
	if err := b.root.Mkdir(dir, 0o700); err != nil {
		return err
	}
	at, err := b.root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }() // a handle of a directory
	handle, err := at.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = handle.Close() }() // a handle of a directory
	if _, err := b.writeNew(at, &stage{at, handle, dir}, ".gitignore", stageIgnore, 0o600, 0); err != nil {
		return err
	}
	return at.Mkdir(stageFiles, 0o700)
}

func (b *lockedJournal) closeStages() {
	for _, s := range b.stages {
		if s != nil {
			_ = s.at.Close() // handles of a directory
			_ = s.Close()
		}
	}
	b.stages = nil
	b.near.close()
}

// removeStages removes the staging directories and all that is in them. Files
// go before the .gitignore that hides them.
func (b *lockedJournal) removeStages(r *record) error {
	b.closeStages()
	for _, raw := range r.Stages {
		dir := string(raw)
		// A file system that is mounted read-only refuses to remove what is
		// not there.
		if _, err := b.root.Lstat(dir); isMissing(err) {
			continue
		}
		if err := b.root.RemoveAll(path.Join(dir, stageFiles)); err != nil {
			return err
		}
		if err := b.root.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// stageFile writes a step's new file. It comes into being in the directory that
// it is meant for, where the system can do that, and gets what the directory
// passes on to its files: group, access list, label.
func (b *lockedJournal) stageFile(i int, s *step) error {
	st := b.stages[s.Stage]
	if s.out.isLink() {
		s.Perm = fs.ModeSymlink
		return st.Symlink(s.out.data, newName(i))
	}
	perm := fs.FileMode(0o666)
	if s.out.mode&0o100 != 0 {
		perm = 0o777
	}
	dir, _, err := b.near.in(path.Join(s.above, "x"))
	if err != nil {
		return err
	}
	info, err := b.writeNew(dir, st, newName(i), s.out.data, perm, s.out.perm)
	if err == nil {
		s.Perm = info.Mode()
	}
	return err
}

// writeNew writes a file of that name into a stage. exact, if it is not 0, is
// the file's mode whatever the umask.
func (b *lockedJournal) writeNew(dir *os.Root, st *stage, name, data string, perm, exact fs.FileMode) (info fs.FileInfo, err error) {
	fill := func(f *os.File) error {
		_, err := f.WriteString(data)
		if err == nil && exact != 0 {
			err = f.Chmod(exact)
		}
		if err == nil {
			info, err = f.Stat()
		}
		if err == nil && b.flush {
			err = f.Sync()
		}
		return err
	}
	if f, err := unnamed(dir, perm); err == nil {
		if err = fill(f); err == nil {
			err = giveName(f, st, name)
		}
		if err = errors.Join(err, f.Close()); err == nil {
			return info, nil
		}
	}
	f, err := st.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	err = fill(f)
	return info, errors.Join(err, f.Close())
}

// place puts a staged file where there is none, and never over another that has
// appeared meanwhile: that is fs.ErrExist.
func (b *lockedJournal) place(st *stage, name, to string) error {
	dir, base, err := b.near.in(to)
	if err != nil {
		return err
	}
	if err := b.rename(st, name, dir, base, false); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := b.link(st.path+"/"+name, to); err == nil {
		return st.Remove(name)
	} else if _, statErr := dir.Lstat(base); !isMissing(statErr) {
		return errors.Join(fs.ErrExist, statErr)
	}
	return b.root.Rename(st.path+"/"+name, to)
}

// swap lets a staged file take the place of another, which is then in the stage
// by the name that swap returns.
func (b *lockedJournal) swap(i int, st *stage, name, to string) (came string, err error) {
	dir, base, err := b.near.in(to)
	if err != nil {
		return "", err
	}
	if err := b.rename(st, name, dir, base, true); !errors.Is(err, errors.ErrUnsupported) {
		return name, err
	}
	came = oldName(i)
	if name == came {
		came = newName(i)
	}
	// With two names the old file stays in its place until the new one takes it.
	if b.link(to, st.path+"/"+came) != nil {
		if err := b.root.Rename(to, st.path+"/"+came); err != nil {
			return "", err
		}
	}
	return came, b.root.Rename(st.path+"/"+name, to)
}
