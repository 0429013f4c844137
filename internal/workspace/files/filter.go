package files

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Scope says which files of a tree are meant.
type Scope struct {
	// Glob and Exclude are doublestar patterns for paths relative to the
	// root. One without a slash speaks of the name at any depth, one that
	// ends in a slash of all that is below. Without Glob all files are meant;
	// what Exclude matches, files or whole directories, is not.
	Glob    []string
	Exclude []string

	// Hidden means names that begin with a dot, too. Without it they are left
	// out unless an ignore file keeps them by a negation, as in ripgrep.
	// A name .git is never meant.
	Hidden bool

	// NoIgnore means what .gitignore, .ignore and .rgignore leave out, too.
	NoIgnore bool

	// Keep, if set, has the last word on each file. It is never called with a
	// file that is left out anyway.
	Keep func(path string) bool
}

const (
	maxPatterns     = 256
	maxPatternBytes = 4096
	// maxAlternatives bounds what braces multiply to, which is also the
	// bound of the time to match.
	maxAlternatives = 1024
)

// Filter is the part of a Scope that can be told from a path alone. It may be
// used concurrently.
type Filter struct {
	include, exclude []string
	keep             func(string) bool
}

// NewFilter checks the patterns of s. A wrong one is a *bridge.Error with
// CodeInvalid that names it.
func NewFilter(s Scope) (*Filter, error) {
	f := &Filter{keep: s.Keep}
	if len(s.Glob)+len(s.Exclude) > maxPatterns {
		return nil, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("%d glob patterns are too many", len(s.Glob)+len(s.Exclude)),
			Remedy:  fmt.Sprintf("Give at most %d; braces put several into one.", maxPatterns),
		}
	}
	for _, p := range s.Glob {
		clean, err := cleanPattern(p)
		if err != nil {
			return nil, err
		}
		f.include = append(f.include, clean)
	}
	for _, p := range s.Exclude {
		clean, err := cleanPattern(p)
		if err != nil {
			return nil, err
		}
		f.exclude = append(f.exclude, clean)
	}
	return f, nil
}

// Include and Exclude return the patterns in the form that is matched against
// whole paths.
func (f *Filter) Include() []string { return f.include }

// Exclude is to Scope.Exclude what Include is to Scope.Glob.
func (f *Filter) Exclude() []string { return f.exclude }

// File reports whether the file at path is meant. It looks at the
// directories above it too.
func (f *Filter) File(path string) bool {
	for i := range len(path) {
		if path[i] == '/' && f.Excluded(path[:i]) {
			return false
		}
	}
	return f.fileBelow(path)
}

// fileBelow is File for a file in a directory that is not excluded.
func (f *Filter) fileBelow(path string) bool {
	if len(f.include) > 0 && !slices.ContainsFunc(f.include, func(p string) bool { return doublestar.MatchUnvalidated(p, path) }) {
		return false
	}
	return !f.Excluded(path) && (f.keep == nil || f.keep(path))
}

// Excluded reports whether a pattern excludes path itself, a file or a
// directory.
func (f *Filter) Excluded(path string) bool {
	return slices.ContainsFunc(f.exclude, func(p string) bool { return doublestar.MatchUnvalidated(p, path) })
}

// bases returns the directories that the include patterns begin with, or nil
// if one of them may match anywhere.
func (f *Filter) bases() []string {
	var bases []string
	for _, p := range f.include {
		base, _ := doublestar.SplitPattern(p)
		if base == "." || strings.Contains(base, `\`) {
			return nil
		}
		bases = append(bases, base)
	}
	return bases
}

func cleanPattern(given string) (string, error) {
	wrong := func(why string) error {
		return &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("the glob pattern %q %s", given, why),
			Remedy:  "Use *, **, ?, [class] and {a,b} on paths relative to the workspace, such as src/**/*.go.",
		}
	}
	if len(given) > maxPatternBytes {
		return "", &bridge.Error{Code: bridge.CodeInvalid,
			Message: fmt.Sprintf("a glob pattern of %d bytes is too long", len(given)),
			Remedy:  fmt.Sprintf("Give at most %d bytes.", maxPatternBytes)}
	}
	p := strings.TrimPrefix(given, "./")
	if strings.HasSuffix(p, "/") && !strings.HasSuffix(p, `\/`) {
		p += "**"
	}
	if rest, anchored := strings.CutPrefix(p, "/"); anchored {
		p = rest
	} else if !strings.Contains(p, "/") {
		p = "**/" + p
	}
	switch {
	case given == "" || p == "":
		return "", wrong("is empty")
	case strings.ContainsAny(p, "\x00\n\r"):
		return "", wrong("holds a control character")
	case slices.Contains(strings.Split(p, "/"), ".."):
		return "", wrong("leaves the workspace")
	case !doublestar.ValidatePattern(p):
		return "", wrong("is malformed")
	case alternatives(p) > maxAlternatives:
		return "", wrong(fmt.Sprintf("has more than %d alternatives", maxAlternatives))
	}
	return p, nil
}

// alternatives is an upper bound of what the braces of p multiply to.
func alternatives(p string) int {
	product, choices := 1, 0
	for i := 0; i < len(p) && product <= maxAlternatives; i++ {
		switch p[i] {
		case '\\':
			i++
		case '{':
			product *= max(choices, 1)
			choices = 1
		case ',':
			choices++
		}
	}
	return product * max(choices, 1)
}
