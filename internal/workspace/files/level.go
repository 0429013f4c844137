package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files/ignore"
)

// What a directory's own files say, strongest first. The last is git's
// per-repository file, which has no negation that outweighs the others.
const (
	rgIgnore = iota
	dotIgnore
	gitIgnore
	gitExclude
	sources
)

// maxIgnoreBytes is how much of an ignore file is read.
const maxIgnoreBytes = 4 << 20

var ignoreNames = map[string]int{".rgignore": rgIgnore, ".ignore": dotIgnore, ".gitignore": gitIgnore}

// level describes a directory on the way from the root to where the
// walk is: the rules that its ignore files add. It does not change once made.
type level struct {
	parent *level
	// cut is the length of the directory's own path and its slash; above is
	// put in front of paths for a directory over the root.
	cut   int
	above string
	rules [sources]*ignore.Rules
	// top marks the top of a git repository: git's rules from above it do not
	// count below.
	top bool
}

// verdict combines what all levels say of path. Within a kind of file the
// deepest level that speaks decides; the kinds follow in order of strength.
func (l *level) verdict(path string, dir bool) ignore.Verdict {
	for source := range sources {
		for at := l; at != nil; at = at.parent {
			if rules := at.rules[source]; rules != nil {
				if v := rules.Match(at.above+path[at.cut:], dir); v != ignore.Silent {
					return v
				}
			}
			if at.top && source >= gitIgnore {
				break
			}
		}
	}
	return ignore.Silent
}

// below returns the level of the directory dir at path ("" is the root). A
// directory that adds nothing shares its parent's. As in ripgrep, outside of
// repositories .gitignore files are files like the others, and count also in
// repositories further down.
func (l *level) below(dir *os.Root, path string, entries []os.DirEntry, inRepository bool) *level {
	next := &level{parent: l}
	if path != "" {
		next.cut = len(path) + 1
	}
	for _, e := range entries {
		name := e.Name()
		if name == "" || name[0] != '.' {
			continue
		}
		if name == ".git" {
			next.top = inRepository
			if e.IsDir() {
				next.rules[gitExclude] = readRules(dir, ".git/info/exclude")
			}
		} else if source, ok := ignoreNames[name]; ok && e.Type().IsRegular() {
			next.rules[source] = readRules(dir, name)
		}
	}
	if !next.top && next.rules == ([sources]*ignore.Rules{}) {
		return l
	}
	return next
}

// readRules returns nil if there are none; what cannot be read has none.
func readRules(dir *os.Root, name string) *ignore.Rules {
	f, err := dir.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read from
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return parseRules(f)
}

func parseRules(r io.Reader) *ignore.Rules {
	text, err := io.ReadAll(io.LimitReader(r, maxIgnoreBytes))
	if err != nil {
		return nil
	}
	if rules := ignore.Parse(string(text)); !rules.Empty() {
		return rules
	}
	return nil
}

// Repository reports whether dir is in a git repository, and the directories
// over dir up to the top of it, nearest first; there are none if dir is the
// top itself. Their ignore files count for dir.
func Repository(dir string) (above []string, in bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, false
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return above, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, false
		}
		above, dir = append(above, parent), parent
	}
}

// levelsAbove reads the ignore files of the directories over dir. They only
// ever hide, so that they lie outside the root does no harm.
func levelsAbove(dir string, above []string) *level {
	base, err := filepath.Abs(dir)
	if len(above) == 0 || err != nil {
		return nil
	}
	if resolved, err := filepath.EvalSymlinks(base); err == nil {
		base = resolved
	}
	var l *level
	for i := len(above) - 1; i >= 0; i-- {
		root, err := os.OpenRoot(above[i])
		if err != nil {
			continue
		}
		next := &level{parent: l, top: i == len(above)-1}
		if rel, err := filepath.Rel(above[i], base); err == nil {
			next.above = filepath.ToSlash(rel) + "/"
		}
		for name, source := range ignoreNames {
			if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() {
				next.rules[source] = readRules(root, name)
			}
		}
		if next.top {
			next.rules[gitExclude] = readRules(root, ".git/info/exclude")
		}
		_ = root.Close() // only read from
		l = next
	}
	return l
}

// hidden reports whether a name is hidden by convention.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }
