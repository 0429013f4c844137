package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Scratch makes a temporary directory, and removes on the way those of the same
// kind that killed processes have left: each has a lock that its process holds.
// The kind is a word.
func Scratch(kind string) (dir string, remove func() error, err error) {
	prefix := "copilot-bridge-" + kind + "-"
	sweepScratch(prefix)
	for {
		if dir, err = os.MkdirTemp("", prefix); err != nil {
			return "", nil, err
		}
		held := flock.New(filepath.Join(dir, scratchLock))
		remove = func() error { return removeLocked(dir, held) }
		ok, err := held.TryLock()
		if _, gone := os.Lstat(held.Path()); ok && gone == nil {
			return dir, remove, nil
		}
		if err := errors.Join(err, remove()); err != nil {
			return "", nil, err
		} // another process saw the lock a moment too early
	}
}

const scratchLock = ".lock"

// sweepScratch removes directories whose locks are free. One without a lock is
// being made or removed. Those of other users cannot be removed, and stay.
func sweepScratch(prefix string) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		if info, err := os.Lstat(filepath.Join(dir, scratchLock)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		left := flock.New(filepath.Join(dir, scratchLock), flock.SetFlag(os.O_RDWR)) // does not make it
		if ok, err := left.TryLock(); err == nil && ok {
			_ = removeLocked(dir, left) // what stays does no harm
		}
	}
}

// removeLocked removes a directory before it is unlocked, so that the next
// holder of the lock finds it gone; and again afterwards, for systems that
// cannot remove open files.
func removeLocked(dir string, lock *flock.Flock) error {
	_ = os.RemoveAll(dir) // tried again below
	return errors.Join(lock.Close(), os.RemoveAll(dir))
}
