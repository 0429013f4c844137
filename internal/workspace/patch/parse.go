package patch

import (
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Types of files in git's modes.
const (
	typeMask    = 0o170000
	typeRegular = 0o100000
	typeLink    = 0o120000
	typeGitlink = 0o160000
)

// oidLength is that of the longest object name, a SHA-256 in hexadecimal.
const oidLength = 64

// maybe is a yes or no that a traditional header leaves open.
type maybe int8

const (
	unknown maybe = iota
	no
	yes
)

// section is the part of a diff that concerns one file.
type section struct {
	line             int    // where its header begins, from 1
	old, new         string // names; "" for none
	created, deleted maybe
	renamed, copied  bool
	oldMode, newMode uint32 // 0 if not said
	oldOID, newOID   string // perhaps abbreviated

	hunks              []*gitdiff.TextFragment
	binary             bool
	delta              *gitdiff.BinaryFragment // nil if binary data is missing
	whole              *string                 // the contents, if they are not made by a change
	additions, removed int
}

func (s *section) name() string {
	if s.deleted != yes && s.new != "" {
		return s.new
	}
	return s.old
}

// parser walks over the lines of a diff.
//
// The headers are read here and not by go-gitdiff, because a name must be
// taken exactly as git takes it: the library keeps the a/ and b/ of a
// traditional header, reads quoted names by Go's rules, and refuses header
// lines that git ignores. So are the hunks, of which there may be megabytes.
// Binary data is the library's.
type parser struct {
	text  string
	pos   int
	line  int // number of the line at pos, from 1
	limit int64

	// How many leading components of names to drop. The first traditional
	// header without directories settles it for the rest of the diff.
	strip      int
	stripKnown bool
}

// parse takes a diff apart. limit bounds the size of inflated binary data.
func parse(diff string, limit int64) ([]*section, error) {
	p := &parser{text: diff, line: 1, limit: limit, strip: 1}
	var all []*section
	for {
		s, err := p.header()
		if err != nil {
			return nil, err
		}
		if s == nil {
			break
		}
		if err := p.body(s); err != nil {
			return nil, err
		}
		if s.created == yes && s.old != "" {
			return nil, p.errorf(s.line, "", "the header names an old file, and says that the file is new")
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: "there is no change in the diff",
			Remedy:  `Give a unified diff: "--- a/file", "+++ b/file" and hunks that begin with "@@ -line,count +line,count @@".`,
		}
	}
	return all, nil
}

func (p *parser) errorf(line int, remedy, format string, args ...any) error {
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("line %d of the diff: ", line) + fmt.Sprintf(format, args...),
		Remedy:  remedy,
	}
}

// peek returns the line at pos with its newline, "" at the end.
func (p *parser) peek() string { return firstLine(p.text[p.pos:]) }

func (p *parser) advance(line string) {
	p.pos += len(line)
	p.line++
}

func firstLine(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return s[:i+1]
	}
	return s
}

// header finds the next header and reads it; nil if there is none. What
// stands between sections is skipped.
func (p *parser) header() (*section, error) {
	s := &section{}
	for p.pos < len(p.text) {
		line := p.peek()
		if len(line) < len("--- x\n") {
			p.advance(line)
			continue
		}
		if strings.HasPrefix(line, "@@ -") {
			if _, _, ok := hunkHeader(line); ok {
				return nil, p.errorf(p.line, `Put "--- a/file" and "+++ b/file" before the first hunk of a file, and correct the counts of the hunk above.`,
					"a hunk belongs to no file")
			}
			p.advance(line)
			continue
		}
		if len(p.text)-p.pos < len(line)+6 {
			return nil, nil
		}
		if strings.HasPrefix(line, "diff --git ") {
			lines, err := p.gitHeader(s, line)
			if err != nil {
				return nil, err
			}
			if lines > 0 {
				return s, nil
			}
			continue
		}
		if found, err := p.traditionalHeader(s, line); err != nil || found {
			return s, err
		}
		p.advance(line)
	}
	return nil, nil
}
