package ignore

import "strings"

// pattern is a wildcard pattern, one segment for each element of a path. The
// time to match is bounded by a polynomial: after a mismatch only the last
// star and the last double star are tried again, which loses nothing.
type pattern []segment

// segment is the pattern of one path element, or "**", which stands for any
// number of elements.
type segment struct {
	deep   bool
	tokens []token
}

type token struct {
	kind tokenKind
	char byte
	set  *[256]bool
}

type tokenKind uint8

const (
	literal tokenKind = iota
	anyChar
	anyRun
	class
)

// compile reports false for a pattern that can never match.
func compile(text string) (pattern, bool) {
	p := pattern{{}}
	for i := 0; i < len(text); i++ {
		last := &p[len(p)-1]
		switch c := text[i]; c {
		case '/':
			p = append(p, segment{})
		case '*':
			last.tokens = append(last.tokens, token{kind: anyRun})
		case '?':
			last.tokens = append(last.tokens, token{kind: anyChar})
		case '\\':
			i++
			switch {
			case i == len(text):
				return nil, false
			case text[i] == '/':
				p = append(p, segment{})
			default:
				last.tokens = append(last.tokens, token{kind: literal, char: text[i]})
			}
		case '[':
			set, next, ok := parseClass(text, i)
			if !ok {
				return nil, false
			}
			last.tokens = append(last.tokens, token{kind: class, set: set})
			i = next - 1
		default:
			last.tokens = append(last.tokens, token{kind: literal, char: c})
		}
	}
	for i := range p {
		p[i].settle()
	}
	// At the end "**" wants at least one element: a/** is not a itself.
	if end := len(p) - 1; len(p) > 1 && p[end].deep {
		p = append(p[:end], segment{tokens: []token{{kind: anyRun}}}, segment{deep: true})
	}
	return p, true
}

// settle makes a segment of two stars and more a deep one, and elsewhere one
// star of several.
func (s *segment) settle() {
	stars, kept := 0, s.tokens[:0]
	for i, t := range s.tokens {
		if t.kind == anyRun {
			stars++
			if i > 0 && s.tokens[i-1].kind == anyRun {
				continue
			}
		}
		kept = append(kept, t)
	}
	s.deep = stars > 1 && len(kept) == 1
	s.tokens = kept
}

func (p pattern) match(path string) bool {
	at, rest, done := 0, path, false
	retryAt, retryRest := -1, ""
	for !done || at < len(p) {
		switch {
		case at < len(p) && p[at].deep:
			at++
			if at == len(p) {
				return true
			}
			retryAt, retryRest = at, rest
			continue
		case at < len(p) && !done:
			name, after, more := strings.Cut(rest, "/")
			if matchName(p[at].tokens, name) {
				at, rest, done = at+1, after, !more
				continue
			}
		}
		// Let the last "**" take one element more.
		_, after, more := strings.Cut(retryRest, "/")
		if retryAt < 0 || !more {
			return false
		}
		at, rest, retryRest, done = retryAt, after, after, false
	}
	return true
}

func matchName(tokens []token, name string) bool {
	at, i := 0, 0
	retryAt, retryI := -1, 0
	for i < len(name) || at < len(tokens) {
		if at < len(tokens) {
			switch t := &tokens[at]; t.kind {
			case anyRun:
				at++
				retryAt, retryI = at, i
				continue
			case anyChar:
				if i < len(name) {
					at, i = at+1, i+1
					continue
				}
			case literal:
				if i < len(name) && name[i] == t.char {
					at, i = at+1, i+1
					continue
				}
			case class:
				if i < len(name) && t.set[name[i]] {
					at, i = at+1, i+1
					continue
				}
			}
		}
		if retryAt < 0 || retryI >= len(name) {
			return false
		}
		retryI++
		at, i = retryAt, retryI
	}
	return true
}
