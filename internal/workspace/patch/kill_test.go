package patch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bigDiff is a change of n files, there and back: most of them changed, some
// created, deleted and renamed, with directories that come and go.
func bigDiff(n int) (before, after tree, there, back string) {
	before, after = tree{}, tree{}
	var a, b strings.Builder
	text := func(i int, middle string) string {
		return fmt.Sprintf("file %d\none\ntwo\n%s\nfour\nfive\nend\n", i, middle)
	}
	lines := func(sign, text string) string {
		var out strings.Builder
		for line := range strings.Lines(text) {
			out.WriteString(sign + line)
		}
		return out.String()
	}
	hunk := func(from, to string) string {
		return fmt.Sprintf("@@ -2,5 +2,5 @@\n one\n two\n-%s\n+%s\n four\n five\n", from, to)
	}
	for i := range n {
		name := fmt.Sprintf("dir%d/sub%d/f%03d", i%17, i%3, i)
		old, changed := text(i, "three"), text(i, "changed")
		create := fmt.Sprintf("diff --git a/new%[1]d/%[2]s b/new%[1]d/%[2]s\nnew file mode 100644\n--- /dev/null\n+++ b/new%[1]d/%[2]s\n@@ -0,0 +1,7 @@\n%[3]s",
			i%7, name, lines("+", old))
		remove := fmt.Sprintf("diff --git a/new%[1]d/%[2]s b/new%[1]d/%[2]s\ndeleted file mode 100644\n--- a/new%[1]d/%[2]s\n+++ /dev/null\n@@ -1,7 +0,0 @@\n%[3]s",
			i%7, name, lines("-", old))
		moved := fmt.Sprintf("moved/%d/%s", i, name)
		newName := fmt.Sprintf("new%d/%s", i%7, name)
		switch i % 6 {
		case 0:
			after[newName] = entry{"file", old}
			a.WriteString(create)
			b.WriteString(remove)
		case 1:
			before[newName] = entry{"file", old}
			a.WriteString(remove)
			b.WriteString(create)
		case 2:
			before[name], after[moved] = entry{"file", old}, entry{"file", changed}
			fmt.Fprintf(&a, "diff --git a/%[1]s b/%[2]s\nrename from %[1]s\nrename to %[2]s\n--- a/%[1]s\n+++ b/%[2]s\n%[3]s", name, moved, hunk("three", "changed"))
			fmt.Fprintf(&b, "diff --git a/%[2]s b/%[1]s\nrename from %[2]s\nrename to %[1]s\n--- a/%[2]s\n+++ b/%[1]s\n%[3]s", name, moved, hunk("changed", "three"))
		default:
			before[name], after[name] = entry{"file", old}, entry{"file", changed}
			fmt.Fprintf(&a, "--- a/%[1]s\n+++ b/%[1]s\n%[2]s", name, hunk("three", "changed"))
			fmt.Fprintf(&b, "--- a/%[1]s\n+++ b/%[1]s\n%[2]s", name, hunk("changed", "three"))
		}
	}
	return before, after, a.String(), b.String()
}

const killFiles = 300

// applyForever is the child: it applies the two diffs in turn and tells before
// each.
func applyForever(base string) error {
	root, err := os.OpenRoot(filepath.Join(base, "workspace"))
	if err != nil {
		return err
	}
	_, _, there, back := bigDiff(killFiles)
	opts := Options{Journal: filepath.Join(base, "journal")}
	for fails := 0; ; {
		for _, diff := range []string{there, back} {
			if _, err := fmt.Println("go"); err != nil {
				return err
			}
			res, err := Apply(context.Background(), root, diff, opts)
			if err != nil {
				return err
			}
			if res.OK {
				fails = 0
			} else if fails++; fails > 2 {
				return fmt.Errorf("neither diff fits: %v", res.Conflicts[0])
			}
		}
	}
}

// TestKilled kills a process that applies diffs without pause, at random
// points. After Recover there is the old or the new tree, and nothing else.
func TestKilled(t *testing.T) {
	const rounds = 30
	base := scratch(t)
	dir, journal := filepath.Join(base, "workspace"), filepath.Join(base, "journal")
	before, after, _, _ := bigDiff(killFiles)
	before.write(t, dir)
	root := open(t, dir)
	rnd := rand.New(rand.NewPCG(5, 11))
	var took time.Duration
	var hit, olds, news int
	for round := range rounds {
		// The first round also measures how long an application takes, so that
		// the kills fall into all of it.
		turns := 2 + rnd.IntN(2)
		if round == 0 {
			turns = 5
		}
		killChild(t, base, &took, time.Duration(rnd.Int64N(int64(max(took, time.Millisecond)))), turns)
		left, err := filepath.Glob(filepath.Join(journal, "*.journal"))
		if err != nil {
			t.Fatal(err)
		}
		hit += len(left)
		if err := Recover(t.Context(), root, journal); err != nil {
			t.Fatal(err)
		}
		now := readTree(t, dir)
		switch o, n := before.diff(now), after.diff(now); {
		case o == "":
			olds++
		case n == "":
			news++
		default:
			t.Fatalf("round %d: neither the old tree:\n%.2000s\nnor the new one:\n%.2000s", round, o, n)
		}
		if left, err = filepath.Glob(filepath.Join(journal, "*.journal")); err != nil || len(left) > 0 {
			t.Fatalf("journal left: %q %v", left, err)
		}
	}
	t.Logf("%d kills, %d of them while the workspace was being changed; then %d times the old tree, %d times the new one", rounds, hit, olds, news)
	if hit == 0 {
		t.Errorf("none of %d kills hit: the test has lost its point", rounds)
	}
}

// killChild starts a child and kills it some time after it began to apply a
// diff for the last of the given turns. The first turn may only find out which
// of the two trees there is.
func killChild(t *testing.T, base string, took *time.Duration, after time.Duration, turns int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childDir+"="+base)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for turn := range turns {
		began := time.Now()
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatalf("the child ended: %v", err)
		}
		if turn > 1 { // not the start of the process
			*took = max(*took, time.Since(began))
		}
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the child was not killed: %v", err)
	}
}
