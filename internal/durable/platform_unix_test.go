//go:build unix

package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func runPlatformChild(role, path string) error {
	if role != "full-disk" {
		return fmt.Errorf("unknown role %q", role)
	}
	// A limit on the size of files fails a write in its middle, as a full
	// disk does, and needs no disk of one's own.
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	err := WriteFile(path, make([]byte, 3*4096), 0o600)
	switch {
	case err == nil:
		return errors.New("a write past the limit succeeded")
	case !errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("not the error of a write past the limit: %w", err)
	default:
		return nil
	}
}

func TestFullDiskKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	mustWrite(t, path, "old")
	if err := child(t, "full-disk", path).Run(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "old" {
		t.Errorf("file holds %d bytes, want the old ones", len(got))
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("directory holds %q", got)
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "f")
	for _, perm := range []fs.FileMode{0o600, 0o644, 0o666} {
		if err := WriteFile(path, []byte("x"), perm); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, path); got != perm {
			t.Errorf("file has mode %v, want %v", got, perm)
		}
	}
	for _, made := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")} {
		if got := mode(t, made); got != 0o700 {
			t.Errorf("%s has mode %v, want 0700", made, got)
		}
	}

	lock := filepath.Join(dir, "c", "lock")
	unlock, err := Lock(t.Context(), lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{lock, lock + ".queue"} {
		if got := mode(t, made); got != 0o600 {
			t.Errorf("%s has mode %v, want 0600", made, got)
		}
	}
	if got := mode(t, filepath.Dir(lock)); got != 0o700 {
		t.Errorf("its directory has mode %v, want 0700", got)
	}
}

func TestSymbolicLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "real"), "kept")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"real": "kept", "link": "new"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// A pipe that nobody writes to is refused, and not waited for.
func TestReadPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || err.Error() != "read "+path+": it is a named pipe, not a file" {
		t.Errorf("%v", err)
	}
}
