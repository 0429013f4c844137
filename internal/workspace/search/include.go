package search

import (
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The patterns of a scope are matched by this program, on each file that has
// hits. Those that mean the same to ripgrep are given to it too, so that it
// need not read the files that are not meant. Its --glob will not do for what
// is included: there it brings back what ignore files leave out.

var (
	plainBraces  = regexp.MustCompile(`\{[\pL\pN_.@+~-]+(?:,[\pL\pN_.@+~-]+)*\}`)
	plainElement = regexp.MustCompile(`^[\pL\pN_.@+~*-]+$`)
)

// plain reports whether a pattern is made of ** as whole elements, letters,
// digits, some marks, * and braces without nesting.
func plain(pattern string) bool {
	for element := range strings.SplitSeq(plainBraces.ReplaceAllString(pattern, "x"), "/") {
		if element != "**" && (strings.Contains(element, "**") || !plainElement.MatchString(element)) {
			return false
		}
	}
	return true
}

// includeRules is the text of an ignore file that leaves out what no pattern
// includes, or "" if that cannot be said. Ignore files of the tree outweigh
// it, so more may come back, never less.
func includeRules(patterns []string, hidden bool) string {
	if len(patterns) == 0 {
		return ""
	}
	var rules strings.Builder
	rules.WriteString("*\n")
	for _, p := range patterns {
		if !plain(p) {
			return ""
		}
		base, rest := doublestar.SplitPattern(p)
		open := ""
		if base != "." {
			for element := range strings.SplitSeq(base, "/") {
				open += "/" + element
				rules.WriteString("!" + open + "/\n")
			}
		}
		if strings.Contains(rest, "/") || strings.Contains(rest, "**") {
			rules.WriteString("!" + open + "/**/\n")
		}
		rules.WriteString("!/" + p + "\n")
	}
	if !hidden {
		rules.WriteString(".*\n") // the directories above must not bring them in
	}
	return rules.String()
}
