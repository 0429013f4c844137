package patch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// everyStep needs each kind of step, with files and directories that take
// each other's places.
func everyStep() (before, after tree, diff string) {
	before = tree{
		"changed": {"file", "1\n2\n3\n"}, "script": {"exec", "1\n"}, "link": {"link", "one"},
		"gone/deep/x": {"file", "x\n"}, "dir/file": {"file", "in dir\n"}, "file": {"file", "a file\n"},
		"swap1": {"file", "one\n"}, "swap2": {"file", "two\n"}, "odd \"\xff\n": {"file", "odd\n"}, "kept/y": {"file", "y\n"},
	}
	after = tree{
		"changed": {"file", "1\ntwo\n3\n"}, "script": {"file", "1\n"}, "link": {"link", "two"},
		"dir": {"file", "in dir\n"}, "file/below/it": {"file", "a file\n"},
		"swap1": {"file", "two\n"}, "swap2": {"file", "one\n"}, "new/deep/\xff\n": {"file", "odd\n"}, "kept/y": {"file", "y\n"},
		"fresh": {"exec", "new\n"},
	}
	diff = `diff --git a/changed b/changed
--- a/changed
+++ b/changed
@@ -1,3 +1,3 @@
 1
-2
+two
 3
diff --git a/script b/script
old mode 100755
new mode 100644
diff --git a/link b/link
index 1234567..89abcde 120000
--- a/link
+++ b/link
@@ -1 +1 @@
-one
\ No newline at end of file
+two
\ No newline at end of file
diff --git a/gone/deep/x b/gone/deep/x
deleted file mode 100644
--- a/gone/deep/x
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/dir/file b/dir
rename from dir/file
rename to dir
diff --git a/file b/file/below/it
rename from file
rename to file/below/it
diff --git a/swap1 b/swap2
rename from swap1
rename to swap2
diff --git a/swap2 b/swap1
rename from swap2
rename to swap1
diff --git "a/odd \"\377\n" "b/new/deep/\377\n"
rename from "odd \"\377\n"
rename to "new/deep/\377\n"
diff --git a/fresh b/fresh
new file mode 100755
--- /dev/null
+++ b/fresh
@@ -0,0 +1 @@
+new
`
	return before, after, diff
}

// crash is a workspace in which an application is carried out by hand, to
// stop it anywhere.
type crash struct {
	t       *testing.T
	dir     string
	journal string
	root    *os.Root
	book    *book
	record  *record
	stages  map[string]*os.Root
}

func newCrash(t *testing.T, before tree, diff string) *crash {
	t.Helper()
	base := scratch(t)
	c := &crash{t: t, dir: filepath.Join(base, "workspace"), journal: filepath.Join(base, "journal")}
	before.write(t, c.dir)
	c.root = open(t, c.dir)
	all, err := parse(diff, DefaultMaxBytes)
	c.must(err)
	p, err := newPlan(t.Context(), c.root, all, Options{}, &budget{DefaultMaxBytes, DefaultMaxBytes})
	c.must(err)
	if len(p.conflicts) > 0 {
		t.Fatal(p.conflicts)
	}
	c.book, err = openJournal(t.Context(), c.root, c.journal)
	c.must(err)
	c.record = &record{steps: p.steps, moved: map[int]bool{}}
	c.must(c.record.assignStages(p.disk))
	return c
}

func (c *crash) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// staged goes as far as the staging.
func (c *crash) staged() {
	c.t.Helper()
	var err error
	c.must(c.book.write(c.record))
	c.stages, err = c.book.openStages(c.record)
	c.must(err)
	c.must(c.book.stage(c.t.Context(), c.record))
}

func (c *crash) steps(n int) {
	c.t.Helper()
	c.must(c.book.run(&record{steps: c.record.steps[:n], moved: c.record.moved}, c.stages))
}

// recovered lets go of everything, as the end of a process does, recovers, and
// compares.
func (c *crash) recovered(want tree) {
	c.t.Helper()
	for _, dir := range c.stages {
		c.must(dir.Close())
	}
	c.must(c.book.close())
	c.must(Recover(c.t.Context(), c.root, c.journal))
	if d := want.diff(readTree(c.t, c.dir)); d != "" {
		c.t.Error(d)
	}
	left, err := filepath.Glob(filepath.Join(c.journal, "*.journal"))
	if err != nil || len(left) > 0 {
		c.t.Errorf("left: %q %v", left, err)
	}
}

func TestRecoverAtEveryStep(t *testing.T) {
	before, after, diff := everyStep()
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	for _, links := range []bool{true, false} {
		t.Run(fmt.Sprintf("links %v", links), func(t *testing.T) {
			n := len(newCrash(t, before, diff).record.steps)
			kinds := map[stepKind]bool{}
			for stop := range n + 1 {
				c := newCrash(t, before, diff)
				if !links {
					c.book.link = noLinks
				}
				c.staged()
				c.steps(stop)
				// A recovery that is interrupted, too.
				for i := n - 1; i >= n-stop/2; i-- {
					c.must(c.book.undoStep(c.record.steps[i], c.record.moved[i]))
				}
				for _, s := range c.record.steps {
					kinds[s.kind] = true
				}
				c.recovered(before)
			}
			if len(kinds) != 5 {
				t.Errorf("only steps of the kinds %v", kinds)
			}
		})
	}
	t.Run("journal only", func(t *testing.T) {
		c := newCrash(t, before, diff)
		c.must(c.book.write(c.record))
		c.recovered(before)
	})
	t.Run("half staged", func(t *testing.T) {
		c := newCrash(t, before, diff)
		c.must(c.book.write(c.record))
		var err error
		c.stages, err = c.book.openStages(c.record)
		c.must(err)
		c.must(c.book.stage(t.Context(), &record{steps: c.record.steps[len(c.record.steps)-1:]}))
		c.recovered(before)
	})
	t.Run("done", func(t *testing.T) {
		c := newCrash(t, before, diff)
		c.staged()
		c.steps(len(c.record.steps))
		c.must(c.book.note(journalDone, false))
		c.recovered(after)
	})
	t.Run("all", func(t *testing.T) {
		base := scratch(t)
		dir := filepath.Join(base, "workspace")
		before.write(t, dir)
		res, err := Apply(t.Context(), open(t, dir), diff, Options{Journal: filepath.Join(base, "journal"), Sync: true})
		if err != nil || !res.OK {
			t.Fatal(err, res.Conflicts)
		}
		if d := after.diff(readTree(t, dir)); d != "" {
			t.Error(d)
		}
	})
}

// A journal that was cut off while it was being written says that nothing has
// been done yet.
func TestTornJournal(t *testing.T) {
	before, _, diff := everyStep()
	c := newCrash(t, before, diff)
	c.must(c.book.write(c.record))
	whole, err := os.ReadFile(c.book.path)
	c.must(err)
	c.must(c.book.close())
	for _, size := range []int{0, 5, len(whole) / 3, len(whole) / 2, len(whole) - 1} {
		c.must(os.WriteFile(c.book.path, whole[:size], 0o600))
		c.must(Recover(t.Context(), c.root, c.journal))
		if d := before.diff(readTree(t, c.dir)); d != "" {
			t.Error(d)
		}
		if _, err := os.Stat(c.book.path); !os.IsNotExist(err) {
			t.Errorf("the journal of %d bytes is still there: %v", size, err)
		}
	}
	for _, text := range []string{"something else\n", journalTitle + "\nremove x\nend\n", journalTitle + "\nfly \"a\" \"b\" \"c\" 0\nend\n"} {
		c.must(os.WriteFile(c.book.path, []byte(text), 0o600))
		if err := Recover(t.Context(), c.root, c.journal); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// What fails half-way is undone at once.
func TestFailureIsUndone(t *testing.T) {
	before, _, diff := everyStep()
	tests := map[string]func(c *crash) error{
		"a file appears":     func(c *crash) error { return os.WriteFile(filepath.Join(c.dir, "fresh"), []byte("other\n"), 0o644) },
		"a file changes":     func(c *crash) error { return os.WriteFile(filepath.Join(c.dir, "swap2"), []byte("else\n"), 0o644) },
		"a file vanishes":    func(c *crash) error { return os.Remove(filepath.Join(c.dir, "changed")) },
		"a directory fills":  func(c *crash) error { return os.WriteFile(filepath.Join(c.dir, "dir", "late"), []byte("x\n"), 0o644) },
		"a link is replaced": func(c *crash) error { return os.Remove(filepath.Join(c.dir, "link")) },
	}
	for name, disturb := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCrash(t, before, diff)
			c.must(disturb(c))
			disturbed := readTree(t, c.dir)
			p := &plan{steps: c.record.steps, disk: &disk{near: near{root: c.root}, seen: map[string]seenDir{}}}
			info, err := c.root.Stat(".")
			c.must(err)
			p.disk.seen["."] = seenDir{leadDir, info}
			c.record.stages = nil
			err = c.book.commit(t.Context(), p, false)
			var changed *changedError
			if !asChanged(err, &changed) {
				t.Errorf("error %v", err)
			}
			if d := disturbed.diff(readTree(t, c.dir)); d != "" {
				t.Error(d)
			}
			c.must(c.book.close())
		})
	}
}

func TestRecoverWithoutAnything(t *testing.T) {
	dir := t.TempDir()
	if err := Recover(t.Context(), open(t, dir), filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
	if err := Recover(t.Context(), open(t, dir), t.TempDir()); err != nil {
		t.Error(err)
	}
	if left := readTree(t, dir); len(left) > 0 {
		t.Errorf("%v is there", left)
	}
}
