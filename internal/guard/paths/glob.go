package paths

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// maxVisited bounds how many directory entries one pattern may touch.
const maxVisited = 50_000

// ResolveGlob resolves a shell pattern (* ? [ ], with a backslash before a
// character that stands for itself): every name it matches now has to lie
// inside. The answer is that of the first match outside, or else of the fixed
// directories in front of the first wildcard.
//
// A "*" may match names that begin with a dot, which is more than a shell
// does. Matches behind "**" are not visited, because programs do not
// follow links there; only the fixed part is checked and ".." is refused.
func (w *Workspace) ResolveGlob(pattern string) (Resolved, error) {
	res, _, err := w.expand(visit{pattern: pattern})
	return res, err
}

// Expand is ResolveGlob for a pattern that a shell replaces by what it
// matches: to a shell "**" is a "*", and it follows links to directories. It
// returns all matches too, with links followed. With words the matches are not
// opened by anybody: a link among them counts by its name.
func (w *Workspace) Expand(pattern string, words bool) (Resolved, []Resolved, error) {
	return w.expand(visit{pattern: pattern, shell: true, words: words})
}

func (w *Workspace) expand(v visit) (Resolved, []Resolved, error) {
	pattern := v.pattern
	fixed, wild := splitPattern(pattern)
	if fixed == "" {
		fixed = "."
	}
	res, err := w.Resolve(fixed)
	res.Path = pattern
	if err != nil || !res.Inside || wild == "" {
		return res, nil, err
	}
	if err := readable(wild, wild); err != nil {
		return Resolved{Path: pattern}, nil, err
	}
	v.w = w
	if err := v.match(res.Abs, wild); err != nil {
		return Resolved{Path: pattern}, nil, err
	}
	if v.outside != nil {
		return *v.outside, nil, nil
	}
	return res, v.matches, nil
}

// splitPattern cuts in front of the first component with a wildcard.
func splitPattern(pattern string) (fixed, wild string) {
	start := 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '/':
			start = i + 1
		case '*', '?', '[':
			return unquote(pattern[:start]), pattern[start:]
		}
	}
	return unquote(pattern), ""
}

func unquote(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(`*?[]\`, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

type visit struct {
	w       *Workspace
	pattern string
	shell   bool // matched as a shell does, and listed
	words   bool // links at the end are not followed
	visited int
	outside *Resolved
	matches []Resolved
}

func (v *visit) match(dir, pattern string) error {
	first, rest, more := strings.Cut(pattern, "/")
	switch {
	case first == "":
		if !more {
			return nil
		}
		return v.match(dir, rest)
	case matchesParent(first):
		return malformed(v.pattern, "may match the parent directory", "")
	case first == "**" && more && !v.shell:
		for part := range strings.SplitSeq(rest, "/") {
			if matchesParent(part) {
				return malformed(v.pattern, "may match the parent directory", "")
			}
		}
		return nil
	}
	if v.shell && strings.Contains(first, "[") {
		first = widen(first)
	}
	if !strings.ContainsAny(first, "*?[") {
		return v.step(join(dir, unquote(first)), rest, more)
	}
	if _, err := filepath.Match(first, ""); err != nil {
		return malformed(v.pattern, "is not a correct pattern", "")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a pattern matches nothing in what is no readable directory
	}
	for _, e := range entries {
		if v.outside != nil {
			return nil
		}
		if v.visited++; v.visited > maxVisited {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "the pattern " + text.Quote(v.pattern, maxQuoted) + " matches too many files to be checked",
				Remedy: "use a narrower pattern"}
		}
		if v.shell && e.Name()[0] == '.' && strings.TrimPrefix(first, `\\`)[0] != '.' {
			continue // a shell wants the dot to be written
		}
		if ok, _ := filepath.Match(first, e.Name()); !ok {
			continue
		}
		if !e.IsDir() || more || v.shell {
			if err := v.step(join(dir, e.Name()), rest, more); err != nil {
				return err
			}
		}
	}
	return nil
}

// step matches the rest of the pattern below one match.
func (v *visit) step(path, rest string, more bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil //nolint:nilerr // gone: it matches nothing
	}
	named, dir := path, info.IsDir()
	if isLink(info) && (!v.words || more) {
		at, err := v.w.follow(v.pattern, path)
		if err != nil {
			return err
		}
		if _, in := v.w.below(at.abs); !in || at.magic != "" {
			v.outside = &Resolved{Path: v.pattern, Abs: at.abs, Exists: at.exists, IsDir: at.dir,
				Reason: text.Quote(v.pattern, maxQuoted) + " is outside the workspace " + v.w.root + ": it matches " + path + ", which leads to " + at.abs}
			return nil
		}
		path, dir = at.abs, at.dir
	}
	if !more || rest == "" {
		if v.shell {
			v.add(named, path, dir)
		}
		return nil
	}
	return v.match(path, rest)
}

// add lists a match that lies at path and is called named.
func (v *visit) add(named, path string, dir bool) {
	m := Resolved{Path: v.pattern, Abs: path, Inside: true, Exists: true, IsDir: dir}
	m.Rel, _ = v.w.below(path)
	if named != path {
		m.Named, _ = v.w.below(named)
	}
	v.matches = append(v.matches, m)
}

// widen replaces each set of characters ([a-z], [!x], [[:alpha:]]) of a
// component by "?". Shells and filepath.Match read sets differently, and more
// matches than there are do no harm. A bracket that is not closed stands for
// itself.
func widen(component string) string {
	var b strings.Builder
	for i := 0; i < len(component); i++ {
		switch c := component[i]; {
		case c == '\\' && i+1 < len(component):
			b.WriteString(component[i : i+2])
			i++
		case c != '[':
			b.WriteByte(c)
		default:
			end := setEnd(component[i:])
			if end == 0 {
				b.WriteString(`\[`)
				continue
			}
			b.WriteByte('?')
			i += end
		}
	}
	return b.String()
}

// setEnd returns where the set that s begins with is closed, or 0.
func setEnd(s string) int {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	for first := true; i < len(s); i, first = i+1, false {
		switch {
		case s[i] == ']' && !first:
			return i
		case s[i] == '\\':
			i++
		case s[i] == '[' && i+1 < len(s) && strings.IndexByte(":.=", s[i+1]) >= 0:
			if end := strings.Index(s[i+2:], s[i+1:i+2]+"]"); end >= 0 {
				i += 2 + end + 1
			}
		}
	}
	return 0
}

// matchesParent reports a component that is, or could match, "..". A "*" or
// "?" in front never matches a leading dot.
func matchesParent(component string) bool {
	if component == ".." {
		return true
	}
	if !strings.HasPrefix(component, ".") && !strings.HasPrefix(component, `\.`) && !strings.HasPrefix(component, "[") {
		return false
	}
	if component == "[" || !strings.ContainsAny(component, "*?[") {
		return unquote(component) == ".."
	}
	ok, err := filepath.Match(component, "..")
	return ok || err != nil
}
