//go:build unix

package orchestrate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// outside makes a directory beside the repository, with a file that no run may
// touch.
func (y *yard) outside() string {
	y.t.Helper()
	dir := filepath.Join(filepath.Dir(y.dir), "outside")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		y.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("theirs\n"), 0o644); err != nil {
		y.t.Fatal(err)
	}
	return dir
}

// untouched checks that directory.
func (y *yard) untouched(dir string) {
	y.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		y.t.Errorf("something was written or removed outside: %v %v", entries, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "theirs\n" {
		y.t.Errorf("%q %v", data, err)
	}
}

func (y *yard) link(target, name string) {
	y.t.Helper()
	path := filepath.Join(y.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		y.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		y.t.Fatal(err)
	}
}

// Nothing is written where a link or an ignored file is in the way: not
// through it, not over it, and nothing else either. When it is gone the run
// can go on.
func TestDeliveryStopsAtWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ignored string
		plant   func(y *yard, outside string)
		obey    string // what the work does
		path    string
		away    string // what the user moves away
	}{
		"a link to outside": {"node_modules", func(y *yard, out string) { y.link(out, "node_modules") },
			"write node_modules/evil.js x", "node_modules/evil.js", "node_modules"},
		"a link over a file of outside": {"node_modules", func(y *yard, out string) { y.link(out, "node_modules") },
			"write node_modules/a.txt x", "node_modules/a.txt", "node_modules"},
		"a link on the way": {"deep", func(y *yard, out string) { y.link(out, "vendor/deep") },
			"write vendor/deep/er/x x", "vendor/deep/er/x", "vendor/deep"},
		"a link to inside": {"cache", func(y *yard, _ string) { y.write("real/x", "x\n"); y.link("real", "cache") },
			"write cache/y y", "cache/y", "cache"},
		"a link to nowhere": {"cache", func(y *yard, _ string) { y.link("nowhere", "cache") }, "write cache/y y", "cache/y", "cache"},
		"a link that is the file": {"x.cfg", func(y *yard, out string) { y.link(filepath.Join(out, "a.txt"), "x.cfg") },
			"write x.cfg x", "x.cfg", "x.cfg"},
		"a tracked directory that became a link": {"lib", func(y *yard, out string) {
			if err := os.RemoveAll(filepath.Join(y.dir, "lib")); err != nil {
				y.t.Fatal(err)
			}
			y.link(out, "lib")
		}, "write lib/new.txt x", "lib/new.txt", "lib"},
		"a file for a directory":          {"out", func(y *yard, _ string) { y.write("out", "mine\n") }, "write out/x x", "out/x", "out"},
		"a directory with something kept": {"build", func(y *yard, _ string) { y.write("build/keep.o", "mine\n") }, "write build x", "build", "build"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			out := y.outside()
			y.write(".gitignore", tt.ignored+"\n")
			y.write("lib/old.txt", "old\n")
			y.git("add", "-A", "-f", ".gitignore", "lib")
			y.git("commit", "-q", "-m", "ignore")
			tt.plant(y, out)
			before := y.tree()
			r, err := Run(t.Context(), y.options(TaskPlan{Tasks: []SubTask{task("a", "write .gitignore nothing", "write aaa.txt a", tt.obey, "write zzz.txt z")}}))
			if bridge.CodeOf(err) != bridge.CodeConflict || !strings.Contains(err.Error(), tt.path) || bridge.AsError(err).Remedy == "" {
				t.Fatalf("%v: %+v", err, r)
			}
			y.untouched(out)
			if after := y.tree(); after != before {
				t.Errorf("something was written:\n%s", after)
			}
			if err := os.RemoveAll(filepath.Join(y.dir, tt.away)); err != nil {
				t.Fatal(err)
			}
			if r, err = Resume(t.Context(), r.Run, y.options(TaskPlan{})); err != nil || !r.Success || y.read("zzz.txt") != "z\n" {
				t.Fatalf("%v: %+v", err, r)
			}
			if info, err := os.Lstat(filepath.Join(y.dir, tt.path)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%v", err)
			}
			y.untouched(out)
		})
	}
}

// A link that appears in the very moment of the writing is not followed.
func TestLinksThatAppearWhileDelivering(t *testing.T) {
	for name, obey := range map[string]func(y *yard){
		"writing":  func(y *yard) { y.write("dir/a.txt", "new\n") },
		"adding":   func(y *yard) { y.write("dir/new.txt", "new\n") },
		"deleting": func(y *yard) { remove(y, "dir/a.txt") },
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			out := y.outside()
			y.write("dir/a.txt", "theirs\n")
			y.write("dir/b.txt", "b\n")
			y.write(".gitignore", "*.tmp\n")
			y.git("add", "-A")
			y.git("commit", "-q", "-m", "dir")
			repo, err := openRepository(t.Context(), os.Environ(), t.TempDir(), y.dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			repo.lockFile = filepath.Join(t.TempDir(), "lock")
			base, target := departed(y, repo, obey)
			begun := 0
			d := &delivery{repo: repo, run: "r", begin: func(string, string) error {
				if begun++; begun == 1 {
					remove(y, "dir")
					y.link(out, "dir")
				}
				return nil
			}}
			_, held, err := d.deliver(t.Context(), base, target)
			if err == nil && held == nil && name != "deleting" {
				t.Error("it was written somewhere")
			}
			y.untouched(out)
		})
	}
}

// A file under the name that a delivery uses for its own is not written
// through either.
func TestTemporaryFileIsALink(t *testing.T) {
	y := newYard(t)
	out := y.outside()
	repo, err := openRepository(t.Context(), os.Environ(), t.TempDir(), y.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	repo.lockFile = filepath.Join(t.TempDir(), "lock")
	y.write(".gitignore", "*.tmp\n")
	base, target := departed(y, repo, func(y *yard) { y.write("README.md", "new\n") })
	d := &delivery{repo: repo, run: "r", begin: func(string, string) error {
		y.link(filepath.Join(out, "a.txt"), ".copilot-bridge-r.tmp")
		return nil
	}}
	if _, held, err := d.deliver(t.Context(), base, target); err != nil || held != nil || y.read("README.md") != "new\n" {
		t.Errorf("%v %v", held, err)
	}
	y.untouched(out)
}

func remove(y *yard, name string) {
	y.t.Helper()
	if err := os.RemoveAll(filepath.Join(y.dir, name)); err != nil {
		y.t.Fatal(err)
	}
}

// departed returns the present state and what it would be after a change, which
// is undone.
func departed(y *yard, repo *repository, change func(y *yard)) (base, target string) {
	y.t.Helper()
	base, err := repo.base(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	change(y)
	tree, err := repo.snapshot(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	if target, err = repo.commit(y.t.Context(), tree, "x", base); err != nil {
		y.t.Fatal(err)
	}
	y.git("checkout", "-q", "-f", base, "--", ".")
	y.git("clean", "-q", "-f", "-d")
	y.git("reset", "-q")
	return base, target
}

// Work that changes what decides about agents, or makes links to outside, is
// left on a branch, all of it.
func TestWorkThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		obey, path string
	}{
		"a policy":            {"write .agent-policy.yaml x", ".agent-policy.yaml"},
		"a policy below":      {"write sub/.Agent-Policy.yml x", "sub/.Agent-Policy.yml"},
		"no policy":           {"remove held/.agent-policy.yaml", "held/.agent-policy.yaml"},
		"a link to outside":   {"link sub/out ../../outside", "sub/out"},
		"a link to the root":  {"link out /", "out"},
		"a link down and up":  {"link out big.txt/../../outside", "out"},
		"a link to git's own": {"link cfg .git/config", "cfg"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			out := y.outside()
			y.write("held/.agent-policy.yaml", "writes: {}\n")
			y.git("add", "-A")
			y.git("commit", "-q", "-m", "policy")
			before := y.tree()
			r, err := Run(t.Context(), y.options(TaskPlan{Tasks: []SubTask{task("a", "write aaa.txt a", tt.obey)}}))
			if err != nil || r.Success || len(r.Conflicts) != 1 || !slices.Contains(r.Conflicts[0].Paths, tt.path) || len(r.Kept) != 1 {
				t.Fatalf("%v: %+v", err, r)
			}
			if after := y.tree(); after != before {
				t.Errorf("something was written:\n%s", after)
			}
			if got := y.git("show", r.Kept[0]+":aaa.txt"); got != "a" {
				t.Errorf("the work is lost: %q", got)
			}
			y.untouched(out)
		})
	}
}

// Admit gets the names and the difference.
func TestAdmission(t *testing.T) {
	y := newYard(t)
	o := y.options(TaskPlan{Tasks: []SubTask{task("a", "write aaa.txt secret-plan", "replace big.txt line-30 X")}})
	var files []string
	var diff string
	o.Admit = func(_ context.Context, names []string, d string) error {
		files, diff = names, d
		return &bridge.Error{Code: bridge.CodeDenied, Message: "not today"}
	}
	before := y.tree()
	r, err := Run(t.Context(), o)
	if err != nil || r.Success || len(r.Kept) != 1 || len(r.Conflicts) != 1 || !strings.Contains(r.Conflicts[0].Message, "not today") || y.tree() != before {
		t.Fatalf("%v: %+v", err, r)
	}
	if !slices.Equal(files, []string{"aaa.txt", "big.txt"}) || !strings.Contains(diff, "+secret-plan") || !strings.Contains(diff, "-line-30\n+X\n") {
		t.Errorf("%v\n%s", files, diff)
	}
}

// Where parts work and how conflicts are shown does not follow links of theirs.
func TestWorktreesDoNotFollowLinks(t *testing.T) {
	y := newYard(t)
	out := y.outside()
	y.write("sub/x.txt", "x\n")
	y.write("pic", "\x00base\n")
	y.link(filepath.Join(out, "a.txt"), "pic.OTHER-SIDE")
	y.git("add", "-A")
	y.git("commit", "-q", "-m", "more")
	r, err := Run(t.Context(), y.options(TaskPlan{Tasks: []SubTask{task("red", "write pic \x00red"), task("blue", "write pic \x00blue")}}))
	if err == nil && r.Success {
		t.Errorf("%+v", r)
	}
	y.untouched(out)
	o := y.options(TaskPlan{Tasks: []SubTask{task("one", "remove ../sub", "link ../sub "+out), task("two", "write evil.txt x")}, Dependencies: map[string][]string{"two": {"one"}}})
	o.Dir = filepath.Join(y.dir, "sub")
	if r, err = Run(t.Context(), o); err != nil || r.Success || r.Tasks[0].State != Done || r.Tasks[1].State != Failed {
		t.Errorf("%v: %+v", err, r)
	}
	y.untouched(out)
}
