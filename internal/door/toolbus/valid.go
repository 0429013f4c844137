package toolbus

import (
	"encoding/json"
	"errors"
	"fmt"
)

// valid says where a message ceases to be JSON.
func valid(message []byte) error {
	if wellFormed(message) || json.Valid(message) {
		return nil
	}
	var ignored struct{}
	err := json.Unmarshal(message, &ignored)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w at byte %d", syntax, syntax.Offset)
	}
	return errors.New("the message is not JSON")
}

// wellFormed is json.Valid at several times its speed, which megabytes of a
// diff are worth.
func wellFormed(data []byte) bool {
	c := checker{data: data}
	if !c.value(0) {
		return false
	}
	c.space()
	return c.at == len(data)
}

// checker walks over JSON.
type checker struct {
	data []byte
	at   int
}

// maxDepth is that of encoding/json.
const maxDepth = 10000

// peek returns the byte at hand, 0 at the end.
func (c *checker) peek() byte {
	if c.at < len(c.data) {
		return c.data[c.at]
	}
	return 0
}

// take steps over b, if it is at hand.
func (c *checker) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.at++
	return true
}

func (c *checker) space() {
	for c.at < len(c.data) && (c.data[c.at] == ' ' || c.data[c.at] == '\n' || c.data[c.at] == '\t' || c.data[c.at] == '\r') {
		c.at++
	}
}

func (c *checker) value(depth int) bool {
	c.space()
	switch c.peek() {
	case '{':
		return depth < maxDepth && c.list('}', func() bool {
			c.space()
			if !c.text() {
				return false
			}
			c.space()
			return c.take(':') && c.value(depth+1)
		})
	case '[':
		return depth < maxDepth && c.list(']', func() bool { return c.value(depth + 1) })
	case '"':
		return c.text()
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	}
	return c.number()
}

// list walks over items with commas between them, up to end.
func (c *checker) list(end byte, item func() bool) bool {
	c.at++
	c.space()
	if c.take(end) {
		return true
	}
	for item() {
		c.space()
		if c.take(end) {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
	return false
}

func (c *checker) word(w string) bool {
	if rest := c.data[c.at:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return false
	}
	c.at += len(w)
	return true
}

func (c *checker) number() bool {
	c.take('-')
	if !c.take('0') && !c.digits() {
		return false
	}
	if c.take('.') && !c.digits() {
		return false
	}
	if c.take('e') || c.take('E') {
		if !c.take('+') {
			c.take('-')
		}
		return c.digits()
	}
	return true
}

// digits steps over digits, of which there must be some.
func (c *checker) digits() bool {
	from := c.at
	for c.at < len(c.data) && c.data[c.at]-'0' <= 9 {
		c.at++
	}
	return c.at > from
}

// text walks over a string.
func (c *checker) text() bool {
	if !c.take('"') {
		return false
	}
	for i, data := c.at, c.data; i < len(data); i++ {
		switch b := data[i]; {
		case b == '"':
			c.at = i + 1
			return true
		case b < ' ':
			return false
		case b != '\\':
		case i+1 == len(data):
			return false
		default:
			i++
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if len(data)-i < 5 || !hexDigits(data[i+1:i+5]) {
					return false
				}
				i += 4
			default:
				return false
			}
		}
	}
	return false
}

func hexDigits(data []byte) bool {
	for _, b := range data {
		if b-'0' > 9 && b|0x20-'a' > 5 {
			return false
		}
	}
	return true
}
