package paths

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What the quick way answers is what the walk would have.
func TestStraight(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/b", "out"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "a/b/f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"a/file": "b/f", "a/dir": "b", "a/up": "../../out", "a/loop": "loop", "a/none": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := New(filepath.Join(root, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	var answered []string
	for _, name := range []string{"", "b", "b/", "b/f", "b//f", "./b/./f", "b/f/", "b/../b/f", "file", "dir", "dir/f", "up", "up/x", "loop", "none", "missing", "b/missing", "b/f/x"} {
		abs := w.root + "/" + name
		got, ok := straight(abs)
		if !ok {
			continue
		}
		answered = append(answered, name)
		want, err := w.follow(name, abs)
		if err != nil || got != want || want.links > 0 || !want.exists {
			t.Errorf("%q: got %+v, want %+v, %v", name, got, want, err)
		}
	}
	// Kernels before 5.6, and some sandboxes, have no such call.
	if _, err := unix.Openat2(unix.AT_FDCWD, root+"/none", &unix.OpenHow{Flags: unix.O_PATH}); !errors.Is(err, unix.ENOENT) {
		t.Logf("there is no quick way here: %v", err)
		return
	}
	if want := []string{"", "b", "b/", "b/f", "b//f", "./b/./f"}; !slices.Equal(answered, want) {
		t.Errorf("answered %q, want %q", answered, want)
	}
}
