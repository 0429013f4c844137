package view

import (
	"regexp"
	"strings"
	"unicode"
)

// markdown shows Markdown that comes in pieces, line by line: what has ended is
// ready to be written, the rest may still change its meaning. It knows what
// models write: headings, lists, quotes, rules, code blocks, bold, italics,
// inline code and links. Everything else stays as it is. Without colours the
// marks of headings and inline code stay, so that nothing is lost.
type markdown struct {
	s     style
	width func() int
	rest  string // the line that has not ended
	fence string // of the code block that has begun; "" outside of one
}

var (
	mdFence   = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	mdHeading = regexp.MustCompile(`^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$`)
	mdRule    = regexp.MustCompile(`^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$`)
	mdItem    = regexp.MustCompile(`^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$`)
	mdQuote   = regexp.MustCompile(`^ {0,3}> ?(.*)$`)
	mdLink    = regexp.MustCompile(`^!?\[([^\[\]]*)\]\(([^()\s]*)\)`)
	mdAddress = regexp.MustCompile(`^<(https?://[^<>\s]+)>`)
)

// add takes more of the text and returns the lines that have ended.
func (m *markdown) add(text string) (ended string) {
	m.rest += Harmless(text)
	for {
		line, rest, ok := strings.Cut(m.rest, "\n")
		if !ok {
			return ended
		}
		for _, row := range m.line(line) {
			ended += row + "\n"
		}
		m.rest = rest
	}
}

// end returns what is left when the text has ended.
func (m *markdown) end() string {
	if m.rest == "" {
		return ""
	}
	return m.add("\n")
}

// unfinished is how the line looks that has not ended.
func (m *markdown) unfinished() []string {
	if m.rest == "" {
		return nil
	}
	look := *m // the line may turn out to be another
	return look.line(m.rest)
}

// line is one line of the source, in rows of the screen.
func (m *markdown) line(line string) []string {
	width := max(10, m.width()-1)
	line = strings.TrimRight(line, " \t")
	if fence := mdFence.FindStringSubmatch(line); fence != nil {
		bare := strings.TrimSpace(line)
		switch {
		case m.fence == "":
			m.fence = fence[1]
			return nil
		case strings.HasPrefix(bare, m.fence) && strings.Trim(bare, bare[:1]) == "":
			m.fence = ""
			return nil
		}
	}
	if m.fence != "" {
		// It is not wrapped, so that it can be copied.
		return []string{"    " + m.s.cyan(strings.ReplaceAll(line, "\t", "    "))}
	}
	if h := mdHeading.FindStringSubmatch(line); h != nil {
		if !m.s.on {
			return []string{line}
		}
		return m.wrap(inline(h[2], attributes{bold: true}), "", "", width)
	}
	if mdRule.MatchString(line) {
		return []string{m.s.dim(strings.Repeat("─", min(width, 40)))}
	}
	if q := mdQuote.FindStringSubmatch(line); q != nil {
		return m.wrap(inline(q[1], attributes{dim: true}), "│ ", "│ ", width)
	}
	if i := mdItem.FindStringSubmatch(line); i != nil {
		mark := i[2]
		if len(mark) == 1 {
			mark = "•"
		}
		first := strings.ReplaceAll(i[1], "\t", "    ") + mark + " "
		if len(first) > width/2 {
			first = mark + " "
		}
		return m.wrap(inline(i[3], attributes{}), first, strings.Repeat(" ", cells(first)), width)
	}
	return m.wrap(inline(line, attributes{}), "", "", width)
}

// attributes are how a part of a line is shown.
type attributes struct{ bold, italic, code, link, dim bool }

// span is a part of a line.
type span struct {
	text string
	attributes
}

// inline takes a line apart. A mark without its counterpart is text.
func inline(s string, a attributes) (out []span) {
	plain := 0
	flush := func(at int) {
		if plain < at {
			out = append(out, span{s[plain:at], a})
		}
	}
	for i := 0; i < len(s); {
		part, n := marked(s, i, a)
		if n == 0 {
			i++
			continue
		}
		flush(i)
		out = append(out, part...)
		i += n
		plain = i
	}
	flush(len(s))
	return out
}

// marked is the part that begins at i, if a mark stands there, and its length.
func marked(s string, i int, a attributes) (part []span, n int) {
	rest := s[i:]
	switch c := s[i]; c {
	case '\\':
		if len(rest) > 1 && strings.IndexByte("\\`*_[]()<>#-!|", rest[1]) >= 0 {
			return []span{{rest[1:2], a}}, 2
		}
	case '`':
		mark := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		code, _, ok := strings.Cut(rest[len(mark):], mark)
		if !ok || code == "" {
			return nil, 0
		}
		b := a
		b.code = true
		text := code
		if t := strings.TrimSpace(code); t != "" && len(mark) > 1 {
			text = t
		}
		return []span{{text, b}}, len(code) + 2*len(mark)
	case '*', '_':
		return emphasis(s, i, a)
	case '[', '!':
		if l := mdLink.FindStringSubmatch(rest); l != nil {
			b := a
			b.link = true
			part = inline(l[1], b)
			if l[1] == "" {
				return []span{{l[2], b}}, len(l[0])
			}
			if l[2] != "" && l[1] != l[2] {
				b.link, b.dim = false, true
				part = append(part, span{" (" + l[2] + ")", b})
			}
			return part, len(l[0])
		}
	case '<':
		if l := mdAddress.FindStringSubmatch(rest); l != nil {
			b := a
			b.link = true
			return []span{{l[1], b}}, len(l[0])
		}
	}
	return nil, 0
}

// emphasis is bold or italic text that begins at i.
func emphasis(s string, i int, a attributes) (part []span, n int) {
	mark := s[i : i+1]
	if strings.HasPrefix(s[i:], mark+mark) {
		mark += mark
	}
	if (mark[0] == '_' || len(mark) == 1) && i > 0 && isWord(lastRune(s[:i])) {
		return nil, 0 // as in a_b_c and 2*3*4
	}
	inner := s[i+len(mark):]
	for at := 1; at < len(inner); at++ {
		if !strings.HasPrefix(inner[at:], mark) || strings.ContainsAny(inner[:1]+inner[at-1:at], " \t") || inner[at-1] == '\\' {
			continue
		}
		after := inner[at+len(mark):]
		if len(mark) == 1 && (strings.HasPrefix(after, mark) || inner[at-1] == mark[0]) ||
			mark[0] == '_' && after != "" && isWord([]rune(after)[0]) {
			continue
		}
		b := a
		if b.bold, b.italic = a.bold || len(mark) == 2, a.italic || len(mark) == 1; inner[0] == mark[0] {
			return nil, 0
		}
		return inline(inner[:at], b), at + 2*len(mark)
	}
	return nil, 0
}

func lastRune(s string) rune {
	runes := []rune(s[max(0, len(s)-4):])
	return runes[len(runes)-1]
}

// wrap breaks a line between its words and paints it.
func (m *markdown) wrap(spans []span, first, further string, width int) (rows []string) {
	var cell []rune
	var looks []attributes
	for _, part := range spans {
		text := part.text
		if part.code && !m.s.on {
			text = "`" + text + "`"
		}
		for _, r := range strings.ReplaceAll(text, "\t", "    ") {
			cell, looks = append(cell, r), append(looks, part.attributes)
		}
	}
	prefix := first
	for {
		end, next := fold(cell, width-cells(prefix))
		rows = append(rows, m.s.dimPrefix(prefix)+m.paint(cell[:end], looks[:end]))
		if next == len(cell) {
			return rows
		}
		cell, looks, prefix = cell[next:], looks[next:], further
	}
}

// fold is where a row ends that has room for so many columns, and where the
// next one begins.
func fold(line []rune, room int) (end, next int) {
	used, blank := 0, -1
	for i, r := range line {
		if r == ' ' && i > 0 {
			blank = i
		}
		if used += runeWidth(r); used <= room {
			continue
		}
		if blank <= 0 {
			return max(1, i), max(1, i) // a word that is longer than the row
		}
		for next = blank; next < len(line) && line[next] == ' '; next++ {
		}
		for end = blank; end > 0 && line[end-1] == ' '; end-- {
		}
		if end == 0 {
			return max(1, i), max(1, i)
		}
		return end, next
	}
	return len(line), len(line)
}

// paint shows characters with their attributes.
func (m *markdown) paint(text []rune, looks []attributes) string {
	var b strings.Builder
	for from := 0; from < len(text); {
		to := from + 1
		for to < len(text) && looks[to] == looks[from] {
			to++
		}
		b.WriteString(m.s.look(string(text[from:to]), looks[from]))
		from = to
	}
	return strings.TrimRightFunc(b.String(), unicode.IsSpace)
}

func (s style) cyan(t string) string { return s.paint("36", t) }

// dimPrefix dims the bar of a quote; marks of lists stay as they are.
func (s style) dimPrefix(prefix string) string {
	if strings.HasPrefix(prefix, "│") {
		return s.dim("│") + prefix[len("│"):]
	}
	return prefix
}

func (s style) look(text string, a attributes) string {
	var codes []string
	for _, c := range []struct {
		on   bool
		code string
	}{{a.bold, "1"}, {a.dim, "2"}, {a.italic, "3"}, {a.link, "4"}, {a.code, "36"}} {
		if c.on {
			codes = append(codes, c.code)
		}
	}
	if len(codes) == 0 {
		return text
	}
	return s.paint(strings.Join(codes, ";"), text)
}
