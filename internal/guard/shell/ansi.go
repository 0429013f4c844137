package shell

import "strings"

// ansiC decodes the inside of $'…'. It reports false for what depends on the
// locale or would cut the string short.
func ansiC(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if at := strings.IndexByte(`abeEfnrtv\'"?`, c); at >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[at])
			continue
		}
		var most int
		base, start := 16, i+1
		switch {
		case c >= '0' && c <= '7':
			base, most, start = 8, 3, i
		case c == 'x':
			most = 2
		case c == 'u':
			most = 4
		case c == 'U':
			most = 8
		case c == 'c':
			return s, false
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		}
		value, n := digits(s[start:], base, most)
		switch {
		case n == 0 && c == 'x' && strings.HasPrefix(s[start:], "{"):
			return s, false
		case n == 0:
			b.WriteByte('\\')
			b.WriteByte(c)
			continue
		case value&0xff == 0 && (base == 8 || c == 'x'), value == 0, value >= 0x80 && (c == 'u' || c == 'U'):
			return s, false
		}
		b.WriteByte(byte(value))
		i = start + n - 1
	}
	return b.String(), true
}

func digits(s string, base, most int) (value, n int) {
	for n < len(s) && n < most {
		d := strings.IndexByte("0123456789abcdef", s[n]|0x20)
		if s[n] < '0' || d < 0 || d >= base {
			break
		}
		value = value*base + d
		n++
	}
	return value, n
}
