package shell

import (
	"strings"
)

// sed scripts can run commands (e) and write files (w).
func (a *analyser) sed(c *call, d dirSet) {
	spec := optionSpec{flags: "nErsuzIai", values: "efl", longFlags: "quiet silent regexp-extended in-place separate unbuffered null-data posix debug sandbox follow-symlinks",
		longs: "expression file line-length"}
	scripts, operand := []word{}, true
	rest := c.args
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		if w.splits {
			a.opaque("which script sed runs is not known")
			return
		}
		text := w.text
		switch {
		case strings.HasPrefix(text, "-i"), strings.HasPrefix(text, "--in-place"):
			continue
		case text == "--" || !strings.HasPrefix(text, "-") || text == "-":
			if operand {
				if text == "--" && i+1 < len(rest) {
					i++
				}
				scripts = append(scripts, rest[i])
				operand = rest[i].text == "" // sed -i '' on BSD
			}
			continue
		}
		opts, left, known := spec.parse(rest[i : i+1 : i+1])
		if !known && i+1 < len(rest) {
			opts, left, known = spec.parse(rest[i : i+2 : i+2])
			i++
		}
		if !known || len(left) > 0 {
			a.opaque("which script sed runs cannot be seen")
			return
		}
		for _, o := range opts {
			switch o.name {
			case "-e", "--expression":
				scripts, operand = append(scripts, o.value), false
			case "-f", "--file":
				operand = false
			}
		}
	}
	for _, s := range scripts {
		if s.dynamic || s.pattern != "" {
			a.opaque("which script sed runs is not known")
			continue
		}
		files, safe := sedScript(s.text)
		if !safe {
			a.opaque("sed's script may run commands")
		}
		for _, f := range files {
			a.wordPath(word{text: f}, d, true, true)
		}
	}
}

// sedScript returns the files that a script writes, and false if it may run
// commands or is not understood.
func sedScript(s string) (files []string, safe bool) {
	p := sedReader{rest: s}
	for {
		p.skip(" \t\n;")
		if p.rest == "" {
			return p.files, true
		}
		if !p.address() || !p.command() {
			return p.files, false
		}
	}
}

type sedReader struct {
	rest  string
	files []string
}

func (p *sedReader) skip(set string) { p.rest = strings.TrimLeft(p.rest, set) }

// address skips 1,$ /re/ \cre c first~step addr,+N and !.
func (p *sedReader) address() bool {
	for {
		p.skip(" \t,!0123456789$~+")
		switch {
		case p.rest == "":
			return false
		case p.rest[0] == '/':
			if !p.until('/') {
				return false
			}
		case p.rest[0] == '\\' && len(p.rest) > 1:
			delim := p.rest[1]
			p.rest = p.rest[1:]
			if !p.until(delim) {
				return false
			}
		default:
			return true
		}
		p.skip("IM")
	}
}

// until consumes a delimiter, text and the delimiter again.
func (p *sedReader) until(delim byte) bool {
	if p.rest == "" || p.rest[0] != delim {
		return false
	}
	return p.close(delim)
}

// close consumes from a delimiter to the next one that is not escaped and not
// in brackets; sed disagrees with itself about brackets, so both count.
func (p *sedReader) close(delim byte) bool {
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case delim:
			p.rest = p.rest[i:]
			if len(p.rest) > 0 {
				p.rest = p.rest[1:]
			}
			return true
		case '[':
			if end := strings.IndexByte(p.rest[i:], ']'); end > 0 && strings.IndexByte(p.rest[i:i+end], delim) >= 0 {
				return false
			}
		}
	}
	return false
}

func (p *sedReader) command() bool {
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch c {
	case '{', '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		return true
	case 'a', 'i', 'c':
		p.text()
		return true
	case ':', 'b', 't', 'T':
		p.rest = p.rest[min(indexOr(p.rest, "\n;}"), len(p.rest)):]
		return true
	case 'q', 'Q', 'l', 'L':
		p.skip(" 0123456789")
		return true
	case '#', 'r', 'R':
		p.line()
		return true
	case 'w', 'W':
		p.files = append(p.files, strings.TrimSpace(p.line()))
		return true
	case 'y':
		return p.pair()
	case 's':
		return p.pair() && p.flags()
	}
	return false // e, and whatever else there may be
}

// text skips what a, i and c insert: to the end of the line, and further
// while lines end in a backslash.
func (p *sedReader) text() {
	for {
		line := p.line()
		if !strings.HasSuffix(line, `\`) || p.rest == "" {
			return
		}
	}
}

func (p *sedReader) line() string {
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	return line
}

// pair skips /a/b/ with any delimiter.
func (p *sedReader) pair() bool {
	if p.rest == "" || p.rest[0] == '\\' || p.rest[0] == '\n' {
		return false
	}
	delim := p.rest[0]
	if !p.close(delim) {
		return false
	}
	p.rest = string(delim) + p.rest
	return p.close(delim)
}

func (p *sedReader) flags() bool {
	for p.rest != "" {
		switch c := p.rest[0]; {
		case strings.IndexByte("gpIiMm0123456789", c) >= 0:
			p.rest = p.rest[1:]
		case c == 'w':
			p.rest = p.rest[1:]
			p.files = append(p.files, strings.TrimSpace(p.line()))
			return true
		case strings.IndexByte(" \t\n;}#", c) >= 0:
			return true
		default:
			return false
		}
	}
	return true
}

func indexOr(s, set string) int {
	if i := strings.IndexAny(s, set); i >= 0 {
		return i
	}
	return len(s)
}
