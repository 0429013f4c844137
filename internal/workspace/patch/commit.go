package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// commit carries the plan's steps out: all new files are written aside, then
// the journal lists the changes, then file by file is put in place.
// Old files are kept in the stage until all is done. If anything fails,
// everything is undone.
func (b *lockedJournal) commit(ctx context.Context, p *plan) error {
	if len(p.steps) == 0 {
		return nil
	}
	b.flush = p.opts.flush
	r := &record{Format: journalFormat, Steps: p.steps}
	if err := r.assignStages(p.disk); err != nil {
		return err
	}
	if err := b.add(&record{Format: r.Format, Stages: r.Stages}); err != nil {
		return errors.Join(err, b.remove())
	}
	defer b.closeStages()
	err := b.stage(ctx, r)
	if err == nil {
		p.sums()
		err = b.add(r.switches())
	}
	if err == nil {
		err = b.run(r)
	}
	if err == nil {
		err = b.add(&record{Done: true})
	}
	if err == nil {
		// What cannot be removed now is removed at the next start.
		_ = b.tidy(r)
		return nil
	}
	err = failed(err)
	var done Recovery
	if undoErr := b.undo(r, &done); undoErr != nil {
		// The journal stays, so that the next start tries again.
		return errors.Join(err, fmt.Errorf("and undoing it failed: %w", undoErr))
	}
	if len(done.Kept) > 0 {
		err = errors.Join(err, errors.New(done.String()))
	}
	return errors.Join(err, b.tidy(r))
}

func failed(err error) error {
	if _, changed := errors.AsType[*changedError](err); changed || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &bridge.Error{
		Code: bridge.CodeConflict, Message: "the workspace could not be written, and is as it was before",
		Remedy: "Check the permissions of the workspace and the space on its disk.", Cause: err,
	}
	if isReadOnly(err) {
		e.Message, e.Remedy = "the workspace is on a file system that is mounted read-only; nothing was changed", "Mount it for writing and try again."
	}
	return e
}

// stage writes the new files. Until it is done the workspace's own files have
// not been touched.
func (b *lockedJournal) stage(ctx context.Context, r *record) error {
	if err := b.openStages(r, true); err != nil {
		return err
	}
	for i, s := range r.Steps {
		if s.out == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("apply the diff: %w", err)
		}
		if err := b.stageFile(i, s); err != nil {
			return err
		}
	}
	return nil
}

// switches is what the journal has to know before the first file changes.
func (r *record) switches() *record {
	for _, s := range r.Steps {
		s.Name = []byte(s.path)
		if s.out != nil {
			s.Sum = s.out.change.SHA256
		}
	}
	return &record{Steps: r.Steps}
}

// run carries out the steps in order. One goroutine is enough: the file
// system's own locks leave nothing for a second one.
func (b *lockedJournal) run(r *record) error {
	for i, s := range r.Steps {
		if err := b.carryOut(i, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *lockedJournal) carryOut(i int, s *step) error {
	changed := &changedError{path: s.path, reason: reasonChanged}
	switch s.Kind {
	case stepRemove:
		st := b.stages[s.Stage]
		if err := b.root.Rename(s.path, st.path+"/"+oldName(i)); isMissing(err) {
			return changed
		} else if err != nil {
			return err
		}
		if now, err := st.Lstat(oldName(i)); err != nil || !same(now, s.seen) {
			return errors.Join(changed, err)
		}
		return nil
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
		st := b.stages[s.Stage]
		came, err := b.swap(i, st, newName(i), s.path)
		if isMissing(err) {
			return changed
		} else if err != nil {
			return err
		}
		// If another program was quicker, its file is what an undo restores.
		if now, err := st.Lstat(came); err != nil || !same(now, s.seen) {
			return errors.Join(changed, err)
		}
		return nil
	case stepCreate:
		err := b.place(b.stages[s.Stage], newName(i), s.path)
		if errors.Is(err, fs.ErrExist) {
			return &changedError{path: s.path, reason: reasonExists}
		}
		return err
	}
	return fmt.Errorf("unknown step %q", s.Kind)
}

// same tells whether a file is the one that was looked at, unchanged.
func same(now, seen fs.FileInfo) bool {
	return os.SameFile(now, seen) && now.Size() == seen.Size() && now.ModTime().Equal(seen.ModTime()) && now.Mode() == seen.Mode()
}
