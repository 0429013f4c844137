package patch

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// What Preview says is made is what Apply makes, whether the old texts are on
// disk or only live.
func TestPreviewIsWhatApplyMakes(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(propertySeed, 77))}
	git := newGit(t)
	made := 0
	for range 60 {
		old := g.tree()
		edited := g.edit(old)
		first, second := writeTrees(t, git, []tree{old}), writeTrees(t, git, []tree{edited})
		diff := git.run(t, git.base, "", "diff-tree", "-r", "-p", "-M", "--binary", first, second)
		if diff == "" {
			continue
		}
		old = inDir(0, old)
		onDisk, stale := t.TempDir(), t.TempDir()
		old.write(t, onDisk)
		live, other := map[string]string{}, tree{}
		for name, e := range old {
			if e.kind == "file" || e.kind == "exec" {
				live[name] = e.data
				e.data = "what was saved last\n"
			}
			other[name] = e
		}
		other.write(t, stale)
		want, all := previewed(t, onDisk, diff, nil)
		if got, same := previewed(t, stale, diff, live); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(all, same) {
			t.Fatalf("live: %+v, on disk: %+v\n%s", got, want, diff)
		}
		root, err := os.OpenRoot(onDisk)
		if err != nil {
			t.Fatal(err)
		}
		res, err := Apply(t.Context(), root, diff, Options{Journal: t.TempDir()})
		_ = root.Close()
		if err != nil || res.OK != want.OK || !reflect.DeepEqual(res.Files, want.Files) {
			t.Fatalf("%+v, %v, previewed %+v\n%s", res, err, want, diff)
		}
		after, times := readTree(t, onDisk), map[string]int{}
		for _, m := range all {
			times[m.Path]++
		}
		for _, m := range all {
			e, there := after[m.Path]
			if times[m.Path] > 1 {
				continue // a file that becomes a link is deleted and made
			}
			was := old[m.Path].kind
			if m.OldPath != "" {
				was = old[m.OldPath].kind
			}
			if m.After == nil != !there || there && e.data != *m.After || there && m.Target == "" && m.Status != StatusCopied && m.Exec != ((e.kind == "exec") != (was == "exec")) {
				t.Errorf("%s became %+v, previewed %+v", m.Path, e, m)
			}
			made++
		}
	}
	if made < 60 {
		t.Errorf("only %d files: the test has lost its point", made)
	}
}

func previewed(t *testing.T, dir, diff string, live map[string]string) (Result, []Made) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	r, made, err := Preview(t.Context(), root, diff, Options{Live: live})
	if err != nil {
		t.Fatalf("%v\n%s", err, diff)
	}
	return r, made
}

func TestUnderAFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	diff := "--- a/one/a\n+++ b/one/a\n@@ -1 +1 @@\n-x\n+y\n--- a/two/a\n+++ b/two/a\n@@ -1 +1 @@\n-other\n+y\n"
	r, err := Apply(t.Context(), root, diff, Options{Journal: t.TempDir(), Under: "one"})
	if err != nil || !r.OK || len(r.Files) != 1 || r.Files[0].Path != "a" {
		t.Errorf("%+v, %v", r, err)
	}
	across := "diff --git a/one/a b/two/a\nsimilarity index 100%\nrename from one/a\nrename to two/a\n"
	if r, err := Apply(t.Context(), root, across, Options{Journal: t.TempDir(), Under: "one"}); err == nil {
		t.Errorf("across folders: %+v", r)
	}
}
