package repo

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func put(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// git runs the real one, without the user's configuration.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_ALLOW_PROTOCOL=file")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func newRepository(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "work")
	put(t, filepath.Join(dir, "a.txt"), "a\n")
	put(t, filepath.Join(dir, "sub", "deep", "b.txt"), "b\n")
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func runs(t *testing.T, dir string) string {
	t.Helper()
	r, err := new(Finder).Find(dir)
	if err != nil {
		return err.Error()
	}
	if r == nil {
		return "none"
	}
	return r.Runs(true)
}

// Repositories as people have them are plain: as git makes them, cloned, with
// branches, work trees and submodules.
func TestPlainRepositories(t *testing.T) {
	dir := newRepository(t)
	for _, setting := range []string{"user.name=x", "branch.main.merge=refs/heads/main", "remote.origin.url=https://example.com/x.git", "pull.rebase=true", "core.autocrlf=input",
		"core.hooksPath=.husky/_", "remote.origin.gh-resolved=base", "core.fsmonitor=false"} {
		key, value, _ := strings.Cut(setting, "=")
		git(t, dir, "config", key, value)
	}
	clone, tree := filepath.Join(filepath.Dir(dir), "clone"), filepath.Join(filepath.Dir(dir), "tree")
	git(t, dir, "clone", "-q", dir, clone)
	git(t, dir, "worktree", "add", "-q", tree, "-b", "other")
	git(t, clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", dir, "module")
	for _, at := range []string{dir, filepath.Join(dir, "sub", "deep"), clone, tree, filepath.Join(tree, "sub"), filepath.Join(clone, "module"), filepath.Join(clone, "module", "sub")} {
		if why := runs(t, at); why != "" {
			t.Errorf("%s: %s", at, why)
		}
	}
	r, err := new(Finder).Find(filepath.Join(clone, "module", "sub"))
	if err != nil || r.Top != filepath.Join(clone, "module") {
		t.Errorf("%+v, %v", r, err)
	}
	// A setting of a submodule counts for the whole.
	git(t, filepath.Join(clone, "module"), "config", "core.fsmonitor", "evil")
	if why := runs(t, clone); !strings.Contains(why, "submodule module") {
		t.Errorf("%q", why)
	}
}

// Whatever may run a program or lead elsewhere is found, however it is written.
func TestRepositoriesThatRunPrograms(t *testing.T) {
	for name, text := range map[string]string{
		"fsmonitor":       "[core]\n\tfsmonitor = evil\n",
		"its daemon":      "[core]\n\tfsmonitor = true\n",
		"without a value": "[core]\n\tfsmonitor\n",
		"one line":        "[core] fsmonitor = evil\n",
		"in capitals":     "[CORE]\n\tFSMonitor = evil\n",
		"without spaces":  "[core]fsmonitor=evil",
		"external diff":   "[diff]\n\texternal = evil\n",
		"textconv":        "[diff \"x\"]\n\ttextconv = evil\n",
		"old form":        "[diff.x]\n\ttextconv = evil\n",
		"diff command":    "[diff \"x\"]\n\tcommand = evil\n",
		"clean":           "[filter \"x\"]\n\tclean = evil\n",
		"process":         "[filter \"x\"]\n\tprocess = evil\n",
		"merge driver":    "[merge \"x\"]\n\tdriver = evil\n",
		"pager":           "[core]\n\tpager = evil\n",
		"own pager":       "[pager]\n\tlog = evil\n",
		"ssh":             "[core]\n\tsshCommand = evil\n",
		"gpg":             "[gpg]\n\tprogram = evil\n",
		"signatures":      "[log]\n\tshowSignature = true\n",
		"alias":           "[alias]\n\tst = !evil\n",
		"credentials":     "[credential]\n\thelper = evil\n",
		"upload pack":     "[remote \"origin\"]\n\tuploadpack = evil\n",
		"promisor":        "[remote \"origin\"]\n\tpromisor = true\n",
		"partial clone":   "[extensions]\n\tpartialClone = origin\n",
		"summary":         "[status]\n\tsubmoduleSummary = true\n",
		"work tree":       "[core]\n\tworktree = /\n",
		"bare":            "[core]\n\tbare = true\n",
		"include":         "[include]\n\tpath = ../evil\n",
		"include if":      "[includeIf \"gitdir:/\"]\n\tpath = ../evil\n",
		"attributes":      "[core]\n\tattributesFile = x\n",
		"revisions file":  "[blame]\n\tignoreRevsFile = /etc/passwd\n",
		"hooks elsewhere": "[core]\n\thooksPath = ~/x\n",
		"hooks in quotes": "[core]\n\thooksPath = \"x\"\n",
		"continued":       "[user]\n\tname = a\\\n[core]\n\tfsmonitor = evil\n",
		"no section":      "fsmonitor = evil\n",
		"control":         "[user]\n\tname = a\x0b\n",
		"not closed":      "[core\n",
		"earlier names":   "[log]\n\tfollow = true\n",
		"refs elsewhere":  "[extensions]\n\trefStorage = files:///tmp/x\n",
		"something new":   "[quux]\n\tfrobnicate = 1\n",
		"too large":       "[user]\n" + strings.Repeat("\tname = x\n", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRepository(t)
			f, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if name == "no section" { // it would belong to the last one
				put(t, filepath.Join(dir, ".git", "config"), text)
			}
			if why := runs(t, filepath.Join(dir, "sub")); why == "" {
				t.Error("it passes for plain")
			}
		})
	}
}

// Repositories that are laid out to deceive.
func TestDeceivingRepositories(t *testing.T) {
	for name, lay := range map[string]func(t *testing.T, dir string) (from string){
		"a hook of the index": func(t *testing.T, dir string) string {
			put(t, filepath.Join(dir, ".git", "hooks", "post-index-change"), "evil")
			return dir
		},
		"that hook elsewhere": func(t *testing.T, dir string) string {
			git(t, dir, "config", "core.hooksPath", "h")
			put(t, filepath.Join(dir, "h", "post-index-change"), "evil")
			return dir
		},
		"settings of a work tree": func(t *testing.T, dir string) string {
			git(t, dir, "config", "extensions.worktreeConfig", "true")
			git(t, dir, "config", "--worktree", "core.fsmonitor", "evil")
			return dir
		},
		"a bare one": func(t *testing.T, dir string) string {
			git(t, dir, "init", "-q", "--bare", "bare")
			return filepath.Join(dir, "bare", "refs")
		},
		"one that is not complete": func(t *testing.T, dir string) string {
			put(t, filepath.Join(dir, "x", "HEAD"), "ref: refs/heads/x")
			put(t, filepath.Join(dir, "x", "config"), "")
			return filepath.Join(dir, "x")
		},
		"an empty .git": func(t *testing.T, dir string) string {
			put(t, filepath.Join(dir, "x", ".git", "y"), "")
			return filepath.Join(dir, "x")
		},
		"a .git file to another": func(t *testing.T, dir string) string {
			put(t, filepath.Join(dir, "x", ".git"), "gitdir: ../.git\n")
			return filepath.Join(dir, "x")
		},
		"a .git file that is none": func(t *testing.T, dir string) string {
			put(t, filepath.Join(dir, "x", ".git"), "hello")
			return filepath.Join(dir, "x")
		},
		"a link": func(t *testing.T, dir string) string {
			put(t, filepath.Join(dir, "x", "y"), "")
			if err := os.Symlink("../.git", filepath.Join(dir, "x", ".git")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if why := runs(t, lay(t, newRepository(t))); why == "" {
				t.Error("it passes for plain")
			}
		})
	}
}

// Each of these makes git show the history of a repository that is elsewhere,
// which is shown with the real git, and is found.
func TestHistoryFromElsewhere(t *testing.T) {
	link := func(t *testing.T, to, from string) {
		t.Helper()
		if err := os.RemoveAll(from); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for name, lay := range map[string]func(t *testing.T, own, other string){
		"a common directory": func(t *testing.T, own, other string) { put(t, filepath.Join(own, "commondir"), other+"\n") },
		"a relative one":     func(t *testing.T, own, _ string) { put(t, filepath.Join(own, "commondir"), "../../other/.git") },
		"objects": func(t *testing.T, own, other string) {
			link(t, filepath.Join(other, "objects"), filepath.Join(own, "objects"))
		},
		"refs": func(t *testing.T, own, other string) {
			link(t, filepath.Join(other, "refs"), filepath.Join(own, "refs"))
		},
		"a directory of objects": func(t *testing.T, own, other string) {
			entries, err := os.ReadDir(filepath.Join(other, "objects"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				link(t, filepath.Join(other, "objects", e.Name()), filepath.Join(own, "objects", e.Name()))
			}
		},
		"HEAD": func(t *testing.T, own, other string) {
			link(t, filepath.Join(other, "HEAD"), filepath.Join(own, "HEAD"))
		},
		"alternates": func(t *testing.T, own, other string) {
			put(t, filepath.Join(own, "objects", "info", "alternates"), filepath.Join(other, "objects")+"\n")
		},
		"relative alternates": func(t *testing.T, own, _ string) {
			put(t, filepath.Join(own, "objects", "info", "alternates"), "../../../other/.git/objects\n")
		},
		"a work tree that it made up": func(t *testing.T, own, other string) {
			store := filepath.Join(filepath.Dir(filepath.Dir(own)), "worktrees", "x")
			put(t, filepath.Join(store, "HEAD"), "ref: refs/heads/main\n")
			put(t, filepath.Join(store, "commondir"), other+"\n")
			put(t, filepath.Join(store, "gitdir"), own+"\n")
			if err := os.RemoveAll(own); err != nil {
				t.Fatal(err)
			}
			put(t, own, "gitdir: "+store+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRepository(t)
			other := filepath.Join(filepath.Dir(dir), "other")
			put(t, filepath.Join(other, "s.txt"), "elsewhere\n")
			git(t, other, "init", "-q", "-b", "main")
			git(t, other, "add", ".")
			git(t, other, "commit", "-q", "-m", "first")
			at := strings.TrimSpace(git(t, other, "rev-parse", "HEAD"))
			own := filepath.Join(dir, ".git")
			lay(t, own, filepath.Join(other, ".git"))
			// Links to refs and to HEAD alone bring no objects.
			if name != "refs" && name != "HEAD" {
				if got := git(t, dir, "show", at+":s.txt"); got != "elsewhere\n" {
					t.Fatalf("git shows %q, so this shows nothing", got)
				}
			}
			if why := runs(t, dir); why == "" {
				t.Error("it passes for plain")
			}
		})
	}
}

// The index says what git says, in every version of it.
func TestIndex(t *testing.T) {
	dir := newRepository(t)
	for _, name := range []string{"é.txt", "sub/deep/" + strings.Repeat("long", 40), "x", "xy", "xyz/1"} {
		put(t, filepath.Join(dir, name), "x")
	}
	git(t, dir, "add", ".")
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",module")
	for _, version := range []string{"2", "3", "4"} {
		if version == "3" {
			put(t, filepath.Join(dir, "intended"), "")
			git(t, dir, "add", "-N", "intended") // needs more flags
		}
		git(t, dir, "update-index", "--index-version", version)
		r, err := new(Finder).Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		index, err := r.Index()
		if err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
		got := append(slices.Clone(index.Files), index.Submodules...)
		slices.Sort(got)
		want := strings.Split(strings.TrimSuffix(git(t, dir, "ls-files", "-z"), "\x00"), "\x00")
		slices.Sort(want)
		if !slices.Equal(got, want) || !slices.Equal(index.Submodules, []string{"module"}) {
			t.Errorf("version %s: %q, want %q", version, got, want)
		}
	}
	git(t, dir, "update-index", "--split-index")
	r, err := new(Finder).Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Index(); err == nil {
		t.Error("half of an index passes for the whole")
	}
}

// BenchmarkFind looks at a repository with 200,000 loose objects and 50 packs.
// The target is 100 ms on two processors, and far less from then on.
func BenchmarkFind(b *testing.B) {
	dir := newRepository(b)
	objects := filepath.Join(dir, ".git", "objects")
	for i := range 200_000 {
		name := fmt.Sprintf("%02x/%038x", i%256, i)
		if i < 256 {
			if err := os.MkdirAll(filepath.Join(objects, name[:2]), 0o700); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(objects, name), nil, 0o400); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 50 {
		for _, kind := range []string{"pack", "idx", "rev"} {
			put(b, filepath.Join(objects, "pack", fmt.Sprintf("pack-%040x.%s", i, kind)), "")
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := filepath.WalkDir(objects, func(path string, _ fs.DirEntry, _ error) error { return os.Chtimes(path, long, long) }); err != nil {
		b.Fatal(err)
	}
	warm := new(Finder)
	for name, finder := range map[string]func() *Finder{"first": func() *Finder { return new(Finder) }, "again": func() *Finder { return warm }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if r, err := finder().Find(dir); r == nil || err != nil {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// A link is found wherever and whenever it is laid, also where there was none
// when the Finder looked before.
func TestLinksAreFoundLater(t *testing.T) {
	dir := newRepository(t)
	own := filepath.Join(dir, ".git")
	long := time.Now().Add(-time.Hour)
	if err := filepath.WalkDir(own, func(path string, _ fs.DirEntry, _ error) error { return os.Chtimes(path, long, long) }); err != nil {
		t.Fatal(err)
	}
	objects, err := filepath.Glob(filepath.Join(own, "objects", "??"))
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	finder := new(Finder)
	for _, in := range []string{objects[0], filepath.Join(own, "objects", "pack"), filepath.Join(own, "refs", "heads"), filepath.Join(own, "refs", "tags", "new"), own} {
		for range 2 {
			if r, err := finder.Find(dir); r == nil || err != nil {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if err := os.MkdirAll(in, 0o700); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(in, "link")
		if err := os.Symlink("/", link); err != nil {
			t.Fatal(err)
		}
		if _, err := finder.Find(dir); err == nil || !strings.Contains(err.Error(), link+" is a link") {
			t.Errorf("%s: %v", in, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

// A file is unchanged if git has stored it as it is.
func TestUnchanged(t *testing.T) {
	dir := newRepository(t)
	old := time.Unix(1_700_000_000, 0)
	for _, name := range []string{"same", "edited", "touched", "staged", "new", "intended"} {
		put(t, filepath.Join(dir, name), "x")
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "add", "same", "edited", "touched", "staged")
	git(t, dir, "add", "-N", "intended")
	put(t, filepath.Join(dir, "edited"), "yy")
	if err := os.Chtimes(filepath.Join(dir, "edited"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "touched"), old, old.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	unchanged := func() (out []string) {
		r, err := new(Finder).Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		index, err := r.Index()
		if err != nil {
			t.Fatal(err)
		}
		same := index.Unchanged()
		for _, name := range []string{"same", "edited", "touched", "staged", "new", "intended"} {
			info, err := os.Lstat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if is := same[name]; is != nil && is(info) {
				out = append(out, name)
			}
		}
		return out
	}
	if got := unchanged(); !slices.Equal(got, []string{"same", "staged"}) {
		t.Error(got)
	}
	// An index that is no newer than the file tells nothing.
	if err := os.Chtimes(filepath.Join(dir, ".git", "index"), old, old); err != nil {
		t.Fatal(err)
	}
	if got := unchanged(); got != nil {
		t.Error(got)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("x", 20)))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("x", 90)))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseIndex(data, 20) })
}

func TestNoRepository(t *testing.T) {
	dir := t.TempDir()
	if r, err := new(Finder).Find(dir); r != nil && strings.HasPrefix(r.Top, dir) || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStores(t *testing.T) {
	dir := newRepository(t)
	if s := Stores(dir); len(s) != 0 {
		t.Errorf("%q", s)
	}
	tree := filepath.Join(filepath.Dir(dir), "tree")
	git(t, dir, "worktree", "add", "-q", tree)
	if s := Stores(tree); !slices.Equal(s, []string{filepath.Join(dir, ".git", "worktrees", "tree"), filepath.Join(dir, ".git")}) {
		t.Errorf("%q", s)
	}
	if err := os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("store", filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	if s := Stores(dir); !slices.Equal(s, []string{filepath.Join(dir, "store")}) {
		t.Errorf("%q", s)
	}
}
