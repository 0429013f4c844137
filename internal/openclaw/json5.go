package openclaw

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNesting bounds how deep a document may be.
const maxNesting = 100

// standardize turns JSON5, which is how OpenClaw's configuration may be
// written, into JSON: comments, unquoted and single-quoted keys, trailing
// commas, other spellings of numbers. What JSON cannot say (Infinity, NaN)
// becomes null.
func standardize(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	p := &json5{in: string(bytes.TrimPrefix(text, []byte("\ufeff")))}
	if err := p.value(0); err != nil {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(p.in[:min(p.at, len(p.in))], "\n"), err)
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.at < len(p.in) {
		return nil, fmt.Errorf("line %d: there is more after the end", 1+strings.Count(p.in[:p.at], "\n"))
	}
	return p.out.Bytes(), nil
}

type json5 struct {
	in  string
	at  int
	out bytes.Buffer
}

// space passes over white space and comments.
func (p *json5) space() error {
	for p.at < len(p.in) {
		rest := p.in[p.at:]
		switch {
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexAny(rest, "\n\r\u2028\u2029")
			if n < 0 {
				n = len(rest)
			}
			p.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return errors.New("a comment has no end")
			}
			p.at += n + 4
		default:
			r, size := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) && r != '\ufeff' && r != '\u2028' && r != '\u2029' {
				return nil
			}
			p.at += size
		}
	}
	return nil
}

// peek returns the next byte that counts, or 0 at the end.
func (p *json5) peek() (byte, error) {
	if err := p.space(); err != nil || p.at == len(p.in) {
		return 0, err
	}
	return p.in[p.at], nil
}

func (p *json5) value(depth int) error {
	c, err := p.peek()
	switch {
	case err != nil:
		return err
	case depth > maxNesting:
		return errors.New("it is nested too deeply")
	case c == '{' || c == '[':
		return p.list(c, depth)
	case c == '"' || c == '\'':
		return p.text()
	}
	return p.word()
}

// list reads an object or an array.
func (p *json5) list(open byte, depth int) error {
	end := map[byte]byte{'{': '}', '[': ']'}[open]
	p.at++
	p.out.WriteByte(open)
	for n := 0; ; n++ {
		c, err := p.peek()
		if err != nil {
			return err
		}
		if c == end {
			break
		}
		if n > 0 {
			p.out.WriteByte(',')
		}
		if open == '{' {
			if err := p.key(); err != nil {
				return err
			}
		}
		if err := p.value(depth + 1); err != nil {
			return err
		}
		if c, err = p.peek(); err != nil {
			return err
		}
		switch c {
		case ',':
			p.at++
		case end:
		default:
			return fmt.Errorf("a comma or %q is missing", end)
		}
	}
	p.at++
	p.out.WriteByte(end)
	return nil
}

func (p *json5) key() error {
	c, err := p.peek()
	if err != nil {
		return err
	}
	if c == '"' || c == '\'' {
		err = p.text()
	} else {
		begin := p.at
		for p.at < len(p.in) {
			r, size := utf8.DecodeRuneInString(p.in[p.at:])
			if r != '_' && r != '$' && r != '-' && !unicode.In(r, unicode.L, unicode.N, unicode.M) {
				break
			}
			p.at += size
		}
		if begin == p.at {
			return errors.New("a key is missing")
		}
		p.out.WriteString(quote(p.in[begin:p.at]))
	}
	if err != nil {
		return err
	}
	if c, err = p.peek(); err != nil || c != ':' {
		return errors.Join(err, errors.New("a colon is missing"))
	}
	p.at++
	p.out.WriteByte(':')
	return nil
}

// text reads a quoted string.
func (p *json5) text() error {
	mark := p.in[p.at]
	p.at++
	var b strings.Builder
	for p.at < len(p.in) {
		c := p.in[p.at]
		switch {
		case c == mark:
			p.at++
			p.out.WriteString(quote(b.String()))
			return nil
		case c == '\n' || c == '\r':
			return errors.New("a string has no end")
		case c != '\\':
			b.WriteByte(c)
			p.at++
		default:
			if err := p.escape(&b); err != nil {
				return err
			}
		}
	}
	return errors.New("a string has no end")
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", '0': "\x00", '\n': ""}

func (p *json5) escape(b *strings.Builder) error {
	p.at++
	if p.at == len(p.in) {
		return errors.New("a string has no end")
	}
	c := p.in[p.at]
	p.at++
	digits := map[byte]int{'x': 2, 'u': 4}[c]
	switch {
	case digits > 0:
		if p.at+digits > len(p.in) {
			return errors.New("an escape is not complete")
		}
		n, err := strconv.ParseUint(p.in[p.at:p.at+digits], 16, 32)
		if err != nil {
			return errors.New("an escape is not understood")
		}
		p.at += digits
		b.WriteRune(rune(n)) // half of a pair becomes U+FFFD: names and paths have none
	case c == '\r':
		if strings.HasPrefix(p.in[p.at:], "\n") {
			p.at++
		}
	default:
		if s, ok := escapes[c]; ok {
			b.WriteString(s)
		} else {
			b.WriteByte(c)
		}
	}
	return nil
}

// word reads a number or a name.
func (p *json5) word() error {
	begin := p.at
	for p.at < len(p.in) && (p.in[p.at] == '+' || p.in[p.at] == '-' || p.in[p.at] == '.' || p.in[p.at] == '_' ||
		'0' <= p.in[p.at] && p.in[p.at] <= '9' || 'a' <= p.in[p.at]|0x20 && p.in[p.at]|0x20 <= 'z') {
		p.at++
	}
	word := p.in[begin:p.at]
	switch strings.TrimLeft(word, "+-") {
	case "":
		return errors.New("a value is missing")
	case "true", "false", "null":
		p.out.WriteString(word)
		return nil
	case "Infinity", "NaN":
		p.out.WriteString("null")
		return nil
	}
	digits := strings.ToLower(strings.TrimLeft(word, "+-"))
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 63)
		if err != nil {
			return fmt.Errorf("%q is not a number", word)
		}
		p.out.WriteString(strconv.FormatUint(n, 10))
		return nil
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil || strings.ContainsAny(digits, "_px") {
		return fmt.Errorf("%q is not a value", word)
	}
	p.out.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
	return nil
}

// quote writes a string as JSON.
func quote(s string) string {
	out, err := json.Marshal(s)
	if err != nil { // a string always can be
		return `""`
	}
	return string(out)
}
