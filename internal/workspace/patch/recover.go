package patch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Recovery is what became of an application that was interrupted.
type Recovery struct {
	Restored  int      // how many files are again what they were before
	Kept      []string // files that were changed since; they were left alone
	Originals string   // the directory with what those were before, "" if there is none
	SetAside  string   // where a journal is now that cannot be understood
}

// String is a message for people, "" if there is nothing to tell.
func (r Recovery) String() string {
	var out []string
	if r.SetAside != "" {
		out = append(out, "The record of an interrupted patch cannot be understood, and was set aside as "+r.SetAside+
			". The workspace may be half changed; files named "+StagePattern+" in it hold what it was before.")
	}
	if r.Restored > 0 {
		out = append(out, fmt.Sprintf("An interrupted patch was undone: %s restored.", were(r.Restored)))
	}
	if n := len(r.Kept); n > 0 {
		names := make([]string, min(n, 5))
		for i := range names {
			names[i] = printable(r.Kept[i])
		}
		if n > len(names) {
			names = append(names, "…")
		}
		out = append(out, fmt.Sprintf("%s left alone, having changed since the patch was interrupted: %s.", were(n), strings.Join(names, ", ")))
	}
	if r.Originals != "" {
		out = append(out, "Their contents from before the patch are in "+r.Originals+".")
	}
	return strings.Join(out, " ")
}

func were(n int) string {
	if n == 1 {
		return "1 file was"
	}
	return text.Plural(n, "file") + " were"
}

// Recover undoes an application that was interrupted by the end of its
// process, and removes what it left behind. Call it when a workspace is
// opened; without anything to undo it does nothing. A file is restored only if
// it still is what the application wrote. Otherwise it is left alone, and what
// it was before is saved beside the journal. An error says why there is still
// something to undo: the next call tries again, and until then Apply refuses.
// It waits for a running Apply on the same workspace until ctx ends.
func Recover(ctx context.Context, root *os.Root, journal string) (Recovery, error) {
	file, err := journalFile(root, journal)
	if err != nil {
		return Recovery{}, err
	}
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return Recovery{}, nil
	}
	book, done, err := openJournal(ctx, root, journal)
	if err != nil {
		return done, err
	}
	return done, book.close()
}

// recover puts the workspace in order after a crash.
func (b *lockedJournal) recover() (done Recovery, err error) {
	text, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	var r *record
	if err == nil {
		if r, err = readJournal(string(text)); err != nil {
			done.SetAside = strings.TrimSuffix(b.path, ".journal") + time.Now().UTC().Format("-20060102-150405") + ".unreadable"
			return done, os.Rename(b.path, done.SetAside)
		}
		if len(r.Steps) > 0 && !r.Done {
			err = b.openStages(r, false)
			if err == nil {
				err = b.undo(r, &done)
			}
			b.closeStages()
		}
	}
	if err == nil {
		err = b.tidy(r)
	}
	if err == nil {
		return done, nil
	}
	e := &bridge.Error{Code: bridge.CodeConflict, Message: "a patch of this workspace was interrupted, and could not be undone yet; until then files can be read but not patched",
		Remedy: "Check the permissions of the workspace and the space on its disk and on that of " + filepath.Dir(b.path) + ". The next start tries again.", Cause: err}
	if isReadOnly(err) {
		e.Remedy = "It is mounted read-only. Mount it for writing and start again."
	}
	return done, e
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

func isNotEmpty(err error) bool {
	// Some systems say that it exists.
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist)
}

// undo takes back the steps, last first, and notes that it has. It looks at the
// workspace to see which were carried out, so it may be called at any time and
// again.
func (b *lockedJournal) undo(r *record, done *Recovery) error {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if err := b.undoStep(i, r.Steps[i], done); err != nil {
			return fmt.Errorf("restore %s: %w", printable(r.Steps[i].path), err)
		}
	}
	return b.add(&record{Done: true})
}

func (b *lockedJournal) undoStep(i int, s *step, done *Recovery) error {
	var st *stage
	if s.Stage < len(b.stages) {
		st = b.stages[s.Stage]
	}
	switch s.Kind {
	case stepRmdir:
		b.near.close()
		if b.root.Mkdir(s.path, 0o700) == nil {
			return b.root.Chmod(s.path, s.Perm.Perm())
		}
		return nil // it is there, or what should be in it will say that it is not
	case stepMkdir:
		b.near.close()
		if info, err := b.root.Lstat(s.path); err == nil && info.IsDir() {
			if err := b.root.Remove(s.path); err != nil && !isMissing(err) && !isNotEmpty(err) {
				return err
			}
		}
		return nil
	case stepCreate:
		return b.undoCreate(i, s, st, done)
	case stepRemove, stepReplace:
		if st != nil {
			return b.undoSwitch(i, s, st, done)
		}
		// The stage was removed by hand.
		if _, isNew := s.isNew(b.root, s.path); isNew {
			done.Kept = append(done.Kept, s.path)
		}
		return nil
	}
	return fmt.Errorf("unknown step %q", s.Kind)
}

// undoCreate takes a new file away again, unless it was changed.
func (b *lockedJournal) undoCreate(i int, s *step, st *stage, done *Recovery) error {
	now, isNew := s.isNew(b.root, s.path)
	if now == nil {
		return nil
	}
	if st != nil {
		if staged, err := st.Lstat(newName(i)); err == nil {
			if !os.SameFile(now, staged) {
				return nil // it was not carried out
			}
			if isNew {
				return b.root.Remove(s.path)
			}
		}
	}
	if st == nil || !isNew {
		done.Kept = append(done.Kept, s.path)
		return nil
	}
	if err := b.root.Rename(s.path, st.path+"/"+newName(i)); err != nil {
		return err
	}
	if came, err := st.Lstat(newName(i)); err != nil || !same(came, now) {
		return errors.Join(err, b.place(st, newName(i), s.path)) // another program was quicker
	}
	done.Restored++
	return nil
}

// undoSwitch puts the old file back in its place, if the present file is the one that the
// application put there.
func (b *lockedJournal) undoSwitch(i int, s *step, st *stage, done *Recovery) error {
	old, moved := b.original(i, s, st)
	if old == "" {
		return nil // it was not carried out
	}
	before, err := st.Lstat(old)
	if err != nil {
		return err
	}
	now, isNew := s.isNew(b.root, s.path)
	switch {
	case now == nil && (s.Kind == stepRemove || moved):
		err = b.place(st, old, s.path)
	case now != nil && os.SameFile(now, before):
		return nil
	case isNew && s.Kind == stepReplace:
		var came string
		came, err = b.swap(i, st, old, s.path)
		if err == nil {
			if away, statErr := st.Lstat(came); statErr == nil && !same(away, now) {
				_, err = b.swap(i, st, came, s.path) // another program was quicker
				err = errors.Join(err, fs.ErrExist)
			}
		}
	case now != nil && sumOf(b.root, s.path, now) == sumOf(st.Root, old, before):
		return nil // it was restored by hand
	default:
		err = fs.ErrExist
	}
	if err == nil {
		done.Restored++
		return nil
	}
	if isReadOnly(err) {
		return err
	}
	return b.keep(s, st, old, before, done)
}

// original finds the old file of a step in the stage; "" if the step was not
// carried out. moved says that the new file has not taken its place yet.
func (b *lockedJournal) original(i int, s *step, st *stage) (name string, moved bool) {
	staged, isNew := s.isNew(st.Root, newName(i))
	if _, err := st.Lstat(oldName(i)); err == nil {
		return oldName(i), staged != nil
	}
	if staged != nil && !isNew {
		return newName(i), false
	}
	return "", false
}

// keep saves what a file was before in a directory beside the journal.
func (b *lockedJournal) keep(s *step, st *stage, old string, info fs.FileInfo, done *Recovery) error {
	dir := filepath.Join(filepath.Dir(b.path), "kept", strings.TrimPrefix(path.Base(path.Dir(st.path)), stagePrefix))
	to := filepath.Join(dir, filepath.FromSlash(s.path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := st.Readlink(old)
		if err == nil {
			err = os.Symlink(target, to)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	} else if err := copyOut(st.Root, old, to); err != nil {
		return err
	}
	done.Kept, done.Originals = append(done.Kept, s.path), dir
	return nil
}

func copyOut(from *os.Root, name, to string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // nothing was written
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// isNew looks at a file and tells whether it is what the step wrote. now is nil
// if there is none.
func (s *step) isNew(root *os.Root, name string) (now fs.FileInfo, is bool) {
	now, err := root.Lstat(name)
	if err != nil {
		return nil, false
	}
	return now, s.Sum != "" && now.Mode().Type() == s.Perm.Type() && (s.Perm.Type() != 0 || now.Mode() == s.Perm) && sumOf(root, name, now) == s.Sum
}

// sumOf is the SHA-256 of a file or of a link's target, "" if it is neither or
// cannot be read.
func sumOf(root *os.Root, name string, info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err := root.Readlink(name); err == nil {
			return sum(target)
		}
	case info.Mode().IsRegular():
		f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
		if err != nil {
			return ""
		}
		defer func() { _ = f.Close() }() // nothing was written
		h := sha256.New()
		if _, err := io.Copy(h, f); err == nil {
			return hex.EncodeToString(h.Sum(nil))
		}
	}
	return ""
}
