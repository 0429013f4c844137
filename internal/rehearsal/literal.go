package rehearsal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quoted and fenced passages of a message are taken out before it is read and
// stand in it as one private-use character each, so that no rule and no
// separator ever looks into them.
const (
	firstLiteral = '\uE000'
	lastLiteral  = '\uF8FF'
	literalClass = `\x{E000}-\x{F8FF}`
)

// literal is a passage as it was written, and what stands between its quotes.
type literal struct{ raw, inner string }

// masked is a message whose literals have been taken out.
type masked struct {
	text     string
	literals []literal
}

// quotes maps an opening quote to its closing one.
var quotes = map[rune]rune{'"': '"', '`': '`', '\'': '\'', '“': '”', '‘': '’'}

func mask(text string) masked {
	var m masked
	var b strings.Builder
	dead := map[rune]bool{} // closing quotes of which none is left
	before := ' '
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if l, ok := literalAt(text, r, before, dead); ok && len(m.literals) < lastLiteral-firstLiteral {
			b.WriteRune(firstLiteral + rune(len(m.literals)))
			m.literals = append(m.literals, l)
			text = text[len(l.raw):]
			before = '"'
			continue
		}
		if r >= firstLiteral && r <= lastLiteral {
			r = utf8.RuneError
		}
		b.WriteRune(r)
		text = text[size:]
		before = r
	}
	m.text = b.String()
	return m
}

func literalAt(text string, open, before rune, dead map[rune]bool) (literal, bool) {
	if strings.HasPrefix(text, "```") {
		end := strings.Index(text[3:], "```")
		if end < 0 {
			return literal{}, false
		}
		inner := text[3 : 3+end]
		// The first line of a fence names a language.
		if _, body, ok := strings.Cut(inner, "\n"); ok {
			inner = body
		}
		return literal{text[:end+6], inner}, true
	}
	shut, ok := quotes[open]
	if !ok || dead[shut] || isWord(before) {
		return literal{}, false
	}
	start := utf8.RuneLen(open)
	for i, r := range text[start:] {
		if r != shut {
			continue
		}
		end := start + i + utf8.RuneLen(shut)
		// An apostrophe inside a word closes nothing.
		if next, _ := utf8.DecodeRuneInString(text[end:]); isWord(next) && end < len(text) {
			continue
		}
		return literal{text[:end], text[start : start+i]}, true
	}
	dead[shut] = true
	return literal{}, false
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
}

// only reports whether s is one literal and nothing else.
func (m *masked) only(s string) (literal, bool) {
	r, size := utf8.DecodeRuneInString(s)
	if n := int(r - firstLiteral); size == len(s) && n >= 0 && n < len(m.literals) {
		return m.literals[n], true
	}
	return literal{}, false
}

// unmask puts the literals back: without their quotes if s is nothing else,
// and as they were written if they are part of more.
func (m *masked) unmask(s string) string {
	s = strings.TrimSpace(s)
	if l, ok := m.only(strings.TrimRight(s, " .,!?")); ok {
		return l.inner
	}
	var b strings.Builder
	for _, r := range s {
		if n := int(r - firstLiteral); n >= 0 && n < len(m.literals) {
			b.WriteString(m.literals[n].raw)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
