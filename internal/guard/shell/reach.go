package shell

import (
	"slices"
	"strings"
)

// manner is how a command treats the paths that it names.
type manner struct {
	reach Reach
	moves bool
}

// fileManner is that of a redirection: it opens the file and nothing else.
var fileManner = manner{reach: ReachNames}

// wordManner is that of a list of words.
var wordManner = manner{reach: ReachWords}

// namesOnly show the names below a directory, not the contents of files. The
// guard finds out what git shows, and the files that a build reads are not
// listed.
const namesOnly = "ls dir vdir find gfind fd fdfind du stat test [ cd mkdir rmdir touch tree git go gofmt make npm"

// movers move, remove or replace what they name as a whole.
const movers = "mv rm rmdir unlink shred ln link find gfind chmod chown chgrp install cp rsync"

func mannerOf(c *call) manner {
	m := manner{moves: has(movers, c.name)}
	switch {
	case followsLinks(c):
		m.reach = ReachLinks
	case c.name == "rg":
		m.reach = ReachRules
	case usages[c.name].text:
		m.reach = ReachWords
	case has(namesOnly, c.name) && !runsForEach(c):
		m.reach = ReachNames
	}
	return m
}

// runsForEach reports find and fd that do more with files than to name them.
func runsForEach(c *call) bool {
	switch c.name {
	case "find", "gfind":
		return hasPrefix(c.args, "-exec") || hasPrefix(c.args, "-ok") || hasPrefix(c.args, "-delete") || hasPrefix(c.args, "-files0-from")
	case "fd", "fdfind":
		return hasCluster(c.args, 'x') || hasCluster(c.args, 'X') || hasPrefix(c.args, "--exec")
	}
	return false
}

func hasPrefix(args []word, prefix string) bool {
	return slices.ContainsFunc(args, func(w word) bool { return strings.HasPrefix(w.text, prefix) })
}

// linkOptions make a program that walks trees follow the links in them.
var linkOptions = map[string]struct {
	short byte
	long  string
}{
	"grep": {'R', "--dereference-recursive"}, "ggrep": {'R', "--dereference-recursive"}, "egrep": {'R', "--dereference-recursive"},
	"fgrep": {'R', "--dereference-recursive"}, "zgrep": {'R', ""}, "rg": {'L', "--follow"}, "ag": {'f', "--follow"}, "ack": {0, "--follow"},
	"cp": {'L', "--dereference"}, "rsync": {'L', "--copy-links"}, "tar": {'h', "--dereference"}, "gtar": {'h', "--dereference"}, "bsdtar": {'h', "--dereference"},
	"du": {'L', "--dereference"}, "tree": {'l', ""}, "zip": {'r', "--recurse-paths"}, "scp": {'r', ""}, "ls": {'L', "--dereference"}, "dir": {'L', "--dereference"},
	"vdir": {'L', "--dereference"}, "fd": {'L', "--follow"}, "fdfind": {'L', "--follow"}, "find": {'L', ""}, "gfind": {'L', ""},
	"chmod": {'L', ""}, "chown": {'L', ""}, "chgrp": {'L', ""},
}

// followsLinks reports a command that reads through the links below a
// directory. diff does for two directories without being told to.
func followsLinks(c *call) bool {
	if c.name == "diff" {
		return !hasOption(c.args, "--no-dereference")
	}
	o, ok := linkOptions[c.name]
	if !ok {
		return false
	}
	for i, w := range c.args {
		text := w.text
		switch {
		case w.dynamic, strings.HasPrefix(text, "-follow"): // find
			return true
		case o.long != "" && len(text) > 2 && strings.HasPrefix(text, "--"):
			// GNU programs take any beginning of a name that is unique.
			if name, _, _ := strings.Cut(text, "="); strings.HasPrefix(o.long, name) {
				return true
			}
		case o.short != 0 && hasCluster(c.args[i:i+1], o.short):
			return true
		case i == 0 && strings.HasSuffix(c.name, "tar") && !strings.HasPrefix(text, "-"):
			if strings.IndexByte(text, o.short) >= 0 { // tar chf
				return true
			}
		}
	}
	return false
}

// searchesHere reports a command that looks at the working directory if it is
// given no path. Some of them search a pipe instead, if there is one.
func searchesHere(c *call) bool {
	switch c.name {
	case "grep", "egrep", "fgrep", "zgrep", "ggrep":
		return hasCluster(c.args, 'r') || hasCluster(c.args, 'R') || hasCluster(c.args, 'd') || hasPrefix(c.args, "--r") || hasPrefix(c.args, "--d")
	case "rgrep":
		return true
	case "rg", "ag", "ack":
		return !c.piped
	case "ls", "dir", "vdir", "du", "tree", "fd", "fdfind":
		return true
	}
	return false
}
