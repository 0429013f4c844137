package patch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// person plays a user who continues to work after a crash.
type person struct {
	*rand.Rand
	dir  string
	repo git
	done map[string]entry // what became of files; no kind: deleted
}

// work edits, deletes and makes some files, and perhaps commits everything.
func (p *person) work(t *testing.T, now tree) {
	t.Helper()
	names := slices.Sorted(maps.Keys(now))
	for range p.IntN(60) {
		name := names[p.IntN(len(names))]
		at := filepath.Join(p.dir, name)
		mine := fmt.Sprintf("mine %d\n", p.Uint64())
		var err error
		switch p.IntN(4) {
		case 0:
			p.done[name], err = entry{}, os.Remove(at)
			if os.IsNotExist(err) {
				err = nil
			}
		case 1: // as some editors do
			if err = os.WriteFile(at+"~", []byte(mine), 0o644); err == nil {
				p.done[name], err = entry{"file", mine}, os.Rename(at+"~", at)
			}
		default:
			p.done[name], err = entry{"file", mine}, os.WriteFile(at, []byte(mine), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if p.IntN(3) == 0 {
		p.repo.run(t, p.dir, "", "add", "-A")
		p.repo.run(t, p.dir, "", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "half", "--allow-empty")
		if out := p.repo.run(t, p.dir, "", "ls-files"); strings.Contains(out, stagePrefix) {
			t.Fatalf("committed: %s", out)
		}
	}
}

// TestKilled kills a process that applies diffs without pause, at random
// points, and edits, deletes and commits files before Recover. git
// never sees anything of ours. Afterwards there is the old or the new tree but
// for what that person did, nothing of ours is left, and every file of the old
// tree is in its place or among the originals.
func TestKilled(t *testing.T) {
	rounds, seed := 15, uint64(5)
	for name, to := range map[string]any{"PATCH_TEST_KILLS": &rounds, "PATCH_TEST_SEED": &seed} {
		if s := os.Getenv(name); s != "" {
			if _, err := fmt.Sscan(s, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills, seed %d (PATCH_TEST_KILLS, PATCH_TEST_SEED)", rounds, seed)
	rnd := rand.New(rand.NewPCG(seed, 11))
	base := scratch(t)
	dir, journal := filepath.Join(base, "workspace"), filepath.Join(base, "journal")
	before, after, _, _ := bigDiff(killFiles)
	repo := newGit(t)
	var took time.Duration
	var hit, olds, news, kept int
	// When a kill falls is not ours to say, so it may take more of them to hit.
	for round := 0; round < rounds || (hit == 0 || kept == 0) && round < 10*rounds; round++ {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		before.write(t, dir)
		// The first round also measures how long an application takes, so that
		// the kills fall into all of it.
		turns := 1 + rnd.IntN(3)
		if round == 0 {
			turns = 5
		}
		killChild(t, base, &took, time.Duration(rnd.Int64N(int64(max(took, time.Millisecond)))), turns)
		if seen := repo.run(t, dir, "", "status", "--porcelain", "-uall"); strings.Contains(seen, ".copilot-bridge") {
			t.Fatalf("round %d: git sees %.2000s", round, seen)
		}
		left, err := filepath.Glob(filepath.Join(journal, "*.journal"))
		if err != nil {
			t.Fatal(err)
		}
		hit += len(left)
		p := &person{rnd, dir, repo, map[string]entry{}}
		found := readTree(t, dir)
		maps.DeleteFunc(found, func(name string, e entry) bool { return strings.HasPrefix(name, stagePrefix) || e.kind == "dir" })
		p.work(t, found)
		done, err := Recover(t.Context(), open(t, dir), journal)
		if err != nil {
			t.Fatal(err)
		}
		now := readTree(t, dir)
		maps.DeleteFunc(now, func(_ string, e entry) bool { return e.kind == "dir" })
		restored := before
		if d := before.with(p.done).diff(now); d == "" {
			olds++
		} else if n := after.with(p.done).diff(now); n == "" {
			news++
			restored = after
		} else {
			t.Fatalf("round %d: neither the old tree:\n%.2000s\nnor the new one:\n%.2000s", round, d, n)
		}
		for name, e := range restored {
			if _, touched := p.done[name]; !touched || found[name] == e {
				continue // in its place, or that person has had it and changed it
			}
			kept++
			if data, err := os.ReadFile(filepath.Join(done.Originals, name)); err != nil || string(data) != e.data {
				t.Errorf("round %d: the original of %s is %q, %v", round, name, data, err)
			}
		}
		if left, err = filepath.Glob(filepath.Join(journal, "*.journal")); err != nil || len(left) > 0 {
			t.Fatalf("journal left: %q %v", left, err)
		}
	}
	t.Logf("at least %d kills, %d of them while the workspace was being changed; then %d times the old tree, %d times the new one; %d originals saved", rounds, hit, olds, news, kept)
	if hit == 0 || kept == 0 {
		t.Errorf("none of %d kills hit: the test has lost its point", rounds)
	}
}

// with is a tree after a user's changes. Directories are left
// out.
func (tr tree) with(done map[string]entry) tree {
	out := maps.Clone(tr)
	for name, e := range done {
		if out[name] = e; e.kind == "" {
			delete(out, name)
		}
	}
	return out
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
