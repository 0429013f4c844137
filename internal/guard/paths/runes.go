package paths

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// unclear says what makes a path look like another one to a person or to a
// file system that normalises names.
func unclear(path string) string {
	for i, r := range path {
		if r < utf8.RuneSelf {
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
		case 0x300 <= r && r <= 0x36f || r == 0x3099 || r == 0x309a:
			// Combining marks, also the few that have no composed form.
			return notComposed
		}
	}
	if !norm.NFC.IsNormalString(path) {
		return notComposed
	}
	return ""
}

const notComposed = "is not in composed form (NFC), so a file system may take it for another name"

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
