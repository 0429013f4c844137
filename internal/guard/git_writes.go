package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/shell"
)

// keepsTree leaves the files of the work tree as they are.
const keepsTree = `status log reflog whatchanged show diff blame annotate grep cat-file branch rev-parse ls-files add stage commit tag remote fetch push init rev-list describe
	for-each-ref show-ref symbolic-ref ls-tree ls-remote gc version help shortlog count-objects name-rev merge-base cherry check-ignore check-attr check-ref-format
	hash-object var fsck prune pack-refs repack maintenance update-ref write-tree commit-tree diff-tree diff-index diff-files range-diff show-branch notes
	verify-commit verify-tag verify-pack format-patch archive request-pull`

// keepsTreeFor are the subcommands of a command that do.
var keepsTreeFor = map[string]string{
	"stash":     "list show drop clear create store",
	"worktree":  "list prune lock unlock repair",
	"submodule": "status summary init deinit sync set-url set-branch",
}

// addGitWrites adds what a command changes in the work tree. Which files that
// are is mostly up to the history, so it is all of them.
func (g *Guard) addGitWrites(a *policy.Action, at place, call gitCall) {
	first := ""
	if len(call.args) > 0 {
		first = call.args[0]
	}
	switch call.sub {
	case "mv", "rm":
		g.addMoved(a, at, call)
	case "config":
		g.addConfigured(a, at, call)
	case "stash", "worktree", "submodule":
		if !has(keepsTreeFor[call.sub], first) {
			g.addRewritten(a, at, call)
		}
	case "checkout", "switch":
		creates := len(call.args) == 2 && has("-b -c --create", first) && !strings.HasPrefix(call.args[1], "-")
		if !creates {
			g.addRestored(a, at, call)
		}
	case "restore":
		if !slices.Contains(call.args, "--staged") && !slices.Contains(call.args, "-S") || slices.Contains(call.args, "--worktree") || hasShort(call.args, 'W') {
			g.addRestored(a, at, call)
		}
	case "reset":
		if slices.ContainsFunc(call.args, func(w string) bool { return strings.HasPrefix(w, "-") && !has("--soft --mixed -q --quiet --", w) }) {
			g.addRewritten(a, at, call)
		}
	default:
		if !has(keepsTree, call.sub) {
			g.addRewritten(a, at, call)
		}
	}
}

// in is a name that git takes relative to where it runs, for the workspace.
func (at *place) in(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(at.dir.Abs, name)
}

// addMoved adds the operands of git mv and git rm.
func (g *Guard) addMoved(a *policy.Action, at place, call gitCall) {
	names := operands(call.args)
	if hasLong(call.args, "--pathspec-from-file") {
		g.addRewritten(a, at, call)
	}
	for i, name := range names {
		if strings.HasPrefix(name, ":") || strings.ContainsAny(name, `*?[`) {
			g.addRewritten(a, at, call)
			continue
		}
		last := call.sub == "mv" && i == len(names)-1
		g.addFile(a, shell.Path{Text: at.in(name), Write: true, Certain: true, Reach: shell.ReachNames, Moves: true}, last)
		if call.sub == "mv" && !last {
			g.addCopy(a, shell.Copy{From: shell.Path{Text: at.in(name)}, To: shell.Path{Text: at.in(names[len(names)-1])}})
		}
	}
}

// addConfigured adds the file that git config writes, if it is not the
// repository's own.
func (g *Guard) addConfigured(a *policy.Action, at place, call gitCall) {
	if len(call.args) > 0 && has("--get --get-all --get-regexp --list -l get list", call.args[0]) {
		return
	}
	for i, w := range call.args {
		name, value, glued := strings.Cut(w, "=")
		switch {
		case hasLong([]string{w}, "--global") || hasLong([]string{w}, "--system"):
			a.Paths = append(a.Paths, policy.Path{Name: "the configuration of git", Write: true, Outside: true})
			continue
		case strings.HasPrefix(w, "-f"):
			value, glued = w[2:], len(w) > 2
		case !hasLong([]string{name}, "--file"):
			continue
		}
		if !glued && i+1 < len(call.args) {
			value = call.args[i+1]
		}
		if value != "" {
			g.addFile(a, shell.Path{Text: at.in(value), Write: true, Certain: true, Reach: shell.ReachNames}, false)
		}
	}
}

// addRestored adds what git checkout and git restore bring back: the named
// files if there are only files, else anything.
func (g *Guard) addRestored(a *policy.Action, at place, call gitCall) {
	names := call.args
	if i := slices.Index(names, "--"); i >= 0 {
		names = names[i+1:]
	}
	files := len(names) > 0
	for _, name := range names {
		if strings.HasPrefix(name, "-") || strings.HasPrefix(name, ":") {
			files = false
			continue
		}
		info, err := os.Lstat(at.in(name))
		files = files && err == nil && info.Mode().IsRegular()
		if err == nil || strings.Contains(strings.Join(call.args, " ")+" ", " -- ") {
			g.addFile(a, shell.Path{Text: at.in(name), Write: true, Certain: true, Reach: shell.ReachNames}, false)
		}
	}
	if !files {
		g.addRewritten(a, at, call)
	}
}

// addRewritten adds the whole work tree.
func (g *Guard) addRewritten(a *policy.Action, at place, call gitCall) {
	doubt := "git " + call.sub + " may change any file of the work tree, protected ones too"
	if at.above {
		doubt += ", and files outside the workspace"
	}
	if plan := g.planned(); a.Wall == policy.WholeWall && plan != nil && !at.above {
		// The sandbox keeps protected files as they are, and git would stop
		// half-way at one of them that it is to change.
		for _, rel := range plan.protected {
			if !g.sealed(rel) {
				a.Paths = append(a.Paths, policy.Path{Rel: rel, Write: true, Doubt: doubt})
			}
		}
		return
	}
	p := policy.Path{Rel: at.top, Name: "the work tree", Write: true, Doubt: doubt}
	if !slices.Contains(a.Paths, p) {
		a.Paths = append(a.Paths, p)
	}
}

// sealed reports whether a path may never be written, not even with consent.
func (g *Guard) sealed(rel string) bool {
	_, sealed := g.policy().Sealed(rel)
	return sealed
}
