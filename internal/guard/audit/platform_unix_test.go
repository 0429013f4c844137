//go:build unix

package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// runPlatformChild appends until a limit on the size of files stops it in the
// middle of a write, as a full disk does.
func runPlatformChild(role, dir string) error {
	if role != "full-disk" {
		return fmt.Errorf("unknown role %q", role)
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 5000, Max: 5000}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	l, err := Open(dir, Options{Redact: plain})
	if err != nil {
		return err
	}
	for range 100 {
		err := l.Append(context.Background(), Entry{Hook: HookPreTool, Input: strings.Repeat("x", 500)})
		var e *bridge.Error
		switch {
		case err == nil:
			continue
		case !errors.As(err, &e) || e.Code != bridge.CodeUnavailable:
			return fmt.Errorf("not a bridge error: %w", err)
		case !strings.Contains(e.Message, dir) || !strings.Contains(e.Message, "audit-") || !strings.Contains(e.Remedy, "Free some space"):
			return fmt.Errorf("not helpful: %s; %s", e.Message, e.Remedy)
		}
		// It stays so.
		if err := l.Append(context.Background(), Entry{Hook: HookPreTool}); err == nil {
			return errors.New("an entry was written to a full disk")
		}
		return nil
	}
	return errors.New("the disk was never full")
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := child(t, "full-disk", dir).Run(); err != nil {
		t.Fatal(err)
	}
	before := verify(t, dir)
	if !before.OK() || before.Repaired != 1 {
		t.Fatalf("after a full disk: %+v", before)
	}
	// When there is room again, entries are written again and tell what happened.
	l, err := Open(dir, Options{Redact: plain})
	if err != nil {
		t.Fatal(err)
	}
	appendEntries(t, l, 2)
	after := clean(t, dir, before.Entries+3)
	if after.Repaired != 1 {
		t.Errorf("%+v", after)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := openLog(t, dir, newClock())
	appendEntries(t, l, 1)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		// Permissions do not hold the superuser, but a file in the way does.
		parent := filepath.Join(t.TempDir(), "file")
		writeFile(t, parent, "")
		_, err := Open(filepath.Join(parent, "audit"), Options{Redact: plain})
		wantUnavailable(t, err, parent)
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{Redact: plain})
	wantUnavailable(t, err, dir)
}

func wantUnavailable(t *testing.T, err error, path string) {
	t.Helper()
	var e *bridge.Error
	if !errors.As(err, &e) || e.Code != bridge.CodeUnavailable || !strings.Contains(e.Message, path) || e.Remedy == "" {
		t.Errorf("error %v", err)
	}
}

func TestFileInTheWay(t *testing.T) {
	dir := t.TempDir()
	c := newClock()
	l := openLog(t, dir, c)
	appendEntries(t, l, 1)
	c.t = c.t.Add(24 * 3600e9)
	blocked := filepath.Join(dir, dayFile(c.t))
	if err := os.Symlink("/dev/full", blocked); err != nil {
		t.Fatal(err)
	}
	err := l.Append(t.Context(), Entry{Hook: HookPreTool})
	wantUnavailable(t, err, blocked)
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	appendEntries(t, l, 1)
	clean(t, dir, 2)
}
