package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// frame is one array or object that a walk is inside of.
type frame struct {
	object  bool
	wantKey bool
	key     []byte // quoted, as in the text
	index   int
}

// pathAt names the innermost value that has begun before data[offset], as in
// messages[2].content: the one that decoding stopped at. The data are valid
// JSON; for others the answer means nothing, but there is one.
func pathAt(data []byte, offset int) string {
	var stack []frame
	opened := false // the last token opened the top frame: the value is that frame itself
	for i := 0; i < min(offset, len(data)); {
		c := data[i]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			i++
			continue
		}
		opened = c == '{' || c == '['
		switch c {
		case '{', '[':
			stack = append(stack, frame{object: c == '{', wantKey: c == '{'})
			i++
		case '}', ']':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
			i++
		case ',':
			if len(stack) > 0 {
				top := &stack[len(stack)-1]
				top.index++
				top.wantKey = top.object
			}
			i++
		case '"':
			end := stringEnd(data, i)
			if len(stack) > 0 && stack[len(stack)-1].wantKey {
				stack[len(stack)-1].key = data[i:end]
				stack[len(stack)-1].wantKey = false
			}
			i = end
		default: // a colon, or a byte of a number, true, false, null
			i++
		}
	}
	if opened {
		stack = stack[:len(stack)-1]
	}
	var b strings.Builder
	for _, f := range stack {
		f.write(&b)
	}
	return b.String()
}

func (f frame) write(b *strings.Builder) {
	if !f.object {
		b.WriteString("[" + strconv.Itoa(f.index) + "]")
		return
	}
	var name string
	if json.Unmarshal(f.key, &name) != nil {
		return
	}
	if !plain(name) {
		b.WriteString("[" + strconv.Quote(shorten(name, 64)) + "]")
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(shorten(name, 64))
}

// plain reports whether a name needs no quotes in a path.
func plain(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '$' && (c < '0' || '9' < c) && (c < 'A' || 'Z' < c) && (c < 'a' || 'z' < c) {
			return false
		}
	}
	return name != ""
}

// stringEnd returns the index after the string that begins at data[start].
func stringEnd(data []byte, start int) int {
	for i := start + 1; i < len(data); {
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			return len(data)
		}
		i += quote + 1
		escapes := 0
		for j := i - 2; j > start && data[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
	return len(data)
}

// tooDeep reports whether arrays and objects nest deeper than limit.
func tooDeep(data []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(data); {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
			continue
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
		i++
	}
	return false
}
