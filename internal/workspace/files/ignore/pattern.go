package ignore

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxPattern is the length of the longest pattern with wildcards that is used.
const maxPattern = 16 << 10

// pattern is a wildcard pattern as a regular expression. It speaks of bytes, so
// expression and path are written with one character for each byte.
type pattern struct{ *regexp.Regexp }

func (p pattern) match(path string) bool { return p.MatchString(bytewise(path)) }

// bytewise returns a text with a character for each byte of s.
func bytewise(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			for j := range len(s) {
				b.WriteRune(rune(s[j]))
			}
			return b.String()
		}
	}
	return s
}

// compile reports false for a pattern that can never match.
func compile(text string) (pattern, bool) {
	if len(text) > maxPattern {
		return pattern{}, false
	}
	all := "" // the expressions of the elements of a path
	element, stars := "", 0
	end := func(last bool) {
		switch {
		case stars < 2 || strings.ReplaceAll(element, anyRun, "") != "":
			if !last {
				element += "/"
			}
		case !last:
			element = "(?:[^/]*/)*" // any number of elements
		default:
			element = ".*"
		}
		all += element
		element, stars = "", 0
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' {
			if i++; i == len(text) {
				return pattern{}, false
			}
			if c = text[i]; c != '/' {
				element += regexp.QuoteMeta(bytewise(string([]byte{c})))
				continue
			}
		}
		switch c {
		case '/':
			end(false)
		case '*':
			element += anyRun
			stars++
		case '?':
			element += "[^/]"
		case '[':
			set, next, ok := parseClass(text, i)
			if !ok {
				return pattern{}, false
			}
			element += expression(set)
			i = next - 1
		default:
			element += regexp.QuoteMeta(bytewise(string([]byte{c})))
		}
	}
	end(true)
	re, err := regexp.Compile(`(?s)\A` + all + `\z`)
	return pattern{re}, err == nil
}

// anyRun is the expression of a star.
const anyRun = "[^/]*"

// expression is a class of bytes as an expression.
func expression(set *[256]bool) string {
	var b strings.Builder
	for c, in := range set {
		if in {
			fmt.Fprintf(&b, `\x{%x}`, c)
		}
	}
	if b.Len() == 0 {
		return `[^\x{0}-\x{10ffff}]`
	}
	return "[" + b.String() + "]"
}
