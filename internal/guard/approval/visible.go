package approval

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s on one line in which every character can be seen: those
// that would control a terminal, reorder text or take no space are written as
// escapes.
func Visible(s string) string { return escape(s, "") }

// Hides says whether s has characters that Lines writes as escapes.
func Hides(s string) bool { return escape(s, "\n\t") != s }

// Lines is Visible for a text of several lines. Padding, which could push a
// part out of sight, is counted instead of shown: blank lines, lines that
// repeat, and wide gaps in a line. Lines of what it returns is the same again.
func Lines(s string) string {
	s = escape(s, "\n\t")
	var out []string
	for rest := strings.Split(s, "\n"); len(rest) > 0; {
		line, n := rest[0], 1
		for n < len(rest) && bare(rest[n]) == bare(line) {
			n++
		}
		switch sign := bare(line); {
		case n < manyLines:
			for _, l := range rest[:n] {
				out = append(out, gaps(l))
			}
		case sign == "" || sign == "+" || sign == "-":
			out = append(out, fmt.Sprintf("%s(%d blank lines)", sign, n))
		default:
			out = append(out, gaps(line), fmt.Sprintf("(the line above %d more times)", n-1))
		}
		rest = rest[n:]
	}
	return strings.Join(out, "\n")
}

// bare is a line by which those alike are told: blank ones all are.
func bare(line string) string {
	if t := strings.Trim(strings.TrimPrefix(line, "|"), " \t"); t == "" || t == "+" || t == "-" { // as in a diff
		return t
	}
	return line
}

const (
	manyLines = 4  // alike, one after the other: they are counted
	wideGap   = 40 // columns: half of a terminal
	tabWidth  = 8
)

// gaps counts the columns of wide gaps in a line.
func gaps(line string) string {
	var b strings.Builder
	for line != "" {
		text := strings.IndexAny(line, " \t")
		if text < 0 {
			text = len(line)
		}
		b.WriteString(line[:text])
		line = line[text:]
		after := strings.TrimLeft(line, " \t")
		gap := line[:len(line)-len(after)]
		if width := len(gap) + strings.Count(gap, "\t")*(tabWidth-1); width >= wideGap {
			fmt.Fprintf(&b, " (%d spaces) ", width)
		} else {
			b.WriteString(gap)
		}
		line = after
	}
	return b.String()
}

// escape writes what cannot be seen as escapes, but for the control
// characters in keep.
func escape(s, keep string) string {
	var b *strings.Builder // nil as long as nothing had to be escaped
	marks := noBase
	for i, r := range s {
		var e string
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			e = fmt.Sprintf(`\x%02x`, s[i])
		case r < ' ' && strings.ContainsRune(keep, r):
		case r == '\n':
			e = `\n`
		case r == '\r':
			e = `\r`
		case r == '\t':
			e = `\t`
		case seen(r) && (!unicode.Is(unicode.Mn, r) || marks < mostMarks):
		case r < utf8.RuneSelf:
			e = fmt.Sprintf(`\x%02x`, r)
		case r > 0xffff:
			e = fmt.Sprintf(`\U%08x`, r)
		default:
			e = fmt.Sprintf(`\u%04x`, r)
		}
		switch {
		case e == "" && unicode.IsLetter(r):
			marks = 0
		case e == "" && unicode.Is(unicode.M, r):
			marks++
		default:
			marks = noBase
		}
		switch {
		case e != "" && b == nil:
			b = &strings.Builder{}
			b.WriteString(s[:i] + e)
		case e != "":
			b.WriteString(e)
		case b != nil:
			b.WriteRune(r)
		}
	}
	if b == nil {
		return s
	}
	return b.String()
}

// mostMarks is how many marks may stand above and below a letter; more of
// them cover the lines around. There are none without a letter.
const (
	mostMarks = 2
	noBase    = mostMarks
)

// seen says whether a character takes its own place and can be seen there.
// Print characters are letters, marks, numbers, punctuation, symbols and the
// ordinary space; some of them are blank all the same.
func seen(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7f
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Me, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unseen)
}

// unseen are further characters that print nothing, or print over others.
var unseen = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0334, Hi: 0x0338, Stride: 1}, // strokes through the letter before
	{Lo: 0x20d0, Hi: 0x20ff, Stride: 1}, // marks over symbols
	{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // a Braille cell without dots
}}
