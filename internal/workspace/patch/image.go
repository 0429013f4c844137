package patch

import (
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// go-gitdiff's own way of applying hunks takes them only at the very line they
// name. git apply finds a hunk that has moved, and refuses hunks without
// context in the middle of a file, so the hunks are applied here.

// row is a line of a file, with its newline if it has one.
type row struct {
	text string
	line int // its number in the file as it was, 0 if a hunk put it here
	hunk int // the hunk that put or confirmed it, from 1; 0 for none
}

func rows(data string) []row {
	all := make([]row, 0, strings.Count(data, "\n")+1)
	for text := range strings.Lines(data) {
		all = append(all, row{text: text, line: len(all) + 1})
	}
	return all
}

// applyHunks applies hunks one after the other; those that do not fit are
// reported and left out.
func applyHunks(name, data string, hunks []*gitdiff.TextFragment) (string, []Conflict) {
	if len(hunks) == 0 {
		return data, nil
	}
	img := rows(data)
	var conflicts []Conflict
	for i, h := range hunks {
		conflict := applyHunk(&img, h, i+1)
		if conflict != nil {
			conflict.File, conflict.Hunk = name, i+1
			conflicts = append(conflicts, *conflict)
		}
	}
	if len(conflicts) > 0 {
		return "", conflicts
	}
	size := 0
	for _, r := range img {
		size += len(r.text)
	}
	var b strings.Builder
	b.Grow(size)
	for _, r := range img {
		b.WriteString(r.text)
	}
	return b.String(), nil
}

func applyHunk(img *[]row, h *gitdiff.TextFragment, number int) *Conflict {
	var before []string
	var after []row
	for _, l := range h.Lines {
		if l.Old() {
			before = append(before, l.Line)
		}
		if l.New() {
			after = append(after, row{text: l.Line, hunk: number})
		}
	}
	f := finder{
		img: *img, before: before, start: max(int(h.NewPosition)-1, 0),
		atStart: h.OldPosition <= 1,
		// A hunk without context behind its changes reaches the end of the file.
		atEnd: h.TrailingContext == 0,
	}
	at := f.find()
	if at < 0 {
		return f.explain(h)
	}
	if len(before) == 0 && at != f.start && len(*img) > 0 {
		// git apply puts it at the end of the file, wherever it belongs.
		return &Conflict{Line: int(h.OldPosition), Reason: reasonNoContext}
	}
	*img = slices.Replace(*img, at, at+len(before), after...)
	return nil
}

// finder looks for the old lines of a hunk.
type finder struct {
	img            []row
	before         []string
	start          int // row at which the hunk says it is
	atStart, atEnd bool
}

// find returns the nearest place where the old lines stand, later lines before
// earlier ones at the same distance, or -1.
func (f *finder) find() int {
	last := len(f.img)
	if f.atStart || f.atEnd {
		// There is one place where it can be.
		at := 0
		if !f.atStart {
			at = last - len(f.before)
		}
		if at >= 0 && f.matches(at) {
			return at
		}
		return -1
	}
	start := min(f.start, last)
	for distance := 0; start+distance <= last || start >= distance; distance++ {
		if at := start + distance; at <= last && f.matches(at) {
			return at
		}
		if at := start - distance; at >= 0 && f.matches(at) {
			return at
		}
	}
	return -1
}

func (f *finder) matches(at int) bool {
	end := at + len(f.before)
	if end > len(f.img) || f.atStart && at > 0 || f.atEnd && end != len(f.img) {
		return false
	}
	for i, want := range f.before {
		if r := &f.img[at+i]; r.hunk != 0 || r.text != want {
			return false
		}
	}
	return true
}

// explain compares the hunk with the lines where it should be.
func (f *finder) explain(h *gitdiff.TextFragment) *Conflict {
	at := min(f.start, len(f.img))
	if f.atStart {
		at = 0
	}
	stated := max(int(h.OldPosition), 1)
	for i, want := range f.before {
		if at+i >= len(f.img) {
			return &Conflict{Line: stated + i, Expected: excerpt(want), Reason: "the file ends before this line"}
		}
		r := f.img[at+i]
		c := &Conflict{Line: r.line, Expected: excerpt(want), Found: excerpt(r.text)}
		if c.Line == 0 {
			c.Line = stated + i
		}
		if r.hunk != 0 {
			c.Reason = "the hunk overlaps an earlier one"
			return c
		}
		if r.text != want {
			c.Reason = difference(want, r.text)
			return c
		}
	}
	return &Conflict{
		Line: stated + len(f.before), Reason: "the hunk has no context behind its changes, so the file must end there, but it goes on",
		Found: excerpt(f.img[min(at+len(f.before), len(f.img)-1)].text),
	}
}

func difference(want, found string) string {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	a, b := strings.TrimSuffix(want, "\n"), strings.TrimSuffix(found, "\n")
	switch {
	case a == b:
		return reasonNewline
	case strings.TrimSuffix(a, "\r") == strings.TrimSuffix(b, "\r"):
		return "the line endings differ (CRLF against LF)"
	case squeeze(a) == squeeze(b):
		return "the lines differ in white space"
	}
	return "the lines differ"
}

const excerptLength = 160

func excerpt(line string) string {
	return text.Clip(strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\uFFFD"), excerptLength)
}
