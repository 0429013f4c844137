package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A JSON value is nil, bool, uint64, int64, float64, string, []any or Object.
type (
	// Object is a JSON object as it was read, with duplicates. Written, its
	// keys are sorted by their bytes and of duplicates the last one counts.
	Object []Member
	// Member is one entry of an Object.
	Member struct {
		Key   string
		Value any
	}
)

// maxDepth is how deep values may be nested, as on the other side.
const maxDepth = 127

// broken stands for a value that is JSON by its form but cannot be a value: a
// lone surrogate, a number beyond all floats. It does no harm in a field that
// nobody reads.
type broken struct{ err error }

// ParseValue reads one JSON value.
func ParseValue(data []byte) (any, error) {
	p := parser{in: string(data)}
	v, err := p.document()
	if err == nil && p.broken != nil {
		err = p.broken
	}
	return v, err
}

// parser reads a document. Strings without escapes are parts of it, not
// copies; so it is a string itself.
type parser struct {
	in      string
	at      int
	depth   int
	text    []byte   // of the string that is being read
	members []Member // of the objects that are being read
	items   []any    // of the arrays
	room    []Member // for the objects that were read
	broken  error    // the first value that is none
}

func (p *parser) document() (any, error) {
	if !utf8.ValidString(p.in) {
		return nil, errors.New("it is not UTF-8")
	}
	p.members, p.items = make([]Member, 0, 32), make([]any, 0, 32)
	p.space()
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.in) {
		return nil, p.fault("trailing characters")
	}
	return v, nil
}

func (p *parser) fault(what string) error {
	line, column := 1, 0
	for _, b := range []byte(p.in[:min(p.at+1, len(p.in))]) {
		if column++; b == '\n' {
			line, column = line+1, 0
		}
	}
	return fmt.Errorf("%s at line %d column %d", what, line, column)
}

func (p *parser) space() {
	for p.at < len(p.in) {
		switch p.in[p.at] {
		case ' ', '\n', '\t', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.in) {
		return p.in[p.at]
	}
	return 0
}

func (p *parser) value() (any, error) {
	if p.at >= len(p.in) {
		return nil, p.fault("EOF while parsing a value")
	}
	switch c := p.in[p.at]; {
	case c == '{':
		return p.object()
	case c == '[':
		return p.array()
	case c == '"':
		s, bad, err := p.string()
		if err == nil && bad != nil {
			return p.spoiled(bad), nil
		}
		return s, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return true, p.word("true")
	case c == 'f':
		return false, p.word("false")
	case c == 'n':
		return nil, p.word("null")
	}
	return nil, p.fault("expected value")
}

func (p *parser) spoiled(err error) any {
	if p.broken == nil {
		p.broken = err
	}
	return broken{err}
}

func (p *parser) word(w string) error {
	if strings.HasPrefix(p.in[p.at:], w) {
		p.at += len(w)
		return nil
	}
	return p.fault("expected ident")
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.fault("recursion limit exceeded")
	}
	p.at++
	p.space()
	return nil
}

func (p *parser) array() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	if p.peek() == ']' {
		p.at++
		p.depth--
		return []any{}, nil
	}
	begin := len(p.items)
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		p.items = append(p.items, v)
		if more, err := p.more(']', "EOF while parsing a list", "expected `,` or `]`"); err != nil || !more {
			p.depth--
			list := slices.Clone(p.items[begin:])
			p.items = p.items[:begin]
			return list, err
		}
	}
}

func (p *parser) object() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	if p.peek() == '}' {
		p.at++
		p.depth--
		return Object{}, nil
	}
	begin := len(p.members)
	for {
		if p.peek() != '"' {
			return nil, p.fault("key must be a string")
		}
		key, bad, err := p.string()
		if err == nil {
			err = bad
		}
		if err != nil {
			return nil, err
		}
		if p.space(); p.peek() != ':' {
			return nil, p.fault("expected `:`")
		}
		p.at++
		p.space()
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		p.members = append(p.members, Member{key, v})
		if more, err := p.more('}', "EOF while parsing an object", "expected `,` or `}`"); err != nil || !more {
			p.depth--
			o := p.kept(p.members[begin:])
			p.members = p.members[:begin]
			return o, err
		}
	}
}

// kept copies members to a place of their own. Objects are mostly small, so
// several share a piece of memory.
func (p *parser) kept(members []Member) Object {
	if cap(p.room)-len(p.room) < len(members) {
		p.room = make([]Member, 0, max(64, len(members)))
	}
	begin := len(p.room)
	p.room = append(p.room, members...)
	return Object(p.room[begin:len(p.room):len(p.room)])
}

// more reads what follows an element: a comma, or the end.
func (p *parser) more(end byte, eof, other string) (bool, error) {
	p.space()
	switch {
	case p.at >= len(p.in):
		return false, p.fault(eof)
	case p.in[p.at] == ',':
		p.at++
		p.space()
		return true, nil
	case p.in[p.at] == end:
		p.at++
		return false, nil
	}
	return false, p.fault(other)
}

// string reads a string. bad says that its escapes make no text.
func (p *parser) string() (s string, bad, err error) {
	p.at++
	begin := p.at
	for p.at < len(p.in) && p.in[p.at] != '"' && p.in[p.at] != '\\' && p.in[p.at] >= 0x20 {
		p.at++
	}
	if p.peek() == '"' && p.at < len(p.in) {
		p.at++
		return p.in[begin : p.at-1], nil, nil
	}
	p.text = append(p.text[:0], p.in[begin:p.at]...)
	for p.at < len(p.in) {
		switch c := p.in[p.at]; {
		case c == '"':
			p.at++
			return string(p.text), bad, nil
		case c < 0x20:
			return "", nil, p.fault("control character (\\u0000-\\u001F) found while parsing a string")
		case c == '\\':
			fault, err := p.escape()
			if err != nil {
				return "", nil, err
			}
			if bad == nil {
				bad = fault
			}
		default:
			p.text = append(p.text, c)
			p.at++
		}
	}
	return "", nil, p.fault("EOF while parsing a string")
}

func (p *parser) escape() (bad, err error) {
	p.at++
	c := p.peek()
	p.at++
	switch c {
	case '"', '\\', '/':
		p.text = append(p.text, c)
	case 'b':
		p.text = append(p.text, '\b')
	case 'f':
		p.text = append(p.text, '\f')
	case 'n':
		p.text = append(p.text, '\n')
	case 'r':
		p.text = append(p.text, '\r')
	case 't':
		p.text = append(p.text, '\t')
	case 'u':
		return p.unicode()
	default:
		p.at--
		return nil, p.fault("invalid escape")
	}
	return nil, nil
}

// unicode reads the digits of an escape, and of the second one where two make
// a character.
func (p *parser) unicode() (bad, err error) {
	r, ok := p.hex()
	if !ok {
		return nil, p.fault("invalid escape")
	}
	switch {
	case r >= 0xDC00 && r <= 0xDFFF:
		return p.fault("lone leading surrogate in hex escape"), nil
	case r >= 0xD800 && r <= 0xDBFF:
		if p.peek() != '\\' || p.at+1 >= len(p.in) || p.in[p.at+1] != 'u' {
			return p.fault("unexpected end of hex escape"), nil
		}
		p.at += 2
		low, ok := p.hex()
		if !ok {
			return nil, p.fault("invalid escape")
		}
		if low < 0xDC00 || low > 0xDFFF {
			return p.fault("lone leading surrogate in hex escape"), nil
		}
		r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
	}
	p.text = utf8.AppendRune(p.text, r)
	return nil, nil
}

func (p *parser) hex() (r rune, ok bool) {
	if p.at+4 > len(p.in) {
		return 0, false
	}
	for _, c := range []byte(p.in[p.at : p.at+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	p.at += 4
	return r, true
}
