package json5

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNesting bounds how deep a document may be.
const maxNesting = 100

// SyntaxError is why a text is not JSON5.
type SyntaxError struct {
	Line   int // 0 if the whole text is meant
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// kind is what a value is.
type kind byte

const (
	object kind = iota
	array
	scalar
)

// node is a value and where it stands.
type node struct {
	kind       kind
	start, end int
	items      []item // of an object or an array
	json       string // of a scalar
}

// item is a member of an object or an element of an array.
type item struct {
	key   string
	start int // of the key, or of the element
	value *node
	comma int // where the comma after it stands, -1 if there is none
}

// parser reads a text once, from the front.
type parser struct {
	in       string
	at       int
	comments []gap
}

// document reads all of the text.
func (p *parser) document() (*node, error) {
	if !utf8.ValidString(p.in) {
		return nil, &SyntaxError{Reason: "it is not UTF-8"}
	}
	root, err := p.value(0)
	if err == nil {
		err = p.space()
	}
	if err == nil && p.at < len(p.in) {
		err = errors.New("there is more after the end")
	}
	if err != nil {
		return nil, &SyntaxError{Line: 1 + strings.Count(p.in[:min(p.at, len(p.in))], "\n"), Reason: err.Error()}
	}
	return root, nil
}

// isSpace says what separates; the mark at the beginning of a file does too.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r == '\ufeff' || r == '\u2028' || r == '\u2029'
}

// isBreak says what ends a line, and with it a comment of the kind //.
func isBreak(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

// gap is one piece of what stands between tokens: white space, or a comment.
type gap struct {
	start, end int
	comment    bool
	line       bool // a comment that ends with its line
}

// nextGap reads one piece of white space or one comment at a position; ok is
// false if there is a token, or the end.
func nextGap(in string, at int) (g gap, ok bool, err error) {
	g = gap{start: at, end: at}
	rest := in[at:]
	switch {
	case strings.HasPrefix(rest, "//"):
		n := strings.IndexFunc(rest, isBreak)
		if n < 0 {
			n = len(rest)
		}
		g.end, g.comment, g.line = at+n, true, true
	case strings.HasPrefix(rest, "/*"):
		n := strings.Index(rest[2:], "*/")
		if n < 0 {
			return g, false, errors.New("a comment has no end")
		}
		g.end, g.comment = at+n+4, true
	default:
		n := strings.IndexFunc(rest, func(r rune) bool { return !isSpace(r) })
		if n < 0 {
			n = len(rest)
		}
		g.end = at + n
	}
	return g, g.end > g.start, nil
}

// space passes over white space and comments.
func (p *parser) space() error {
	for {
		g, ok, err := nextGap(p.in, p.at)
		if err != nil || !ok {
			return err
		}
		if g.comment {
			p.comments = append(p.comments, g)
		}
		p.at = g.end
	}
}

// peek returns the next byte that counts, or 0 at the end.
func (p *parser) peek() (byte, error) {
	if err := p.space(); err != nil || p.at == len(p.in) {
		return 0, err
	}
	return p.in[p.at], nil
}

func (p *parser) value(depth int) (*node, error) {
	c, err := p.peek()
	switch {
	case err != nil:
		return nil, err
	case depth > maxNesting:
		return nil, errors.New("it is nested too deeply")
	case c == '{':
		return p.list(object, '}', depth)
	case c == '[':
		return p.list(array, ']', depth)
	}
	n := &node{kind: scalar, start: p.at}
	if c == '"' || c == '\'' {
		var s string
		s, err = p.text()
		n.json = quote(s)
	} else {
		n.json, err = p.word()
	}
	n.end = p.at
	return n, err
}

// list reads an object or an array.
func (p *parser) list(k kind, end byte, depth int) (*node, error) {
	n := &node{kind: k, start: p.at}
	p.at++
	for {
		c, err := p.peek()
		if err != nil {
			return nil, err
		}
		if c == end {
			p.at++
			n.end = p.at
			return n, nil
		}
		it := item{start: p.at, comma: -1}
		if k == object {
			if it.key, err = p.key(); err != nil {
				return nil, err
			}
		}
		if it.value, err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if c, err = p.peek(); err != nil {
			return nil, err
		}
		switch c {
		case ',':
			it.comma = p.at
			p.at++
		case end:
		default:
			return nil, fmt.Errorf("a comma or %q is missing", end)
		}
		n.items = append(n.items, it)
	}
}

// key reads the name of a member and its colon.
func (p *parser) key() (string, error) {
	var name string
	c, err := p.peek()
	if err == nil && (c == '"' || c == '\'') {
		name, err = p.text()
	} else {
		name, err = p.name()
	}
	if err != nil {
		return "", err
	}
	switch c, err = p.peek(); {
	case err != nil:
		return "", err
	case c != ':':
		return "", errors.New("a colon is missing")
	}
	p.at++
	return name, nil
}

// name reads a key without quotes.
func (p *parser) name() (string, error) {
	var b strings.Builder
	for p.at < len(p.in) {
		r, size := utf8.DecodeRuneInString(p.in[p.at:])
		if r == '\\' && strings.HasPrefix(p.in[p.at:], `\u`) {
			if err := p.escape(&b); err != nil {
				return "", err
			}
			continue
		}
		if r != '_' && r != '$' && r != '-' && r != '\u200c' && r != '\u200d' && !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Pc) {
			break
		}
		b.WriteRune(r)
		p.at += size
	}
	if b.Len() == 0 {
		return "", errors.New("a key is missing")
	}
	return b.String(), nil
}
