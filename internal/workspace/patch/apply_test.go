package patch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const numbers = "1\n2\n3\n4\n5\n6\n7\n8\n"

const fourHunk = "@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+four\n 5\n 6\n"

func change(name string) string { return "--- a/" + name + "\n+++ b/" + name + "\n" + fourHunk }

func sum256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// workspace is a temporary one with its journal directory.
type workspace struct {
	dir  string
	root *os.Root
	opts Options
}

func newWorkspace(t *testing.T, tr tree) *workspace {
	t.Helper()
	base := scratch(t)
	w := &workspace{dir: filepath.Join(base, "workspace"), opts: Options{Journal: filepath.Join(base, "journal")}}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tr.write(t, w.dir)
	w.root = open(t, w.dir)
	return w
}

func (w *workspace) apply(t *testing.T, diff string) Result {
	t.Helper()
	res, err := Apply(t.Context(), w.root, diff, w.opts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (w *workspace) expect(t *testing.T, want tree) {
	t.Helper()
	if d := want.diff(readTree(t, w.dir)); d != "" {
		t.Error(d)
	}
}

func TestResult(t *testing.T) {
	w := newWorkspace(t, tree{
		"m": {"file", numbers}, "d": {"file", "1\n"}, "r": {"file", numbers}, "c": {"file", "c\n"}, "x": {"file", "x\n"}, "l": {"link", "one"},
	})
	changed := strings.Replace(numbers, "4\n", "four\n", 1)
	res := w.apply(t, change("m")+
		"--- a/m\n+++ b/m\n@@ -1,3 +1,4 @@\n 1\n 2\n+more\n 3\n"+
		"diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"+
		"diff --git a/r b/r2\nrename from r\nrename to r2\n--- a/r\n+++ b/r2\n"+fourHunk+
		"diff --git a/c b/c2\ncopy from c\ncopy to c2\n"+
		"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"+
		"diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"+
		"diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n")
	want := Result{OK: true, Conflicts: []Conflict{}, Files: []FileChange{
		{Path: "m", Status: StatusModified, Mode: "100644", SHA256: sum256(strings.Replace(changed, "3\n", "more\n3\n", 1)), Additions: 2, Deletions: 1},
		{Path: "d", Status: StatusDeleted, Deletions: 1},
		{Path: "r2", OldPath: "r", Status: StatusRenamed, Mode: "100644", SHA256: sum256(changed), Additions: 1, Deletions: 1},
		{Path: "c2", OldPath: "c", Status: StatusCopied, Mode: "100644", SHA256: sum256("c\n")},
		{Path: "x", Status: StatusMode, Mode: "100755", SHA256: sum256("x\n")},
		{Path: "n", Status: StatusCreated, Mode: "100644", SHA256: sum256("n\n"), Additions: 1},
		{Path: "l", Status: StatusModified, Mode: "120000", Target: "two", SHA256: sum256("two"), Additions: 1, Deletions: 1},
	}}
	if !reflect.DeepEqual(res, want) {
		t.Errorf("got  %+v\nwant %+v", res, want)
	}
	for _, f := range res.Files {
		if f.SHA256 == "" || f.Mode == "120000" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(w.dir, f.Path))
		if err != nil || sum256(string(data)) != f.SHA256 {
			t.Errorf("%s: %v, has %s", f.Path, err, sum256(string(data)))
		}
	}
}

func TestConflicts(t *testing.T) {
	before := tree{
		"a": {"file", strings.Replace(numbers, "4", "vier", 1)}, "b": {"file", "1\n2\n"}, "ok": {"file", numbers},
		"two": {"file", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"},
	}
	w := newWorkspace(t, before)
	res := w.apply(t, change("a")+change("b")+change("ok")+change("missing")+
		"--- a/two\n+++ b/two\n@@ -1,3 +1,3 @@\n 1\n-zwei\n+two\n 3\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n@@ -7,3 +7,3 @@\n 7\n-acht\n+eight\n 9\n")
	want := []Conflict{
		{File: "a", Hunk: 1, Line: 4, Expected: "4", Found: "vier", Reason: "the lines differ"},
		{File: "b", Hunk: 1, Line: 3, Expected: "3", Reason: "the file ends before this line"},
		{File: "missing", Reason: reasonMissing},
		{File: "two", Hunk: 1, Line: 2, Expected: "zwei", Found: "2", Reason: "the lines differ"},
		{File: "two", Hunk: 3, Line: 8, Expected: "acht", Found: "8", Reason: "the lines differ"},
	}
	if res.OK || !reflect.DeepEqual(res.Conflicts, want) {
		t.Errorf("got  %+v\nwant %+v", res.Conflicts, want)
	}
	if len(res.Files) != 1 || res.Files[0].Path != "ok" {
		t.Errorf("files that would fit: %+v", res.Files)
	}
	w.expect(t, before)
}

// What git apply adds to the end of the file, wherever the hunk says, is
// refused. At the end both do the same.
func TestAdditionsWithoutContext(t *testing.T) {
	before := tree{"x": {"file", numbers}}
	w := newWorkspace(t, before)
	for _, at := range []string{"-0,0 +1", "-3,0 +4", "-7,0 +8"} {
		if res := w.apply(t, "--- a/x\n+++ b/x\n@@ "+at+" @@\n+new\n"); res.OK || len(res.Conflicts) != 1 || !strings.Contains(res.Conflicts[0].Reason, "context") {
			t.Errorf("%s: %+v", at, res)
		}
	}
	w.expect(t, before)
	if res := w.apply(t, "--- a/x\n+++ b/x\n@@ -8,0 +9 @@\n+9\n"); !res.OK {
		t.Errorf("at the end: %+v", res)
	}
	w.expect(t, tree{"x": {"file", numbers + "9\n"}})
}

func TestVerify(t *testing.T) {
	before := tree{"x": {"file", numbers}, "other": {"file", "o\n"}}
	tests := []struct {
		name   string
		verify map[string]string
		want   []Conflict
	}{
		{name: "right", verify: map[string]string{"x": sum256(numbers)}},
		{name: "upper case", verify: map[string]string{"x": strings.ToUpper(sum256(numbers))}},
		{name: "wrong", verify: map[string]string{"x": sum256("else")}, want: []Conflict{
			{File: "x", Expected: sum256("else"), Found: sum256(numbers), Reason: "the file has other contents than when it was read"}}},
		{name: "other file", verify: map[string]string{"other": sum256("o\n"), "none": ""}},
		{name: "other file is wrong", verify: map[string]string{"other": sum256("p\n")}, want: []Conflict{
			{File: "other", Expected: sum256("p\n"), Found: sum256("o\n"), Reason: "the file has other contents than when it was read"}}},
		{name: "should not exist", verify: map[string]string{"other": ""}, want: []Conflict{{File: "other", Reason: reasonExists}}},
		{name: "should not exist and is patched", verify: map[string]string{"x": ""}, want: []Conflict{
			{File: "x", Found: sum256(numbers), Reason: reasonExists}}},
		{name: "should exist", verify: map[string]string{"none": sum256("")}, want: []Conflict{
			{File: "none", Expected: sum256(""), Reason: reasonMissing}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorkspace(t, before)
			w.opts.Verify = tt.verify
			res := w.apply(t, change("x"))
			if res.OK != (tt.want == nil) || tt.want != nil && !reflect.DeepEqual(res.Conflicts, tt.want) {
				t.Errorf("got %+v, want %+v", res, tt.want)
			}
			if tt.want != nil {
				w.expect(t, before)
			}
		})
	}
	for _, verify := range []map[string]string{{"x": "abc"}, {"../x": sum256("")}} {
		w := newWorkspace(t, before)
		w.opts.Verify = verify
		if _, err := Apply(t.Context(), w.root, change("x"), w.opts); bridge.CodeOf(err) != bridge.CodeInvalid {
			t.Errorf("%v: error %v", verify, err)
		}
	}
}

func TestDryRun(t *testing.T) {
	before, after, diff := everyStep()
	w := newWorkspace(t, before)
	journal := w.opts.Journal
	dry, err := Apply(t.Context(), w.root, diff, Options{DryRun: true})
	if err != nil || !dry.OK || !dry.DryRun {
		t.Fatal(dry, err)
	}
	w.expect(t, before)
	if _, err := os.Stat(journal); !os.IsNotExist(err) {
		t.Errorf("a dry run made %s: %v", journal, err)
	}
	wet := w.apply(t, diff)
	w.expect(t, after)
	if dry.DryRun = false; !reflect.DeepEqual(dry, wet) {
		t.Errorf("dry %+v\nwet %+v", dry, wet)
	}
	if again, err := Apply(t.Context(), w.root, diff, Options{DryRun: true}); err != nil || again.OK || len(again.Conflicts) < 5 {
		t.Errorf("the diff fits twice: %+v %v", again, err)
	}
}

func TestCheck(t *testing.T) {
	before, _, diff := everyStep()
	w := newWorkspace(t, before)
	var asked []FileChange
	w.opts.Check = func(c FileChange) error {
		asked = append(asked, c)
		return nil
	}
	res := w.apply(t, diff)
	if len(asked) != len(res.Files) {
		t.Fatalf("asked about %d of %d files", len(asked), len(res.Files))
	}
	for i, c := range asked {
		want := res.Files[i]
		if c.Mode != "120000" {
			want.SHA256 = ""
		}
		if c != want {
			t.Errorf("asked about %+v, want %+v", c, want)
		}
	}

	denied := errors.New("denied")
	w = newWorkspace(t, before)
	w.opts.Check = func(c FileChange) error {
		if c.Path == "swap2" {
			return denied
		}
		return nil
	}
	if _, err := Apply(t.Context(), w.root, diff, w.opts); !errors.Is(err, denied) {
		t.Errorf("error %v", err)
	}
	w.expect(t, before)

	// Nothing of a denied file's contents is told.
	w = newWorkspace(t, tree{"secret": {"file", "hidden\n"}})
	w.opts.Check = func(FileChange) error { return denied }
	res, err := Apply(t.Context(), w.root, change("secret"), w.opts)
	if !errors.Is(err, denied) || len(res.Conflicts) > 0 {
		t.Errorf("%+v %v", res, err)
	}
}

func TestLimits(t *testing.T) {
	before := tree{"x": {"file", numbers}}
	for _, limit := range []int64{1, int64(len(change("x"))), int64(len(change("x")) + len(numbers))} {
		w := newWorkspace(t, before)
		w.opts.MaxBytes = limit
		if _, err := Apply(t.Context(), w.root, change("x"), w.opts); bridge.CodeOf(err) != bridge.CodeInvalid || !strings.Contains(err.Error(), "larger") {
			t.Errorf("%d: error %v", limit, err)
		}
		w.expect(t, before)
	}
	w := newWorkspace(t, before)
	w.opts.MaxBytes = int64(len(change("x")) + 2*len(numbers) + 3)
	if res := w.apply(t, change("x")); !res.OK {
		t.Error(res)
	}
}

func TestErrors(t *testing.T) {
	w := newWorkspace(t, tree{"x": {"file", numbers}})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		diff string
		opts Options
		code bridge.Code
	}{
		{name: "no journal", diff: change("x"), code: bridge.CodeInvalid},
		{name: "journal inside", diff: change("x"), opts: Options{Journal: filepath.Join(w.dir, ".journal")}, code: bridge.CodeInvalid},
		{name: "journal is the workspace", diff: change("x"), opts: Options{Journal: w.dir}, code: bridge.CodeInvalid},
		{name: "malformed", diff: "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n 1\n", opts: w.opts, code: bridge.CodeInvalid},
		{name: "escape", diff: change("../x"), opts: w.opts, code: bridge.CodeInvalid},
		{name: "canceled", ctx: canceled, diff: change("x"), opts: w.opts, code: bridge.CodeCanceled},
		{name: "canceled dry run", ctx: canceled, diff: change("x"), opts: Options{DryRun: true}, code: bridge.CodeCanceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx
			}
			if _, err := Apply(ctx, w.root, tt.diff, tt.opts); bridge.CodeOf(err) != tt.code {
				t.Errorf("error %v with code %s, want %s", err, bridge.CodeOf(err), tt.code)
			}
			w.expect(t, tree{"x": {"file", numbers}})
		})
	}
}

// Applications wait for each other: of many equal ones exactly one fits, and
// different ones all do.
func TestConcurrent(t *testing.T) {
	before := tree{"x": {"file", numbers}}
	for i := range 8 {
		before[fmt.Sprint("f", i)] = entry{"file", numbers}
	}
	w := newWorkspace(t, before)
	var fitted atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			res, err := Apply(t.Context(), w.root, change("x"), w.opts)
			if err != nil {
				t.Error(err)
			} else if res.OK {
				fitted.Add(1)
			}
		})
		wg.Go(func() {
			if res, err := Apply(t.Context(), w.root, change(fmt.Sprint("f", i)), w.opts); err != nil || !res.OK {
				t.Error(res, err)
			}
		})
	}
	wg.Wait()
	if fitted.Load() != 1 {
		t.Errorf("the diff fitted %d times", fitted.Load())
	}
	for name := range before {
		before[name] = entry{"file", strings.Replace(numbers, "4", "four", 1)}
	}
	w.expect(t, before)
}

func TestPermissions(t *testing.T) {
	tests := []struct {
		name     string
		old, new fs.FileMode
		diff     string
	}{
		{name: "private", old: 0o600, new: 0o600, diff: change("x")},
		{name: "read-only", old: 0o444, new: 0o444, diff: change("x")},
		{name: "group may write", old: 0o664, new: 0o664, diff: change("x")},
		{name: "executable", old: 0o750, new: 0o750, diff: change("x")},
		{name: "becomes executable", old: 0o640, new: 0o750, diff: "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"},
		{name: "no longer executable", old: 0o755, new: 0o644, diff: "diff --git a/x b/x\nold mode 100755\nnew mode 100644\n"},
		{name: "renamed", old: 0o600, new: 0o600, diff: "diff --git a/x b/x2\nrename from x\nrename to x2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorkspace(t, tree{"x": {"file", numbers}})
			if err := os.Chmod(filepath.Join(w.dir, "x"), tt.old); err != nil {
				t.Fatal(err)
			}
			res := w.apply(t, tt.diff)
			if !res.OK {
				t.Fatal(res)
			}
			info, err := os.Stat(filepath.Join(w.dir, res.Files[0].Path))
			if err != nil || info.Mode().Perm() != tt.new {
				t.Errorf("%v %v, want %v", info.Mode(), err, tt.new)
			}
		})
	}
}

// A second name of a file, perhaps outside the workspace, keeps the old
// contents, as with git.
func TestHardLink(t *testing.T) {
	w := newWorkspace(t, tree{"x": {"file", numbers}})
	other := filepath.Join(filepath.Dir(w.dir), "other")
	if err := os.Link(filepath.Join(w.dir, "x"), other); err != nil {
		t.Fatal(err)
	}
	if res := w.apply(t, change("x")); !res.OK {
		t.Fatal(res)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != numbers {
		t.Errorf("%q %v", data, err)
	}
}

func TestManyFiles(t *testing.T) {
	before, after, there, back := bigDiff(120)
	w := newWorkspace(t, before)
	if res := w.apply(t, there); !res.OK || len(res.Files) != 120 {
		t.Fatal(res.Conflicts)
	}
	w.expect(t, after)
	if res := w.apply(t, back); !res.OK {
		t.Fatal(res.Conflicts)
	}
	w.expect(t, before)
	entries, err := os.ReadDir(w.opts.Journal)
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.Contains(e.Name(), ".lock") }) {
		t.Errorf("%v %v", entries, err)
	}
}
