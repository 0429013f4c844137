package guard

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/paths"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/repo"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
)

// What git does is decided by its repository as much as by its words: settings
// name programs that even git status runs, contents come out of the history,
// and one command changes the whole work tree. So a git command is judged
// together with the repository that git would find.

func isGit(word string) bool {
	name := strings.ToLower(word[strings.LastIndexAny(word, `/\`)+1:])
	return strings.TrimSuffix(name, ".exe") == "git"
}

// gitCall is a git command taken apart.
type gitCall struct {
	sub  string
	args []string
	// elsewhere: an option names the repository or the work tree, so it is not
	// the one that is found.
	elsewhere bool
}

func parseGit(words []string) gitCall {
	var c gitCall
	for i := 1; i < len(words); i++ {
		name, _, glued := strings.Cut(words[i], "=")
		switch name {
		case "-C", "-c", "--config-env":
			if !glued || name != "--config-env" {
				i++
			}
			continue
		case "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source", "--exec-path":
			c.elsewhere = true
			if !glued && name != "--exec-path" {
				i++
			}
			continue
		case "--bare":
			c.elsewhere = true
		}
		if !strings.HasPrefix(words[i], "-") {
			c.sub, c.args = words[i], words[i+1:]
			break
		}
	}
	return c
}

// place is where a git command runs and what it finds there.
type place struct {
	dir   paths.Resolved
	repo  *repo.Repository // nil for none, or one that is not understood
	top   string           // of the work tree, relative to the workspace
	above bool             // the work tree begins above the workspace
	// unknown: there is a repository that is not understood, so its contents
	// may come from anywhere.
	unknown bool
}

// addGit adds what a git command reads and writes, and says in out whether it
// is what it looks like.
func (g *Guard) addGit(a *policy.Action, c *shell.Command, out *policy.Command) {
	words := c.Words
	if len(c.DynamicWords) > 0 {
		words = words[:slices.Min(c.DynamicWords)]
	}
	call := parseGit(words)
	if call.sub == "" {
		return
	}
	out.Alias = !slices.Contains(gitCommands, call.sub)
	if c.Lost {
		out.Unsafe = cmp.Or(out.Unsafe, "it is not known in which directory it runs")
	}
	if call.elsewhere {
		out.Unsafe = cmp.Or(out.Unsafe, "its options name another repository or other programs")
	}
	for _, dir := range c.Dirs {
		res, err := g.here.Resolve(cmp.Or(dir, "."))
		if err != nil || !res.Inside {
			continue // judged as a path
		}
		at := g.findRepository(res, call, out)
		g.addGitReads(a, at, call, out)
		g.addGitWrites(a, at, call)
	}
}

// findRepository looks for the repository and says what speaks against it.
func (g *Guard) findRepository(dir paths.Resolved, call gitCall, out *policy.Command) place {
	at := place{dir: dir, top: "."}
	r, err := g.repos.Find(dir.Abs)
	switch {
	case err != nil:
		out.Unsafe = cmp.Or(out.Unsafe, "the repository is not understood: "+err.Error())
		out.Opaque = out.Opaque || dir.Rel != "."
		at.unknown = true
		return at
	case r == nil:
		if call.sub == "diff" {
			out.Unsafe = cmp.Or(out.Unsafe, "there is no repository, so git compares whatever is named")
		}
		return at
	}
	at.repo = r
	rel, err := filepath.Rel(g.opts.Workspace.Root(), r.Top)
	at.above = err != nil || !filepath.IsLocal(rel)
	if !at.above {
		at.top = filepath.ToSlash(rel)
	}
	// Only what looks at the work tree goes into submodules.
	deep := !has("log show branch rev-parse ls-files blame", call.sub)
	why := r.Runs(deep)
	// A rule of the user's for a git command speaks of the workspace's own
	// repository, not of one that lies about in it.
	foreign := !at.above && at.top != "."
	if why == "" && foreign && !has("status diff log show branch rev-parse ls-files blame", call.sub) && r.HasHooks() {
		why = "it has hooks"
	}
	if why != "" {
		out.Unsafe = cmp.Or(out.Unsafe, "the repository "+r.Top+" is not plain: "+why)
		out.Opaque = out.Opaque || foreign
	}
	return at
}

func has(list, word string) bool {
	return word != "" && slices.Contains(strings.Fields(list), word)
}

// contents says what of a repository a command shows.
type contents struct {
	shown   bool     // what is in files, not only their names
	history bool     // also of earlier versions
	whole   bool     // of all files, not only of those below
	paths   []string // in the work tree, relative to where the command runs
	objects []string // revision:path
}

func (g *Guard) addGitReads(a *policy.Action, at place, call gitCall, out *policy.Command) {
	c := g.contents(at, call)
	if call.elsewhere && c.shown {
		c.whole, c.history = true, true
	}
	if !c.shown {
		if at.above && c.whole && !has(namelessGit, call.sub) {
			out.Unsafe = cmp.Or(out.Unsafe, "its repository begins above the workspace")
		}
		return
	}
	if at.unknown {
		a.Paths = append(a.Paths, policy.Path{Name: "the repository at " + at.dir.Abs, Outside: true})
	}
	for _, o := range c.objects {
		a.Paths = append(a.Paths, g.objectPath(at, o))
	}
	for _, p := range c.paths {
		a.Paths = append(a.Paths, g.treePath(at, p, c.history))
	}
	switch {
	case !c.whole:
	case at.above:
		a.Paths = append(a.Paths, policy.Path{Name: "the repository " + at.repo.Top, Outside: true})
	case g.policy().LimitsReads() && (c.history || at.repo == nil || g.tracksDenied(at)):
		a.Paths = append(a.Paths, policy.Path{Rel: at.top, Name: "the repository", Tree: true, History: true})
	}
}

// namelessGit shows no names of files, or only those below where it runs.
const namelessGit = "log branch rev-parse ls-files config remote tag add commit fetch push describe"

// tracksDenied reports whether a file that may not be read is in the index.
func (g *Guard) tracksDenied(at place) bool {
	index, err := at.repo.Index()
	if err != nil {
		return true
	}
	for _, f := range index.Files {
		if at.top != "." {
			f = at.top + "/" + f
		}
		if g.denied(f) {
			return true
		}
	}
	return false
}

// objectPath is the file that revision:path names. Links in the work tree do
// not matter to git there.
func (g *Guard) objectPath(at place, object string) policy.Path {
	rest := object[colon(object)+1:]
	if object[0] == ':' && len(rest) > 1 && rest[0] >= '0' && rest[0] <= '3' && rest[1] == ':' {
		rest = rest[2:] // a stage of the index
	}
	base := at.dir.Abs
	if at.repo != nil && !strings.HasPrefix(rest, "./") && !strings.HasPrefix(rest, "../") {
		base = at.repo.Top
	}
	p := g.lexical(filepath.Join(base, filepath.FromSlash(rest)))
	p.Name = object
	return p
}

// colon returns where the path begins in revision:path, or -1. Colons in braces
// belong to the revision.
func colon(word string) int {
	depth := 0
	for i := range len(word) {
		switch c := word[i]; {
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == ':' && depth == 0:
			return i
		}
	}
	return -1
}

// treePath is a file or directory that a command is confined to.
func (g *Guard) treePath(at place, name string, history bool) policy.Path {
	abs := filepath.FromSlash(name)
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(at.dir.Abs, abs)
	}
	p := g.lexical(abs)
	p.Name = name
	info, err := os.Lstat(abs)
	switch file := err == nil && info.Mode().IsRegular(); {
	case p.Outside:
	case file:
		p.Tree = history && g.policy().NamesBelow(p.Rel)
		p.History = p.Tree
	default:
		p.History = history
		p.Tree = history && g.policy().LimitsReads() || !history && g.deniedBelow(paths.Resolved{Rel: p.Rel})
	}
	return p
}

// lexical places an absolute path without following links.
func (g *Guard) lexical(abs string) policy.Path {
	rel, err := filepath.Rel(g.opts.Workspace.Root(), abs)
	if err != nil || !filepath.IsLocal(rel) {
		return policy.Path{Outside: true}
	}
	return policy.Path{Rel: filepath.ToSlash(rel)}
}

// silentGit are subcommands that show no contents of files.
const silentGit = `branch rev-parse ls-files add stage commit tag remote fetch push pull init clone config rev-list describe merge rebase checkout switch restore
	reset rm mv clean for-each-ref show-ref symbolic-ref ls-tree ls-remote worktree submodule gc version help shortlog count-objects name-rev merge-base cherry
	check-ignore check-attr check-ref-format update-index hash-object var fsck prune pack-refs repack maintenance update-ref write-tree read-tree commit-tree
	cherry-pick revert am apply bisect sparse-checkout`

// contents works out what a command shows. Where it is in doubt, that is more.
func (g *Guard) contents(at place, call gitCall) contents {
	c := g.scope(at, call)
	if !has("status log show diff whatchanged", call.sub) && (call.sub != "cat-file" || len(c.objects) == 0 || hasBatch(call.args)) {
		c.whole = true // a word may be a pattern or a subcommand, and a file have its name
	}
	if has("log show diff whatchanged", call.sub) && slices.ContainsFunc(call.args, leavesPaths) {
		c.whole, c.history = true, true
	}
	switch call.sub {
	case "status":
		c.shown = hasShort(call.args, 'v') || hasLong(call.args, "--verbose")
		c.whole, c.history = c.whole || c.shown, true // its diff is of all files
	case "log", "reflog", "whatchanged":
		c.shown, c.history = call.sub == "whatchanged" || showsPatch(call.args), true
		if !c.shown {
			c.whole = c.whole && namesFiles(call.args)
		}
	case "show":
		c.shown, c.history = !onlyNames(call.args) || len(c.objects) > 0 || slices.ContainsFunc(operands(beforePaths(call.args)), func(w string) bool {
			return !g.isFile(at, w) && at.mayBeAnyObject(w)
		}), true
	case "diff":
		c.shown = !onlyNames(call.args)
	case "blame", "annotate":
		// One of its operands is the only file that it shows.
		c.shown, c.whole, c.history = true, false, true
		c.paths = operands(call.args)
	case "stash":
		c.shown = len(call.args) > 0 && (call.args[0] == "show" || call.args[0] == "list" || asksAboutParts(call.args))
		c.history = true
	case "add", "stage", "commit", "checkout", "reset", "restore":
		c.shown, c.history = asksAboutParts(call.args) || call.sub == "commit" && (hasShort(call.args, 'v') || hasLong(call.args, "--verbose")), true
	default:
		c.shown, c.history = !has(silentGit, call.sub), true
	}
	return c
}

// scope sorts a command's operands into revisions and paths.
func (g *Guard) scope(at place, call gitCall) contents {
	var c contents
	sure, revisions := true, false
	for i, w := range call.args {
		before := ""
		if i > 0 {
			before = call.args[i-1]
		}
		switch {
		case w == "--":
			if strings.HasPrefix(before, "-") && !has(valueless, before) {
				sure = false // it may be the value of the option
			}
			for _, p := range call.args[i+1:] {
				c.addSpec(p)
			}
			c.whole = c.whole || !sure || len(c.paths) == 0 || hasLong(call.args[:i], "--full-diff")
			c.history = c.history || revisions
			return c
		case strings.HasPrefix(w, "-"):
			c.history = c.history || w == "--cached" || w == "--staged" || w == "--merge-base"
		case strings.HasPrefix(before, "-") && !has(valueless, before):
			sure, revisions = false, true // it may be a value, or not
		case strings.HasPrefix(w, ":/") || strings.HasPrefix(w, ":(") || strings.HasPrefix(w, ":!") || strings.HasPrefix(w, ":^"):
			c.whole, revisions = true, true // or a commit, by its message
		case colon(w) >= 0 && (!isOneFile(w) || has("log whatchanged", call.sub) || call.sub == "diff" && !g.isRegular(at, w)):
			c.whole, revisions = true, true
			c.objects = append(c.objects, w)
		case colon(w) >= 0:
			c.objects = append(c.objects, w)
		case g.isFile(at, w):
			c.addSpec(w)
		default:
			revisions = true
			// A file or a tree is shown whatever paths follow.
			c.whole = c.whole || has("show diff", call.sub) && at.mayBeAnyObject(w)
		}
	}
	c.history = c.history || revisions
	c.whole = c.whole || !sure || hasLong(call.args, "--full-diff") || revisions && len(c.paths) == 0 || len(c.paths)+len(c.objects) == 0
	return c
}

// valueless are options that take no value, so that the next word is an
// operand.
const valueless = `-p -u --patch --stat --cached --staged --name-only --name-status --numstat --shortstat --oneline -w -b -a -z -s --no-patch --follow --color --no-color
	--raw --summary --hard --soft --mixed --worktree -f --force -r --no-ext-diff --no-textconv --quiet -q`

// addSpec adds a path, or all of them where it is a pattern.
func (c *contents) addSpec(spec string) {
	if strings.HasPrefix(spec, ":") || strings.ContainsAny(spec, `*?[\`) {
		c.whole = true
		return
	}
	c.paths = append(c.paths, spec)
}

func (g *Guard) isFile(at place, name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(at.dir.Abs, name)
	}
	_, err := os.Lstat(name)
	return err == nil
}

func operands(args []string) []string {
	var out []string
	for i, w := range args {
		if w == "--" {
			return append(out, args[i+1:]...)
		}
		if !strings.HasPrefix(w, "-") {
			out = append(out, w)
		}
	}
	return out
}

// hasShort reports a short option, alone or among others.
func hasShort(args []string, letter byte) bool {
	return slices.ContainsFunc(args, func(w string) bool {
		return len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.IndexByte(w, letter) > 0
	})
}

// hasBatch reports options by which objects are read from elsewhere.
func hasBatch(args []string) bool {
	return slices.ContainsFunc(args, func(w string) bool { return strings.HasPrefix(w, "--") })
}

// hasLong reports a long option, which may be shortened.
func hasLong(args []string, option string) bool {
	return slices.ContainsFunc(args, func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		return len(name) > 3 && strings.HasPrefix(name, "--") && strings.HasPrefix(option, name)
	})
}

// asksAboutParts reports options by which git shows changes one by one.
func asksAboutParts(args []string) bool {
	return hasShort(args, 'p') || hasShort(args, 'i') || hasShort(args, 'e') || hasLong(args, "--patch") || hasLong(args, "--interactive") || hasLong(args, "--edit")
}

// quietOptions of log, show and diff show no contents of files. Any other
// option counts as showing changes, a shortened one too.
const quietOptions = `--stat --numstat --shortstat --dirstat --summary --compact-summary --name-only --name-status --raw --no-patch --quiet --exit-code
	--oneline --graph --all --decorate --no-decorate --source --pretty --format --abbrev --no-abbrev --abbrev-commit --no-abbrev-commit --follow --merges --no-merges
	--first-parent --reverse --topo-order --date-order --author-date-order --branches --tags --remotes --max-count --skip --since --until --after --before
	--author --committer --grep --date --invert-grep --left-right --boundary --no-walk --relative-date --walk-reflogs --no-notes --color --no-color
	--no-renames --no-ext-diff --no-textconv --diff-filter --cached --staged --merge-base --relative --full-history --simplify-by-decoration`

// quietLetters are short options of that kind, which may stand together.
const quietLetters = "swbazrqgiEFPR"

func showsPatch(args []string) bool {
	return slices.ContainsFunc(beforePaths(args), func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		switch {
		case len(w) < 2 || w[0] != '-' || w == "--":
			return false
		case strings.HasPrefix(w, "--"):
			return !has(quietOptions, name)
		}
		number := strings.TrimPrefix(w[1:], "n")
		return strings.Trim(number, "0123456789") != "" && strings.Trim(w[1:], quietLetters) != ""
	})
}

// beforePaths are the words before --, behind which there are no options.
func beforePaths(args []string) []string {
	for i, w := range args {
		if w == "--" || w == "--end-of-options" {
			return args[:i]
		}
	}
	return args
}

// leavesPaths reports options of log, show and diff that show other files than
// those named: under earlier names, as copies, or named by the option.
func leavesPaths(w string) bool {
	if strings.HasPrefix(w, "--") {
		return slices.ContainsFunc([]string{"--follow", "--find-renames", "--find-copies", "--find-copies-harder", "--break-rewrites", "--stdin", "--find-object"},
			func(o string) bool { return hasLong([]string{w}, o) })
	}
	return len(w) > 1 && w[0] == '-' && strings.ContainsAny(w, "MCBL")
}

// onlyNames reports a diff that is left at names and numbers.
func onlyNames(args []string) bool {
	return (namesFiles(args) || hasOption(args, func(w string) bool { return w == "-s" || w == "--no-patch" || w == "--quiet" })) && !showsPatch(args)
}

func namesFiles(args []string) bool { return hasOption(args, isNameOption) }

// hasOption reports an option that is surely one, not the value of another.
func hasOption(args []string, is func(string) bool) bool {
	args = beforePaths(args)
	for i, w := range args {
		if is(w) && (i == 0 || !strings.HasPrefix(args[i-1], "-") || has(valueless, args[i-1]) || strings.Contains(args[i-1], "=")) {
			return true
		}
	}
	return false
}

func isNameOption(w string) bool {
	name, _, _ := strings.Cut(w, "=")
	return has("--stat --numstat --shortstat --dirstat --summary --compact-summary --name-only --name-status --raw", name)
}

var (
	// plainName is the name of a branch or tag, and steps from there to other
	// commits.
	plainName = regexp.MustCompile(`^[A-Za-z0-9_@][A-Za-z0-9_./@+-]*([~^][0-9]*)*$`)
	// stepped names a commit, whatever the steps begin at.
	stepped = regexp.MustCompile(`([~^][0-9]*|\^\{commit\})$`)
	// described ends in the id of an object, as git describe writes it.
	described = regexp.MustCompile(`-g[0-9a-fA-F]{4,}$`)
	objectID  = regexp.MustCompile(`^[0-9a-fA-F]{4,64}$`)
)

// mayBeAnyObject reports a revision, or a range of them, that may name a file
// or a directory of the history and not a commit. A tag may; a branch does not.
func (at place) mayBeAnyObject(w string) bool {
	for _, end := range strings.Split(strings.ReplaceAll(w, "...", ".."), "..") {
		name := strings.TrimSuffix(end, "^{commit}")
		if end == "" || plainName.MatchString(name) &&
			(stepped.MatchString(end) || !objectID.MatchString(name) && !described.MatchString(name) && (at.repo == nil || !at.repo.MayBeAnyObject(name))) {
			continue
		}
		return true
	}
	return false
}

// isOneFile reports revision:path that names one path, and no range.
func isOneFile(object string) bool {
	i := colon(object)
	rest := object[i+1:]
	for strings.HasPrefix(rest, "./") || strings.HasPrefix(rest, "../") {
		rest = rest[strings.IndexByte(rest, '/')+1:]
	}
	return !strings.Contains(object[:i], "..") && !strings.Contains(rest, "..") && strings.Trim(rest, "./") != "" && !strings.HasSuffix(rest, "/")
}

// isRegular reports whether revision:path names a file in the work tree that no
// rule knows as a directory. Otherwise it may be a directory, and a diff shows
// the files below.
func (g *Guard) isRegular(at place, object string) bool {
	p := g.objectPath(at, object)
	info, err := os.Lstat(filepath.Join(g.opts.Workspace.Root(), filepath.FromSlash(p.Rel)))
	return !p.Outside && err == nil && info.Mode().IsRegular() && !g.policy().NamesBelow(p.Rel)
}

// gitCommands are git's own and the best known of others. What else there is
// may be an alias.
var gitCommands = strings.Fields(silentGit + ` status log reflog whatchanged show diff blame annotate stash grep cat-file archive difftool mergetool
		format-patch range-diff diff-tree diff-index diff-files show-branch bundle fast-export fast-import notes filter-branch replace rerere request-pull
		send-email send-pack fetch-pack receive-pack upload-pack upload-archive unpack-objects index-pack pack-objects verify-commit verify-tag verify-pack
		merge-file merge-tree merge-index checkout-index update-server-info interpret-trailers mailinfo mailsplit stripspace column credential lfs citool gui
		gitk instaweb svn p4 daemon http-backend imap-send quiltimport subtree archimport cvsimport cvsserver patch-id diagnose bugreport
		backfill survey multi-pack-index commit-graph prune-packed for-each-repo hook ls-remote mktag mktree get-tar-commit-id unpack-file fmt-merge-msg sh-i18n`)
