package paths

import (
	"path"
	"strconv"
	"strings"
)

// isPatch recognises a patch under a key that does not say so.
func isPatch(s string) bool {
	s = "\n" + s
	return strings.Contains(s, "*** Begin Patch") || strings.Contains(s, "\ndiff --git ") ||
		strings.Contains(s, "\n--- ") && strings.Contains(s, "\n+++ ")
}

// patch collects the files that a patch names: the headers of unified and git
// diffs, of context diffs by their Index line, and of the "*** Update File:"
// form. A line inside a hunk may look like a header; it is taken for one only
// if the line after it completes the pair, because programs disagree on where
// a hunk with wrong counts ends.
func (c *collector) patch(place, s string) {
	p := patchReader{add: func(name string) {
		if name != "" && name != "/dev/null" {
			c.add(Argument{Key: place, Value: name, Certain: true, Patch: true})
		}
	}}
	for line := range strings.Lines(s) {
		p.line(strings.TrimRight(line, "\r\n"))
	}
	p.line("")
}

type patchReader struct {
	add      func(name string)
	old, new int    // lines of the hunk that are still to come
	pending  string // a "--- " line inside a hunk, waiting for its "+++ "
	link     string // the file that this section makes a link of
	target   string // the name in the last header, for links
}

func (p *patchReader) line(line string) {
	pending := p.pending
	p.pending = ""
	if pending != "" && strings.HasPrefix(line, "+++ ") {
		p.header(pending, "--- ")
		p.header(line, "+++ ")
	}
	for _, prefix := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
		if name, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), prefix); ok {
			p.old, p.new = 0, 0
			p.add(strings.TrimSpace(name))
			return
		}
	}
	if (p.old > 0 || p.new > 0) && p.inHunk(line) {
		return
	}
	switch {
	case strings.HasPrefix(line, "@@ -"):
		p.old, p.new = hunkLengths(line)
	case strings.HasPrefix(line, "--- "):
		p.header(line, "--- ")
	case strings.HasPrefix(line, "+++ "):
		p.header(line, "+++ ")
	case strings.HasPrefix(line, "diff --git "):
		p.link, p.target = "", ""
		for _, name := range gitNames(line[len("diff --git "):]) {
			p.target = name
			p.add(name)
		}
	case strings.HasPrefix(line, "Index: "):
		p.add(strings.TrimSpace(line[len("Index: "):]))
	case strings.HasPrefix(line, "new file mode 120000"), strings.HasPrefix(line, "new mode 120000"):
		p.link = p.target
	case strings.HasPrefix(line, "index ") && strings.HasSuffix(line, " 120000"):
		p.link = p.target
	default:
		for _, prefix := range []string{"rename from ", "rename to ", "copy from ", "copy to "} {
			if name, ok := strings.CutPrefix(line, prefix); ok {
				p.add(cName(name))
			}
		}
	}
}

// inHunk takes a line of the hunk, and reports false if it cannot be one.
func (p *patchReader) inHunk(line string) bool {
	if strings.HasPrefix(line, "--- ") {
		p.pending = line
	}
	switch {
	case strings.HasPrefix(line, "-"):
		p.old--
	case strings.HasPrefix(line, "+"):
		p.new--
		if p.link != "" {
			target := line[1:]
			if !strings.HasPrefix(target, "/") {
				target = path.Dir(p.link) + "/" + target
			}
			p.add(target)
		}
	case strings.HasPrefix(line, `\`):
	case line == "" || line[0] == ' ' || line[0] == '\t':
		p.old--
		p.new--
	default:
		p.old, p.new = 0, 0
		return false
	}
	return true
}

// header takes the name out of a "--- a/name<tab>time" line.
func (p *patchReader) header(line, prefix string) {
	name := line[len(prefix):]
	if !strings.HasPrefix(name, `"`) {
		name, _, _ = strings.Cut(name, "\t")
		name = strings.TrimRight(name, " ")
	}
	p.add(withoutPrefix(cName(name)))
}

// withoutPrefix drops the one-letter directory that git puts in front.
func withoutPrefix(name string) string {
	if len(name) > 2 && name[1] == '/' && strings.IndexByte("abciow", name[0]) >= 0 {
		return name[2:]
	}
	return name
}

// gitNames splits the two names of a "diff --git" line. Names with spaces are
// not quoted there, so where the line can be cut in several ways each name
// that may be meant is returned.
func gitNames(s string) []string {
	if strings.HasPrefix(s, `"`) {
		end := closingQuote(s)
		if end < 0 {
			return []string{s}
		}
		return []string{withoutPrefix(cName(s[:end+1])), withoutPrefix(cName(strings.TrimSpace(s[end+1:])))}
	}
	if i := strings.Index(s, ` "`); i >= 0 && strings.HasSuffix(s, `"`) {
		return []string{withoutPrefix(s[:i]), withoutPrefix(cName(s[i+1:]))}
	}
	if half := len(s) / 2; len(s)%2 == 1 && s[half] == ' ' && withoutPrefix(s[:half]) == withoutPrefix(s[half+1:]) {
		return []string{withoutPrefix(s[:half])}
	}
	var names, prefixed []string
	for i := range len(s) {
		if s[i] != ' ' || i == 0 || i+1 == len(s) || len(names) > 64 {
			continue
		}
		first, second := withoutPrefix(s[:i]), withoutPrefix(s[i+1:])
		names = append(names, first, second)
		if len(first) < i && len(second) < len(s)-i-1 {
			prefixed = append(prefixed, first, second)
		}
	}
	if len(prefixed) > 0 {
		return prefixed
	}
	return names
}

func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// cName undoes git's quoting of unusual names.
func cName(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	s = s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if at := strings.IndexByte("abtnvfr", s[i]); at >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r"[at])
			continue
		}
		if i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i:i+3], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// hunkLengths reads "@@ -l,s +l,s @@".
func hunkLengths(line string) (oldLines, newLines int) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return 0, 0
	}
	length := func(s string) int {
		_, n, ok := strings.Cut(s, ",")
		if !ok {
			return 1
		}
		v, err := strconv.Atoi(n)
		if err != nil || v < 0 {
			return 0
		}
		return v
	}
	return length(fields[1]), length(fields[2])
}
