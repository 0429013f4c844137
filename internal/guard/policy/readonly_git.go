package policy

import "strings"

// checkGit knows the subcommands that only read, with the flags that leave it
// at that: none that name an output file, another program, a configuration or
// a file to read instructions from.
func checkGit(args []string) bool {
	for len(args) > 0 {
		switch args[0] {
		case "--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs":
			args = args[1:]
			continue
		case "-C": // the guard has looked at the repository there
			args = args[min(2, len(args)):]
			continue
		case "--version":
			return len(args) == 1
		}
		break
	}
	if len(args) == 0 {
		return false
	}
	flags, ok := gitFlags[args[0]]
	if !ok {
		return false
	}
	operands, ok := flags.parse(args[1:])
	if !ok {
		return false
	}
	for _, a := range args[1:] {
		if strings.Contains(a, "%G") {
			return false // shows signatures, for which git runs gpg
		}
	}
	if args[0] == "branch" && len(operands) > 0 {
		// Without --list an operand is a branch to be made.
		return hasBefore(args[1:], "--list")
	}
	return true
}

// hasBefore reports whether a flag is given before any --.
func hasBefore(args []string, flag string) bool {
	for _, a := range args {
		switch a {
		case flag:
			return true
		case "--":
			return false
		}
	}
	return false
}

var gitFlags = map[string]*flagSet{
	"status": {
		short: "sbvz", attached: "u",
		long: "short branch show-stash porcelain porcelain= long verbose untracked-files untracked-files= ignored ignored= ahead-behind no-ahead-behind " +
			"renames no-renames column column= no-column ignore-submodules ignore-submodules=",
	},
	"diff": {
		short: gitDiff.short, shortValue: gitDiff.shortValue, attached: gitDiff.attached, longValue: gitDiff.longValue,
		long: "cached staged merge-base " + gitDiff.long,
	},
	"log":  gitLog,
	"show": gitLog,
	"branch": {
		short: "arvqi",
		long: "all remotes list show-current verbose merged merged= no-merged no-merged= color color= no-color column column= no-column abbrev abbrev= " +
			"no-abbrev ignore-case",
		longValue: "contains no-contains points-at sort format",
	},
	"rev-parse": {
		short: "q",
		long: "show-toplevel show-prefix show-cdup git-dir git-common-dir absolute-git-dir is-inside-work-tree is-inside-git-dir is-bare-repository " +
			"is-shallow-repository verify quiet abbrev-ref abbrev-ref= short short= symbolic symbolic-full-name all branches tags remotes " +
			"show-superproject-working-tree",
	},
	"ls-files": {
		short: "cdmoisktvzu", shortValue: "x",
		long: "cached deleted modified others ignored stage unmerged killed exclude-standard full-name error-unmatch abbrev abbrev= eol directory " +
			"no-empty-directory deduplicate",
		longValue: "exclude",
	},
	"blame": {
		short: "bltfnsewpc", attached: "MC", shortValue: "L",
		long:      "root show-stats porcelain line-porcelain show-name show-number show-email abbrev= first-parent no-progress since=",
		longValue: "date",
	},
}

// gitDiff has the flags that diff, log and show share.
var gitDiff = &flagSet{
	short: "pusRaztwb", shortValue: "SGl", attached: "UMCDBX",
	long: "patch no-patch unified= raw patch-with-stat stat stat= numstat shortstat dirstat dirstat= summary compact-summary name-only name-status " +
		"color color= no-color color-words color-words= word-diff word-diff= word-diff-regex= no-renames find-renames find-renames= find-copies " +
		"find-copies= check full-index binary abbrev abbrev= exit-code quiet no-ext-diff no-textconv ignore-all-space ignore-space-change " +
		"ignore-space-at-eol ignore-blank-lines ignore-cr-at-eol function-context inter-hunk-context= minimal patience histogram diff-algorithm= " +
		"relative relative= text pickaxe-all pickaxe-regex no-prefix src-prefix= dst-prefix= line-prefix= ignore-submodules ignore-submodules= " +
		"indent-heuristic diff-filter= cc",
}

var gitLog = &flagSet{
	short:      gitDiff.short + "giEFP0123456789cm",
	shortValue: gitDiff.shortValue + "nL",
	attached:   gitDiff.attached,
	long: "oneline graph all decorate decorate= no-decorate source pretty pretty= format= abbrev-commit no-abbrev-commit follow merges no-merges " +
		"first-parent reverse topo-order date-order author-date-order branches branches= tags tags= remotes remotes= invert-grep regexp-ignore-case " +
		"extended-regexp fixed-strings perl-regexp all-match left-right cherry cherry-pick cherry-mark boundary simplify-by-decoration full-history " +
		"ancestry-path no-walk relative-date parents children walk-reflogs no-notes use-mailmap mailmap no-mailmap clear-decorations " + gitDiff.long,
	longValue: "max-count skip since until after before author committer grep date glob exclude",
}
