package json5

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds how deep a document may be.
const maxNesting = 100

// comment is where one stands in the text.
type comment struct {
	start, end int
	line       bool // it ends with its line
}

// converter turns JSON5 into JSON with trailing commas. White space and
// comments become spaces and line ends, other tokens their JSON form.
type converter struct {
	in       string
	pos      int
	out      []byte
	at       []int // the position in the text of each byte of out
	comments []comment
	depth    int
}

// emit writes something in place of the text from pos to end.
func (c *converter) emit(token string, end int) {
	for range len(token) {
		c.at = append(c.at, c.pos)
	}
	c.out = append(c.out, token...)
	c.pos = end
}

// convert reads the whole text. The error names its line.
func (c *converter) convert() error {
	if !utf8.ValidString(c.in) {
		return errors.New("it is not UTF-8")
	}
	for c.pos < len(c.in) {
		if err := c.token(); err != nil {
			return fmt.Errorf("line %d: %w", 1+strings.Count(c.in[:min(c.pos, len(c.in))], "\n"), err)
		}
	}
	c.at = append(c.at, len(c.in))
	return nil
}

func (c *converter) token() error {
	r, size := utf8.DecodeRuneInString(c.in[c.pos:])
	switch {
	case strings.HasPrefix(c.in[c.pos:], "//"), strings.HasPrefix(c.in[c.pos:], "/*"):
		return c.comment()
	case r == '\n':
		c.emit("\n", c.pos+1)
	case unicode.IsSpace(r) || r == '\ufeff' || r == '\u2028' || r == '\u2029':
		c.emit(" ", c.pos+size)
	case r == '"' || r == '\'':
		s, end, err := unquote(c.in, c.pos+1, r)
		if err != nil {
			return err
		}
		c.emit(quote(s), end)
	case strings.ContainsRune("{}[]:,", r):
		switch r {
		case '{', '[':
			c.depth++
		case '}', ']':
			c.depth--
		}
		if c.depth > maxNesting {
			return errors.New("it is nested too deeply")
		}
		c.emit(string(r), c.pos+1)
	default:
		return c.word()
	}
	return nil
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

func (c *converter) comment() error {
	rest := c.in[c.pos:]
	end := strings.IndexFunc(rest, isBreak)
	line := rest[1] == '/'
	if !line {
		if end = strings.Index(rest[2:], "*/") + 4; end < 4 {
			return errors.New("a comment has no end")
		}
	} else if end < 0 {
		end = len(rest)
	}
	end += c.pos
	c.comments = append(c.comments, comment{c.pos, end, line})
	for c.pos < end {
		blank := " "
		if c.in[c.pos] == '\n' {
			blank = "\n"
		}
		c.emit(blank, c.pos+1)
	}
	return nil
}

// unquote reads a string up to the mark that ends it, or to the end of the text
// if mark is 0.
func unquote(in string, pos int, mark rune) (s string, end int, err error) {
	var b strings.Builder
	for pos < len(in) {
		r, size := utf8.DecodeRuneInString(in[pos:])
		switch {
		case r == mark:
			return b.String(), pos + size, nil
		case r == '\n' || r == '\r':
			return "", pos, errors.New("a string has no end")
		case r != '\\':
			b.WriteString(in[pos : pos+size])
			pos += size
		default:
			if pos, err = escape(in, pos+1, &b); err != nil {
				return "", pos, err
			}
		}
	}
	if mark != 0 {
		err = errors.New("a string has no end")
	}
	return b.String(), pos, err
}

var escapes = map[rune]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", '0': "\x00", '\n': "", '\r': "", '\u2028': "", '\u2029': ""}

// escape reads what a backslash begins, and returns where it ends.
func escape(in string, pos int, b *strings.Builder) (int, error) {
	r, size := utf8.DecodeRuneInString(in[pos:])
	end := pos + size
	switch digits := map[rune]int{'x': 2, 'u': 4}[r]; {
	case size == 0:
		return end, errors.New("a string has no end")
	case digits > 0:
		n, err := hex(in, end, digits)
		if err != nil {
			return end, err
		}
		end += digits
		if utf16.IsSurrogate(n) && strings.HasPrefix(in[end:], `\u`) {
			low, err := hex(in, end+2, 4)
			if pair := utf16.DecodeRune(n, low); err == nil && pair != unicode.ReplacementChar {
				n, end = pair, end+6
			}
		}
		b.WriteRune(n) // half of a pair becomes U+FFFD: names and paths have none
	case strings.HasPrefix(in[pos:], "\r\n"):
		end++
	default:
		s, ok := escapes[r]
		if !ok {
			s = string(r)
		}
		b.WriteString(s)
	}
	return end, nil
}

func hex(in string, pos, digits int) (rune, error) {
	n, err := strconv.ParseUint(in[pos:min(pos+digits, len(in))], 16, 32)
	if err != nil || pos+digits > len(in) {
		return 0, errors.New("an escape is not understood")
	}
	return rune(n), nil
}

// word reads a key without quotes, a number or a name.
func (c *converter) word() error {
	end := strings.IndexFunc(c.in[c.pos:], func(r rune) bool {
		return !strings.ContainsRune("_$-+.\\\u200c\u200d", r) && !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Pc)
	})
	if end = c.pos + end; end < c.pos {
		end = len(c.in)
	}
	word := c.in[c.pos:end]
	if colonNext.MatchString(c.in[end:]) {
		name, _, err := unquote(word, 0, 0)
		if err == nil && name == "" {
			err = errors.New("a key is missing")
		}
		c.emit(quote(name), end)
		return err
	}
	value, err := literal(word)
	if err == nil {
		c.emit(value, end)
	}
	return err
}

// colonNext matches white space and comments before a colon.
var colonNext = regexp.MustCompile(`^(?:[\s\p{Z}\x{85}\x{feff}]|//[^\n\r\x{2028}\x{2029}]*[\n\r\x{2028}\x{2029}]|/\*(?:[^*]|\*+[^*/])*\*+/)*:`)

// literal is a number or a name as JSON. Infinity and NaN, which JSON does not
// have, become null.
func literal(word string) (string, error) {
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
	return render(f, "", ""), nil
}

func quote(s string) string { return render(s, "", "") }

// render writes a value as JSON, over several lines if there is an indent.
func render(v any, prefix, indent string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent != "" {
		e.SetIndent(prefix, indent)
	}
	if err := e.Encode(v); err != nil { // our own values always can be
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
