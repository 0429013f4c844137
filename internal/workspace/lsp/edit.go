package lsp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// buffer is a document with its lines found. Lines end with LF, CRLF or CR, and
// characters of a line are counted in UTF-16 units, as every server can.
type buffer struct {
	s      string
	starts []int // of each line
}

func newBuffer(s string) *buffer {
	t := &buffer{s: s, starts: []int{0}}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\n':
			t.starts = append(t.starts, i+1)
		case s[i] == '\r' && (i+1 == len(s) || s[i+1] != '\n'):
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// line returns a line without its end, and where it begins.
func (t *buffer) line(n int) (string, int) {
	start, end := t.starts[n], len(t.s)
	if n+1 < len(t.starts) {
		end = t.starts[n+1]
	}
	return strings.TrimRight(t.s[start:end], "\r\n"), start
}

// offset is the byte that a position points at. Past the end of a line it is
// the line's end, past the last line the end of the text; inside a character
// it is the character's start.
func (t *buffer) offset(p Position) int {
	if uint64(p.Line) >= uint64(len(t.starts)) {
		return len(t.s)
	}
	line, start := t.line(int(p.Line))
	left := int(min(p.Character, 1<<30))
	for i, r := range line {
		if left <= 0 {
			return start + i
		}
		size := utf16.RuneLen(r)
		if left < size {
			return start + i
		}
		left -= size
	}
	return start + len(line)
}

// end is the position behind the last character.
func (t *buffer) end() Position {
	last := len(t.starts) - 1
	line, _ := t.line(last)
	n := 0
	for _, r := range line {
		n += utf16.RuneLen(r)
	}
	return Position{Line: uint32(last), Character: uint32(n)}
}

// place is an offset as people count: lines and characters from 1.
func (t *buffer) place(offset int) (line, column int) {
	n := sort.SearchInts(t.starts, offset+1) - 1
	return n + 1, utf8.RuneCountInString(t.s[t.starts[n]:offset]) + 1
}

// apply makes all edits, whose positions mean the text as it was. Insertions
// at one place keep their order; edits that overlap are refused.
func (t *buffer) apply(edits []textEdit) (string, error) {
	type change struct {
		from, to int
		text     string
	}
	changes := make([]change, 0, len(edits))
	for _, e := range edits {
		c := change{t.offset(e.Range.Start), t.offset(e.Range.End), e.NewText}
		if c.from > c.to {
			return "", errors.New("an edit ends before it begins")
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(a.from-b.from, a.to-b.to) // what is inserted goes before what is replaced
	})
	var b strings.Builder
	at := 0
	for _, c := range changes {
		if c.from < at {
			line, column := t.place(c.from)
			return "", fmt.Errorf("edits overlap at line %d, column %d", line, column)
		}
		b.WriteString(t.s[at:c.from])
		b.WriteString(c.text)
		at = c.to
	}
	b.WriteString(t.s[at:])
	return b.String(), nil
}

// keepLineEnds gives after the line ends of before, if those were all CRLF:
// formatters often write LF whatever they were given.
func keepLineEnds(before, after string) string {
	crlf := strings.Count(before, "\r\n")
	if crlf == 0 || crlf != strings.Count(before, "\n") || strings.Count(after, "\r\n") == strings.Count(after, "\n") {
		return after
	}
	return strings.ReplaceAll(strings.ReplaceAll(after, "\r\n", "\n"), "\n", "\r\n")
}
