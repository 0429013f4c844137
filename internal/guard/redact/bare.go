package redact

import "strings"

// literal reports whether the bare value v, which ends at to, is a literal: what
// stands around it tells settings, headers, commands and logs from programs,
// where it would be a variable or a type. It looks at a few bytes only, and at
// none that may be part of another secret, so that a text without its secrets is
// judged alike.
func (sc *scan) literal(at *place, v string, to int) bool {
	if at.code || v == "" || strings.ContainsAny(v, "()[]{}") {
		return false
	}
	if at.flag || at.upper {
		return at.kind == kindPassword || !strings.Contains(strings.TrimRight(v, "="), "=")
	}
	name := identifier(v)
	if at.scheme {
		return sc.lineEnds(to) && (!name || !typeOrVariable(at, v))
	}
	before, line := sc.beforeName(at.name)
	if before == '?' || before == '&' { // of a URL
		return true
	}
	switch {
	case at.colon:
		return sc.lineEnds(to) && (line && !sc.continued(at.name) || !line && listMark[before]) && (!name || !typeOrVariable(at, v))
	case at.spaced:
		// Settings begin at the margin, programs seldom do.
		return line && before != ' ' && sc.lineEnds(to) && (!name || !typeOrVariable(at, v))
	case !name:
		return true
	case before == ',' || before == '(':
		return at.next != ',' && at.next != ')' && at.next != ' '
	}
	switch at.next {
	case ',': // a named argument, if the line ends here
		return !sc.lineEnds(to + 1)
	case ';':
		return at.kind == kindPassword
	case ')', '}', ':', '.', '<', '[', '(', '{':
		return false
	}
	return !strings.Contains(v, ".") && (at.kind == kindPassword || !humped(v))
}

// listMark may stand before a name that is followed by a colon, where that is a
// setting or header: marks of lists, diffs, numbered lines and quotations.
var listMark = classOf("-+#*.:|>\"'`0123456789\t")

// beforeName returns the last byte before a name that is not blank, and whether
// the name is the first on its line. For such a name it returns a space if it is
// indented, or else a line end.
func (sc *scan) beforeName(p int) (before byte, line bool) {
	q := p
	for p-q < 64 && (sc.back(q-1) == ' ' || sc.back(q-1) == '\t') {
		q--
	}
	switch c := sc.back(q - 1); {
	case c == '\n', c == 0, c == 'n' && sc.back(q-2) == '\\': // which a JSON string may have
		if q < p {
			return ' ', true
		}
		return '\n', true
	default:
		return c, false
	}
}

// continued reports whether the line before that of the name at p ends as those
// of programs and objects do, but not those of settings.
func (sc *scan) continued(p int) bool {
	q := p - 1
	for ; p-q < 96; q-- {
		c := sc.back(q)
		if c == 'n' && sc.back(q-1) == '\\' {
			for sc.back(q-1) == '\\' && p-q < 96 {
				q--
			}
		} else if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			break
		}
	}
	switch sc.back(q) {
	case ',', '{', '(', ';', '[', ']', '}', ')':
		return true
	}
	return false
}

// lineEnds reports whether nothing follows p on its line but a comment.
func (sc *scan) lineEnds(p int) bool {
	q := sc.blank(p, false)
	switch sc.at(q) {
	case 0, '\n', '\r', '\\':
		return true
	case '"', '\'', '`':
		return q == p
	case '#':
		return q > p
	case '<':
		return sc.at(q+1) == '/'
	}
	return false
}

// typeOrVariable reports whether a name is written as types and variables are.
func typeOrVariable(at *place, v string) bool {
	return humped(v) || isUpper(v[0]) && at.kind != kindPassword || strings.Contains(v, ".")
}

// humped reports whether a name has a capital after a small letter.
func humped(v string) bool {
	for i := 1; i < len(v); i++ {
		if isUpper(v[i]) && isLower(v[i-1]) {
			return true
		}
	}
	return false
}
