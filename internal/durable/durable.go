// Package durable writes small files that survive crashes and are shared by
// many processes: a file is always a complete old or a complete new version,
// and a lock file makes read-modify-write safe. It is not a database: it knows
// nothing of what the files hold. The packages that keep state in the bridge's
// home call it, such as internal/sessionstore, internal/guard/audit and
// internal/orchestrate.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// staleAfter is the age past which a temporary file cannot belong to a live
// writer: a write takes well under a second, so an hour leaves room for
// suspended machines and modest clock skew on shared file systems.
const staleAfter = time.Hour

// WriteFile replaces the file at path with data, atomically and durably: when
// it returns nil, a reader sees all of data even after a power cut; when the
// process dies half-way, a reader sees the old file. The mode is exactly
// perm, whatever the umask. A missing parent directory is created with mode
// 0700. A symbolic link at path is replaced, not followed.
//
// A failed write leaves the old file and no temporary file, with one
// exception: if only the final flush of the directory fails, the new file is
// in place but might not outlive a power cut.
//
// WriteFile may be called concurrently, from any number of processes; the
// last one wins. To base new contents on old ones, hold a Lock around both.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	if err := replaceContents(path, data, perm, true); err != nil {
		return fault("write", path, err)
	}
	return nil
}

// Replace is WriteFile for what is written often and may be lost: readers see
// the old file or the new one, but after a power cut it may be empty.
func Replace(path string, data []byte, perm fs.FileMode) error {
	if err := replaceContents(path, data, perm, false); err != nil {
		return fault("write", path, err)
	}
	return nil
}

// fault words an error. What a person can mend is said to them.
func fault(verb, path string, err error) error {
	err = fmt.Errorf("%s %s: %w", verb, path, err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return bridge.DiskFull(filepath.Dir(path), err)
	}
	for cause, why := range map[error]string{syscall.EROFS: "it is on a file system that is mounted read-only", fs.ErrPermission: "the system does not permit it"} {
		if errors.Is(err, cause) {
			return &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("cannot %s %s: %s", verb, path, why),
				Remedy: "Make " + filepath.Dir(path) + " writable, and try again.", Cause: err}
		}
	}
	return err
}

// ReadFile is os.ReadFile for a file that a WriteFile elsewhere may be
// replacing at this moment, which on Windows makes plain reads fail for an
// instant. It needs no lock.
func ReadFile(path string) ([]byte, error) {
	var data []byte
	err := retryWhileReplaced(func() (err error) {
		if err = RefusePipe(path); err == nil {
			data, err = os.ReadFile(path)
		}
		return err
	})
	return data, err
}

// RefusePipe returns an error if path is a named pipe: opening one without a writer
// blocks for ever, and no signal ends it.
func RefusePipe(path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("it is a named pipe, not a file")}
	}
	return nil
}

func replaceContents(path string, data []byte, perm fs.FileMode, flush bool) error {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return err
	}
	prefix := tempPrefix(path)
	if flush {
		// Before the write, so that litter never keeps a full disk full. It
		// reads the whole directory, which is too much for what is written often.
		removeStale(dir, prefix)
	}

	tmp, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return err
	}
	err = fill(tmp, data, perm, flush)
	if err == nil {
		err = retryWhileReplaced(func() error { return os.Rename(tmp.Name(), path) })
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	if !flush {
		return nil
	}
	return syncDir(dir)
}

// fill writes, flushes and closes f. The flush comes before the rename on
// purpose: otherwise a power cut may leave the new name on an empty file.
func fill(f *os.File, data []byte, perm fs.FileMode, flush bool) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(perm.Perm())
	}
	if err == nil && flush {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func tempPrefix(path string) string {
	return "." + filepath.Base(path) + ".durable-"
}

// removeStale deletes what killed writers of the same target left behind. It
// is best effort: litter that cannot be removed must not stop a write, and
// another process may be removing the same files.
func removeStale(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		random, ours := strings.CutPrefix(entry.Name(), prefix)
		if !ours || !isDigits(random) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		_ = os.Remove(filepath.Join(dir, entry.Name()))
	}
}

// isDigits tells the random part that os.CreateTemp appends from the rest of
// a longer name, which would be another target's temporary file.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// makeDir is os.MkdirAll with mode 0700 that also flushes each parent in
// which it made an entry; without that a power cut could take the new
// directory, and the file in it, away again.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("exists and is not a directory")}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := makeDir(parent); err != nil {
		return err
	}
	// Another process may have made it in the meantime.
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}
