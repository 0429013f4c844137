//go:build unix

package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// New, changed and removed files are told; a file that stays as
// it is, what git ignores and what may not be seen is not.
func TestChanged(t *testing.T) {
	b := newBench(t, rules, policy.DefaultsRun())
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(".git/HEAD", "ref: refs/heads/main\n")
	put(".gitignore", "*.log\n")
	put("gone.txt", "x")
	put("src/old.go", "package x\n")
	before, src := b.Snapshot(t.Context(), b.dir), b.Snapshot(t.Context(), filepath.Join(b.dir, "src"))
	put("a.txt", "one\ntwo\nthree\n")
	put("new/deep/b.txt", "x")
	put(".github/workflows/ci.yml", "x")
	put("build.log", "x")
	put(".git/index", "x")
	put(".env", "KEY=changed\n")
	put("src/x.go", "package y\n") // as long as before
	later := time.Now().Add(time.Minute)
	for path, err := range map[string]error{
		"gone":  os.Remove(filepath.Join(b.dir, "gone.txt")),
		"mode":  os.Chmod(filepath.Join(b.dir, "Makefile"), 0o700),
		"stamp": os.Chtimes(filepath.Join(b.dir, "src/x.go"), later, later),
	} {
		if err != nil {
			t.Fatal(path, err)
		}
	}
	want := []string{".github/workflows/ci.yml", "Makefile", "a.txt", "gone.txt", "new/deep/b.txt", "src/x.go"}
	if got := b.Changed(before, b.Snapshot(t.Context(), b.dir)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := b.Changed(src, b.Snapshot(t.Context(), filepath.Join(b.dir, "src"))); !slices.Equal(got, []string{"src/x.go"}) {
		t.Errorf("below a directory: %q", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for what, dir := range map[string]string{"nowhere": filepath.Join(b.dir, "nowhere"), "too late": b.dir} {
		ctx := t.Context()
		if what == "too late" {
			ctx = ended
		}
		if s := b.Snapshot(ctx, dir); s != nil || b.Changed(before, s) != nil || b.Changed(s, before) != nil {
			t.Errorf("%s: %d files", what, len(s))
		}
	}
}
