package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/patch"
)

const patchFiles = 1000

// patchTree creates a repository with many files, and two diffs: forward and
// back. Most files are changed; some are created, deleted or renamed.
func patchTree(b *testing.B) (dir, there, back string) {
	b.Helper()
	dir = b.TempDir()
	git := func(args ...string) string {
		b.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("pkg%02d/sub%d/file%04d.go", i%40, i%3, i)) }
	text := func(i int) []byte {
		var t bytes.Buffer
		for line := range 150 {
			fmt.Fprintf(&t, "func f%d_%d() int { return %d } // some text to make the line longer\n", i, line, line*i)
		}
		return t.Bytes()
	}
	write := func(path string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	remove := func(path string) {
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
	for i := range patchFiles {
		if i%10 != 1 {
			write(name(i), text(i))
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "one")
	for i := range patchFiles {
		changed := bytes.Replace(text(i), []byte("_75()"), []byte("_changed()"), 1)
		switch i % 10 {
		case 1:
			write(name(i), text(i))
		case 2:
			remove(name(i))
		case 3:
			remove(name(i))
			write(strings.Replace(name(i), "file", "moved", 1), changed)
		default:
			write(name(i), changed)
		}
	}
	git("add", "-A")
	there = git("diff", "--cached", "--binary", "-M", "HEAD")
	back = git("diff", "--cached", "--binary", "-M", "-R", "HEAD")
	return dir, there, back
}

// BenchmarkPatch compares applying a diff of 1,000 files with git apply, at
// most twice its time. git's time includes its start; ours is a function call.
func BenchmarkPatch(b *testing.B) {
	dir, there, back := patchTree(b)
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	journal := b.TempDir()
	git := func(diff string) time.Duration { return gitApply(b, dir, diff) }
	ours := func(diff string) time.Duration {
		began := time.Now()
		res, err := patch.Apply(context.Background(), root, diff, patch.Options{Journal: journal})
		if err != nil || !res.OK {
			b.Fatalf("%v %v", err, res.Conflicts)
		}
		return time.Since(began)
	}
	for b.Loop() {
		var x, y []time.Duration
		// git applies both diffs, which restores the state at the start of the
		// round.
		git(back)
		for range 6 {
			x = append(x, git(there), git(back))
			y = append(y, ours(there), ours(back))
		}
		git(there)
		bare := percentile(x, 0.5)
		took := percentile(y, 0.5)
		ratio := float64(took) / float64(bare)
		report("diff of 1,000 files", ms(bare), ms(took), fmt.Sprintf("%.2f×", ratio), "≤ 2×", ratio <= 2)
	}
}

// gitApply applies a diff with git and returns the time it took.
func gitApply(b *testing.B, dir, diff string) time.Duration {
	b.Helper()
	cmd := exec.Command("git", "apply", "--whitespace=nowarn")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(diff)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git apply: %v\n%s", err, out)
	}
	return time.Since(began)
}
