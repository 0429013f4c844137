//go:build unix

package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// bench is a user with a home, a repository, and a place where programs that
// a repository names leave a mark.
type bench struct {
	t                *testing.T
	root, dir, marks string
	env              []string
}

func newBench(t *testing.T, initArgs ...string) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, root: root, dir: filepath.Join(root, "repo"), marks: filepath.Join(root, "marks")}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(root, "home"), "GIT_CONFIG_NOSYSTEM=1"}
	for _, dir := range []string{"home", "repo", "marks", "scratch"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.git("config", "--global", "user.name", "a")
	b.git("config", "--global", "user.email", "a@example.com")
	b.git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	b.write("a.txt", "one\n")
	b.write("b.txt", "two\n")
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "first")
	return b
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// try runs git as a user would.
func (b *bench) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	out, err := b.try(args...)
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// trap is a command that leaves a mark and does its job.
func (b *bench) trap(job string) string {
	return fmt.Sprintf("echo x >> %s/sprung; %s", b.marks, job)
}

func (b *bench) sprung() bool {
	b.t.Helper()
	names, err := os.ReadDir(b.marks)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(b.marks, n.Name())); err != nil {
			b.t.Fatal(err)
		}
	}
	return len(names) > 0
}

func (b *bench) open() (*Repository, error) {
	b.t.Helper()
	return Open(b.t.Context(), Options{Dir: b.dir, Environ: b.env, Scratch: filepath.Join(b.root, "scratch")})
}

func (b *bench) mustOpen() *Repository {
	b.t.Helper()
	r, err := b.open()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return r
}

// snapshot is the tree of the working tree.
func (b *bench) snapshot(r *Repository) (string, error) {
	index, err := r.CopyIndex(filepath.Join(b.root, "scratch"))
	if err != nil {
		return "", err
	}
	defer func() { _ = RemoveIndex(index) }() // the directory is the test's
	return r.WriteTree(b.t.Context(), "", index, nil)
}

// use does with a repository all that the bridge does. What fails is returned;
// a repository that is broken on purpose may fail.
func (b *bench) use(r *Repository) (problems []error) {
	b.t.Helper()
	ctx := b.t.Context()
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	tree, err := b.snapshot(r)
	note(err)
	head, err := r.Head(ctx)
	note(err)
	if tree == "" {
		tree = head
	}
	for _, args := range [][]string{{"status", "--porcelain", "--ignore-submodules=dirty"}, {"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"},
		{"diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", head, tree}, {"cat-file", "blob", head + ":b.txt"}} {
		_, _, err := r.Run(ctx, Call{Index: filepath.Join(r.gitDir, "index"), Args: args})
		note(err)
	}
	for _, branch := range []string{"left", "right"} {
		if _, err := b.try("rev-parse", branch); err == nil {
			_, _, err := r.Run(ctx, Call{Args: []string{"merge-tree", "--write-tree", b.git("rev-parse", "left"), b.git("rev-parse", "right")}, OK: []int{1}})
			note(err)
		}
	}
	note(r.SetRef(ctx, "refs/heads/bridge/x", head))
	_, err = r.Refs(ctx, "refs/heads/bridge/")
	note(err)
	dir := filepath.Join(b.root, "wt")
	note(os.Mkdir(dir, 0o755))
	gitDir, err := r.AddWorktree(ctx, dir, "bridge/y", head)
	note(err)
	index := filepath.Join(b.root, "scratch", "wt-index")
	_, _, err = r.Run(ctx, Call{Tree: dir, Index: index, Args: []string{"read-tree", "--reset", "-u", head}})
	note(err)
	note(os.WriteFile(filepath.Join(dir, "new.txt"), []byte("new\n"), 0o644))
	_, err = r.WriteTree(ctx, dir, index, nil)
	note(err)
	note(r.DeleteRefs(ctx, "refs/heads/bridge/x"))
	for _, path := range []string{dir, gitDir, index} {
		note(os.RemoveAll(path))
	}
	return problems
}

// trapCase is a repository that has a program run.
type trapCase struct {
	// lay prepares the repository.
	lay func(b *bench)
	// plain runs git as a user would, which springs the trap.
	plain [][]string
	// broken says that not everything works there.
	broken bool
}

// branches makes two branches that conflict in a.txt.
func branches(b *bench) {
	for _, side := range []string{"left", "right"} {
		b.git("checkout", "-q", "-b", side, "main")
		b.write("a.txt", side+"\n")
		b.git("commit", "-q", "-a", "-m", side)
	}
	b.git("checkout", "-q", "main")
}

func filtered(b *bench) {
	b.write(".gitattributes", "*.txt filter=evil\n")
	b.write("a.txt", "eins\n")
}

// missing makes the repository a partial clone without b.txt.
func missing(b *bench) {
	blob := b.git("rev-parse", "HEAD:b.txt")
	for _, args := range [][]string{{"core.repositoryformatversion", "1"}, {"extensions.partialClone", "origin"}, {"remote.origin.promisor", "true"},
		{"remote.origin.partialclonefilter", "blob:none"}} {
		b.git(append([]string{"config"}, args...)...)
	}
	if err := os.Remove(filepath.Join(b.dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
		b.t.Fatal(err)
	}
}

func hook(b *bench, dir, name string) {
	b.write(filepath.Join(dir, name), "#!/bin/sh\n"+b.trap("true")+"\n")
}

var traps = map[string]trapCase{
	"clean filter": {lay: func(b *bench) {
		b.git("config", "filter.evil.clean", b.trap("cat"))
		filtered(b)
	}, plain: [][]string{{"add", "-A"}}},
	"smudge filter": {lay: func(b *bench) {
		filtered(b)
		b.git("add", "-A")
		b.git("commit", "-q", "-m", "attributes")
		b.git("config", "filter.evil.smudge", b.trap("cat"))
	}, plain: [][]string{{"rm", "-q", "a.txt"}, {"checkout", "HEAD", "a.txt"}}},
	"process filter": {lay: func(b *bench) {
		b.git("config", "filter.evil.process", b.trap("cat"))
		filtered(b)
	}, plain: [][]string{{"add", "-A"}}},
	"filter in an included file": {lay: func(b *bench) {
		b.write("extra.inc", fmt.Sprintf("[filter \"evil\"]\n\tclean = %q\n", b.trap("cat")))
		b.git("config", "include.path", "../extra.inc")
		filtered(b)
	}, plain: [][]string{{"add", "-A"}}},
	"filter by a conditional include": {lay: func(b *bench) {
		b.write("extra.inc", fmt.Sprintf("[filter \"evil\"]\n\tclean = %q\n", b.trap("cat")))
		b.git("config", "includeIf.onbranch:main.path", "../extra.inc")
		filtered(b)
	}, plain: [][]string{{"add", "-A"}}},
	"filter in the worktree's configuration": {lay: func(b *bench) {
		b.git("config", "extensions.worktreeConfig", "true")
		b.git("config", "--worktree", "filter.evil.clean", b.trap("cat"))
		filtered(b)
	}, plain: [][]string{{"add", "-A"}}},
	"filter by info/attributes": {lay: func(b *bench) {
		b.git("config", "filter.evil.clean", b.trap("cat"))
		b.write(".git/info/attributes", "* filter=evil\n")
		b.write("a.txt", "eins\n")
	}, plain: [][]string{{"add", "-A"}}},
	"filter by core.attributesFile": {lay: func(b *bench) {
		b.git("config", "filter.evil.clean", b.trap("cat"))
		b.git("config", "core.attributesFile", filepath.Join(b.dir, "attrs"))
		b.write("attrs", "* filter=evil\n")
		b.write("a.txt", "eins\n")
	}, plain: [][]string{{"add", "-A"}}},
	"merge driver": {lay: func(b *bench) {
		branches(b)
		b.git("config", "merge.evil.driver", b.trap("true"))
		b.write(".gitattributes", "*.txt merge=evil\n")
	}, plain: [][]string{{"merge-tree", "--write-tree", "left", "right"}}},
	"default merge driver": {lay: func(b *bench) {
		branches(b)
		b.git("config", "merge.default", "evil")
		b.git("config", "merge.evil.driver", b.trap("true"))
	}, plain: [][]string{{"merge-tree", "--write-tree", "left", "right"}}},
	"file system monitor": {lay: func(b *bench) {
		b.git("config", "core.fsmonitor", b.trap("true"))
		b.write("a.txt", "eins\n")
	}, plain: [][]string{{"status"}}},
	"hooks": {lay: func(b *bench) {
		for _, name := range []string{"reference-transaction", "post-index-change", "post-checkout", "pre-commit"} {
			hook(b, ".git/hooks", name)
		}
	}, plain: [][]string{{"update-ref", "refs/heads/z", "HEAD"}}},
	"hooks elsewhere": {lay: func(b *bench) {
		hook(b, "tools", "reference-transaction")
		hook(b, "tools", "post-index-change")
		b.git("config", "core.hooksPath", "tools")
	}, plain: [][]string{{"update-ref", "refs/heads/z", "HEAD"}}},
	"ssh command by a lazy fetch": {lay: func(b *bench) {
		b.git("config", "remote.origin.url", "ssh://localhost/nowhere")
		b.git("config", "core.sshCommand", b.trap("false"))
		missing(b)
	}, plain: [][]string{{"cat-file", "blob", "HEAD:b.txt"}}, broken: true},
	"upload-pack by a lazy fetch": {lay: func(b *bench) {
		b.git("config", "remote.origin.url", "file://"+b.dir)
		b.git("config", "remote.origin.uploadpack", b.trap("false"))
		missing(b)
	}, plain: [][]string{{"cat-file", "blob", "HEAD:b.txt"}}, broken: true},
	"protocol helper by a lazy fetch": {lay: func(b *bench) {
		hook(b, "tools", "helper")
		b.git("config", "remote.origin.url", "ext::"+b.dir+"/tools/helper")
		b.git("config", "protocol.ext.allow", "always")
		missing(b)
	}, plain: [][]string{{"cat-file", "blob", "HEAD:b.txt"}}, broken: true},
	"external diff": {lay: func(b *bench) {
		b.git("config", "diff.external", b.trap("true"))
		b.write("a.txt", "eins\n")
	}, plain: [][]string{{"diff"}}},
	"diff driver": {lay: func(b *bench) {
		b.git("config", "diff.evil.command", b.trap("true"))
		b.git("config", "diff.evil.textconv", b.trap("cat"))
		b.write(".gitattributes", "*.txt diff=evil\n")
		b.write("a.txt", "eins\n")
	}, plain: [][]string{{"diff"}}},
	"a submodule's own configuration": {lay: func(b *bench) {
		b.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", b.dir, "sub")
		b.git("commit", "-q", "-a", "-m", "sub")
		b.git("config", "-f", ".gitmodules", "submodule.sub.ignore", "none")
		b.git("-C", "sub", "config", "core.fsmonitor", b.trap("true"))
		b.git("-C", "sub", "config", "filter.evil.clean", b.trap("cat"))
		b.write("sub/.gitattributes", "*.txt filter=evil\n")
		b.write("sub/a.txt", "eno\n")
	}, plain: [][]string{{"status"}}},
}

// Nothing that a repository names is run, whatever is done with it; and git
// itself does run it there, or this would show nothing.
func TestRepositoriesRunNothing(t *testing.T) {
	for name, tt := range traps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tt.lay(b)
			b.sprung()
			problems := b.use(b.mustOpen())
			if b.sprung() {
				t.Error("a program of the repository was run")
			}
			if len(problems) > 0 && !tt.broken {
				t.Error(problems)
			}
			for _, args := range tt.plain {
				_, _ = b.try(args...) // some fail after the deed
			}
			if !b.sprung() {
				t.Error("the trap does not work at all")
			}
		})
	}
}

// Changes after the repository was opened have no effect either.
func TestConfigurationChangesMeanwhile(t *testing.T) {
	for name, tt := range traps {
		if strings.Contains(name, "submodule") || strings.HasPrefix(name, "smudge") || strings.Contains(name, "merge driver") {
			continue // they need commits, or are among the others
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := b.mustOpen()
			tt.lay(b)
			b.sprung()
			if problems := b.use(r); len(problems) > 0 && !tt.broken {
				t.Error(problems)
			}
			if b.sprung() {
				t.Error("a program of the repository was run")
			}
		})
	}
}

// A directory that looks like a bare repository is a directory.
func TestPosingAsBareRepository(t *testing.T) {
	b := newBench(t)
	pose := func(dir string) {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.root, "repo", ".git"))); err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = %q\n", dir, b.trap("true"))
		if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outer := b.dir
	b.dir = filepath.Join(outer, "evil")
	pose(b.dir)
	if r := b.mustOpen(); r.Top != outer || r.Prefix != "evil" {
		t.Errorf("%s, %s", r.Top, r.Prefix)
	} else if problems := b.use(r); len(problems) > 0 {
		t.Error(problems)
	}
	if b.sprung() {
		t.Error("its configuration was used")
	}
	_, _ = b.try("status")
	if !b.sprung() {
		t.Error("the trap does not work at all")
	}
	b.env = SafeEnviron(b.env)
	if out, err := b.try("status"); err == nil || b.sprung() {
		t.Errorf("a shell's git uses it: %v %s", err, out)
	}
	b.dir = filepath.Join(b.root, "alone")
	pose(b.dir)
	if _, err := b.open(); bridge.CodeOf(err) != bridge.CodeNotFound || b.sprung() {
		t.Error(err)
	}
}

// A repository is used only where it says that it belongs.
func TestRepositoriesThatLeadElsewhere(t *testing.T) {
	for name, lay := range map[string]func(b *bench){
		"core.worktree is the home": func(b *bench) { b.git("config", "core.worktree", b.root) },
		"a file .git that names another": func(b *bench) {
			b.dir = filepath.Join(b.root, "other")
			b.write(".git", "gitdir: ../repo/.git\n")
		},
		"a link .git to another": func(b *bench) {
			b.dir = filepath.Join(b.root, "other")
			b.write("x", "")
			if err := os.Symlink("../repo/.git", filepath.Join(b.dir, ".git")); err != nil {
				b.t.Fatal(err)
			}
		},
		"commondir in .git": func(b *bench) {
			b.git("init", "-q", "../other")
			b.dir = filepath.Join(b.root, "other")
			b.write(".git/commondir", "../../repo/.git\n")
		},
		"a worktree that was taken over": func(b *bench) {
			b.git("worktree", "add", "-q", "../wt")
			data, err := os.ReadFile(filepath.Join(b.root, "wt", ".git"))
			if err != nil {
				b.t.Fatal(err)
			}
			b.dir = filepath.Join(b.root, "other")
			b.write(".git", string(data))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			lay(b)
			if _, err := b.open(); bridge.CodeOf(err) != bridge.CodeDenied || bridge.AsError(err).Remedy == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// The user's own filters and merge drivers work, the repository's are told.
func TestUsersOwnFilters(t *testing.T) {
	b := newBench(t)
	b.git("config", "--global", "filter.up.clean", "tr a-z A-Z")
	b.git("config", "--global", "filter.up.smudge", "tr A-Z a-z")
	b.git("config", "--global", "filter.up.required", "true")
	b.write("extra.inc", "[filter \"more\"]\n\tclean = sed s/^/more-/\n")
	b.git("config", "--global", "includeIf.gitdir:"+b.dir+"/.path", filepath.Join(b.dir, "extra.inc"))
	b.git("config", "filter.up.clean", "tr a-z A-Z") // the same: nothing to tell
	b.git("config", "filter.up.smudge", "tr A-Z a-z")
	b.write(".gitattributes", "*.up filter=up\n*.more filter=more\n")
	b.write("x.up", "lower\n")
	b.write("x.more", "x\n")
	r := b.mustOpen()
	if len(r.Warnings) > 0 {
		t.Error(r.Warnings)
	}
	tree, err := b.snapshot(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"x.up": "LOWER\n", "x.more": "more-x\n"} {
		if got, _, err := r.Run(t.Context(), Call{Args: []string{"cat-file", "blob", tree + ":" + name}}); err != nil || got != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	dir := filepath.Join(b.root, "out")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Run(t.Context(), Call{Tree: dir, Index: filepath.Join(b.root, "i"), Args: []string{"read-tree", "--reset", "-u", tree}}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "x.up")); err != nil || string(data) != "lower\n" {
		t.Errorf("%q %v", data, err)
	}
}

// A filter that only the repository defines is left out and told; one that it
// calls required stops git before contents go raw.
func TestRepositorysOwnFilters(t *testing.T) {
	b := newBench(t)
	b.git("config", "filter.own.clean", b.trap("tr a-z A-Z"))
	b.git("config", "filter.own.smudge", b.trap("cat"))
	b.write(".gitattributes", "*.own filter=own\n")
	b.write("x.own", "lower\n")
	r := b.mustOpen()
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `"filter.own.clean, filter.own.smudge"`) {
		t.Errorf("%q", r.Warnings)
	}
	tree, err := b.snapshot(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.Run(t.Context(), Call{Args: []string{"cat-file", "blob", tree + ":x.own"}}); err != nil || got != "lower\n" {
		t.Errorf("%q %v", got, err)
	}
	b.git("config", "filter.own.required", "true")
	_, err = b.snapshot(b.mustOpen())
	if err == nil || !strings.Contains(err.Error(), "x.own") || !strings.Contains(bridge.AsError(err).Remedy, "filter.own.clean") {
		t.Errorf("%v", err)
	}
	if b.sprung() {
		t.Error("it was run")
	}
}

// Ordinary repositories of every kind can be used.
func TestOrdinaryRepositories(t *testing.T) {
	for name, lay := range map[string]func(b *bench) *bench{
		"plain":        func(b *bench) *bench { return b },
		"subdirectory": func(b *bench) *bench { b.write("deep/er/x", ""); b.dir = filepath.Join(b.dir, "deep/er"); return b },
		"linked worktree": func(b *bench) *bench {
			b.git("worktree", "add", "-q", "../linked")
			b.dir = filepath.Join(b.root, "linked")
			return b
		},
		"submodule": func(b *bench) *bench {
			b.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", b.dir, "sub")
			b.git("commit", "-q", "-a", "-m", "sub")
			b.dir = filepath.Join(b.dir, "sub")
			return b
		},
		"sparse checkout": func(b *bench) *bench {
			b.write("kept/x", "")
			b.write("gone/x", "")
			b.git("add", "-A")
			b.git("commit", "-q", "-m", "more")
			b.git("sparse-checkout", "set", "kept")
			return b
		},
		"split index":     func(b *bench) *bench { b.git("update-index", "--split-index"); return b },
		"untracked cache": func(b *bench) *bench { b.git("update-index", "--untracked-cache"); b.git("status"); return b },
		"shallow clone": func(b *bench) *bench {
			b.git("commit", "-q", "--allow-empty", "-m", "second")
			b.git("clone", "-q", "--depth", "1", "file://"+b.dir, "../shallow")
			b.dir = filepath.Join(b.root, "shallow")
			return b
		},
		"borrowed objects": func(b *bench) *bench {
			b.git("clone", "-q", "--shared", b.dir, "../shared")
			b.dir = filepath.Join(b.root, "shared")
			return b
		},
		"separate git directory": func(b *bench) *bench {
			b.git("init", "-q", "--separate-git-dir", "../apart.git")
			b.git("config", "core.worktree", b.dir) // as the error would tell
			return b
		},
		"packed references": func(b *bench) *bench { b.git("pack-refs", "--all"); return b },
		"odd values": func(b *bench) *bench {
			b.git("config", "--global", "filter.a \"b\\.c.clean", "tr 'a\tb' \"c\\\\;d#\"\n")
			b.git("config", "--global", "core.bigFileThreshold", "1m")
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := lay(newBench(t))
			r := b.mustOpen()
			if problems := b.use(r); len(problems) > 0 {
				t.Error(problems)
			}
			b.write("new file", "x\n")
			before := b.git("ls-files", "--stage", ":/")
			ours, err := b.snapshot(r)
			if err != nil {
				t.Fatal(err)
			}
			if b.git("ls-files", "--stage", ":/") != before {
				t.Error("the user's index was changed")
			}
			b.git("add", "-A", ":/")
			if theirs := b.git("write-tree"); ours != theirs {
				t.Errorf("git has another tree:\n%s\n%s", b.git("ls-tree", "-r", ours), b.git("ls-tree", "-r", theirs))
			}
		})
	}
}

// The trees are those of `git add --all`, whatever became of the files.
func TestTreesAreGits(t *testing.T) {
	b := newBench(t, "--object-format=sha256")
	for _, name := range []string{"d/one", "d/two", "e/x", "link-to-be/x", "file", "gone"} {
		b.write(name, name)
	}
	b.write(".gitignore", "*.o\n")
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "more")
	for _, name := range []string{"d", "link-to-be", "file", "gone"} {
		if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.write("d", "a file now")
	b.write("file/x", "a directory now")
	b.write("x.o", "ignored")
	b.write("ünï\tcode", "x")
	if err := os.Symlink("e", filepath.Join(b.dir, "link-to-be")); err != nil {
		t.Fatal(err)
	}
	r := b.mustOpen()
	ours, err := b.snapshot(r)
	if err != nil {
		t.Fatal(err)
	}
	b.git("add", "-A")
	if theirs := b.git("write-tree"); ours != theirs {
		t.Errorf("git has another tree:\n%s\n%s", b.git("ls-tree", "-r", ours), b.git("ls-tree", "-r", theirs))
	}
}

// Repositories in the tree are recorded by their commit. One without a commit
// is left out.
func TestNestedRepositories(t *testing.T) {
	b := newBench(t)
	b.git("init", "-q", "with")
	b.write("with/x.txt", "x\n")
	b.git("-C", "with", "add", "-A")
	b.git("-C", "with", "commit", "-q", "-m", "x")
	b.git("init", "-q", "without")
	tree, err := b.snapshot(b.mustOpen())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.git("ls-tree", "--format=%(objecttype) %(objectname) %(path)", tree, "with", "without"), "commit "+b.git("-C", "with", "rev-parse", "HEAD")+" with"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A sandbox hides the data of a repository in the tree that lie elsewhere. Its
// files are not ours all the same.
func TestNestedRepositoryHidden(t *testing.T) {
	b := newBench(t)
	b.write("linked/.git", "gitdir: "+filepath.Join(b.root, "hidden")+"\n")
	b.write("linked/deep/x.txt", "x\n")
	b.write("own/x.txt", "x\n")
	r := b.mustOpen()
	r.confine = func(_ context.Context, made program.Command, _ ...string) (program.Command, error) { return made, nil }
	tree, err := b.snapshot(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.git("ls-tree", "-r", "--name-only", tree, "linked", "own"); got != "own/x.txt" {
		t.Errorf("recorded %q", got)
	}
}

// A shell's git runs no monitor, writes nothing where it only reads, and keeps
// the settings that it was given.
func TestSafeEnviron(t *testing.T) {
	b := newBench(t)
	b.write("dated.txt", "x\n")
	b.git("add", "dated.txt")
	b.git("config", "core.fsmonitor", b.trap("true"))
	b.env = SafeEnviron(append(b.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=given"))
	index := filepath.Join(b.dir, ".git", "index")
	before, err := os.ReadFile(index)
	if err == nil {
		err = os.Chtimes(filepath.Join(b.dir, "dated.txt"), time.Time{}, time.Unix(1, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.git("status")
	if b.sprung() {
		t.Error("the monitor was run")
	}
	if after, err := os.ReadFile(index); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the index was written (%v)", err)
	}
	if got := b.git("config", "user.name"); got != "given" {
		t.Error(got)
	}
	if n := len(slices.DeleteFunc(slices.Clone(b.env), func(e string) bool { return !strings.HasPrefix(e, "GIT_CONFIG_COUNT=") })); n != 1 {
		t.Error(n)
	}
}

// git itself, and what the user's filters run, is not taken from the workspace.
func TestProgramsOfTheWorkspace(t *testing.T) {
	b := newBench(t)
	b.write("bin/git", "#!/bin/sh\n"+b.trap("exit 1")+"\n")
	b.env = append(b.env, "PATH="+filepath.Join(b.dir, "bin")+":bin:"+os.Getenv("PATH"))
	if problems := b.use(b.mustOpen()); len(problems) > 0 || b.sprung() {
		t.Error(problems)
	}
	b.env = append(b.env, "PATH="+filepath.Join(b.dir, "bin"))
	if _, err := b.open(); bridge.CodeOf(err) != bridge.CodeUnavailable || b.sprung() {
		t.Error(err)
	}
}

// A canceled run is asked to end, and ends.
func TestCanceled(t *testing.T) {
	b := newBench(t)
	b.git("config", "--global", "filter.slow.clean", "echo > "+b.marks+"/begun; exec sleep 100")
	b.write(".gitattributes", "*.slow filter=slow\n")
	b.write("x.slow", "x\n")
	r := b.mustOpen()
	ctx, cancel := context.WithCancel(t.Context())
	index, err := r.CopyIndex(filepath.Join(b.root, "scratch"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.WriteTree(ctx, "", index, nil)
		done <- err
	}()
	for deadline := time.Now().Add(time.Minute); !b.sprung(); {
		if time.Now().After(deadline) {
			t.Fatal("it never began")
		}
	}
	cancel()
	if err := <-done; bridge.CodeOf(err) != bridge.CodeCanceled {
		t.Error(err)
	}
	if _, err := os.Stat(index + ".lock"); err == nil {
		t.Error("a lock is left")
	}
}
