package toolbus

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// What is here reads JSON that is known to be valid, which is found out once
// for each message. A diff may have megabytes, and encoding/json would look at
// every byte again for each level that it is taken out of, and copy it.

// members calls f with each member of an object, in order. Values are parts of
// object.
func members(object []byte, f func(name string, value json.RawMessage) error) error {
	for i := next(object, 0) + 1; ; {
		if i = next(object, i); object[i] == '}' {
			return nil
		}
		end := stringEnd(object, i)
		name := text(object[i:end])
		i = next(object, next(object, end)+1) // behind the colon
		end = valueEnd(object, i)
		if err := f(name, object[i:end:end]); err != nil {
			return err
		}
		if i = next(object, end); object[i] == ',' {
			i++
		}
	}
}

// next returns where the next byte is that is not white space.
func next(data []byte, i int) int {
	for data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r' {
		i++
	}
	return i
}

// stringEnd returns where the string that begins at i ends.
func stringEnd(data []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(data[i:], '"')
		slashes := 0
		for data[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(data []byte, i int) int {
	for depth := 0; i < len(data); {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i // of what this is in; a number ends here
			}
			depth--
			i++
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(data)
}

// text is what a JSON string says.
func text(quoted []byte) string {
	rest := quoted[1 : len(quoted)-1]
	at := bytes.IndexByte(rest, '\\')
	if at < 0 {
		return string(rest)
	}
	out := make([]byte, 0, len(rest))
	for ; at >= 0; at = bytes.IndexByte(rest, '\\') {
		out = append(out, rest[:at]...)
		escape := rest[at+1]
		rest = rest[at+2:]
		switch escape {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r := hexRune(rest)
			rest = rest[4:]
			if utf16.IsSurrogate(r) {
				second := rune(utf8.RuneError)
				if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
					second = hexRune(rest[2:])
				}
				if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
					rest = rest[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		default: // a quote, a slash or a backslash
			out = append(out, escape)
		}
	}
	return string(append(out, rest...))
}

// hexRune is the character of four hexadecimal digits.
func hexRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits[:4]), 16, 16)
	if err != nil { // never: the JSON is valid
		return utf8.RuneError
	}
	return rune(n)
}
