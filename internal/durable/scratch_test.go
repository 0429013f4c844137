package durable

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A directory goes with its process: by remove, or when the next is made after
// a kill. One that is in use stays.
func TestScratch(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", os.Getenv("TMPDIR"))
	used, remove, err := Scratch("test")
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(os.TempDir(), "copilot-bridge-test-1", "below")
	other := filepath.Join(os.TempDir(), "copilot-bridge-other-1")
	for _, dir := range []string{left, other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(left), scratchLock), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, removeSecond, err := Scratch("test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what a killed process left is still there: %v", err)
	}
	for _, dir := range []string{used, other} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if err := removeSecond(); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadDir(os.TempDir()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// Directories that are made at once are not taken for leftovers.
func TestScratchOfMany(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", os.Getenv("TMPDIR"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				dir, remove, err := Scratch("test")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(dir); err != nil {
					t.Error(err)
				}
				if err := remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
