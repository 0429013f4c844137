package guard

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/sandbox"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
)

// A sandbox keeps programs in the workspace, and does nothing for the work in
// it that is not committed. Commands that are known to destroy some are asked
// about. To overwrite a file is not among it: every edit does.

// destroys says why a command may destroy work that is not committed; "" if it
// is not known to.
func (g *Guard) destroys(c *shell.Command) string {
	if c.DynamicName {
		return ""
	}
	why := ""
	switch name := filepath.Base(c.Words[0]); name {
	case "git":
		why = g.gitDestroys(c)
	case "rm", "unlink", "shred", "truncate":
		if !g.removesNothing(c) {
			why = name + " leaves no copy"
		}
	case "find":
		if slices.Contains(c.Words, "-delete") {
			why = "find -delete leaves no copy"
		}
	case "rsync":
		if slices.ContainsFunc(c.Words, func(w string) bool { return strings.HasPrefix(w, "--del") || w == "--remove-source-files" }) {
			why = "rsync removes files"
		}
	}
	if why == "" {
		return ""
	}
	return "it may destroy work that is not committed: " + why
}

// gitDestroys says what of a git command destroys work.
func (g *Guard) gitDestroys(c *shell.Command) string {
	call := parseGit(c.Words)
	given := func(words string) bool {
		return slices.ContainsFunc(call.args, func(w string) bool { return has(words, w) })
	}
	first := ""
	if len(call.args) > 0 {
		first = call.args[0]
	}
	what := "git " + call.sub
	switch call.sub {
	case "clean":
		if !given("--dry-run") && !hasShort(call.args, 'n') {
			return what + " removes files that are not tracked"
		}
	case "reset":
		if hasLong(call.args, "--hard") || hasLong(call.args, "--merge") {
			return what + " throws changes away"
		}
	case "checkout", "switch":
		if hasShort(call.args, 'f') || hasLong(call.args, "--force") || hasLong(call.args, "--discard-changes") || call.sub == "checkout" && g.namesFiles(c, call) {
			return what + " throws changes away"
		}
	case "restore":
		if !slices.Contains(call.args, "--staged") && !slices.Contains(call.args, "-S") || slices.Contains(call.args, "--worktree") || hasShort(call.args, 'W') {
			return what + " throws changes away"
		}
	case "rm":
		if hasShort(call.args, 'f') || hasLong(call.args, "--force") {
			return what + " -f removes files with changes"
		}
	case "stash":
		if has("drop clear", first) {
			return what + " " + first + " throws changes away"
		}
	case "branch":
		if given("-D -M -C -f --force") || hasShort(call.args, 'D') {
			return what + " may drop commits that no other branch has"
		}
	case "worktree":
		if first == "remove" && (hasShort(call.args, 'f') || hasLong(call.args, "--force")) {
			return what + " removes files with changes"
		}
	case "reflog":
		if has("expire delete", first) {
			return what + " forgets where lost commits are"
		}
	case "prune", "filter-branch", "checkout-index", "read-tree":
		return what + " may throw away what nothing else has"
	case "update-ref":
		if given("-d --stdin") {
			return what + " may drop commits"
		}
	}
	return ""
}

// namesFiles says whether git checkout is given files, whose changes it throws
// away, and not only a branch.
func (g *Guard) namesFiles(c *shell.Command, call gitCall) bool {
	if slices.Contains(call.args, "--") || hasLong(call.args, "--pathspec-from-file") || len(c.DynamicWords) > 0 {
		return true
	}
	if hasShort(call.args, 'b') || hasShort(call.args, 'B') || hasLong(call.args, "--orphan") {
		return false
	}
	names := operands(call.args)
	if len(names) > 1 {
		return true
	}
	for _, name := range names {
		for _, dir := range c.Dirs {
			res, err := g.here.Resolve(filepath.Join(cmp.Or(dir, "."), name))
			if err != nil || res.Exists || strings.ContainsAny(name, "*?[:") {
				return true
			}
		}
	}
	return false
}

// maxRemoved bounds how many files are looked at.
const maxRemoved = 500

// removal is a look at what a command removes.
type removal struct {
	g     *Guard
	left  int
	trees map[string]*tracked // by the top of the work tree
}

// tracked is what git knows of a work tree.
type tracked struct {
	files     []string
	unchanged map[string]func(fs.FileInfo) bool
	output    []string // names of directories with build output, which it ignores
}

// removesNothing says whether all that a command removes is known to be kept
// elsewhere or can be made again: git has it as it is, it is build output that
// git ignores, the session made it, or it is not there.
func (g *Guard) removesNothing(c *shell.Command) bool {
	if c.Dynamic || c.Lost || len(c.Dirs) != 1 || c.Via != "" || len(c.Globs) > 0 || !has("rm unlink", filepath.Base(c.Words[0])) {
		return false
	}
	r := removal{g: g, left: maxRemoved, trees: map[string]*tracked{}}
	return !slices.ContainsFunc(operands(c.Words[1:]), func(name string) bool {
		if !filepath.IsAbs(name) {
			name = filepath.Join(g.here.Base(), c.Dirs[0], name)
		}
		// rm removes a link, not its target.
		parent, err := g.here.Resolve(filepath.Dir(name))
		if err != nil {
			return true
		}
		at := filepath.Join(parent.Abs, filepath.Base(name))
		if !parent.Inside {
			return !g.seen(at, true)
		}
		return !r.kept(at)
	})
}

// kept says whether all at a path is.
func (r *removal) kept(at string) bool {
	return filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
		switch r.left--; {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || r.left < 0 || d.Name() == ".git":
			return errTooMany
		case d.IsDir():
			if r.ignored(p) {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err != nil || !r.keptFile(p, info) {
			return errTooMany
		}
		return nil
	}) == nil
}

func (r *removal) keptFile(p string, info fs.FileInfo) bool {
	if r.g.madeBySession(p) || r.ignored(filepath.Dir(p)) {
		return true
	}
	t, rel := r.tree(p)
	if t == nil {
		return false
	}
	same := t.unchanged[rel]
	return same != nil && same(info)
}

// outputs are the usual names of directories that a build fills.
const outputs = "node_modules dist build target out obj coverage .next .nuxt .turbo .cache .parcel-cache __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox .venv venv .gradle"

// ignored says whether a directory is, or lies in, build output that git ignores and has
// nothing of.
func (r *removal) ignored(dir string) bool {
	t, rel := r.tree(dir)
	if t == nil {
		return false
	}
	parts := strings.Split(rel, "/")
	for i, part := range parts {
		top := strings.Join(parts[:i+1], "/")
		if slices.Contains(t.output, part) && !slices.ContainsFunc(t.files, func(f string) bool { return sandbox.Within(f, top) }) {
			return true
		}
	}
	return false
}

// tree is the work tree that a path lies in, and its name there.
func (r *removal) tree(p string) (t *tracked, rel string) {
	found, err := r.g.repos.Find(filepath.Dir(p))
	if err != nil || found == nil {
		return nil, ""
	}
	if rel, err = filepath.Rel(found.Top, p); err != nil || !filepath.IsLocal(rel) {
		return nil, ""
	}
	t, known := r.trees[found.Top]
	if !known {
		if index, err := found.Index(); err == nil {
			t = &tracked{files: index.Files, unchanged: index.Unchanged(), output: ignoredOutput(found.Top)}
		}
		r.trees[found.Top] = t
	}
	return t, filepath.ToSlash(rel)
}

// ignoredOutput reads the plain lines of the .gitignore at the top. One that
// makes exceptions is not understood.
func ignoredOutput(top string) []string {
	text, err := os.ReadFile(filepath.Join(top, ".gitignore"))
	if err != nil || len(text) > maxResult {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "!") {
			return nil
		}
		if name := strings.TrimSuffix(strings.TrimPrefix(line, "/"), "/"); has(outputs, name) {
			out = append(out, name)
		}
	}
	return out
}

// maxMade bounds how many files made by the session are remembered.
const maxMade = 1_000

// rememberMade remembers the files that an allowed call makes.
func (g *Guard) rememberMade(a policy.Action) {
	if g.opts.Wall == nil || a.Kind != policy.KindWrite {
		return
	}
	for _, p := range a.Paths {
		abs := filepath.Join(g.opts.Workspace.Root(), filepath.FromSlash(p.Rel))
		if _, err := os.Lstat(abs); p.Write && !p.Outside && errors.Is(err, fs.ErrNotExist) {
			g.mu.Lock()
			if len(g.own) < maxMade {
				g.own[abs] = true
			}
			g.mu.Unlock()
		}
	}
}

func (g *Guard) madeBySession(abs string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own[abs]
}
