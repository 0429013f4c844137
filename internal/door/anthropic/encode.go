package anthropic

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// encode is v as JSON in one line. Only values that are JSON by nature are
// given to it, so that it cannot fail: the types of this package, and what
// encoding/json has decoded.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

const hex = "0123456789abcdef"

// appendString appends s as a JSON string, exactly as encoding/json does with
// SetEscapeHTML(false); a test holds it to that.
func appendString(to []byte, s string) []byte {
	to = append(to, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			to = append(to, s[start:i]...)
			switch c {
			case '"', '\\':
				to = append(to, '\\', c)
			case '\n':
				to = append(to, '\\', 'n')
			case '\r':
				to = append(to, '\\', 'r')
			case '\t':
				to = append(to, '\\', 't')
			case '\b':
				to = append(to, '\\', 'b')
			case '\f':
				to = append(to, '\\', 'f')
			default:
				to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			to = append(append(to, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029': // line ends in JavaScript
			to = append(append(to, s[start:i]...), `\u202`...)
			to = append(to, hex[r&0xf])
			start = i + size
		}
		i += size
	}
	return append(append(to, s[start:]...), '"')
}
