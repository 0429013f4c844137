package wire

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string, byte for byte as encoding/json does
// with HTML escapes off, without reflection: for what is encoded very often.
func AppendString(to []byte, s string) []byte {
	to = append(to, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' && b < utf8.RuneSelf {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				to = append(append(to, s[start:i]...), `\ufffd`...)
			case r == '\u2028' || r == '\u2029': // line ends in JavaScript
				to = append(append(to, s[start:i]...), `\u202`...)
				to = append(to, hexDigits[r&0xF])
			default:
				i += size
				continue
			}
			i += size
			start = i
			continue
		}
		to = append(to, s[start:i]...)
		switch b {
		case '"', '\\':
			to = append(to, '\\', b)
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
			to = append(to, `\u00`...)
			to = append(to, hexDigits[b>>4], hexDigits[b&0xF])
		}
		i++
		start = i
	}
	to = append(to, s[start:]...)
	return append(to, '"')
}
