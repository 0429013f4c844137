package patch

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// entry is a file, a symbolic link or a directory of a tree.
type entry struct {
	kind string // "file", "exec", "link" or "dir"
	data string
}

// tree is a directory's whole contents by path. Directories are listed only
// when empty.
type tree map[string]entry

func (tr tree) write(t testing.TB, dir string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tr)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch e := tr[name]; e.kind {
		case "dir":
			err = os.MkdirAll(path, 0o755)
		case "link":
			err = os.Symlink(e.data, path)
		case "exec":
			err = os.WriteFile(path, []byte(e.data), 0o755)
		default:
			err = os.WriteFile(path, []byte(e.data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readTree(t testing.TB, dir string) tree {
	t.Helper()
	tr := tree{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{kind: "file"}
		switch {
		case d.IsDir():
			e.kind = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			e.kind = "link"
			if e.data, err = os.Readlink(path); err != nil {
				return err
			}
		case !d.Type().IsRegular():
			e.kind = d.Type().String()
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			e.data = string(data)
			if info.Mode()&0o100 != 0 {
				e.kind = "exec"
			}
		}
		name := filepath.ToSlash(rel)
		tr[name] = e
		// Directories with something in them go without saying.
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			delete(tr, name[:i])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr tree) diff(other tree) string {
	var out strings.Builder
	names := slices.Sorted(maps.Keys(tr))
	for name := range other {
		if _, ok := tr[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if a, b := tr[name], other[name]; a != b {
			fmt.Fprintf(&out, "%q: %.400q against %.400q\n", name, fmt.Sprint(a), fmt.Sprint(b))
		}
	}
	return out.String()
}

// scratch is a temporary directory, in memory if there is a file system for
// that: thousands of small trees are written to it.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "patch-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// git runs git without user configuration, on a separate repository.
type git struct{ base, repository string }

func newGit(t testing.TB) git {
	t.Helper()
	base := scratch(t)
	g := git{base, filepath.Join(base, "repository.git")}
	g.run(t, base, "", "init", "-q", "--bare")
	return g
}

func (g git) command(dir, stdin string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "LC_ALL=C",
		"GIT_DIR="+g.repository)
	if args[0] != "init" {
		cmd.Env = append(cmd.Env, "GIT_WORK_TREE="+dir)
	}
	return cmd
}

func (g git) run(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := g.command(dir, stdin, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// apply runs git apply and returns what it complained about, "" if it did not
// fail.
func (g git) apply(dir, diff string) string {
	out, err := g.command(dir, diff, "apply", "--whitespace=nowarn", "-").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return ""
}

// verdict is what both made of a diff.
type verdict struct {
	git      string // its complaint, "" if it applied the diff
	applied  bool   // by us
	refusal  string // ours
	mismatch string // how the two disagree, "" if they do not
}

// deliberate are our refusals of diffs that git apply takes; see doc.go.
var deliberate = []string{
	reasonNoContext, reasonWrittenTwice, reasonThenDeleted, reasonDirectory, reasonSubmodule, reasonOverwrites, reasonNewline,
	"the binary data of", "contains a NUL byte",
}

// compare applies a diff to one tree with git and with Apply.
func (g git) compare(t testing.TB, old tree, diff string) verdict {
	t.Helper()
	return g.compareDirs(t, diff, func(dir string) { old.write(t, dir) })
}

func (g git) compareDirs(t testing.TB, diff string, prepare func(dir string)) verdict {
	t.Helper()
	base, err := os.MkdirTemp(g.base, "case")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	}()
	theirs, ours := filepath.Join(base, "git"), filepath.Join(base, "ours")
	for _, dir := range []string{theirs, ours} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		prepare(dir)
	}
	before := readTree(t, ours)
	v := verdict{git: g.apply(theirs, diff)}

	root, err := os.OpenRoot(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	res, err := Apply(context.Background(), root, diff, Options{Journal: filepath.Join(base, "journal")})
	v.applied = err == nil && res.OK
	switch {
	case err != nil:
		v.refusal = err.Error()
	case !res.OK:
		v.refusal = fmt.Sprint(res.Conflicts)
	}
	after := readTree(t, ours)
	switch {
	case !v.applied:
		if d := before.diff(after); d != "" {
			v.mismatch = "refused, but changed the tree: " + d
		} else if v.git == "" {
			v.mismatch = "git applied it, but we refused: " + v.refusal
		}
	case v.git != "":
		v.mismatch = "git refused it (" + v.git + "), but we applied it"
	default:
		if d := readTree(t, theirs).diff(after); d != "" {
			v.mismatch = "trees differ (git against ours): " + d
		}
	}
	if left, err := filepath.Glob(filepath.Join(base, "journal", "*.journal")); err != nil || len(left) > 0 {
		t.Errorf("journals left: %q %v", left, err)
	}
	return v
}

// excused tells a disagreement that is meant. Older versions of git do not find
// the name in a header if a directory's name ends in a space.
func (v verdict) excused(diff string) bool {
	if v.applied && strings.Contains(v.git, "lacks filename information") && strings.Contains(diff, " /") {
		return true
	}
	return v.git == "" && !v.applied && strings.HasPrefix(v.mismatch, "git applied") &&
		slices.ContainsFunc(deliberate, func(reason string) bool { return strings.Contains(v.refusal, reason) })
}
