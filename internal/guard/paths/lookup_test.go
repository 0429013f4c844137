package paths

import (
	"os"
	"path/filepath"
	"testing"
)

// A Lookup says what Resolve says, whatever the path.
func TestLookupIsResolve(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for _, name := range []string{"a.txt", "dir/a.txt", "dir/.hidden", "dir/sp ace", "dir/ä.txt", "dir/con.txt", "dir/%2e", "deep/er/x", "deep/er/y", "c:/x", "~/x", "sp /x", "ä/x", "file:/x", "$HOME/x", "nul/x"} {
		at := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "outside"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"dir/in": "../a.txt", "dir/out": "../../outside", "linked": "deep", "gone": "nowhere", "up": "..", "dir/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	l := w.Lookup()
	defer l.Close()
	paths := []string{"", ".", "..", "a.txt", "/a.txt", "./a.txt", "dir", "dir/", "dir/.", "dir/..", "dir/../a.txt", "dir//a.txt", "dir/a.txt", "dir/.hidden", "dir/sp ace", "dir/ä.txt",
		"dir/con.txt", "dir/%2e", "dir/in", "dir/out", "dir/loop", "dir/missing", "deep/er", "deep/er/x", "deep/er/y", "deep/./er/x", "deep/er/../er/x", "linked/er/x", "up/outside", "up/root/a.txt",
		"gone/x", "c:/x", "~/x", "sp /x", "ä/x", "file:/x", "$HOME/x", "nul/x", "missing/x", "dir\\a.txt", "dir/a.txt\x00", root + "/dir/a.txt"}
	for range 2 { // the second time with directories open
		for _, path := range paths {
			want, err := w.Resolve(path)
			rel, ok := l.Inside(path)
			if inside := err == nil && want.Inside; ok != inside || ok && rel != want.Rel {
				t.Errorf("%q: %q %v, want %q %v (%v)", path, rel, ok, want.Rel, inside, err)
			}
		}
	}
}

// A link that takes the place of a file, or of a directory that is not open, is
// followed as Resolve does.
func TestLookupSeesNewLinks(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for _, dir := range []string{"root/dir", "root/other", "outside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, dir, "x"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	l := w.Lookup()
	defer l.Close()
	if _, ok := l.Inside("dir/x"); !ok {
		t.Fatal("dir/x is outside")
	}
	replace := func(name, target string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	replace("dir/x", "../../outside/x")
	replace("other", "../outside")
	for _, path := range []string{"dir/x", "other/x"} {
		if rel, ok := l.Inside(path); ok {
			t.Errorf("%s is inside, as %s", path, rel)
		}
	}
}
