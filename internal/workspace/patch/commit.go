package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// commit carries the plan's steps out: journal first, then all new files under
// names of their own, then file by file into place. Old files are kept by a
// second name until all is done. If anything fails, everything is undone.
func (b *book) commit(ctx context.Context, p *plan, sync bool) error {
	if len(p.steps) == 0 {
		return nil
	}
	r := &record{sync: sync, steps: p.steps, moved: map[int]bool{}}
	if err := r.assignStages(p.disk); err != nil {
		return err
	}
	if err := b.write(r); err != nil {
		return errors.Join(err, b.remove())
	}
	defer b.near.close()
	stages, err := b.openStages(r)
	if err == nil {
		err = b.stage(ctx, r)
	}
	if err == nil {
		err = b.run(r, stages)
	}
	for _, dir := range stages {
		_ = dir.Close() // a handle of a directory
	}
	if err == nil && sync {
		err = syncTree(b.root, r)
	}
	if err == nil {
		err = b.note(journalDone, sync)
	}
	if err != nil {
		err = failed(err)
		if undoErr := b.undo(r); undoErr != nil {
			// The journal stays, so that the next start tries again.
			return errors.Join(err, fmt.Errorf("and undoing it failed: %w", undoErr))
		}
	}
	return errors.Join(err, b.tidy(r))
}

func failed(err error) error {
	var changed *changedError
	if asChanged(err, &changed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &bridge.Error{
		Code: bridge.CodeConflict, Message: "the workspace could not be written, and is as it was before",
		Remedy: "Check the permissions of the workspace and the space on its disk.", Cause: err,
	}
}

// assignStages decides where new and old files are kept. A new one is written
// beside the place that it will have, as git does, so that it gets what the
// directory passes on to its files (group, access list, encryption, quota) and
// a place on the disk near the others. Old ones go into one directory at the
// top of the workspace, or, since files cannot be moved between file systems,
// one on the other where that is mounted: their own may have to go.
func (r *record) assignStages(d *disk) error {
	name := newStage()
	top, err := d.dir(".")
	if err != nil {
		return err
	}
	made := map[string]bool{}
	for i, s := range r.steps {
		if s.kind == stepMkdir || s.kind == stepRmdir {
			continue
		}
		stage := name
		dir := path.Dir(s.path)
		seen, err := d.dir(dir)
		for err == nil && seen.lead != leadDir {
			dir = path.Dir(dir)
			seen, err = d.dir(dir)
		}
		if err != nil {
			return err
		}
		if !sameDevice(seen.info, top.info) {
			stage = path.Join(dir, name)
		}
		if !made[stage] {
			made[stage] = true
			r.stages = append(r.stages, stage)
		}
		if s.kind != stepRemove {
			s.temp = path.Join(dir, name+"-"+strconv.Itoa(i))
		}
		if s.kind != stepCreate {
			s.backup = stage + "/o" + strconv.Itoa(i)
		}
	}
	return nil
}

// openStages makes the staging directories and opens them.
func (b *book) openStages(r *record) (stages map[string]*os.Root, err error) {
	stages = map[string]*os.Root{}
	for _, dir := range r.stages {
		if err := b.root.Mkdir(dir, 0o700); err != nil {
			return stages, err
		}
		if stages[dir], err = b.root.OpenRoot(dir); err != nil {
			delete(stages, dir)
			return stages, err
		}
	}
	return stages, nil
}

// stage writes the new files. Until it is done the workspace's own files have
// not been touched.
func (b *book) stage(ctx context.Context, r *record) error {
	for _, s := range r.steps {
		if s.temp == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("apply the diff: %w", err)
		}
		dir, name, err := b.near.in(s.temp)
		if err != nil {
			return err
		}
		if err := stageFile(dir, name, s.out, r.sync); err != nil {
			return err
		}
	}
	if r.sync {
		return syncTree(b.root, r)
	}
	return nil
}

func stageFile(dir *os.Root, name string, out *outcome, sync bool) error {
	if out.isLink() {
		return dir.Symlink(out.data, name)
	}
	perm := fs.FileMode(0o666)
	if out.mode&0o100 != 0 {
		perm = 0o777
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteString(out.data)
	if err == nil && out.perm != 0 {
		err = f.Chmod(out.perm)
	}
	if err == nil && sync && !syncsWhole {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// run carries out the steps in order. One goroutine is enough: the file
// system's own locks leave nothing for a second one.
func (b *book) run(r *record, stages map[string]*os.Root) error {
	for i := range r.steps {
		if err := b.carryOut(r, i, stages); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) carryOut(r *record, i int, stages map[string]*os.Root) error {
	s := r.steps[i]
	switch s.kind {
	case stepRemove:
		if err := b.backUp(s, stages); err != nil {
			return err
		}
		return ignoreMissing(b.drop(s.path))
	case stepRmdir:
		b.near.close() // it may be this one
		err := b.root.Remove(s.path)
		switch {
		case !s.must:
			return nil // not empty, or in use
		case isNotEmpty(err):
			return &changedError{path: s.path, reason: "there is a directory with this name, which is not empty"}
		}
		return err
	case stepMkdir:
		if err := b.root.Mkdir(s.path, 0o777); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil // the next step would fail if it were no directory
	case stepReplace:
		if err := b.backUp(s, stages); err != nil {
			return err
		}
		return b.replace(s)
	case stepCreate:
		return b.place(r, i)
	}
	return fmt.Errorf("unknown step %q", s.kind)
}

// backUp gives the old file a second name, so that it stays in its place until
// the new one takes it. Where the file system has no hard links it is moved
// away.
func (b *book) backUp(s *step, stages map[string]*os.Root) error {
	err := b.link(s.path, s.backup)
	if err != nil {
		err = b.root.Rename(s.path, s.backup)
	}
	if err != nil {
		if isMissing(err) {
			return &changedError{path: s.path, reason: reasonChanged}
		}
		return err
	}
	now, err := stages[path.Dir(s.backup)].Lstat(path.Base(s.backup))
	if err != nil {
		return err
	}
	if !s.asSeen(now) {
		return &changedError{path: s.path, reason: reasonChanged}
	}
	return nil
}

// asSeen tells whether a file is the one that was read, unchanged.
func (s *step) asSeen(now fs.FileInfo) bool {
	return os.SameFile(now, s.seen) && now.Size() == s.seen.Size() && now.ModTime().Equal(s.seen.ModTime())
}

// drop removes a file.
func (b *book) drop(name string) error {
	dir, base, err := b.near.in(name)
	if err != nil {
		return err
	}
	return dir.Remove(base)
}

// replace puts the new file in the place of the old one, which has been backed
// up. Where the two can change places, what came away is looked at: if another
// program was quicker, its file is what an undo has to restore.
func (b *book) replace(s *step) error {
	dir, name, err := b.near.in(s.path)
	if err != nil {
		return err
	}
	staged := path.Base(s.temp) // in the same directory, since that is there
	if err := exchange(dir, staged, name); err != nil {
		return dir.Rename(staged, name) // the file system cannot, or the old one had to be moved away
	}
	old, err := dir.Lstat(staged)
	if err != nil || s.asSeen(old) {
		return err
	}
	if err := b.root.Rename(s.temp, s.backup); err != nil {
		return err
	}
	return &changedError{path: s.path, reason: reasonChanged}
}

// place puts a new file where there is none, and never over another that has
// appeared meanwhile: the staged file gets a second name. That also tells an
// undo whose file it is. Where the file system has no hard links the file is
// moved, and the journal has to say so.
func (b *book) place(r *record, i int) error {
	s := r.steps[i]
	err := b.link(s.temp, s.path)
	if err == nil {
		return nil
	}
	if _, statErr := b.root.Lstat(s.path); statErr == nil {
		return &changedError{path: s.path, reason: reasonExists}
	} else if !isMissing(statErr) {
		return errors.Join(err, statErr)
	}
	if err := b.note(journalMoved+" "+strconv.Itoa(i), r.sync); err != nil {
		return err
	}
	r.moved[i] = true
	return b.root.Rename(s.temp, s.path)
}
