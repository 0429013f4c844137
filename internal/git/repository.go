package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// Options say which repository to open, and how.
type Options struct {
	Dir     string   // a directory in the working tree
	Environ []string // the caller's; variables meant for git are left out
	// Scratch is a directory of the caller's alone, outside of the repository.
	// The name "git" in it belongs to the Repository.
	Scratch string
	Confine Confine // nil where there is no sandbox
}

// Confine puts git in a sandbox in which it may write some directories.
type Confine func(ctx context.Context, c program.Command, write ...string) (program.Command, error)

// Repository is a repository with a working tree. It may be used by several
// goroutines at once.
//
// A repository's configuration can name programs: filters, merge drivers,
// hooks, a file system monitor, a transport. So all work on contents is done on
// a view: a git directory of ours, with the repository's objects and settings
// of our choice (see ours), and an index and working tree that each call names.
// The user's own filters and merge drivers work; those that only the repository
// defines do not exist. The repository itself is used for names only (see
// named). See docs/decisions/0005-git-on-a-view.md.
type Repository struct {
	Top    string // root of the working tree
	Prefix string // Options.Dir relative to it with slashes, "" for the root
	Common string // git's own directory, shared by all worktrees
	// Warnings say what of the repository's configuration is not used although
	// it may matter to contents. They are for people.
	Warnings []string

	environ []string // without anything that names the repository
	gitDir  string   // of the working tree: Common, or below it
	format  string   // of object names
	view    string   // directory of the view
	// settings are for the view, hooks those that the configuration defines.
	settings []setting
	hooks    []string
	scratch  string
	confine  Confine
}

// Call is one run of git on the view.
type Call struct {
	Tree  string // the working tree; "" for the user's
	Index string // "" for none
	Input string
	File  *os.File // read in place of Input, from where it stands; it stays the caller's
	Args  []string
	OK    []int  // codes besides 0 that are answers
	New   string // a directory outside in which git makes something
	// Incoming, if set, is where git puts new objects, and finds them besides the
	// repository's.
	Incoming *Incoming

	more []setting // for this call alone
}

// oldest is the first git that merges without a working tree, and that can be
// told not to use bare repositories it comes upon.
var oldest = [2]int{2, 38}

// Open finds the repository of a directory. CodeNotFound means that there is
// none, CodeUnavailable that there is no git, CodeUnsupported that it is too
// old, CodeDenied that the repository is not to be trusted.
func Open(ctx context.Context, o Options) (*Repository, error) {
	dir := resolved(o.Dir)
	top, ok := find(dir)
	if !ok {
		return nil, notFound(o.Dir)
	}
	prefix, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, err
	}
	if prefix = filepath.ToSlash(prefix); prefix == "." {
		prefix = ""
	}
	environ := plainEnviron(o.Environ, top)
	r := &Repository{Top: top, Prefix: prefix, environ: environ, view: filepath.Join(o.Scratch, "git"), confine: o.Confine}
	if err := os.MkdirAll(o.Scratch, 0o700); err != nil {
		return nil, err
	}
	r.scratch = resolved(o.Scratch)
	if err := r.checkVersion(ctx); err != nil {
		return nil, err
	}
	if err := r.discover(ctx); err != nil {
		return nil, err
	}
	config, err := r.readConfig(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkOwner(config); err != nil {
		return nil, err
	}
	if err := r.makeView(ctx, config); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close removes what Open has made.
func (r *Repository) Close() error { return os.RemoveAll(r.view) }

// find looks for the working tree of a directory: the nearest one, from there
// upwards, that has an entry .git. A directory that only looks like a bare
// repository is none.
func find(dir string) (top string, ok bool) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

func notFound(dir string) error {
	return &bridge.Error{Code: bridge.CodeNotFound, Message: dir + " is not in the working tree of a git repository",
		Remedy: "run `git init` there, or use --isolation shared"}
}

func (r *Repository) checkVersion(ctx context.Context) error {
	version, _, err := r.answer(ctx, r.Top, r.environ, Call{Args: []string{"version"}})
	if err != nil {
		return err
	}
	if version = strings.TrimSpace(version); !recent(version) {
		return &bridge.Error{Code: bridge.CodeUnsupported, Message: version + " is too old",
			Remedy: fmt.Sprintf("install git %d.%d or newer, or use --isolation shared", oldest[0], oldest[1])}
	}
	return nil
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

// discover asks git where its directories are. git itself refuses those of
// another user.
func (r *Repository) discover(ctx context.Context) error {
	env := append(r.named(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(r.Top))
	out, code, err := r.answer(ctx, r.Top, env, Call{OK: []int{128}, Args: []string{"rev-parse", "--path-format=absolute",
		"--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-object-format"}})
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(out, "\r\n"), "\n")
	if code != 0 || len(lines) != 4 {
		return notFound(r.Top)
	}
	if !same(filepath.FromSlash(lines[0]), r.Top) {
		return r.untrusted("its core.worktree is another directory", "remove core.worktree from the repository's configuration")
	}
	r.gitDir, r.Common, r.format = resolved(filepath.FromSlash(lines[1])), resolved(filepath.FromSlash(lines[2])), lines[3]
	return nil
}

func (r *Repository) untrusted(why, remedy string) error {
	return &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("the repository of %s is not used, because %s", r.Top, why), Remedy: remedy}
}

// checkOwner checks that a git directory outside of the working tree belongs
// to it: a file .git may name any repository of the user's. A linked worktree
// and a submodule are named in their git directory.
func (r *Repository) checkOwner(config []entry) error {
	info, err := os.Lstat(filepath.Join(r.Top, ".git"))
	if err != nil {
		return err
	}
	if info.IsDir() {
		if !same(r.gitDir, filepath.Join(r.Top, ".git")) || !same(r.Common, r.gitDir) {
			return r.untrusted("its .git directory leads to another one", "remove the file commondir from .git")
		}
		return nil
	}
	if !same(r.Common, r.gitDir) {
		at, err := readData(filepath.Join(r.gitDir, "gitdir"))
		back := strings.TrimSpace(string(at))
		if !filepath.IsAbs(back) {
			back = filepath.Join(r.gitDir, back)
		}
		if err == nil && same(filepath.Dir(r.gitDir), filepath.Join(r.Common, "worktrees")) && same(filepath.Dir(back), r.Top) {
			return nil
		}
		return r.untrusted(fmt.Sprintf("it is no worktree that %s knows", r.Common), "run `git worktree repair` there")
	}
	for _, e := range config {
		if e.local() && e.key == "core.worktree" {
			return nil // discover has compared it
		}
	}
	return r.untrusted(fmt.Sprintf(".git leads to %s, which does not name this directory as its own", r.gitDir),
		fmt.Sprintf("if it belongs here, run `git --git-dir=%s config core.worktree %s`", r.gitDir, r.Top))
}

// named is the environment for git on the repository itself: for finding it,
// listing its configuration, reading HEAD, updating references and registering
// a worktree. These commands convert no contents. Hooks, the monitor and every
// transport are switched off for them, over the repository's values.
func (r *Repository) named() []string {
	settings := []setting{{"safe.bareRepository", "explicit"}, {"core.hooksPath", filepath.Join(r.view, "no-hooks")}, {"core.fsmonitor", "false"},
		{"core.sshCommand", "false"}, {"credential.helper", ""}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
		{"fetch.recurseSubmodules", "false"}, {"submodule.recurse", "false"}}
	for _, name := range r.hooks {
		settings = append(settings, setting{"hook." + name + ".enabled", "false"})
	}
	env := configure(slices.Clone(r.environ), settings...)
	if r.gitDir != "" {
		env = append(env, "GIT_DIR="+r.gitDir, "GIT_WORK_TREE="+r.Top)
	}
	return env
}

// onView is the working tree and the environment of a call.
func (r *Repository) onView(c Call) (tree string, env []string) {
	if tree = c.Tree; tree == "" {
		tree = r.Top
	}
	index := c.Index
	if index == "" {
		index = filepath.Join(r.view, "no-index")
	}
	objects := filepath.Join(r.Common, "objects")
	if c.Incoming != nil {
		objects = c.Incoming.dir
	}
	return tree, append(configure(slices.Clone(r.environ), slices.Concat(r.settings, c.more)...), "GIT_DIR="+r.view, "GIT_WORK_TREE="+tree, "GIT_INDEX_FILE="+index, "GIT_OBJECT_DIRECTORY="+objects,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+filepath.Join(r.view, "no-config"), "GIT_SHALLOW_FILE="+filepath.Join(r.Common, "shallow"))
}

// Run runs git on the view. It returns what git wrote, and the code if it is
// one of those expected.
func (r *Repository) Run(ctx context.Context, c Call) (string, int, error) {
	tree, env := r.onView(c)
	out, code, err := r.answer(ctx, tree, env, c)
	if e := bridge.AsError(err); err != nil && e.Code == bridge.CodeInternal && len(r.Warnings) > 0 {
		more := *e
		more.Remedy = r.Warnings[0]
		err = &more
	}
	return out, code, err
}

// Line is Run for an answer of one line.
func (r *Repository) Line(ctx context.Context, c Call) (string, error) {
	out, _, err := r.Run(ctx, c)
	return strings.TrimRight(out, "\r\n"), err
}

// confined puts a call in the sandbox; nil where there is none.
func (r *Repository) confined(c Call) func(context.Context, program.Command) (program.Command, error) {
	if r.confine == nil || r.Common == "" { // before that git is only asked where it is
		return nil
	}
	return func(ctx context.Context, made program.Command) (program.Command, error) {
		write := []string{r.scratch, r.Top, r.Common, r.gitDir}
		for _, more := range []string{c.Tree, c.New} {
			if more != "" {
				write = append(write, resolved(more))
			}
		}
		if c.Index != "" {
			write = append(write, resolved(filepath.Dir(c.Index)))
		}
		return r.confine(ctx, made, write...)
	}
}

// answer runs git and tells answers from failures.
func (r *Repository) answer(ctx context.Context, dir string, env []string, c Call) (string, int, error) {
	out, problem, code, err := run(ctx, "git", c.Args, dir, env, input{c.Input, c.File}, r.confined(c))
	switch {
	case ctx.Err() != nil:
		return "", -1, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return "", -1, &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("git %s took longer than %s", c.Args[0], patience), Cause: err}
	case errors.Is(err, errTooMuch):
		return "", -1, &bridge.Error{Code: bridge.CodeInternal, Message: "git " + c.Args[0] + " wrote more than we take", Cause: err}
	case errors.Is(err, errConfine):
		return "", -1, &bridge.Error{Code: bridge.CodeInternal, Message: "git was not run", Cause: err, Remedy: bridge.AsError(err).Remedy}
	case err != nil:
		return "", -1, &bridge.Error{Code: bridge.CodeUnavailable, Message: "git cannot be run", Cause: err, Remedy: "install git, or use --isolation shared"}
	case code == 0 || slices.Contains(c.OK, code):
		return out, code, nil
	}
	return "", code, &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("git %s failed: %s", c.Args[0], reason(problem, code))}
}

// reason is the line of git's messages that says why it failed.
func reason(text string, code int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for l := range strings.Lines(text) { // warnings may come first
		if strings.HasPrefix(l, "fatal: ") || strings.HasPrefix(l, "error: ") {
			line = strings.TrimSpace(l)
			break
		}
	}
	if line == "" {
		return fmt.Sprintf("exit status %d", code)
	}
	const most = 300
	if r := []rune(line); len(r) > most {
		line = string(r[:most]) + "…"
	}
	return line
}
