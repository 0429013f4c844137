package json5

import "strings"

// spaceBefore is where the white space before a position begins.
func (d *Document) spaceBefore(at int) int {
	from := len(strings.TrimRightFunc(d.text[:at], isSpace))
	for _, g := range d.comments { // the spaces at its end belong to it
		if g.end <= at && g.end > from {
			from = g.end
		}
	}
	return from
}

// behindComment is the end of a comment that stands behind a position on the
// same line, if the line ends with it; else the position.
func (d *Document) behindComment(at int) int {
	end := at
	for at < len(d.text) {
		g, ok, err := nextGap(d.text, at)
		switch {
		case err != nil || !ok:
			return end // something else follows on the line
		case g.line:
			return g.end
		case !g.comment && strings.ContainsFunc(d.text[g.start:g.end], isBreak):
			return at
		case g.comment && strings.ContainsFunc(d.text[g.start:g.end], isBreak):
			return end
		}
		at = g.end
	}
	return end
}

// lineStart is where the line of a position begins.
func (d *Document) lineStart(at int) int { return 1 + strings.LastIndexByte(d.text[:at], '\n') }

// indentOf is the white space with which the line of a position begins.
func (d *Document) indentOf(at int) string {
	line := strings.TrimPrefix(d.text[d.lineStart(at):at], "\ufeff")
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// unit is what one level is indented by, as the outermost object shows it.
func (d *Document) unit() string {
	if d.root.kind == object && len(d.root.items) > 0 {
		first := d.root.items[0].start
		if s := d.text[d.lineStart(first):first]; s != "" && strings.Trim(s, " \t") == "" {
			return s
		}
	}
	return "  "
}

// lineEnd is how lines end here.
func (d *Document) lineEnd() string {
	if n := strings.IndexByte(d.text, '\n'); n > 0 && d.text[n-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// written is a value as it is put into the text.
func (d *Document) written(value any, indent string, lines bool) string {
	if !lines {
		return string(render(value, "", ""))
	}
	return strings.ReplaceAll(string(render(value, indent, d.unit())), "\n", d.lineEnd())
}
