package patch

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// The library wants a header before binary data; ours has been read.
const binaryHeader = "diff --git a/f b/f\n"

// maxLineNumber keeps sums of line numbers far from overflow.
const maxLineNumber = 1 << 30

// side is the lines of one side of a hunk.
type side struct{ first, count int }

var hunkPattern = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// hunkHeader reads where the two sides of a hunk are; ok is false if line is no
// hunk header.
func hunkHeader(line string) (from, to side, ok bool) {
	m := hunkPattern.FindStringSubmatch(line)
	if m == nil || !strings.HasSuffix(line, "\n") {
		return from, to, false
	}
	for i, n := range []*int{&from.first, &from.count, &to.first, &to.count} {
		if *n = 1; m[i+1] == "" { // a count that is left out
			continue
		}
		var err error
		if *n, err = strconv.Atoi(m[i+1]); err != nil || *n > maxLineNumber {
			return from, to, false
		}
	}
	return from, to, true
}

// body reads the hunks or the binary data of a section.
func (p *parser) body(s *section) error {
	if err := p.hunks(s); err != nil || len(s.hunks) > 0 {
		return err
	}
	var err error
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

// hunks reads the hunks at pos. Only the counts in their headers tell where
// one ends: a line that begins with "---" may be part of a hunk or the next
// header.
func (p *parser) hunks(s *section) error {
	var before, after int64
	for strings.HasPrefix(p.text[p.pos:], "@@ -") {
		line := p.peek()
		from, to, ok := hunkHeader(line)
		if !ok {
			return p.errorf(p.line, "", "malformed hunk header %q", text.Clip(strings.TrimSuffix(line, "\n"), 80))
		}
		h := &gitdiff.TextFragment{
			OldPosition: int64(from.first), OldLines: int64(from.count), NewPosition: int64(to.first), NewLines: int64(to.count),
			Lines: make([]gitdiff.Line, 0, min(max(from.count, to.count)+8, 1<<12)),
		}
		start := p.line
		p.advance(line)
		if err := p.hunkLines(h, start); err != nil {
			return err
		}
		// The last line's marker is beyond the counts.
		if rest := p.text[p.pos:]; len(rest) > 12 && strings.HasPrefix(rest, `\ `) {
			dropNewline(h)
			p.advance(p.peek())
		}
		if h.LinesAdded+h.LinesDeleted == 0 {
			return p.errorf(start, "", "the hunk changes nothing")
		}
		before, after = before+h.OldLines, after+h.NewLines
		s.additions += int(h.LinesAdded)
		s.removed += int(h.LinesDeleted)
		s.hunks = append(s.hunks, h)
	}
	if len(s.hunks) == 0 {
		return nil
	}
	// One hunk without old lines may or may not be a creation; several, or old
	// lines, cannot be. The same for deletions.
	if s.created == unknown && (before > 0 || len(s.hunks) > 1) {
		s.created = no
	}
	if s.deleted == unknown && (after > 0 || len(s.hunks) > 1) {
		s.deleted = no
	}
	if s.created == yes && before > 0 {
		return p.errorf(s.line, "", "%s is to be created, but its hunks have old lines", printable(s.new))
	}
	if s.deleted == yes && after > 0 {
		return p.errorf(s.line, "", "%s is to be deleted, but its hunks leave lines", printable(s.old))
	}
	return nil
}

// hunkLines reads as many lines as the header of h says.
func (p *parser) hunkLines(h *gitdiff.TextFragment, start int) error {
	const remedy = "Make the counts in the @@ line match the lines of the hunk: context and removed lines on the left, context and added lines on the right."
	for from, to := h.OldLines, h.NewLines; from > 0 || to > 0; {
		line := p.peek()
		if line == "" {
			return p.errorf(start, remedy, "the hunk is cut off: %d old and %d new lines are missing", from, to)
		}
		if !strings.HasSuffix(line, "\n") {
			return p.errorf(p.line, "End the diff with a newline.", "the last line of the diff does not end")
		}
		switch line[0] {
		case ' ', '\n': // an empty line is empty context, as newer GNU diffs write it
			from--
			to--
			h.Lines = append(h.Lines, gitdiff.Line{Op: gitdiff.OpContext, Line: strings.TrimPrefix(line, " ")})
			if h.LinesAdded+h.LinesDeleted == 0 {
				h.LeadingContext++
			} else {
				h.TrailingContext++
			}
		case '-':
			from--
			h.Lines = append(h.Lines, gitdiff.Line{Op: gitdiff.OpDelete, Line: line[1:]})
			h.LinesDeleted++
			h.TrailingContext = 0
		case '+':
			to--
			h.Lines = append(h.Lines, gitdiff.Line{Op: gitdiff.OpAdd, Line: line[1:]})
			h.LinesAdded++
			h.TrailingContext = 0
		case '\\': // in other languages the mark has other words
			if len(line) < 12 || line[1] != ' ' {
				return p.errorf(p.line, remedy, "the line is no part of a hunk")
			}
			dropNewline(h)
		default:
			return p.errorf(p.line, remedy, "the line is no part of a hunk, but the hunk that begins in line %d still lacks %d old and %d new lines",
				start, from, to)
		}
		if from < 0 || to < 0 {
			return p.errorf(start, remedy, "the hunk has other counts than its @@ line says")
		}
		p.advance(line)
	}
	return nil
}

// dropNewline takes the newline from the last line that was read.
func dropNewline(h *gitdiff.TextFragment) {
	if n := len(h.Lines); n > 0 {
		h.Lines[n-1].Line = strings.TrimSuffix(h.Lines[n-1].Line, "\n")
	}
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
