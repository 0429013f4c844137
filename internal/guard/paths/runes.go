package paths

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unclear says what makes a path look like another one to a person or to a
// file system that normalises names.
func unclear(path string) string {
	prev := rune(-1)
	for i, r := range path {
		if r < utf8.RuneSelf {
			prev = r
			continue
		}
		switch {
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(path[i:]); size <= 1 {
				return "is not valid UTF-8"
			}
			return "contains a replacement character, so something was lost on the way"
		case unicode.Is(unicode.Cc, r):
			return "contains a control character"
		case unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp) || unicode.Is(ignorable, r):
			return "contains an invisible character or one that changes the direction of text"
		case strings.ContainsRune(slashes, r):
			return "contains a character that looks like a slash"
		case strings.ContainsRune(backslashes, r):
			return "contains a character that looks like a backslash"
		case strings.ContainsRune(dots, r):
			return "contains a character that looks like dots"
		case !composed(prev, r):
			return "is not in composed form (NFC), so a file system may take it for another name"
		}
		prev = r
	}
	return ""
}

const (
	slashes     = "\u2044\u2215\u2571\u27cb\u29f8\u2cc6\u3033\uff0f"
	backslashes = "\u2216\u27cd\u29f5\u29f9\u2572\ufe68\uff3c"
	dots        = "\u2024\u2025\u2026\u22ef\ufe19\ufe30\ufe52\uff0e\uff61"
)

// ignorable are the characters that Unicode asks programs to draw as nothing
// and that are not in class Cf.
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x034f, 0x034f, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1}, {0x180b, 0x180f, 1},
		{0x2065, 0x2065, 1}, {0x3164, 0x3164, 1}, {0xfe00, 0xfe0f, 1}, {0xffa0, 0xffa0, 1}, {0xfff0, 0xfff8, 1},
	},
	R32: []unicode.Range32{{0xe0000, 0xe0fff, 1}},
}

// composed reports whether r may follow prev in a name in normal form C. The
// standard library has no normalisation, so this errs on the strict side:
// every combining diacritic is refused, also the few that have no composed
// form. The order of several marks on one letter is not checked.
func composed(prev, r rune) bool {
	switch {
	case r < 0x300:
		return true
	case r <= 0x36f || r == 0x3099 || r == 0x309a: // combining diacritics, kana voicing marks
		return false
	case r >= 0x1161 && r <= 0x1175: // Hangul vowel after consonant
		return prev < 0x1100 || prev > 0x1112
	case r >= 0x11a8 && r <= 0x11c2: // final consonant after an open syllable
		return prev < 0xac00 || prev > 0xd7a3 || (prev-0xac00)%28 != 0
	case unicode.Is(decomposes, r):
		return false
	}
	return !strings.ContainsRune(composesWith[r], prev) || prev < utf8.RuneSelf
}

// decomposes are the characters that never occur in normal form C.
var decomposes = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0374, 0x0374, 1}, {0x037e, 0x037e, 1}, {0x0387, 0x0387, 1}, {0x0958, 0x095f, 1}, {0x09dc, 0x09dd, 1},
		{0x09df, 0x09df, 1}, {0x0a33, 0x0a33, 1}, {0x0a36, 0x0a36, 1}, {0x0a59, 0x0a5b, 1}, {0x0a5e, 0x0a5e, 1},
		{0x0b5c, 0x0b5d, 1}, {0x0f43, 0x0f43, 1}, {0x0f4d, 0x0f4d, 1}, {0x0f52, 0x0f52, 1}, {0x0f57, 0x0f57, 1},
		{0x0f5c, 0x0f5c, 1}, {0x0f69, 0x0f69, 1}, {0x0f73, 0x0f73, 1}, {0x0f75, 0x0f76, 1}, {0x0f78, 0x0f78, 1},
		{0x0f81, 0x0f81, 1}, {0x0f93, 0x0f93, 1}, {0x0f9d, 0x0f9d, 1}, {0x0fa2, 0x0fa2, 1}, {0x0fa7, 0x0fa7, 1},
		{0x0fac, 0x0fac, 1}, {0x0fb9, 0x0fb9, 1}, {0x1f71, 0x1f7d, 2}, {0x1fbb, 0x1fbb, 1}, {0x1fbe, 0x1fbe, 1},
		{0x1fc9, 0x1fcb, 2}, {0x1fd3, 0x1fdb, 8}, {0x1fe3, 0x1feb, 8}, {0x1fee, 0x1fef, 1}, {0x1ff9, 0x1ffd, 2},
		{0x2000, 0x2001, 1}, {0x2126, 0x2126, 1}, {0x212a, 0x212b, 1}, {0x2329, 0x232a, 1}, {0x2adc, 0x2adc, 1},
		{0xf900, 0xfa0d, 1}, {0xfa10, 0xfa12, 2}, {0xfa15, 0xfa1e, 1}, {0xfa20, 0xfa22, 2}, {0xfa25, 0xfa26, 1},
		{0xfa2a, 0xfa6d, 1}, {0xfa70, 0xfad9, 1}, {0xfb1d, 0xfb1f, 2}, {0xfb2a, 0xfb36, 1}, {0xfb38, 0xfb3c, 1},
		{0xfb3e, 0xfb40, 2}, {0xfb41, 0xfb43, 2}, {0xfb44, 0xfb46, 2}, {0xfb47, 0xfb4e, 1},
	},
	R32: []unicode.Range32{{0x1d15e, 0x1d164, 1}, {0x1d1bb, 0x1d1c0, 1}, {0x2f800, 0x2fa1d, 1}},
}

// composesWith lists, for the marks of scripts where a mark is an ordinary
// letter, what they would have been composed with.
var composesWith = map[rune]string{
	0x0653: "\u0627", 0x0654: "\u0627\u0648\u064a\u06d5\u06c1\u06d2", 0x0655: "\u0627",
	0x093c: "\u0928\u0930\u0933", 0x09be: "\u09c7", 0x09d7: "\u09c7", 0x0b3e: "\u0b47", 0x0b56: "\u0b47", 0x0b57: "\u0b47",
	0x0bbe: "\u0bc6\u0bc7", 0x0bd7: "\u0b92\u0bc6", 0x0c56: "\u0c46", 0x0cc2: "\u0cc6", 0x0cd5: "\u0cbf\u0cc6\u0cca",
	0x0cd6: "\u0cc6", 0x0d3e: "\u0d46\u0d47", 0x0d57: "\u0d46", 0x0dca: "\u0dd9\u0ddc", 0x0dcf: "\u0dd9", 0x0ddf: "\u0dd9",
	0x102e: "\u1025", 0x1b35: "\u1b05\u1b07\u1b09\u1b0b\u1b0d\u1b11\u1b3a\u1b3c\u1b3e\u1b3f\u1b42",
	0x110ba: "\U00011099\U0001109b\U000110a5", 0x11127: "\U00011131\U00011132", 0x1133e: "\U00011347", 0x11357: "\U00011347",
	0x114b0: "\U000114b9", 0x114ba: "\U000114b9", 0x114bd: "\U000114b9", 0x115af: "\U000115b8\U000115b9", 0x11930: "\U00011935",
}
