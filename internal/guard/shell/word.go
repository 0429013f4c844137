package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word after expansion, as far as that is known beforehand.
type word struct {
	text    string // as written if dynamic
	pattern string // set if the word has wildcards
	dynamic bool
	splits  bool // dynamic, and may become several words or none
	tilde   bool // begins with an unquoted tilde
	assigns bool // an assignment that the parser has read as one
	runs    bool // see Path.Runs
}

// many reports a word that may become several, of which those behind the first
// mean something else.
func (w word) many() bool { return w.splits || w.pattern != "" }

// words expands ws in order. One word may become several, or none.
func (s *scriptReader) words(ws []*syntax.Word) []word {
	out := make([]word, 0, len(ws))
	for _, w := range ws {
		out = s.expand(out, w)
	}
	return out
}

func (s *scriptReader) expand(out []word, w *syntax.Word) []word {
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, `\{*?[~$`) {
			return append(out, word{text: lit.Value})
		}
	}
	// Braces are expanded first, by rules of which some are strange.
	if raw := s.raw(w); hasBrace(w) && (strings.Contains(raw, ",") || strings.Contains(raw, "..")) {
		return append(out, word{text: raw, dynamic: true, splits: true})
	}
	return s.append(out, w)
}

// append evaluates a word without braces. An empty word that was not quoted
// disappears.
func (s *scriptReader) append(out []word, w *syntax.Word) []word {
	e := evaluation{}
	quoted := false
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			e.unquoted(p.Value, i == 0)
		case *syntax.SglQuoted:
			quoted = true
			// $'…' has escapes, of which some depend on the locale.
			e.dynamic = e.dynamic || p.Dollar && strings.Contains(p.Value, `\`)
			e.literal(p.Value)
		case *syntax.DblQuoted:
			quoted = true
			// $"…" is looked up in a message catalogue.
			e.dynamic = e.dynamic || p.Dollar
			for _, inner := range p.Parts {
				if lit, ok := inner.(*syntax.Lit); ok {
					e.literal(unescape(lit.Value, "$`\"\\"))
				} else {
					e.dynamic = true
					e.splits = e.splits || isList(inner)
				}
			}
		default:
			e.dynamic, e.splits = true, true
		}
	}
	if e.dynamic {
		return append(out, word{text: s.raw(w), dynamic: true, splits: e.splits})
	}
	if e.text.Len() == 0 && !quoted {
		return out
	}
	res := word{text: e.text.String(), tilde: e.tilde}
	if e.star || e.bracket == closed {
		res.pattern = e.pattern.String()
	}
	return append(out, res)
}

type bracket int

const (
	none bracket = iota
	opened
	closed
)

// evaluation collects the text of a word and the pattern that it is if it has
// wildcards.
type evaluation struct {
	text, pattern strings.Builder
	dynamic       bool
	splits        bool
	tilde         bool
	star          bool
	bracket       bracket
}

// unquoted adds text outside of quotes.
func (e *evaluation) unquoted(s string, first bool) {
	if first && strings.HasPrefix(s, "~") {
		e.tilde = true
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i < len(s) {
				e.literal(s[i : i+1])
			} else {
				e.literal(`\`)
			}
			continue
		case '*', '?':
			e.star = true
		case '[':
			if e.bracket == none {
				e.bracket = opened
			}
		case ']':
			if e.bracket == opened {
				e.bracket = closed
			}
		}
		e.text.WriteByte(s[i])
		e.pattern.WriteByte(s[i])
	}
}

// literal adds text that stands for itself.
func (e *evaluation) literal(s string) {
	e.text.WriteString(s)
	for i := range len(s) {
		if strings.IndexByte(`*?[]\`, s[i]) >= 0 {
			e.pattern.WriteByte('\\')
		}
		e.pattern.WriteByte(s[i])
	}
}

// isList reports "$@" and "${a[@]}", which are several words even in quotes.
func isList(part syntax.WordPart) bool {
	p, ok := part.(*syntax.ParamExp)
	if !ok {
		return false
	}
	return p.Param == nil || p.Param.Value == "@" || p.Index != nil || p.Names != 0 || p.Excl
}

// unescape drops the backslash in front of the given characters and of a
// newline, which disappears as well.
func unescape(s, special string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(special, s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hasBrace(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return ok && strings.Contains(lit.Value, "{")
	})
}
