//go:build unix

package files

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What a listing has to leave out it does not hide.
func TestListMissing(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if err := root.WriteFile("a.txt", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(what string, cut bool) {
		t.Helper()
		got, err := List(t.Context(), root, ListOptions{})
		if err != nil || !slices.Contains(got.Files, "a.txt") || got.Truncated != cut {
			t.Errorf("%s: %d files, truncated %v, %v", what, len(got.Files), got.Truncated, err)
		}
	}
	check("nothing is wrong", false)

	// A tree that is deeper than a path can say.
	at, err := root.OpenRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 200)
	for range 30 {
		if err := at.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = at.Close()
		at = next
	}
	if err := at.WriteFile("b.txt", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = at.Close()
	check("a path is too long", true)
	if err := root.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	check("the long path is gone", false)

	if os.Getuid() == 0 {
		return // everything can be read
	}
	if err := root.Mkdir("shut", 0o000); err != nil {
		t.Fatal(err)
	}
	check("a directory cannot be read", true)
}
