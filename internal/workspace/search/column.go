package search

import "strings"

// columns returns what finds the first match in a line that is known to hold
// one, where that is simple: for literal text in ASCII that means nothing else
// to ripgrep. It is nil otherwise. To find the column costs ripgrep a second
// search of every line, a tenth of its time where there are many hits.
func columns(o Options) func(line string) int {
	if o.Regex || o.Word || !ascii(o.Query) {
		return nil
	}
	if o.CaseSensitive {
		return func(line string) int { return orEnd(line, strings.Index(line, o.Query)) }
	}
	// Characters outside ASCII are another case of k and s.
	if strings.ContainsAny(o.Query, "kKsS") {
		return nil
	}
	lower, upper := strings.ToLower(o.Query), strings.ToUpper(o.Query)
	return func(line string) int { return orEnd(line, indexFold(line, lower, upper)) }
}

// orEnd is for lines of which not all was held.
func orEnd(line string, at int) int {
	if at < 0 {
		return len(line)
	}
	return at
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
