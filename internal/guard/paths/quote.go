package paths

import (
	"strconv"
	"unicode/utf8"
)

// quote shows a path in a message: short, and with nothing in it that could
// change how the message looks.
func quote(path string) string { return strconv.Quote(clip(path)) }

func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
