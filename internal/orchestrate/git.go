package orchestrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// git runs the git program. Nothing of the caller's git environment reaches
// it, no hook of the user's runs, and it never writes a configuration.
type git struct {
	environ []string
	scratch string // a directory for our own files, outside of the repository
}

// call is one run of git.
type call struct {
	dir     string
	gitDir  string // instead of the one that git would find
	index   string // instead of the repository's own
	input   string
	args    []string
	exitsOK []int // codes besides 0 that are answers
}

// patience bounds one run of git: a checkout of a large tree takes a while.
const patience = 10 * time.Minute

func newGit(environ []string, scratch string) *git {
	g := &git{scratch: scratch}
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(strings.ToUpper(name), "GIT_") {
			g.environ = append(g.environ, kv)
		}
	}
	const who, where = "Copilot Bridge", "copilot-bridge@localhost"
	g.environ = append(g.environ, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0",
		"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+where, "GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+where)
	return g
}

// run returns what git wrote, and its exit code if it is one of those
// expected.
func (g *git) run(ctx context.Context, c call) (string, int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := append([]string{"-c", "core.hooksPath=" + filepath.Join(g.scratch, "no-hooks"), "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
		"-c", "maintenance.auto=false", "-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false", "-c", "core.quotePath=false"}, c.args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = c.dir, g.environ
	if c.gitDir != "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "GIT_DIR="+c.gitDir, "GIT_WORK_TREE="+c.dir)
	}
	if c.index != "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "GIT_INDEX_FILE="+c.index)
	}
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.input), &out, &problem
	// Asked to end, git removes its lock files; killed, it would leave them in
	// the user's repository.
	apart(cmd)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), 0, nil
	case ctx.Err() != nil:
		return "", -1, context.Cause(ctx)
	case errors.As(err, &exit):
		for _, ok := range c.exitsOK {
			if exit.ExitCode() == ok {
				return out.String(), ok, nil
			}
		}
		return "", exit.ExitCode(), &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("git %s failed: %s", c.args[0], lastWords(problem.String(), err))}
	}
	return "", -1, &bridge.Error{Code: bridge.CodeUnavailable, Message: "git cannot be run", Cause: err,
		Remedy: "install git, or use --isolation shared"}
}

func lastWords(stderr string, err error) string {
	if text := strings.TrimSpace(stderr); text != "" {
		return firstLine(text, 300)
	}
	return err.Error()
}

// line is run for an answer of one line.
func (g *git) line(ctx context.Context, c call) (string, error) {
	out, _, err := g.run(ctx, c)
	return strings.TrimRight(out, "\r\n"), err
}

// repository is the user's, seen from a directory in its working tree.
type repository struct {
	git    *git
	top    string // root of the working tree
	prefix string // the directory in it where the run works, "" for the root
	common string // git's own directory
	// lockFile is held while the list of worktrees is changed.
	lockFile string
}

// oldest is the first git that merges without a working tree.
var oldest = [2]int{2, 38}

// openRepository finds the repository of a directory. CodeNotFound means that
// there is none.
func openRepository(ctx context.Context, g *git, dir string) (*repository, error) {
	version, err := g.line(ctx, call{dir: dir, args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	if !recent(version) {
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("%s is too old", version),
			Remedy: fmt.Sprintf("install git %d.%d or newer, or use --isolation shared", oldest[0], oldest[1])}
	}
	out, code, err := g.run(ctx, call{dir: dir, args: []string{"rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"}, exitsOK: []int{128}})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(out, "\r\n"), "\n")
	if code != 0 || len(lines) != 2 {
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: dir + " is not in the working tree of a git repository",
			Remedy: "run `git init` there, or use --isolation shared"}
	}
	prefix, err := g.line(ctx, call{dir: dir, args: []string{"rev-parse", "--show-prefix"}})
	if err != nil {
		return nil, err
	}
	return &repository{git: g, top: filepath.FromSlash(lines[0]), common: filepath.FromSlash(lines[1]), prefix: strings.TrimSuffix(prefix, "/")}, nil
}

func recent(version string) bool {
	words := strings.Fields(version)
	if len(words) < 3 {
		return false
	}
	parts := strings.Split(words[2], ".")
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > oldest[0] || major == oldest[0] && minor >= oldest[1])
}

// at is a call in the user's working tree.
func (r *repository) at(args ...string) call { return call{dir: r.top, args: args} }

// ask is for answers of one line.
func (r *repository) ask(ctx context.Context, args ...string) (string, error) {
	return r.git.line(ctx, r.at(args...))
}

// commit makes a commit of a tree, which belongs to no branch yet.
func (r *repository) commit(ctx context.Context, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-m", message}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return r.ask(ctx, args...)
}

func (r *repository) treeOf(ctx context.Context, commit string) (string, error) {
	return r.ask(ctx, "rev-parse", "--verify", commit+"^{tree}")
}

// keep puts a commit under a name, so that git does not throw it away.
func (r *repository) keep(ctx context.Context, ref, commit string) error {
	_, _, err := r.git.run(ctx, r.at("update-ref", ref, commit))
	return err
}

// forget removes names, those that do not exist too.
func (r *repository) forget(ctx context.Context, refs ...string) error {
	if len(refs) == 0 {
		return nil
	}
	var b strings.Builder
	for _, ref := range refs {
		fmt.Fprintf(&b, "delete %s\n", ref)
	}
	c := r.at("update-ref", "--stdin")
	c.input = b.String()
	_, _, err := r.git.run(ctx, c)
	return err
}

// refs lists the names below a prefix.
func (r *repository) refs(ctx context.Context, prefix string) ([]string, error) {
	out, err := r.ask(ctx, "for-each-ref", "--format=%(refname)", prefix)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// contains says whether a commit is part of the history of another.
func (r *repository) contains(ctx context.Context, whole, part string) (bool, error) {
	c := r.at("merge-base", "--is-ancestor", part, whole)
	c.exitsOK = []int{1}
	_, code, err := r.git.run(ctx, c)
	return err == nil && code == 0, err
}

// snapshot returns the state of the user's working tree as a tree: tracked
// files as they are, and untracked ones that are not ignored. Nothing of the
// user's is touched, the index included.
func (r *repository) snapshot(ctx context.Context) (tree string, err error) {
	index, err := r.ask(ctx, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return "", err
	}
	ours, err := r.scratchIndex(index)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, removeIndex(ours)) }()
	c := r.at("add", "--all", "--", ":/")
	c.index = ours
	if _, _, err := r.git.run(ctx, c); err != nil {
		return "", err
	}
	c.args = []string{"write-tree"}
	return r.git.line(ctx, c)
}

// scratchIndex copies an index, which spares git reading every file anew; one
// that does not exist yet becomes a new one.
func (r *repository) scratchIndex(from string) (string, error) {
	f, err := os.CreateTemp(r.git.scratch, "index-*")
	if err != nil {
		return "", err
	}
	name := f.Name()
	data, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(data) == 0 {
		// git takes an empty file for a broken index, and none for a new one.
		return name, errors.Join(f.Close(), os.Remove(name))
	}
	if err == nil {
		_, err = f.Write(data)
	}
	return name, errors.Join(err, f.Close())
}

func removeIndex(name string) error {
	for _, n := range []string{name, name + ".lock"} {
		if err := os.Remove(n); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// head is the user's present commit, or "" before the first.
func (r *repository) head(ctx context.Context) (string, error) {
	c := r.at("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	c.exitsOK = []int{1}
	out, _, err := r.git.run(ctx, c)
	return strings.TrimSpace(out), err
}

// base is the commit on which a run builds: the user's present commit and, if
// there is uncommitted work, a commit of that on top.
func (r *repository) base(ctx context.Context) (string, error) {
	if out, err := r.ask(ctx, "ls-files", "--unmerged"); err != nil || out != "" {
		return "", errors.Join(err, &bridge.Error{Code: bridge.CodeConflict, Message: "the repository is in the middle of a merge with conflicts",
			Remedy: "finish or abort it first (`git status` says how)"})
	}
	tree, err := r.snapshot(ctx)
	if err != nil {
		return "", err
	}
	head, err := r.head(ctx)
	if err != nil {
		return "", err
	}
	if head == "" {
		return r.commit(ctx, tree, "Uncommitted work")
	}
	if same, err := r.treeOf(ctx, head); err != nil || same == tree {
		return head, err
	}
	return r.commit(ctx, tree, "Uncommitted work", head)
}
