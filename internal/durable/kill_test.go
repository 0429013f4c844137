package durable

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestKilledWriter kills a process that writes without pause, again and
// again. What it had been told is written must be there, whole; what it was
// writing may be there, but then whole too.
func TestKilledWriter(t *testing.T) {
	const rounds = 15
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	litter := 0
	for round := range rounds {
		acknowledged := killAfter(t, path, 1+round%3, round%2 == 0)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		version, err := checkVersioned(data)
		if err != nil {
			t.Fatal(err)
		}
		// The rename of one more version may have happened before its
		// acknowledgement.
		if version != acknowledged && version != acknowledged+1 {
			t.Fatalf("file has version %d, but %d was acknowledged last", version, acknowledged)
		}
		litter = len(names(t, dir)) - 1
	}
	if litter == 0 {
		t.Errorf("none of %d kills hit a write: the test has lost its point", rounds)
	}
	t.Logf("%d kills left %d temporary files", rounds, litter)

	// Fresh leftovers might belong to a live writer and stay; aged ones go.
	old := time.Now().Add(-2 * staleAfter)
	for _, name := range names(t, dir) {
		if name == "f" {
			continue
		}
		if !strings.HasPrefix(name, tempPrefix(path)) {
			t.Errorf("unexpected file %q", name)
		}
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(path, versioned(1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("after the next write the directory holds %q", got)
	}
}

// killAfter starts a writer, kills it once it has acknowledged the given
// number of writes, either at once or when the next write is under way, and
// returns the last version it acknowledged.
func killAfter(t *testing.T, path string, writes int, midWrite bool) int {
	t.Helper()
	before := len(names(t, filepath.Dir(path)))
	cmd := child(t, "write", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last, seen := 0, 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if seen++; seen == writes {
			deadline := time.Now().Add(30 * time.Second)
			for midWrite && len(names(t, filepath.Dir(path))) <= max(before, 1) {
				if time.Now().After(deadline) {
					t.Fatal("no write was ever under way")
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer ended by itself")
	}
	if seen < writes {
		t.Fatalf("the writer died after %d writes, before it was killed", seen)
	}
	return last
}
