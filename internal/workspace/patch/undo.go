package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

func isNotEmpty(err error) bool {
	// Some systems say that it exists.
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist)
}

// undo takes back the steps, last first. It looks at the workspace to see
// which were carried out, so it may be called at any time and again.
func (b *book) undo(r *record) error {
	for i := len(r.steps) - 1; i >= 0; i-- {
		if err := b.undoStep(r.steps[i], r.moved[i]); err != nil {
			return fmt.Errorf("restore %s: %w", printable(r.steps[i].path), err)
		}
	}
	return nil
}

func (b *book) undoStep(s *step, moved bool) error {
	switch s.kind {
	case stepRemove, stepReplace:
		// Nothing happens here if both are names of one file, which is right.
		if _, err := b.root.Lstat(s.backup); err != nil {
			return ignoreMissing(err)
		}
		return b.root.Rename(s.backup, s.path)
	case stepRmdir:
		if _, err := b.root.Lstat(s.path); !isMissing(err) {
			return err
		}
		if err := b.root.Mkdir(s.path, s.perm); err != nil {
			return err
		}
		return b.root.Chmod(s.path, s.perm)
	case stepMkdir:
		// It may not have been made yet, and a file that is still to be moved
		// away stand there.
		info, err := b.root.Lstat(s.path)
		if err != nil || !info.IsDir() {
			return ignoreMissing(err)
		}
		if err := b.root.Remove(s.path); err != nil && !isMissing(err) && !isNotEmpty(err) {
			return err
		}
		return nil
	case stepCreate:
		made, err := b.root.Lstat(s.path)
		if err != nil {
			return ignoreMissing(err)
		}
		staged, err := b.root.Lstat(s.temp)
		if err == nil && os.SameFile(made, staged) || isMissing(err) && moved {
			return b.root.Remove(s.path)
		}
		return ignoreMissing(err)
	}
	return fmt.Errorf("unknown step %q", s.kind)
}

// tidy removes what was only needed meanwhile. The journal goes last.
func (b *book) tidy(r *record) error {
	defer b.near.close()
	for _, s := range r.steps {
		if s.temp == "" {
			continue
		}
		if err := ignoreMissing(b.drop(s.temp)); err != nil {
			return fmt.Errorf("remove %s: %w", printable(s.temp), err)
		}
	}
	for _, dir := range r.stages {
		if err := b.root.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return b.remove()
}
