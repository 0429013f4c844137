package wire

import (
	"math/bits"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string, byte for byte as encoding/json does
// with HTML escapes off, without reflection: for what is encoded very often.
func AppendString(to []byte, s string) []byte {
	to = append(to, '"')
	start := 0
	for i := 0; i < len(s); {
		if i+8 <= len(s) {
			e := s[i : i+8]
			x := uint64(e[0]) | uint64(e[1])<<8 | uint64(e[2])<<16 | uint64(e[3])<<24 | uint64(e[4])<<32 | uint64(e[5])<<40 | uint64(e[6])<<48 | uint64(e[7])<<56
			n := asTheyAre(x)
			if i += n; n == 8 {
				continue
			}
		}
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

// asTheyAre returns how many of eight bytes go into JSON as they are, before
// the first that may not. It looks at all of them at once: of each byte the
// highest bit is set where it is wanted; a carry into the next byte comes only
// from one that is set itself.
func asTheyAre(eight uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := eight^ones*'"', eight^ones*'\\'
	special := (eight | (eight - ones*' ') | (quote - ones) | (slash - ones)) & highs
	return bits.TrailingZeros64(special) / 8
}
