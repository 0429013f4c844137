package redact

import (
	"regexp"
	"strings"
)

// matcher looks at the text around a keyword that stands at [start, end) and
// adds the secrets there. It may look at most lookBehind bytes before the
// keyword, through back, and a bounded number after it, through at.
type matcher interface {
	match(sc *scan, start, end int)
}

// family is a kind of token that can be told by its form: one of some
// prefixes, and a body.
type family struct {
	name     string
	prefixes string // separated by spaces
	body     string // see compileShape
	check    func(body string) bool
	// after, if set, says what must come before the prefix; otherwise it is
	// anything but a letter or digit.
	after func(t *text, i int) bool
}

// maxJudged is how much of an open-ended body the check sees.
const maxJudged = 40

// token matches one prefix of a family.
type token struct {
	shape shape
	skip  int // length of the prefix
	check func(string) bool
	after func(t *text, i int) bool
}

func (f *family) tokens(each func(prefix string, m matcher)) {
	after := f.after
	if after == nil {
		after = (*text).atBoundary
	}
	for prefix := range strings.FieldsSeq(f.prefixes) {
		each(prefix, &token{compileShape(regexp.QuoteMeta(prefix) + f.body), len(prefix), f.check, after})
	}
}

func (m *token) match(sc *scan, start, _ int) {
	if !m.after(&sc.text, start) {
		return
	}
	from, to, ok := m.shape.match(&sc.text, start)
	if !ok {
		return
	}
	if tail := m.shape.tail; tail != nil {
		// The more there is to judge, the surer the judgement.
		if most := start + m.skip + maxJudged; to < most {
			to = sc.stretch(tail, to, most-to)
		}
	}
	if m.check(sc.s[start+m.skip : to]) {
		sc.add(from, to, m.shape.tail)
	}
}

// atBoundary reports whether a token may begin at i: not in the middle of a
// word, where the letter of an escape sequence, of a URL escape or of a
// terminal's colour code does not count as one.
func (t *text) atBoundary(i int) bool {
	c, before := t.back(i-1), t.back(i-2)
	if !alnum[c] {
		return true
	}
	switch {
	case before == '\\':
		return c == 'n' || c == 'r' || c == 't' || c == 'b' || c == 'f' || c == 'v'
	case !alnum[before] && before != ';' && before != '[' && before != '%':
		return false
	case isHex(c) && isHex(before) && t.back(i-3) == '%':
		return true
	case t.back(i-3) == 'x' && t.back(i-4) == '\\':
		return true
	case t.back(i-4) == '\\' && isDigit(c) && isDigit(before) && isDigit(t.back(i-3)):
		return true
	case t.back(i-5) == 'u' && t.back(i-6) == '\\':
		return true
	}
	return t.afterColour(i - 1)
}

// digits wants a number before i, such as a bot's.
func digits(t *text, i int) bool {
	n := 0
	for n < 5 && isDigit(t.back(i-1-n)) {
		n++
	}
	return n == 5
}

// aWord wants a letter or digit before i.
func aWord(t *text, i int) bool { return alnum[t.back(i-1)] }

// azureHead wants the four characters before i that an Azure client secret
// has there. They stay, as a stream may have let them out.
func azureHead(t *text, i int) bool {
	for back := 2; back <= 4; back++ {
		if c := t.back(i - back); !word[c] && c != '~' && c != '.' {
			return false
		}
	}
	return isDigit(t.back(i - 1))
}

// afterColour reports whether the letter at i ends a terminal control
// sequence, as its bytes or spelt out.
func (t *text) afterColour(i int) bool {
	p := i - 1
	for i-p < 16 && (isDigit(t.back(p)) || t.back(p) == ';') {
		p--
	}
	if t.back(p) != '[' {
		return false
	}
	switch t.back(p - 1) {
	case 0x1b:
		return true
	case 'b', 'B', '3', 'e':
		return t.back(p-2) == '\\' || t.back(p-4) == '\\' || t.back(p-6) == '\\'
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
