package search

import (
	"strings"
	"unicode/utf8"
)

// set makes h the hit of a line with a match at offset, in bytes.
func (h *Hit) set(file string, number int, line string, offset int) {
	line = strings.TrimSuffix(line, "\r")
	offset = min(offset, len(line))
	h.File, h.Line, h.Column = file, number, utf8.RuneCountInString(line[:offset])+1
	if h.Cut = len(line) > maxSnippet; h.Cut {
		line = around(line, offset)
	}
	h.Snippet = valid(line)
}

// around returns the part of a long line that holds offset, a quarter of it
// before the match.
func around(line string, offset int) string {
	from := max(0, min(offset-maxSnippet/4, len(line)-maxSnippet))
	to := from + maxSnippet
	for from > 0 && from < to && !utf8.RuneStart(line[from]) {
		from++
	}
	for to < len(line) && to > from && !utf8.RuneStart(line[to]) {
		to--
	}
	return line[from:to]
}

// contextLine is a line before or after a hit.
func contextLine(line string) string {
	line = strings.TrimSuffix(line, "\r")
	if len(line) > maxSnippet {
		line = around(line, 0)
	}
	return valid(line)
}

// valid replaces each byte that is not UTF-8, so that columns still count.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
