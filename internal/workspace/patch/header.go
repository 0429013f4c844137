package patch

import (
	"strconv"
	"strings"
)

// gitHeader reads the lines from "diff --git" to the first that is not part
// of the header, and says how many there were behind the first.
func (p *parser) gitHeader(s *section, first string) (lines int, err error) {
	s.line = p.line
	if err := p.noNUL(first); err != nil {
		return 0, err
	}
	s.created, s.deleted = no, no
	fallback := headerName(strings.TrimSuffix(first[len("diff --git "):], "\n"), p.strip)
	p.advance(first)
	for p.pos < len(p.text) {
		line := p.peek()
		if !strings.HasSuffix(line, "\n") {
			break
		}
		known, err := p.headerLine(s, line[:len(line)-1], fallback)
		if err != nil {
			return 0, err
		}
		if !known {
			break
		}
		if err := p.noNUL(line); err != nil {
			return 0, err
		}
		p.advance(line)
		lines++
	}
	const remedy = `Write names with the prefixes a/ and b/, as "git diff" does.`
	if s.old == "" && s.new == "" {
		if fallback == "" {
			return 0, p.errorf(s.line, remedy, "the header names no file once %d leading directory is dropped", p.strip)
		}
		s.old, s.new = fallback, fallback
	}
	if s.new == "" && s.deleted != yes || s.old == "" && s.created != yes {
		return 0, p.errorf(s.line, remedy, "the header lacks one of the two names")
	}
	return lines, nil
}

// noNUL refuses a header at whose NUL byte git would stop reading.
func (p *parser) noNUL(line string) error {
	if strings.IndexByte(line, 0) >= 0 {
		return p.errorf(p.line, "", "the header contains a NUL byte")
	}
	return nil
}

// headerLine takes in one line of a git header; known is false if it is none.
func (p *parser) headerLine(s *section, line, fallback string) (known bool, err error) {
	word, rest := "", ""
	for _, w := range []string{"--- ", "+++ ", "old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ",
		"rename old ", "rename new ", "rename from ", "rename to ", "similarity index ", "dissimilarity index ", "index "} {
		if r, ok := strings.CutPrefix(line, w); ok {
			word, rest = w, r
			break
		}
	}
	// Names in these lines lack the prefix that the others have.
	inner := max(p.strip-1, 0)
	switch word {
	case "":
		return false, nil
	case "--- ":
		err = p.agree(&s.old, rest, s.created == yes)
	case "+++ ":
		err = p.agree(&s.new, rest, s.deleted == yes)
	case "old mode ":
		err = p.mode(&s.oldMode, rest)
	case "new mode ":
		err = p.mode(&s.newMode, rest)
	case "deleted file mode ":
		s.deleted, s.old = yes, fallback
		err = p.mode(&s.oldMode, rest)
	case "new file mode ":
		s.created, s.new = yes, fallback
		err = p.mode(&s.newMode, rest)
	case "copy from ":
		s.copied, s.old = true, nameIn(rest, inner, false)
	case "copy to ":
		s.copied, s.new = true, nameIn(rest, inner, false)
	case "rename old ", "rename from ":
		s.renamed, s.old = true, nameIn(rest, inner, false)
	case "rename new ", "rename to ":
		s.renamed, s.new = true, nameIn(rest, inner, false)
	case "index ":
		err = p.index(s, rest)
	}
	if err != nil {
		return true, err
	}
	kinds := 0
	for _, is := range []bool{s.created == yes, s.deleted == yes, s.renamed, s.copied} {
		if is {
			kinds++
		}
	}
	if kinds > 1 {
		return true, p.errorf(p.line, "", "the header says contradictory things about the file")
	}
	return true, nil
}

// agree takes the name of a ---/+++ line of a git header, or checks it against
// what the lines before have said.
func (p *parser) agree(name *string, rest string, none bool) error {
	switch {
	case *name == "" && !none:
		*name = nameIn(rest, p.strip, true)
	case *name == "":
		if !isDevNull(rest) {
			return p.errorf(p.line, "", "the name must be /dev/null")
		}
	case none:
		return p.errorf(p.line, "", "the name must not be set")
	case nameIn(rest, p.strip, true) != *name:
		return p.errorf(p.line, "", "the name differs from the one in the lines before")
	}
	return nil
}

func (p *parser) mode(to *uint32, s string) error {
	s = strings.TrimLeft(s, " \t\r")
	digits := len(s) - len(strings.TrimLeft(s, "01234567"))
	mode, err := strconv.ParseUint(s[:digits], 8, 32)
	if err != nil || digits < len(s) && !isSpace(s[digits]) {
		return p.errorf(p.line, "", "invalid file mode")
	}
	*to = uint32(mode)
	return nil
}

// index reads "OLD..NEW MODE"; a line of another form is ignored.
func (p *parser) index(s *section, rest string) error {
	old, rest, ok := strings.Cut(rest, "..")
	if !ok || len(old) > oidLength || strings.Contains(old, ".") {
		return nil
	}
	s.oldOID = old
	oid, mode, ok := strings.Cut(rest, " ")
	if len(oid) > oidLength {
		return nil
	}
	s.newOID = oid
	if ok {
		return p.mode(&s.oldMode, mode)
	}
	return nil
}

// traditionalHeader reads the header of a diff without git's lines, if there
// is one here: two lines with names, and a hunk.
func (p *parser) traditionalHeader(s *section, first string) (bool, error) {
	if !strings.HasPrefix(first, "--- ") {
		return false, nil
	}
	second := firstLine(p.text[p.pos+len(first):])
	after := p.text[p.pos+len(first)+len(second):]
	const shortest = len("@@ -0,0 +1 @@\n")
	if !strings.HasPrefix(second, "+++ ") || !strings.HasPrefix(after, "@@ -") || len(first)+len(after) < shortest {
		return false, nil
	}
	s.line = p.line
	if err := p.noNUL(first + second); err != nil {
		return false, err
	}
	a, b := strings.TrimSuffix(first[4:], "\n"), strings.TrimSuffix(second[4:], "\n")
	p.guessStrip(b)

	// Names may be left from a "diff --git" line that was followed by nothing
	// known; git does not forget them.
	s.created, s.deleted = unknown, unknown
	var name string
	switch {
	case isDevNull(a):
		name = traditionalName(b, "", p.strip)
		s.created, s.deleted, s.new = yes, no, name
	case isDevNull(b):
		name = traditionalName(a, "", p.strip)
		s.created, s.deleted, s.old = no, yes, name
	default:
		name = traditionalName(b, traditionalName(a, "", p.strip), p.strip)
		switch {
		case isEpoch(a):
			s.created, s.deleted, s.new = yes, no, name
		case isEpoch(b):
			s.created, s.deleted, s.old = no, yes, name
		default:
			s.old, s.new = name, name
		}
	}
	if name == "" {
		return false, p.errorf(p.line, "Write names with the prefixes a/ and b/, or all of them without any directory.", "no file name")
	}
	p.advance(first)
	p.advance(second)
	return true, nil
}

// guessStrip settles that names have no prefix, if the new name of this header
// has no directory.
func (p *parser) guessStrip(second string) {
	if p.stripKnown {
		return
	}
	if isDevNull(second) {
		return
	}
	if name := traditionalName(second, "", 0); name != "" && !strings.Contains(name, "/") {
		p.strip, p.stripKnown = 0, true
	}
}
