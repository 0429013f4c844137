package search

import (
	"strings"
	"unicode/utf8"
)

// columns returns a function that finds the first match in a line that ripgrep
// has found to hold one, or nil where only ripgrep knows. To report columns
// costs ripgrep a second search of every line, a tenth of its time where there
// are many hits.
func columns(o Options) func(line string) int {
	find := literal(o)
	// Characters outside ASCII are another case of k and s.
	if find == nil || !o.CaseSensitive && strings.ContainsAny(o.Query, "kKsS") {
		return nil
	}
	return func(line string) int {
		if at := find(line); at >= 0 {
			return at
		}
		return len(line) // of a long line not all was held
	}
}

// literal finds the query in text whose letters outside ASCII do not matter.
// It is nil unless the query is literal text in ASCII.
func literal(o Options) matcher {
	if o.Regex || o.Word || !ascii(o.Query) {
		return nil
	}
	if o.CaseSensitive {
		return func(line string) int { return strings.Index(line, o.Query) }
	}
	lower, upper := strings.ToLower(o.Query), strings.ToUpper(o.Query)
	return func(line string) int { return indexFold(line, lower, upper) }
}

// indexFold finds a text in ASCII, whatever its case.
func indexFold(line, lower, upper string) int {
	a, b := lower[0], upper[0]
	for i := 0; i+len(lower) <= len(line); i++ {
		if line[i] != a && line[i] != b {
			continue
		}
		k := 1
		for k < len(lower) && (line[i+k] == lower[k] || line[i+k] == upper[k]) {
			k++
		}
		if k == len(lower) {
			return i
		}
	}
	return -1
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
