//go:build unix

package orchestrate

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Everything that a tree can hold arrives: programs, links, files in the place
// of directories and the other way round, line endings as the user has them.
func TestKindsOfChanges(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.write("crlf.bat", "one\r\ntwo\r\n")
	y.write(".gitattributes", "*.bat text eol=crlf\n")
	y.write("dir/inner/x.txt", "x\n")
	y.write("file", "f\n")
	y.write("tool.sh", "#!/bin/sh\n")
	y.git("add", "-A")
	y.git("commit", "-q", "-m", "more")
	if err := os.Chmod(filepath.Join(y.dir, "README.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := TaskPlan{Tasks: []SubTask{
		task("modes", "program tool.sh", "program new.sh", "append README.md more", "link link README.md"),
		task("places", "remove dir", "write dir file-now", "remove file", "write file/y.txt y"),
		task("text", "append crlf.bat three", "write ünïcödé.txt text"),
	}}
	p.Tasks[0].Description = strings.Replace(p.Tasks[0].Description, "do: program tool.sh", "do: remove tool.sh\ndo: program tool.sh", 1)
	r, err := Run(t.Context(), y.options(p))
	if err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(map[string]string{"dir": "file-now\n", "file/y.txt": "y\n", "README.md": "hello\nmore\n", "ünïcödé.txt": "text\n", "crlf.bat": "one\r\ntwo\r\nthree\r\n"})
	for name, mode := range map[string]os.FileMode{"tool.sh": 0o755, "new.sh": 0o755, "README.md": 0o600} {
		if info, err := os.Stat(filepath.Join(y.dir, name)); err != nil || info.Mode().Perm()&0o711 != mode&0o711 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if to, err := os.Readlink(filepath.Join(y.dir, "link")); err != nil || to != "README.md" {
		t.Error(to, err)
	}
	y.clean()
}

// A task that commits, or breaks its worktree's link to the repository, loses
// nothing and breaks nothing.
func TestTasksThatMeddleWithGit(t *testing.T) {
	y := newYard(t)
	p := TaskPlan{Tasks: []SubTask{
		task("commits", "write one.txt 1", "commit", "write two.txt 2"),
		task("breaks", "write three.txt 3", "write .git gitdir: /nonexistent"),
	}}
	if r, err := Run(t.Context(), y.options(p)); err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(map[string]string{"one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n"})
	y.clean()
}

// theirs commits a change of big.txt and a new file, to be delivered.
func (y *yard) theirs(name string) (repo *repository, base, target string) {
	t := y.t
	t.Helper()
	repo, err := openRepository(t.Context(), os.Environ(), t.TempDir(), y.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	repo.lockFile = filepath.Join(t.TempDir(), "lock")
	base, err = repo.base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	y.write("big.txt", strings.Replace(numbered(60), "line-10", "THEIRS", 1))
	y.write(name, "theirs\n")
	tree, err := repo.snapshot(t.Context())
	if err == nil {
		target, err = repo.commit(t.Context(), tree, "x", base)
	}
	if err != nil {
		t.Fatal(err)
	}
	return repo, base, target
}

// A file that the user saves in the very moment of the merge is merged with,
// not overwritten.
func TestSavedWhileDelivering(t *testing.T) {
	y := newYard(t)
	repo, base, target := y.theirs("other.txt")
	y.write("big.txt", numbered(60))
	if err := os.Remove(filepath.Join(y.dir, "other.txt")); err != nil {
		t.Fatal(err)
	}
	begun := 0
	d := &delivery{repo: repo, run: "r", begin: func(string, string) error {
		if begun++; begun == 1 {
			y.write("big.txt", strings.Replace(numbered(60), "line-50", "MINE", 1))
		}
		return nil
	}}
	files, held, err := d.deliver(t.Context(), base, target)
	if err != nil || held != nil || begun != 2 || len(files) == 0 {
		t.Fatalf("%v: %v %v, begun %d times", err, files, held, begun)
	}
	y.expect(map[string]string{"other.txt": "theirs\n", "big.txt": strings.Replace(strings.Replace(numbered(60), "line-50", "MINE", 1), "line-10", "THEIRS", 1)})
}

// Files that the work does not touch may change all the time, as under a
// build; an edit of one that it touches begins the merge again.
func TestOthersChangeWhileDelivering(t *testing.T) {
	y := newYard(t)
	repo, base, target := y.theirs("new/dir/file.txt")
	y.write("big.txt", numbered(60))
	if err := os.RemoveAll(filepath.Join(y.dir, "new")); err != nil {
		t.Fatal(err)
	}
	rounds := 0
	d := &delivery{repo: repo, run: "r", begin: func(string, string) error { return nil }, admit: func(context.Context, []string, string) error {
		rounds++
		y.write("built.txt", strings.Repeat("x", rounds))
		y.write("new/other.txt", strings.Repeat("y", rounds))
		if rounds == 1 {
			y.write("big.txt", strings.Replace(numbered(60), "line-50", "MINE", 1))
		}
		return nil
	}}
	files, held, err := d.deliver(t.Context(), base, target)
	if err != nil || held != nil || rounds != 2 || len(files) != 2 {
		t.Fatalf("%v: %v %v, %d rounds", err, files, held, rounds)
	}
	y.expect(map[string]string{"built.txt": "xx", "new/other.txt": "yy", "new/dir/file.txt": "theirs\n",
		"big.txt": strings.Replace(strings.Replace(numbered(60), "line-50", "MINE", 1), "line-10", "THEIRS", 1)})

	for _, c := range []struct {
		a, b string
		want bool
	}{{"a/b", "a/b", true}, {"a/b", "a/b/c", true}, {"a/b/c", "a/b", true}, {"a/b", "a/bc", false}, {"a", "b", false}, {"a/b", "a/c", false}} {
		if got := overlap([]change{{path: c.a}}, []change{{path: c.b}}); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// An untracked file that may not be read is not copied to where tasks work,
// and a task that makes one of the same name does not replace it.
func TestUntrackedFilesThatMayNotBeRead(t *testing.T) {
	y := newYard(t)
	y.write(".env", "KEY=theirs\n")
	o := y.options(TaskPlan{Tasks: []SubTask{task("other", "write other.txt x")}})
	o.MayRead = func(path string) bool { return path != ".env" }
	r, err := Run(t.Context(), o)
	if err != nil || !r.Success {
		t.Fatalf("%v: %+v", err, r)
	}
	y.expect(map[string]string{"other.txt": "x\n", ".env": "KEY=theirs\n"})

	o = y.options(TaskPlan{Tasks: []SubTask{task("same", "write .env mine")}})
	o.MayRead = func(path string) bool { return path != ".env" }
	if _, err = Run(t.Context(), o); bridge.CodeOf(err) != bridge.CodeConflict {
		t.Fatalf("%v", err)
	}
	y.expect(map[string]string{".env": "KEY=theirs\n"})
}
