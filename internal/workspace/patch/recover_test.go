package patch

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
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
	book    *lockedJournal
	record  *record
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
	c.book, _, err = openJournal(t.Context(), c.root, c.journal)
	c.must(err)
	p.sums()
	c.record = &record{Format: journalFormat, Steps: p.steps}
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
	c.must(c.book.add(&record{Format: journalFormat, Stages: c.record.Stages}))
	c.must(c.book.stage(c.t.Context(), c.record))
	c.must(c.book.add(c.record.switches()))
}

func (c *crash) steps(n int) {
	c.t.Helper()
	c.must(c.book.run(&record{Steps: c.record.Steps[:n]}))
}

// recovered closes everything, as the end of a process does, recovers, and
// compares.
func (c *crash) recovered(want tree) Recovery {
	c.t.Helper()
	c.must(c.book.close())
	done, err := Recover(c.t.Context(), c.root, c.journal)
	c.must(err)
	if d := want.diff(readTree(c.t, c.dir)); d != "" {
		c.t.Error(d)
	}
	left, err := filepath.Glob(filepath.Join(c.journal, "*.journal"))
	if err != nil || len(left) > 0 {
		c.t.Errorf("left: %q %v", left, err)
	}
	return done
}

// without takes system calls away that not every system has.
func (c *crash) without(calls string) {
	no := func(string, string) error { return errors.ErrUnsupported }
	switch calls {
	case "links":
		c.book.link = no
		fallthrough
	case "exchange":
		c.book.rename = func(*stage, string, *os.Root, string, bool) error { return errors.ErrUnsupported }
	}
}

func TestRecoverAtEveryStep(t *testing.T) {
	before, after, diff := everyStep()
	for _, calls := range []string{"nothing", "exchange", "links"} {
		t.Run("without "+calls, func(t *testing.T) {
			n := len(newCrash(t, before, diff).record.Steps)
			kinds := map[stepKind]bool{}
			for stop := range n + 1 {
				c := newCrash(t, before, diff)
				c.without(calls)
				c.staged()
				c.steps(stop)
				// A recovery that is interrupted, too.
				for i := n - 1; i >= n-stop/2; i-- {
					c.must(c.book.undoStep(i, c.record.Steps[i], &Recovery{}))
				}
				for _, s := range c.record.Steps {
					kinds[s.Kind] = true
				}
				if done := c.recovered(before); len(done.Kept) > 0 {
					t.Errorf("after %d steps: %v", stop, done)
				}
			}
			if len(kinds) != 5 {
				t.Errorf("only steps of the kinds %v", kinds)
			}
		})
	}
	t.Run("journal only", func(t *testing.T) {
		c := newCrash(t, before, diff)
		c.must(c.book.add(&record{Format: journalFormat, Stages: c.record.Stages}))
		c.recovered(before)
	})
	t.Run("half staged", func(t *testing.T) {
		c := newCrash(t, before, diff)
		c.must(c.book.add(&record{Format: journalFormat, Stages: c.record.Stages}))
		c.must(c.book.stage(t.Context(), &record{Stages: c.record.Stages, Steps: c.record.Steps[len(c.record.Steps)-1:]}))
		c.recovered(before)
	})
	t.Run("done", func(t *testing.T) {
		c := newCrash(t, before, diff)
		c.staged()
		c.steps(len(c.record.Steps))
		c.must(c.book.add(&record{Done: true}))
		c.recovered(after)
	})
	t.Run("all", func(t *testing.T) {
		base := scratch(t)
		dir := filepath.Join(base, "workspace")
		before.write(t, dir)
		res, err := Apply(t.Context(), open(t, dir), diff, Options{Journal: filepath.Join(base, "journal")})
		if err != nil || !res.OK {
			t.Fatal(err, res.Conflicts)
		}
		if d := after.diff(readTree(t, dir)); d != "" {
			t.Error(d)
		}
	})
}

// A journal that was cut off while it was being written says that nothing has
// been done yet. One that cannot be understood is set aside, and the next patch
// is applied.
func TestTornJournal(t *testing.T) {
	before, after, diff := everyStep()
	c := newCrash(t, before, diff)
	c.must(c.book.add(&record{Format: journalFormat, Stages: c.record.Stages}))
	c.must(c.book.add(c.record.switches()))
	whole, err := os.ReadFile(c.book.path)
	c.must(err)
	c.must(c.book.close())
	for _, size := range []int{0, 5, len(whole) / 3, len(whole) / 2, len(whole) - 1} {
		c.must(os.WriteFile(c.book.path, whole[:size], 0o600))
		_, err := Recover(t.Context(), c.root, c.journal)
		c.must(err)
		if d := before.diff(readTree(t, c.dir)); d != "" {
			t.Error(d)
		}
		if _, err := os.Stat(c.book.path); !os.IsNotExist(err) {
			t.Errorf("the journal of %d bytes is still there: %v", size, err)
		}
	}
	for _, text := range []string{"copilot-bridge patch journal 1\nstage \".copilot-bridge-patch-x\"\nend\n", "{}\n", `{"format":2,"stages":["Li4veA=="]}` + "\n",
		`{"format":2,"steps":[{"kind":"remove","path":"Li4veA=="}]}` + "\n"} {
		c.must(os.WriteFile(c.book.path, []byte(text), 0o600))
		done, err := Recover(t.Context(), c.root, c.journal)
		c.must(err)
		if kept, err := os.ReadFile(done.SetAside); err != nil || string(kept) != text || !strings.Contains(done.String(), done.SetAside) {
			t.Errorf("%q became %q, %v", text, kept, err)
		}
	}
	if res, err := Apply(t.Context(), c.root, diff, Options{Journal: c.journal}); err != nil || !res.OK {
		t.Error(err, res.Conflicts)
	}
	if d := after.diff(readTree(t, c.dir)); d != "" {
		t.Error(d)
	}
}

// A user's changes since the patch was interrupted stay, and
// what it was before is saved. All other files are restored.
func TestRecoverKeepsLaterWork(t *testing.T) {
	before, _, diff := everyStep()
	tests := map[string]struct {
		later     func(dir string) error
		want      map[string]entry // over before; no kind: not there
		originals map[string]string
	}{
		"edited": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "changed"), []byte("mine\n"), 0o644) },
			map[string]entry{"changed": {"file", "mine\n"}}, map[string]string{"changed": "1\n2\n3\n"}},
		"deleted": {func(dir string) error { return os.Remove(filepath.Join(dir, "changed")) },
			map[string]entry{"changed": {}}, map[string]string{"changed": "1\n2\n3\n"}},
		"made executable": {func(dir string) error { return os.Chmod(filepath.Join(dir, "changed"), 0o755) },
			map[string]entry{"changed": {"exec", "1\ntwo\n3\n"}}, map[string]string{"changed": "1\n2\n3\n"}},
		"restored by hand": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "changed"), []byte("1\n2\n3\n"), 0o644) }, nil, nil},
		"link turned round": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "link")), os.Symlink("three", filepath.Join(dir, "link")))
		}, map[string]entry{"link": {"link", "three"}}, map[string]string{"link": "one"}},
		"new file edited": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "fresh"), []byte("mine\n"), 0o644) },
			map[string]entry{"fresh": {"exec", "mine\n"}}, nil},
		"new file deleted": {func(dir string) error { return os.Remove(filepath.Join(dir, "fresh")) }, nil, nil},
		"removed file made again": {func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "gone/deep"), 0o755), os.WriteFile(filepath.Join(dir, "gone/deep/x"), []byte("mine\n"), 0o644))
		}, map[string]entry{"gone/deep/x": {"file", "mine\n"}}, map[string]string{"gone/deep/x": "x\n"}},
		"file in place of a directory": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "gone"), []byte("mine\n"), 0o644) },
			map[string]entry{"gone": {"file", "mine\n"}, "gone/deep/x": {}}, map[string]string{"gone/deep/x": "x\n"}},
	}
	for name, tt := range tests {
		for _, calls := range []string{"nothing", "exchange", "links"} {
			t.Run(name+", without "+calls, func(t *testing.T) {
				c := newCrash(t, before, diff)
				c.without(calls)
				c.staged()
				c.steps(len(c.record.Steps))
				c.must(tt.later(c.dir))
				want := maps.Clone(before)
				for name, e := range tt.want {
					if want[name] = e; e.kind == "" {
						delete(want, name)
					}
				}
				done := c.recovered(want)
				for name, text := range tt.originals {
					at := filepath.Join(done.Originals, name)
					data, err := os.ReadFile(at)
					if target, linkErr := os.Readlink(at); linkErr == nil {
						data, err = []byte(target), nil
					}
					if err != nil || string(data) != text {
						t.Errorf("the original of %s is %q, %v", name, data, err)
					}
					if told := done.String(); !strings.Contains(told, name) || !strings.Contains(told, done.Originals) {
						t.Errorf("told: %s", told)
					}
				}
				if len(tt.originals) == 0 && done.Originals != "" || (len(tt.want) > 0) != (len(done.Kept) > 0) {
					t.Errorf("%+v", done)
				}
			})
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
			p := &plan{steps: c.record.Steps, disk: &disk{dirHandles: dirHandles{root: c.root}, seen: map[string]seenDir{}}}
			info, err := c.root.Stat(".")
			c.must(err)
			p.disk.seen["."] = seenDir{leadDir, info}
			err = c.book.commit(t.Context(), p)
			var changed *changedError
			if !errors.As(err, &changed) {
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
	for _, journal := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if done, err := Recover(t.Context(), open(t, dir), journal); err != nil || done.String() != "" {
			t.Error(done, err)
		}
	}
	if left := readTree(t, dir); len(left) > 0 {
		t.Errorf("%v is there", left)
	}
}
