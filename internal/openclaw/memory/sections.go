package memory

import (
	"bytes"
	"strings"
)

// section is a part of a Markdown file: what stands below one heading, or a
// piece of it where that is long.
type section struct {
	heading   string // with those above it
	first     int    // lines, from 1
	last      int
	text      string // without the heading
	continues bool   // it is not the beginning of what its heading stands above
}

// maxSection is from where on a section is cut at the next empty line, and
// maxHeading how much of a heading is kept.
const (
	maxSection = 2000
	maxHeading = 200
)

// split takes a Markdown file apart. Every line belongs to one section; those
// that hold nothing are left out.
func split(text string) []section {
	s := splitter{text: text}
	for begin, n := 0, 1; begin < len(text); n++ {
		end := begin + len(text[begin:])
		if i := strings.IndexByte(text[begin:], '\n'); i >= 0 {
			end = begin + i + 1
		}
		s.line(strings.TrimRight(text[begin:end], "\r\n"), begin, n)
		begin = end
	}
	s.flush(len(text), s.lines)
	return s.out
}

type splitter struct {
	text  string
	out   []section
	lines int

	path      [6]string // headings in force, by level
	begin     int       // where the present section's text begins
	first     int       // and on which line
	continues bool
	fence     string // of the code block we are in
	matter    bool   // in front matter
	previous  string // the line before, if it may be a heading
	prevBegin int
}

func (s *splitter) line(line string, begin, n int) {
	s.lines = n
	if n == 1 {
		s.first = 1
		if line == "---" {
			s.matter = true
			return
		}
	}
	if s.matter {
		if line == "---" || line == "..." {
			s.matter = false
		}
		return
	}
	bare := strings.TrimLeft(line, " ")
	indented := len(line)-len(bare) > 3 || strings.HasPrefix(bare, "\t")
	if s.fence != "" {
		if rest := strings.TrimLeft(bare, s.fence[:1]); !indented && strings.TrimSpace(rest) == "" && len(bare)-len(rest) >= len(s.fence) {
			s.fence = ""
		}
		return
	}
	previous, prevBegin := s.previous, s.prevBegin
	s.previous = ""
	switch {
	case indented:
	case strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~"):
		s.fence = bare[:len(bare)-len(strings.TrimLeft(bare, bare[:1]))]
	case atx(bare) > 0:
		level := atx(bare)
		s.flush(begin, n-1)
		s.head(level, strings.TrimRight(strings.TrimSpace(bare[level:]), "#"))
		s.begin, s.first, s.continues = min(begin+len(line)+1, len(s.text)), n, false
	case previous != "" && bare != "" && (strings.Trim(bare, "= ") == "" || len(bare) > 2 && strings.Trim(bare, "- ") == ""):
		s.flush(prevBegin, n-2)
		s.head(map[byte]int{'=': 1, '-': 2}[bare[0]], previous)
		s.begin, s.first, s.continues = min(begin+len(line)+1, len(s.text)), n-1, false
	case strings.TrimSpace(bare) == "":
		if begin-s.begin > maxSection {
			s.flush(begin, n-1)
			s.begin, s.first, s.continues = begin, n, true
		}
	default:
		if !strings.ContainsRune("-*+>|", rune(bare[0])) {
			s.previous, s.prevBegin = bare, begin
		}
	}
}

// atx returns the level of a heading such as "## Deploy", or 0.
func atx(line string) int {
	n := len(line) - len(strings.TrimLeft(line, "#"))
	if n < 1 || n > 6 || n < len(line) && line[n] != ' ' && line[n] != '\t' {
		return 0
	}
	return n
}

func (s *splitter) head(level int, text string) {
	text = strings.TrimSpace(text)
	if len(text) > maxHeading {
		text = strings.ToValidUTF8(text[:maxHeading], "")
	}
	s.path[level-1] = text
	clear(s.path[level:])
}

// flush ends the present section before the byte end, on the line last.
func (s *splitter) flush(end, last int) {
	body := s.text[s.begin:max(end, s.begin)]
	var path []string
	for _, h := range s.path {
		if h != "" {
			path = append(path, h)
		}
	}
	if last < s.first || strings.TrimSpace(body) == "" && (len(path) == 0 || s.continues) {
		return
	}
	s.out = append(s.out, section{heading: strings.Join(path, " > "), first: s.first, last: last, text: body, continues: s.continues})
}

// isText reports whether data looks like text: a database among the notes is
// none.
func isText(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 4096)], 0) < 0 }
