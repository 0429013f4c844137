package search

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher looks for a query in text. It may be used concurrently.
//
// Regular expressions are slow here, most of all where case does not matter,
// so they are put to those lines only that hold a needle: text that every
// match has in it, found by the quick search for bytes.
type matcher struct {
	needles [][]byte // any of them; none means that every line is looked at
	fold    bool     // needles are lower-case ASCII, to be found in any case
	word    bool
	exact   bool // a needle is all there is to match
	re      *regexp.Regexp
	// folds are characters outside ASCII that equal a letter of a needle. In
	// a text that has one every line is looked at.
	folds [][]byte
}

// wordChars are the characters of words, as in the Unicode standard.
const wordChars = `\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}`

func newMatcher(o Options) (*matcher, error) {
	m := &matcher{fold: !o.CaseSensitive, word: o.Word}
	expression := o.Query
	if !o.Regex {
		expression = regexp.QuoteMeta(o.Query)
	}
	flags := syntax.Perl
	if m.fold {
		flags |= syntax.FoldCase
		expression = "(?i:" + expression + ")"
	}
	needle := o.Query
	if o.Regex {
		tree, err := syntax.Parse(o.Query, flags)
		if err != nil {
			return nil, badRegex(err.Error())
		}
		needle, m.fold = required(tree.Simplify())
	} else {
		m.exact = !m.fold || ascii(o.Query)
	}
	if m.word {
		expression = `(?:^|[^` + wordChars + `])(` + expression + `)(?:$|[^` + wordChars + `])`
	} else {
		expression = "(" + expression + ")"
	}
	var err error
	if m.re, err = regexp.Compile(expression); err != nil {
		return nil, badRegex(err.Error())
	}
	m.setNeedle(needle)
	return m, nil
}

func (m *matcher) setNeedle(needle string) {
	switch run := longestASCII(needle); {
	case needle == "":
	case !m.fold:
		m.needles = [][]byte{[]byte(needle)}
	case run != "":
		run = strings.ToLower(run)
		m.needles = [][]byte{[]byte(run)}
		if strings.ContainsRune(run, 'k') {
			m.folds = append(m.folds, []byte("\u212a"))
		}
		if strings.ContainsRune(run, 's') {
			m.folds = append(m.folds, []byte("\u017f"))
		}
	default:
		first, _ := utf8.DecodeRuneInString(needle)
		m.needles = [][]byte{[]byte(string(first))}
		for r := unicode.SimpleFold(first); r != first; r = unicode.SimpleFold(r) {
			m.needles = append(m.needles, []byte(string(r)))
		}
		m.fold = false // all forms are among the needles
	}
}

// required returns text that every match of the expression holds, or "", and
// whether its case does not matter. Of several it is the longest.
func required(e *syntax.Regexp) (text string, fold bool) {
	switch e.Op { //nolint:exhaustive // the others require no text
	case syntax.OpLiteral:
		return string(e.Rune), e.Flags&syntax.FoldCase != 0
	case syntax.OpCapture, syntax.OpPlus:
		return required(e.Sub[0])
	case syntax.OpRepeat:
		if e.Min > 0 {
			return required(e.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range e.Sub {
			if t, f := required(sub); len(t) > len(text) {
				text, fold = t, f
			}
		}
	}
	return text, fold
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func longestASCII(s string) string {
	runs := strings.FieldsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
	return slices.MaxFunc(append(runs, ""), func(a, b string) int { return len(a) - len(b) })
}

// view is a text made ready for a matcher.
type view struct {
	*matcher
	text   []byte
	folded []byte // text in lower case, if that is what to look in
	all    bool   // look at every line
}

func (m *matcher) view(text []byte, s *scratch) view {
	v := view{matcher: m, text: text, folded: text, all: len(m.needles) == 0}
	if m.fold && !v.all {
		v.all = slices.ContainsFunc(m.folds, func(f []byte) bool { return bytes.Contains(text, f) })
		s.folded = lower(s.folded, text)
		v.folded = s.folded
	}
	return v
}

// lower puts text with ASCII in lower case into the memory of to.
func lower(to, text []byte) []byte {
	to = slices.Grow(to[:0], len(text))[:len(text)]
	for i, b := range text {
		if b-'A' < 26 {
			b += 'a' - 'A'
		}
		to[i] = b
	}
	return to
}

// next returns where the next line to look at has its needle, or -1.
func (v *view) next(from int) int {
	if v.all {
		return from
	}
	nearest := -1
	for _, needle := range v.needles {
		if i := bytes.Index(v.folded[from:], needle); i >= 0 && (nearest < 0 || from+i < nearest) {
			nearest = from + i
		}
	}
	return nearest
}

// find returns the offset of the first match in the line, or -1.
func (v *view) find(start, end int) int {
	if !v.exact || v.all {
		found := v.re.FindSubmatchIndex(v.text[start:end])
		if found == nil {
			return -1
		}
		return found[2]
	}
	needle := v.needles[0]
	for at := start; ; at++ {
		i := bytes.Index(v.folded[at:end], needle)
		if i < 0 {
			return -1
		}
		at += i
		if !v.word || v.isolated(at, at+len(needle)) {
			return at - start
		}
	}
}

// isolated reports whether what is at from touches no character of a word.
func (v *view) isolated(from, to int) bool {
	before, _ := utf8.DecodeLastRune(v.text[:from])
	after, _ := utf8.DecodeRune(v.text[to:])
	return !isWord(before) && !isWord(after)
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	return r == 0x200c || r == 0x200d || unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}
