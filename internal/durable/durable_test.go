package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestWriteFile(t *testing.T) {
	tests := []struct {
		name string
		path string
		old  string
		data string
	}{
		{name: "new file", path: "f", data: "hello"},
		{name: "replaces", path: "f", old: "a longer old text", data: "new"},
		{name: "empty data", path: "f", old: "old", data: ""},
		{name: "missing parents", path: "a/b/c/f", data: "deep"},
		{name: "star in the name", path: "a*b", data: "star"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.path, "*") && filepath.Separator == '\\' {
				tt.path = "ab" // Windows has no such names
			}
			path := filepath.Join(t.TempDir(), filepath.FromSlash(tt.path))
			if tt.old != "" {
				mustWrite(t, path, tt.old)
			}
			if err := WriteFile(path, []byte(tt.data), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.data {
				t.Errorf("read %q, want %q", got, tt.data)
			}
			if got := names(t, filepath.Dir(path)); len(got) != 1 {
				t.Errorf("directory holds %q, want the file alone", got)
			}
		})
	}
}

func TestWriteFileRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := WriteFile("f", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, "."); !slices.Equal(got, []string{"f"}) {
		t.Errorf("directory holds %q", got)
	}
}

func TestWriteFileFailureLeavesNoLitter(t *testing.T) {
	t.Run("target is a directory", func(t *testing.T) {
		dir := t.TempDir()
		target := filepath.Join(dir, "f")
		if err := os.Mkdir(target, 0o700); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(target, "inside"), "kept")
		err := WriteFile(target, []byte("x"), 0o600)
		if err == nil || !strings.Contains(err.Error(), target) {
			t.Errorf("error %v, want one that names %s", err, target)
		}
		if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
			t.Errorf("directory holds %q", got)
		}
		if got := names(t, target); !slices.Equal(got, []string{"inside"}) {
			t.Errorf("target holds %q", got)
		}
	})
	t.Run("parent is a file", func(t *testing.T) {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, "file"), "kept")
		if err := WriteFile(filepath.Join(dir, "file", "f"), []byte("x"), 0o600); err == nil {
			t.Error("no error")
		}
		if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
			t.Errorf("directory holds %q", got)
		}
	})
}

func TestStaleTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-staleAfter - time.Minute)
	files := []struct {
		name  string
		mtime time.Time
		kept  bool
	}{
		{name: ".f.durable-123", mtime: old, kept: false},
		{name: ".f.durable-4567890", mtime: old, kept: false},
		{name: ".f.durable-124", mtime: time.Now().Add(-staleAfter + time.Minute), kept: true},
		{name: ".f.durable-125", mtime: time.Now().Add(time.Hour), kept: true},
		{name: ".f.durable-", mtime: old, kept: true},
		{name: ".f.durable-notes", mtime: old, kept: true},
		{name: ".f.durable-1.durable-2", mtime: old, kept: true},
		{name: ".g.durable-123", mtime: old, kept: true},
		{name: "f.durable-123", mtime: old, kept: true},
	}
	want := []string{"f"}
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		mustWrite(t, path, "litter")
		if err := os.Chtimes(path, file.mtime, file.mtime); err != nil {
			t.Fatal(err)
		}
		if file.kept {
			want = append(want, file.name)
		}
	}
	staleDir := filepath.Join(dir, ".f.durable-999")
	if err := os.Mkdir(staleDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(staleDir, old, old); err != nil {
		t.Fatal(err)
	}
	want = append(want, filepath.Base(staleDir))

	if err := WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("directory holds %q, want %q", got, want)
	}
}

func TestConcurrentWritersAndReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteFile(path, versioned(1), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for i := range 5 {
				if err := WriteFile(path, versioned(1+writer*5+i), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				data, err := ReadFile(path)
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := checkVersioned(data); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("directory holds %q", got)
	}
}

// A full disk is told as one.
func TestFault(t *testing.T) {
	for cause, want := range map[error]string{syscall.ENOSPC: "the disk of /home/x is full", syscall.EDQUOT: "the disk of /home/x is full", syscall.EROFS: "read-only", syscall.EACCES: "permit", syscall.EIO: ""} {
		err := fault("write", "/home/x/state", &fs.PathError{Op: "open", Path: "/home/x/state", Err: cause})
		var e *bridge.Error
		if told := errors.As(err, &e); told != (want != "") || told && (e.Code != bridge.CodeUnavailable || !strings.Contains(e.Message, want) || !strings.Contains(e.Message+e.Remedy, "/home/x") || e.Remedy == "") || !errors.Is(err, cause) {
			t.Errorf("%v: %#v", cause, err)
		}
	}
}
