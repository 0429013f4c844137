//go:build unix

package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
	"github.com/copilot-bridge/copilot-bridge/internal/git"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// world is a user with a repository, which the coordinator has open, a clone in
// which a worker, good or bad, makes what it likes, and a worker's mirrors.
type world struct {
	t       testing.TB
	root    string
	env     []string
	repo    *git.Repository
	mirrors *Mirrors
	begin   string // the repository's only commit
}

func newWorld(t testing.TB, files int, initArgs ...string) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root}
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.at("home"), "GIT_CONFIG_NOSYSTEM=1"}
	for _, dir := range []string{"home", "repo", "marks"} {
		if err := os.Mkdir(w.at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.write("home", ".gitconfig", "[user]\n\tname = a\n\temail = a@example.com\n[protocol \"file\"]\n\tallow = always\n")
	w.git("repo", append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	w.write("repo", "a.txt", "one\n")
	w.write("repo", "dir/b.txt", "two\n")
	if err := os.Symlink("a.txt", w.at("repo/inside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hosts", w.at("repo/outside")); err != nil { // the user may have one
		t.Fatal(err)
	}
	for i := range files {
		w.write("repo", fmt.Sprintf("many/%02d/%d.txt", i%50, i), strings.Repeat(fmt.Sprintf("line of file %d\n", i), 100))
	}
	w.begin = w.commit("repo", "first")
	w.git("", "clone", "-q", w.at("repo"), w.at("clone"))
	w.repo, err = git.Open(t.Context(), git.Options{Dir: w.at("repo"), Environ: w.env, Scratch: w.at("scratch")})
	if err != nil {
		t.Fatal(err)
	}
	w.mirrors = NewMirrors(w.mirrorsOptions())
	t.Cleanup(func() {
		for _, err := range []error{w.repo.Close(), w.mirrors.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *world) mirrorsOptions() MirrorsOptions {
	return MirrorsOptions{Root: w.at("mirrors"), Scratch: w.at("scratch-worker"), Environ: w.env}
}

func (w *world) at(name string) string { return filepath.Join(w.root, name) }

func (w *world) write(dir, name, text string) {
	w.t.Helper()
	path := filepath.Join(w.at(dir), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// feed runs git with input as a person would.
func (w *world) feed(dir, input string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = w.at(dir), w.env, strings.NewReader(input)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, problem.String())
	}
	return string(out)
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(w.feed(dir, "", args...))
}

// commit records everything in a directory.
func (w *world) commit(dir, message string) string {
	w.t.Helper()
	w.git(dir, "add", "-A")
	w.git(dir, "commit", "-q", "-m", message)
	return w.git(dir, "rev-parse", "HEAD")
}

// announced describes a bundle as its maker would.
func announced(data []byte) fleet.Bundle {
	sum := sha256.Sum256(data)
	return fleet.Bundle{Object: "claim", Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

// bundleOf is what an honest sender makes.
func (w *world) bundleOf(repo *git.Repository, commit string, have ...string) ([]byte, fleet.Bundle) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "bundle")
	b, err := Make(w.t.Context(), repo, file, "claim", commit, have)
	if err != nil {
		w.t.Fatal(err)
	}
	if b.Object == "" {
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			w.t.Error("a file was written", err)
		}
		return nil, b
	}
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	if b != announced(data) {
		w.t.Errorf("%+v", b)
	}
	return data, b
}

// openClone is the clone as a worker's bridge sees it.
func (w *world) openClone() *git.Repository {
	w.t.Helper()
	r, err := git.Open(w.t.Context(), git.Options{Dir: w.at("clone"), Environ: w.env, Scratch: w.at("scratch-clone")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return r
}

func (w *world) openMirror(repo string) *Mirror {
	w.t.Helper()
	m, err := w.mirrors.Open(w.t.Context(), repo, w.begin)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) repoID() string {
	w.t.Helper()
	id, err := RepoID(w.t.Context(), w.repo, w.begin)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// A commit goes to a worker's mirror, and its result comes back. The second time
// nothing is sent that is there already.
func TestThereAndBack(t *testing.T) {
	for name, c := range map[string]struct {
		files int
		args  []string
	}{"few files": {0, nil}, "many files": {300, nil}, "sha256": {0, []string{"--object-format=sha256"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.files, c.args...)
			ctx, id := t.Context(), w.repoID()
			if have := w.mirrors.Have(id); have != nil {
				t.Fatal(have)
			}
			data, b := w.bundleOf(w.repo, w.begin)
			m := w.openMirror(id)
			defer m.Close()
			if err := m.Receive(ctx, bytes.NewReader(data), b, Expect{Name: "claim", Commit: w.begin}); err != nil {
				t.Fatal(err)
			}
			have := w.mirrors.Have(id)
			if fmt.Sprint(have) != fmt.Sprint([]string{w.begin}) {
				t.Fatal(have)
			}
			if _, none := w.bundleOf(w.repo, w.begin, have...); none != (fleet.Bundle{}) {
				t.Error(none)
			}
			if err := m.Receive(ctx, nil, fleet.Bundle{}, Expect{Name: "claim", Commit: w.begin}); err != nil {
				t.Error(err)
			}
			result := w.work(m, "a.txt", "changed\n")
			data, b = w.bundleOf(m.Repo, result, w.begin)
			if err := Receive(ctx, w.repo, bytes.NewReader(data), b, Expect{Name: "claim", Commit: result, Parent: w.begin}); err != nil {
				t.Fatal(err)
			}
			if got := w.git("repo", "show", result+":a.txt"); got != "changed" {
				t.Error(got)
			}
			if refs := w.git("repo", "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main" {
				t.Error(refs)
			}
			// What the worker made it has, and what has it all.
			if err := m.Keep(result); err != nil {
				t.Fatal(err)
			}
			if _, none := w.bundleOf(w.repo, result, w.mirrors.Have(id)...); none.Object != "" {
				t.Error(none)
			}
			if _, none := w.bundleOf(w.repo, w.begin, result); none.Object != "" { // it is older
				t.Error(none)
			}
			w.git("repo", "fsck", "--full", "--strict", "--no-dangling")
			w.git("mirrors/"+id+".git", "fsck", "--full", "--strict", "--no-dangling")
			w.noLeftovers()
		})
	}
}

// work makes a commit in a worktree of a mirror, as an attempt does.
func (w *world) work(m *Mirror, name, text string) string {
	w.t.Helper()
	ctx, dir := w.t.Context(), w.t.TempDir()
	index := filepath.Join(w.t.TempDir(), "index")
	_, err := m.Repo.AddWorktree(ctx, dir, "", w.begin)
	if err == nil {
		_, _, err = m.Repo.Run(ctx, git.Call{Tree: dir, Index: index, Args: []string{"read-tree", "--reset", "-u", w.begin}})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
	}
	tree, commit := "", ""
	if err == nil {
		tree, err = m.Repo.WriteTree(ctx, dir, index, nil)
	}
	if err == nil {
		commit, err = m.Repo.Line(ctx, git.Call{Args: []string{"commit-tree", tree, "-m", "work", "-p", w.begin}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return commit
}

func (w *world) noLeftovers() {
	w.t.Helper()
	err := filepath.WalkDir(w.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "tmp_") {
			w.t.Error(path, "is left")
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}

// Commits that a worker claims to have are only believed where they are known, and
// never taken for options.
func TestHaveFromOthers(t *testing.T) {
	w := newWorld(t, 0)
	w.write("repo", "new.txt", "new\n")
	second := w.commit("repo", "second")
	have := []string{"--all", "refs/heads/main", "", strings.Repeat("1", 40), strings.Repeat("1", 64), w.git("repo", "rev-parse", "HEAD^{tree}"), w.begin}
	data, _ := w.bundleOf(w.repo, second, have...)
	if !bytes.Contains(data, []byte("-"+w.begin)) {
		t.Errorf("%.200q", data)
	}
	if _, err := Make(t.Context(), w.repo, w.at("x"), "claim", "--all", nil); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Error(err)
	}
}

// A repository has one name in all its clones, and others have another.
func TestRepoID(t *testing.T) {
	w := newWorld(t, 0)
	id := w.repoID()
	w.write("repo", "new.txt", "new\n")
	second := w.commit("repo", "second")
	if got, err := RepoID(t.Context(), w.repo, second); err != nil || got != id {
		t.Error(got, err)
	}
	if got, err := RepoID(t.Context(), w.openClone(), w.begin); err != nil || got != id {
		t.Error(got, err)
	}
	other := w.git("repo", "commit-tree", "-m", "other", second+"^{tree}")
	if got, err := RepoID(t.Context(), w.repo, other); err != nil || got == id {
		t.Error(got, err)
	}
}

// What cannot be carried is said before a run begins.
func TestCheck(t *testing.T) {
	w := newWorld(t, 0)
	check := func(commit string) error { return Check(t.Context(), w.repo, commit) }
	w.write("repo", ".gitattributes", "# *.psd filter=lfs\n*.txt text\n")
	w.git("repo", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", w.at("clone"), "sub")
	if err := check(w.commit("repo", "harmless")); err != nil {
		t.Error(err)
	}
	w.write("repo", "deep/er/.gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n")
	err := check(w.commit("repo", "with LFS"))
	if bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(err.Error(), "(deep/er/.gitattributes)") {
		t.Error(err)
	}
	for path, what := range map[string]string{"repo/.git/shallow": "shallow", "repo/.git/objects/pack/pack-1.promisor": "partial"} {
		w.write(".", path, w.begin+"\n")
		if err := check(w.begin); bridge.CodeOf(err) != bridge.CodeUnsupported || !strings.Contains(err.Error(), what) {
			t.Error(err)
		}
		if err := os.Remove(w.at(path)); err != nil {
			t.Fatal(err)
		}
	}
}

// A task costs five runs of git at most, and each is in the sandbox, where there
// is one.
func TestConfined(t *testing.T) {
	w := newWorld(t, 0)
	runs := 0
	confine := func(_ context.Context, made program.Command, _ ...string) (program.Command, error) {
		runs++
		return made, nil
	}
	repo, err := git.Open(t.Context(), git.Options{Dir: w.at("repo"), Environ: w.env, Scratch: w.at("scratch-confined"), Confine: confine})
	if err != nil {
		t.Fatal(err)
	}
	o := w.mirrorsOptions()
	o.Confine = confine
	mirrors := NewMirrors(o)
	defer func() {
		if err := errors.Join(mirrors.Close(), repo.Close()); err != nil {
			t.Error(err)
		}
	}()
	m, err := mirrors.Open(t.Context(), w.repoID(), w.begin)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	check := func(step string, want int, err error) {
		t.Helper()
		if err != nil || runs != want {
			t.Errorf("%s: %d runs, %v", step, runs, err)
		}
		runs = 0
	}
	runs = 0
	data, b := w.bundleOf(repo, w.begin)
	check("make what a task begins with", 1, nil)
	check("receive it", 1, m.Receive(t.Context(), bytes.NewReader(data), b, Expect{Name: "claim", Commit: w.begin}))
	result := w.work(m, "new.txt", "new\n")
	runs = 0
	data, b = w.bundleOf(m.Repo, result, w.begin)
	check("make a result", 1, nil)
	check("receive it", 2, Receive(t.Context(), repo, bytes.NewReader(data), b, Expect{Name: "claim", Commit: result, Parent: w.begin}))
}
