package search

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// ripgrep's plain output with headings is read, not its JSON:
// for 600,000 hits JSON costs ripgrep itself 1.4 times the processor time and
// is four times the bytes to take apart. It is unambiguous:
//
//	./path NUL line:column:text     a match, the first line of a file
//	line:column:text                further matches
//	line:text                       matches, if no column was asked for
//	line-text                       context
//	                                an empty line before each further file
//	./path: WARNING: …              last of a file that turned out binary
//
// Paths begin with "./", since that directory is searched, and end with the NUL,
// so that line breaks in them do no harm; in the warning the path is known.
// Files with such names are passed over all the same, as the other engines do.
type output struct {
	found *collection
	keep  func(file string) bool
	find  func(line string) int // where a match is, if ripgrep does not say; nil: it does

	heading bool   // a path comes next
	path    string // as far as it has come
	skip    bool   // the present file's lines are not wanted
	warning int    // lines that belong to the warning which has begun
	last    int    // number of the last line

	// pause, if set, is called between reads once there are many hits.
	pause func()
}

// lineBreaks is what must not be in a path.
const lineBreaks = "\n\r"

// maxPath is more than any system allows.
const maxPath = 64 << 10

var errOutput = errors.New("ripgrep's output is not of the form that was asked for")

const (
	readBytes = 256 << 10
	// maxLine is how much of a line is held; the rest is dropped.
	maxLine = 16 << 20
	// Once there are this many hits the reader is no longer in a hurry.
	manyHits = 1000
)

// read takes all of r, or as much as is wanted. The strings of hits share the
// memory of the output.
func (p *output) read(r io.Reader) error {
	p.heading = true
	buffer := make([]byte, readBytes)
	held := 0
	for {
		if p.pause != nil && p.found.count > manyHits {
			p.pause()
		}
		n, err := r.Read(buffer[held:])
		end := held + n
		// Only the new part can hold a line break.
		last := held + bytes.LastIndexByte(buffer[held:end], '\n') + 1
		if last > held {
			if err := p.lines(string(buffer[:last])); err != nil || p.found.done {
				p.found.flush()
				return err
			}
			held = copy(buffer, buffer[last:end])
		} else {
			held = min(end, maxLine)
		}
		if held == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
		switch {
		case errors.Is(err, io.EOF) && held > 0:
			return errOutput
		case errors.Is(err, io.EOF) && p.heading && p.path != "":
			return errOutput
		case errors.Is(err, io.EOF):
			p.found.flush()
			return nil
		case err != nil:
			return err
		}
	}
}

// lines takes whole lines.
func (p *output) lines(text string) error {
	for text != "" && !p.found.done {
		i := strings.IndexByte(text, '\n')
		line := text[:i]
		text = text[i+1:]
		if err := p.line(line); err != nil {
			return err
		}
	}
	return nil
}

func (p *output) line(line string) error {
	if p.heading {
		path, rest, ok := strings.Cut(line, "\x00")
		if !ok && len(p.path)+len(path) < maxPath {
			p.path += path + "\n"
			return nil
		}
		p.path += path
		file, inside := strings.CutPrefix(p.path, "./")
		if !ok || !inside || file == "" {
			return errOutput
		}
		p.heading, p.last, line = false, 0, rest
		if p.skip = strings.ContainsAny(file, lineBreaks) || !p.keep(file); !p.skip {
			p.found.begin(file)
			if p.found.done {
				return nil
			}
		}
	}
	switch {
	case p.warning > 0:
		p.warning--
		return nil
	case line == "":
		p.heading, p.path = true, ""
		return nil
	case line[0] == '.':
		p.warning = strings.Count(p.path, "\n")
		return nil
	case p.skip:
		return nil
	}
	number, rest := leadingNumber(line)
	if number <= p.last || rest == "" {
		return errOutput
	}
	p.last = number
	if rest[0] == '-' {
		p.found.surround(number, rest[1:])
		return nil
	}
	if p.find != nil && rest[0] == ':' {
		p.found.match(number, rest[1:], p.find(rest[1:]))
		return nil
	}
	column, after := leadingNumber(rest[1:])
	if rest[0] != ':' || column == 0 || after == "" || after[0] != ':' {
		return errOutput
	}
	p.found.match(number, after[1:], column-1)
	return nil
}

// leadingNumber returns 0 if s does not begin with a positive number.
func leadingNumber(s string) (n int, rest string) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || i > 15 {
			return n, s[i:]
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, ""
}
