package json5

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a quoted string.
func (p *parser) text() (string, error) {
	mark := p.in[p.at]
	p.at++
	var b strings.Builder
	for p.at < len(p.in) {
		c := p.in[p.at]
		switch {
		case c == mark:
			p.at++
			return b.String(), nil
		case c == '\n' || c == '\r':
			return "", errors.New("a string has no end")
		case c != '\\':
			b.WriteByte(c)
			p.at++
		default:
			if err := p.escape(&b); err != nil {
				return "", err
			}
		}
	}
	return "", errors.New("a string has no end")
}

var escapes = map[rune]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", '0': "\x00", '\n': "", '\u2028': "", '\u2029': ""}

// escape reads what a backslash begins.
func (p *parser) escape(b *strings.Builder) error {
	p.at++
	if p.at == len(p.in) {
		return errors.New("a string has no end")
	}
	r, size := utf8.DecodeRuneInString(p.in[p.at:])
	p.at += size
	switch r {
	case 'x', 'u':
		n, err := p.hex(map[rune]int{'x': 2, 'u': 4}[r])
		if err != nil {
			return err
		}
		if utf16.IsSurrogate(n) && strings.HasPrefix(p.in[p.at:], `\u`) {
			back := p.at
			p.at += 2
			low, err := p.hex(4)
			if pair := utf16.DecodeRune(n, low); err == nil && pair != unicode.ReplacementChar {
				n = pair
			} else {
				p.at = back
			}
		}
		b.WriteRune(n) // half of a pair becomes U+FFFD: names and paths have none
	case '\r':
		if strings.HasPrefix(p.in[p.at:], "\n") {
			p.at++
		}
	default:
		if s, ok := escapes[r]; ok {
			b.WriteString(s)
		} else {
			b.WriteRune(r)
		}
	}
	return nil
}

func (p *parser) hex(digits int) (rune, error) {
	if p.at+digits > len(p.in) {
		return 0, errors.New("an escape is not complete")
	}
	n, err := strconv.ParseUint(p.in[p.at:p.at+digits], 16, 32)
	if err != nil {
		return 0, errors.New("an escape is not understood")
	}
	p.at += digits
	return rune(n), nil
}

// word reads a number or a name, as JSON. What JSON cannot say (Infinity, NaN)
// becomes null.
func (p *parser) word() (string, error) {
	begin := p.at
	for p.at < len(p.in) && (strings.IndexByte("+-._", p.in[p.at]) >= 0 ||
		'0' <= p.in[p.at] && p.in[p.at] <= '9' || 'a' <= p.in[p.at]|0x20 && p.in[p.at]|0x20 <= 'z') {
		p.at++
	}
	word := p.in[begin:p.at]
	digits := strings.TrimLeft(word, "+-")
	switch {
	case word == "":
		return "", errors.New("a value is missing")
	case word == "true" || word == "false" || word == "null":
		return word, nil
	case len(word)-len(digits) > 1:
		return "", fmt.Errorf("%q is not a value", word)
	case digits == "Infinity" || digits == "NaN":
		return "null", nil
	case digits == "" || !strings.ContainsAny(digits[:1], "0123456789.") || strings.Contains(digits, "_"):
		return "", fmt.Errorf("%q is not a value", word)
	}
	number := word
	if len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' {
		if strings.ContainsAny(digits, ".pP") {
			return "", fmt.Errorf("%q is not a number", word)
		}
		number += "p0" // as Go writes whole numbers in this form
	}
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return "", fmt.Errorf("%q is not a number", word)
	case math.IsInf(f, 0):
		return "null", nil
	}
	if a := math.Abs(f); a == 0 || 1e-6 <= a && a < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64), nil
	}
	return strconv.FormatFloat(f, 'e', -1, 64), nil
}
