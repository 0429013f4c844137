package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxAlternatives bounds what the braces of one glob multiply out to, since
// doublestar tries them one by one.
const maxAlternatives = 128

// pathGlob is a glob over workspace-relative slash paths, or, if absolute,
// over absolute ones.
type pathGlob struct {
	absolute bool
	exact    matcher
	folded   matcher
	// classes: folding changes what a character class means ([!a] matches A
	// only unfolded), so denials try such globs both ways.
	classes bool
	// base is the folded path above the first wildcard: what the glob can
	// match lies there.
	base string
	// tree: whatever it matches, it matches with everything below.
	tree bool
	root bool // it matches the workspace itself
}

// compileGlob compiles a glob of a list that denies or allows.
func compileGlob(deny bool) func(*Rule) error {
	return func(r *Rule) (err error) {
		r.glob, err = newPathGlob(r.Pattern, deny)
		return err
	}
}

func newPathGlob(pattern string, deny bool) (*pathGlob, error) {
	if err := checkGlob(pattern); err != nil {
		return nil, err
	}
	p := pattern
	for strings.HasPrefix(p, "./") {
		p = p[2:]
	}
	switch {
	case p == "" || deny && p == ".":
		p = "**"
	case strings.HasSuffix(p, "/"):
		p += "**"
	}
	last := p[strings.LastIndexByte(p, '/')+1:]
	if deny && p != "." && !varies(last) {
		// It may name a directory, and denying that denies the files in it.
		p += "/**"
	}
	g := &pathGlob{
		absolute: isAbsolute(p),
		exact:    newMatcher(p),
		classes:  strings.Contains(p, "["),
		base:     staticBase(fold(p)),
		tree:     p == "**" || strings.HasSuffix(p, "/**"),
	}
	g.folded = newMatcher(fold(p))
	switch p {
	case ".", "*", "**", "**/*", "**/**":
		g.root = true
	}
	return g, nil
}

// varies reports whether a segment has a wildcard that is not escaped. Braces
// are none: they only list names.
func varies(segment string) bool {
	for i := 0; i < len(segment); i++ {
		switch segment[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

func isAbsolute(p string) bool {
	return strings.HasPrefix(p, "/") || len(p) > 2 && p[1] == ':' && p[2] == '/'
}

// checkGlob refuses what would be valid to doublestar but mean something else
// than its author thought: in a deny list that would be a hole.
func checkGlob(p string) error {
	switch {
	case strings.HasPrefix(p, "!"):
		return errors.New("a glob cannot be negated; use the opposite list")
	case strings.HasPrefix(p, "~"):
		return errors.New("~ is not expanded; globs are relative to the workspace")
	case strings.TrimSpace(p) != p:
		return errors.New("there is white space around it")
	}
	for i := 0; i < len(p); i++ {
		if p[i] != '\\' {
			continue
		}
		if i++; i == len(p) || !strings.ContainsRune(`[]{}*?\,!^-`, rune(p[i])) || strings.HasPrefix(p[i:], "**") {
			return errors.New(`write / between directories; \ is only for a wildcard that is meant literally`)
		}
	}
	for _, segment := range strings.Split(p, "/") {
		if segment == ".." {
			return errors.New("it may not hold .. as a directory")
		}
		if strings.Contains(segment, "**") && segment != "**" {
			return errors.New("** must stand alone between slashes, as in src/**/*.go")
		}
	}
	if strings.Contains(p, "//") {
		return errors.New("it has an empty directory name")
	}
	if !doublestar.ValidatePattern(p) {
		return errors.New("it is not a valid glob; brackets and braces must be closed")
	}
	if alternatives(p) > maxAlternatives {
		return fmt.Errorf("its braces stand for more than %d alternatives", maxAlternatives)
	}
	return nil
}

// alternatives is an upper bound of how many patterns the braces stand for.
func alternatives(p string) int {
	total, commas := 1, []int{}
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '{':
			commas = append(commas, 0)
		case ',':
			if len(commas) > 0 {
				commas[len(commas)-1]++
			}
		case '}':
			if len(commas) > 0 {
				total = min(total*(commas[len(commas)-1]+1), maxAlternatives+1)
				commas = commas[:len(commas)-1]
			}
		}
	}
	return total
}

// staticBase returns the directory above the first wildcard, "" for the root.
func staticBase(p string) string {
	at := strings.IndexAny(p, `*?[{\`)
	if at < 0 {
		return p
	}
	return p[:max(0, strings.LastIndexByte(p[:at], '/'))]
}

// matcher is one glob, with what can be compared before doublestar is asked.
type matcher struct {
	shape   shape
	literal string // what the glob is about, or the directory above its first wildcard
	pattern string
	needs   string // a text without which the glob cannot match
	top     string // of a glob that ends in /**: what is before that
}

type shape int

const (
	shapeGeneral shape = iota
	shapeAll           // **
	shapeLiteral       // a/b
	shapeBelow         // a/b/**
)

const wildcards = `*?[{\`

func newMatcher(p string) matcher {
	plain := func(s string) bool { return s != "" && !strings.ContainsAny(s, wildcards) }
	head, tree := strings.CutSuffix(p, "/**")
	switch {
	case p == "**":
		return matcher{shape: shapeAll}
	case plain(p):
		return matcher{shape: shapeLiteral, literal: p}
	case tree && plain(head):
		return matcher{shape: shapeBelow, literal: head}
	}
	m := matcher{pattern: p, literal: staticBase(p), needs: longestLiteral(p)}
	if tree {
		m.top = head
	}
	return m
}

// longestLiteral returns the longest part of a glob that stands for itself, or
// "" for a glob with sets, braces or escapes. Slashes at its ends do not count:
// a ** beside them may stand for nothing.
func longestLiteral(p string) string {
	if strings.ContainsAny(p, `[{\`) {
		return ""
	}
	best := ""
	for part := range strings.FieldsFuncSeq(p, func(r rune) bool { return r == '*' || r == '?' }) {
		if part = strings.Trim(part, "/"); len(part) > len(best) {
			best = part
		}
	}
	return best
}

// match reports whether a path matches. A path is never empty.
func (m *matcher) match(name string) bool {
	switch m.shape {
	case shapeAll:
		return true
	case shapeLiteral:
		return name == m.literal
	case shapeBelow:
		return isWithin(name, m.literal)
	case shapeGeneral:
	}
	if !isWithin(name, m.literal) || !strings.Contains(name, m.needs) {
		return false
	}
	// doublestar takes a*/** to match ab, but not a.
	return doublestar.MatchUnvalidated(m.pattern, name) || m.top != "" && doublestar.MatchUnvalidated(m.top, name)
}

// isWithin reports whether name is dir or below it.
func isWithin(name, dir string) bool {
	return dir == "" || strings.HasPrefix(name, dir) && (len(name) == len(dir) || name[len(dir)] == '/')
}

// named is a path in the forms that globs look at.
type named struct {
	exact, folded, disguised string
	root                     bool
}

func newNamed(rel string) named {
	return named{exact: rel, folded: fold(rel), disguised: disguise(rel), root: rel == "."}
}

// allows matches exactly, or without regard to case where the file system has
// none.
func (g *pathGlob) allows(n *named, caseInsensitive bool) bool {
	if n.root {
		return g.root
	}
	return g.exact.match(n.exact) || caseInsensitive && g.folded.match(n.folded)
}

// denies matches every form of the name.
func (g *pathGlob) denies(n *named) bool {
	if n.root {
		return g.root
	}
	return g.folded.match(n.folded) || n.disguised != n.folded && g.folded.match(n.disguised) || g.classes && g.exact.match(n.exact)
}

// reachesBelow reports whether the glob may match something below a
// directory.
func (g *pathGlob) reachesBelow(n *named) bool {
	return n.root || isWithin(g.base, n.disguised) || isWithin(n.disguised, g.base)
}
