package patch

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// The library wants a header before hunks and binary data; ours has been read.
const (
	textHeader   = "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
	binaryHeader = "diff --git a/f b/f\n"
	noNewline    = "\\ No newline at end of file\n"
)

// maxLineNumber keeps sums of line numbers far from overflow.
const maxLineNumber = 1 << 30

type counts struct{ old, new int }

// hunkCounts reads how many lines a hunk has on either side; ok is false if
// line is no hunk header.
func hunkCounts(line string) (n counts, ok bool) {
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok || !strings.HasSuffix(line, "\n") {
		return n, false
	}
	if n.old, rest, ok = hunkRange(rest, " +"); !ok {
		return n, false
	}
	n.new, _, ok = hunkRange(rest, " @@")
	return n, ok
}

func hunkRange(s, end string) (count int, rest string, ok bool) {
	if _, s, ok = number(s); !ok {
		return 0, "", false
	}
	count = 1
	if after, comma := strings.CutPrefix(s, ","); comma {
		if count, s, ok = number(after); !ok {
			return 0, "", false
		}
	}
	rest, ok = strings.CutPrefix(s, end)
	return count, rest, ok
}

func number(s string) (n int, rest string, ok bool) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.Atoi(s[:digits])
	return n, s[digits:], err == nil && n <= maxLineNumber
}

// body reads the hunks or the binary data of a section.
func (p *parser) body(s *section) error {
	from := p.pos
	text, total, err := p.hunks()
	if err != nil {
		return err
	}
	if p.pos > from {
		return p.takeHunks(s, text, total)
	}
	switch line := p.peek(); {
	case line == "GIT binary patch\n":
		err = p.binaryData(s)
	case strings.HasSuffix(line, " differ\n") && (strings.HasPrefix(line, "Binary files ") || strings.HasPrefix(line, "Files ")):
		s.binary = true
		p.advance(line)
	}
	if err != nil {
		return err
	}
	changesMode := s.oldMode != 0 && s.newMode != 0 && s.oldMode != s.newMode
	if !s.binary && !s.renamed && !s.copied && s.created != yes && s.deleted != yes && !changesMode {
		return p.errorf(s.line, "", "the header is not followed by a change")
	}
	return nil
}

// hunks finds where the hunks at pos end. Only the counts in their headers
// tell: a line that begins with "---" may be part of a hunk or the next
// header.
func (p *parser) hunks() (text string, total counts, err error) {
	from := p.pos
	var shortMarkers bool
	for strings.HasPrefix(p.text[p.pos:], "@@ -") {
		line := p.peek()
		n, ok := hunkCounts(line)
		if !ok {
			return "", total, p.errorf(p.line, "", "malformed hunk header %q", shorten(strings.TrimSuffix(line, "\n"), 80))
		}
		total.old += n.old
		total.new += n.new
		start := p.line
		p.advance(line)
		if err := p.hunkLines(n, start); err != nil {
			return "", total, err
		}
		// The last line's marker is beyond the counts.
		if rest := p.text[p.pos:]; len(rest) > 12 && strings.HasPrefix(rest, `\ `) {
			line := p.peek()
			shortMarkers = shortMarkers || len(line) < 12 || !strings.HasSuffix(line, "\n")
			p.advance(line)
		}
	}
	text = p.text[from:p.pos]
	if shortMarkers {
		text = lengthenMarkers(text)
	}
	return text, total, nil
}

func (p *parser) hunkLines(n counts, start int) error {
	const remedy = "Make the counts in the @@ line match the lines of the hunk: context and removed lines on the left, context and added lines on the right."
	for n.old > 0 || n.new > 0 {
		line := p.peek()
		if line == "" {
			return p.errorf(start, remedy, "the hunk is cut off: %d old and %d new lines are missing", n.old, n.new)
		}
		if !strings.HasSuffix(line, "\n") {
			return p.errorf(p.line, "End the diff with a newline.", "the last line of the diff does not end")
		}
		switch line[0] {
		case ' ', '\n': // an empty line is empty context, as newer GNU diffs write it
			n.old--
			n.new--
		case '-':
			n.old--
		case '+':
			n.new--
		case '\\':
			if len(line) < 12 || line[1] != ' ' {
				return p.errorf(p.line, remedy, "the line is no part of a hunk")
			}
		default:
			return p.errorf(p.line, remedy, "the line is no part of a hunk, but the hunk that begins in line %d still lacks %d old and %d new lines",
				start, n.old, n.new)
		}
		if n.old < 0 || n.new < 0 {
			return p.errorf(start, remedy, "the hunk has other counts than its @@ line says")
		}
		p.advance(line)
	}
	return nil
}

// lengthenMarkers writes out marks of a missing newline that are shorter than
// the library takes; in other languages they may be.
func lengthenMarkers(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `\ `) {
			line = noNewline
		}
		b.WriteString(line)
	}
	return b.String()
}

func (p *parser) takeHunks(s *section, text string, total counts) error {
	file, err := readOne(textHeader + text)
	if err != nil || len(file.TextFragments) == 0 {
		return p.errorf(s.line, "", "the hunks of %s are malformed (%v)", printable(s.name()), err)
	}
	s.hunks = file.TextFragments
	for _, h := range s.hunks {
		s.additions += int(h.LinesAdded)
		s.removed += int(h.LinesDeleted)
	}
	// One hunk without old lines may or may not be a creation; several, or old
	// lines, cannot be. The same for deletions.
	if s.created == unknown && (total.old > 0 || len(s.hunks) > 1) {
		s.created = no
	}
	if s.deleted == unknown && (total.new > 0 || len(s.hunks) > 1) {
		s.deleted = no
	}
	if s.created == yes && total.old > 0 {
		return p.errorf(s.line, "", "%s is to be created, but its hunks have old lines", printable(s.new))
	}
	if s.deleted == yes && total.new > 0 {
		return p.errorf(s.line, "", "%s is to be deleted, but its hunks leave lines", printable(s.old))
	}
	return nil
}

// readOne lets the library read a section whose extent is known.
func readOne(text string) (*gitdiff.File, error) {
	files, _, err := gitdiff.Parse(bytes.NewBufferString(text))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("%d files instead of one", len(files))
	}
	return files[0], nil
}

// binaryData reads git's binary form: a block that makes the new contents
// and perhaps one that makes the old ones again, each ended by an empty line.
func (p *parser) binaryData(s *section) error {
	from, start := p.pos, p.line
	p.advance(p.peek())
	for range 2 {
		if line := p.peek(); !strings.HasPrefix(line, "literal ") && !strings.HasPrefix(line, "delta ") {
			break
		}
		for {
			line := p.peek()
			if line == "" {
				return p.errorf(start, "", "the binary data of %s is cut off", printable(s.name()))
			}
			p.advance(line)
			if line == "\n" {
				break
			}
		}
	}
	file, err := readOne(binaryHeader + p.text[from:p.pos])
	if err != nil || file.BinaryFragment == nil {
		return p.errorf(start, "", "the binary data of %s is malformed (%v)", printable(s.name()), err)
	}
	s.binary, s.delta = true, file.BinaryFragment
	for _, block := range []*gitdiff.BinaryFragment{file.BinaryFragment, file.ReverseBinaryFragment} {
		if block == nil {
			continue
		}
		if block.Size > p.limit {
			return tooLarge(p.limit)
		}
		if _, err := io.Copy(io.Discard, block.Data()); err != nil {
			return p.errorf(start, "", "the binary data of %s is damaged (%v)", printable(s.name()), err)
		}
	}
	return nil
}
