package redact

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Truncate shortens s to at most limit bytes if it is longer, and reports
// whether it did. It keeps the beginning and the end, says in between how much
// was left out, and cuts between characters. Redact first: a secret that is
// cut in two is hard to tell.
func Truncate(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	// The note for the whole length is as long as any that may be needed.
	room := limit - len(note(len(s)))
	if room <= 0 {
		return s[:cutBefore(s, max(limit, 0))], true
	}
	head := cutBefore(s, room*2/3)
	tail := cutAfter(s, len(s)-(room-head))
	return s[:head] + note(tail-head) + s[tail:], true
}

func note(n int) string {
	return fmt.Sprintf("\n[… %s bytes left out by copilot-bridge …]\n", grouped(n))
}

func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cutBefore returns the last border between characters up to i. In text that
// is not UTF-8 every byte is a character.
func cutBefore(s string, i int) int {
	for back := 0; back < utf8.UTFMax && i-back > 0; back++ {
		if utf8.RuneStart(s[i-back]) {
			return i - back
		}
	}
	return i
}

// cutAfter returns the first border between characters from i on.
func cutAfter(s string, i int) int {
	for on := range utf8.UTFMax {
		if i+on >= len(s) || utf8.RuneStart(s[i+on]) {
			return i + on
		}
	}
	return i
}
