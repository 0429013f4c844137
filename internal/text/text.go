// Package text shortens and words the texts of messages: names, the output of
// programs, counts. It knows nothing of terminals (see
// cli) nor of secrets (see guard/redact). Every package may use it.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Clip shortens s to n bytes, at the border of a character, and marks the cut.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Incomplete is how many bytes at the end of b begin a character that more bytes
// could complete.
func Incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Quote is s in quotes, shortened to n bytes, with every character visible.
func Quote(s string, n int) string { return strconv.Quote(Clip(s, n)) }

// FirstLine is the first line of s, shortened to n characters. It marks the cut
// also where there are more lines.
func FirstLine(s string, n int) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.TrimRight(line, " \r\t")
	more := strings.TrimSpace(rest) != ""
	if r := []rune(line); len(r) > n {
		line, more = string(r[:n-1]), true
	}
	if more {
		return line + "…"
	}
	return line
}

// LastLines is the end of what a program said: so many lines and bytes of it at
// most, as valid UTF-8.
func LastLines(s string, lines, bytes int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	s = strings.Join(all[max(0, len(all)-lines):], "\n")
	return strings.ToValidUTF8(s[max(0, len(s)-bytes):], "")
}

// Plural is "1 file", "2 files" or "2 processes".
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if strings.HasSuffix(one, "s") {
		one += "e"
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Nearest returns the candidate that is most like a possibly misspelt word, or
// "" if none is. Case does not count.
func Nearest(word string, candidates []string) string {
	const longest = 64 // what is longer is no name
	best, least := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if len(word) > longest || len(c) > longest {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is how many bytes to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
