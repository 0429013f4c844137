package redact

import (
	"strings"
	"unicode"
)

// Bounds of what one name with its value may take.
const (
	maxName  = 64
	maxBlank = 32
	// maxValue is how much of a value is judged. A longer one is hidden whole
	// if this much of it looks like a secret.
	maxValue = 256
)

// keyed matches a value that is stored under a telling name: password=…,
// "api_key": "…", DB_PASSWORD: …, ?token=…, <secret>…</secret>, --token …
type keyed struct{}

// place is where a value stands, which decides how it is judged.
type place struct {
	kind   kind
	quoted bool // between quotation marks
	flag   bool // after --name and a space
	prose  bool // after "is"
	loose  bool // after nothing but a space
	xml    bool // between tags
	env    bool // NAME=value without spaces
	spaced bool // spaces around the sign
	colon  bool // the sign was a colon
	pass   bool // the name is no more than "pass"
	phrase bool // the name says that there may be spaces
	name   int  // where the name begins
	next   byte // what follows the value

	upper    bool // env, and the name is in upper case
	joined   bool // the name is of several words, as in DB_PASSWORD
	scheme   bool // after the scheme of an Authorization header
	call     bool // name and value are the arguments of a call
	code     bool // the sign is one that only programs have
	compared bool // the sign compares
	literal  bool // bare, and no expression of a program, as its surroundings say
}

func (keyed) match(sc *scan, start, end int) {
	nameEnd := sc.nameEnd(end)
	if nameEnd-start > maxName || !mayFollowName[sc.at(nameEnd)] {
		return
	}
	nameStart := sc.nameStart(start)
	if c := sc.back(nameStart); sc.back(nameStart-1) == '\\' && nameStart < start && (c == 'n' || c == 'r' || c == 't') {
		nameStart++ // of an escape
	}
	if sc.name == [2]int{nameStart, nameEnd} {
		return // another keyword of the same name
	}
	sc.name = [2]int{nameStart, nameEnd}
	name := sc.s[nameStart:nameEnd]
	var at place
	p, ok := sc.sign(&at, nameStart, nameEnd)
	if !ok {
		return
	}
	if at.kind = sc.kindOf(name); at.kind == kindNone {
		// In prose a name may be of several words.
		nameStart = sc.wordsBefore(nameStart)
		if at.kind = sc.kindOf(sc.s[nameStart:nameEnd]); at.kind == kindNone {
			return
		}
	}
	at.name = nameStart
	at.phrase = isPhrase(name)
	at.joined = strings.ContainsAny(name, "_-.")
	at.pass = strings.EqualFold(name, "pass")
	last := name[strings.LastIndexAny(name, "-.")+1:]
	tight := !at.colon && !at.spaced && !at.code
	at.upper = tight && !strings.ContainsFunc(last, unicode.IsLower)
	at.env = at.upper || tight && sc.lineStart(nameStart)
	at.flag = at.flag || tight && name[0] == '-' && sc.back(nameStart-1) != ']' // --password=value; the bracket may be a marker's
	switch at.kind {
	case kindAuth:
		p = sc.skipScheme(&at, name, p)
	case kindCookie:
		sc.cookies(p)
		return
	case kindNone, kindPassword, kindSecret, kindToken, kindKey:
	}
	sc.value(&at, p)
}

func isPhrase(name string) bool { return endsIn(name, "phrase") }

func endsIn(name, end string) bool {
	return len(name) >= len(end) && strings.EqualFold(name[len(name)-len(end):], end)
}

// wordsBefore returns where the two words before p begin.
func (sc *scan) wordsBefore(p int) int {
	for range 2 {
		q := p - 1
		if sc.back(q) != ' ' {
			break
		}
		for p-q < maxName && isNameByte(sc.back(q-1)) {
			q--
		}
		p = q
	}
	return p
}

func isNameByte(c byte) bool { return word[c] || c == '-' || c == '.' }

// mayFollowName is a quick way out for the many words that are no names.
var mayFollowName = classOf("=:\"'`\\ \t]>%?,\n\r")

// nameStart returns where the name begins that p is in. Two hyphens begin one.
func (sc *scan) nameStart(p int) int {
	for start := p; start-p < maxName && isNameByte(sc.back(p-1)); p-- {
		if sc.back(p) == '-' && sc.back(p-1) == '-' {
			return p - 1
		}
	}
	return p
}

// nameEnd returns where the name ends that p is in. A dot or hyphen belongs to
// it only before a letter or digit.
func (sc *scan) nameEnd(p int) int {
	for start := p; p-start < maxName; p++ {
		c := sc.at(p)
		if !word[c] && (c != '-' && c != '.' || !alnum[sc.at(p+1)]) {
			break
		}
	}
	return p
}

// blank skips spaces, tabs and, if lines is set, line ends.
func (sc *scan) blank(p int, lines bool) int {
	for start := p; p-start < maxBlank; p++ {
		if c := sc.at(p); c != ' ' && c != '\t' && (!lines || c != '\n' && c != '\r') {
			break
		}
	}
	return p
}

// quote reads a quotation mark with the backslashes before it. depth is how
// many layers of JSON strings it is in: 0 for ", 1 for \", 2 for \\\".
func (sc *scan) quote(p int) (mark byte, depth, end int) {
	start := p
	for sc.at(p) == '\\' && p-start < 15 {
		p++
	}
	switch c := sc.at(p); c {
	case '"', '\'', '`':
		return c, quoteDepth(p - start), p + 1
	}
	return 0, 0, start
}

// quoteDepth is the depth of a quotation mark after n backslashes: each layer
// of encoding doubles those there were and adds one for the mark.
func quoteDepth(n int) int {
	depth := 0
	for ; n%2 == 1; n /= 2 {
		depth++
	}
	return depth
}

// sign reads what stands between a name and its value and returns where the
// value begins.
func (sc *scan) sign(at *place, nameStart, p int) (int, bool) {
	nameEnd := p
	keyMark, keyDepth, p := sc.quote(p)
	if sc.at(p) == ']' { // config["password"] = …
		p++
	}
	q := sc.blank(p, keyMark != 0)
	at.spaced = q > p
	switch sc.at(q) {
	case ':':
		at.colon = true
		q++
		if sc.at(q) == ':' {
			return 0, false
		}
		if sc.at(q) == '=' { // :=
			at.colon, at.code = false, true
			q++
		}
	case '=':
		for n := 0; n < 3 && sc.at(q) == '='; n++ {
			at.code, at.compared = n > 0, n > 0 // ==
			q++
		}
		if sc.at(q) == '>' { // =>
			at.code = true
			q++
		}
	case '?': // name?: and NAME ?=
		if c := sc.at(q + 1); c != ':' && c != '=' {
			return 0, false
		}
		at.colon, at.code = sc.at(q+1) == ':', sc.at(q+1) == ':'
		q += 2
	case '%': // an escaped URL
		if !sc.hasPrefix(q, "%3D") && !sc.hasPrefix(q, "%3A") {
			return 0, false
		}
		return q + 3, true
	case '>':
		at.xml = q == nameEnd && sc.back(nameStart-1) == '<'
		return q + 1, at.xml
	case ',', '\n', '\r':
		if sc.at(q) == ',' && keyMark != 0 && sc.back(nameStart-2) == '(' && word[sc.back(nameStart-3)] { // Set("X-Api-Key", "…")
			at.call = true
			q = sc.blank(q+1, false)
			_, depth, end := sc.quote(q)
			return q, end > q && depth == keyDepth
		}
		return sc.namedValue(at, q, keyMark, keyDepth)
	default:
		if keyMark != 0 && sc.hasPrefix(q, "value=") { // <add key="password" value="…"/>
			q += len("value=")
			_, depth, end := sc.quote(q)
			return q, end > q && depth == keyDepth
		}
		if keyMark != 0 || q == p {
			return 0, false
		}
		return sc.spaceSign(at, nameStart, nameEnd, q)
	}
	v := sc.blank(q, keyMark != 0)
	at.spaced = at.spaced || v > q
	if sc.at(v) == '|' || sc.at(v) == '>' { // a block of YAML
		if b := sc.yamlBlock(v + 1); b > 0 {
			return b, true
		}
	}
	if keyMark == 0 {
		return v, true
	}
	// A name in quotation marks has its value in them too, in the same layer;
	// anything else would be a number or code.
	_, depth, end := sc.quote(v)
	return v, end > v && depth == keyDepth
}

// spaceSign is for names with only a space or a word between them and their
// values.
func (sc *scan) spaceSign(at *place, nameStart, nameEnd, q int) (int, bool) {
	switch {
	case sc.back(nameStart) == '-' && sc.back(nameStart+1) == '-':
		at.flag = true
		return q, sc.at(q) != '-'
	case sc.hasPrefix(q, "is ") || sc.hasPrefix(q, "is: ") || sc.hasPrefix(q, "was "):
		at.prose = true
		for sc.at(q) != ' ' {
			q++
		}
		return sc.blank(q, false), true
	case sc.at(q) == '\'' || sc.at(q) == '"': // SQL, netrc
		return q, strings.EqualFold(sc.s[nameStart:nameEnd], "password")
	}
	// .netrc: login NAME password VALUE
	line := sc.s[max(sc.floor, nameStart-64):nameStart]
	at.flag = sc.s[nameStart:nameEnd] == "password" && strings.Contains(line, "login ")
	at.loose = !at.flag
	return q, true
}

// namedValue is for lists of names and values, as in container definitions:
// "name": "DB_PASSWORD", "value": "…", or the same in YAML.
func (sc *scan) namedValue(at *place, q int, keyMark byte, keyDepth int) (int, bool) {
	if sc.at(q) == ',' {
		if keyMark == 0 {
			return 0, false
		}
		q++
	}
	q = sc.blank(q, true)
	mark, depth, q := sc.quote(q)
	if mark != 0 && (mark != keyMark || depth != keyDepth) {
		return 0, false
	}
	if !sc.hasPrefix(q, "value") && !sc.hasPrefix(q, "Value") {
		return 0, false
	}
	q += len("value")
	end, endDepth, q := sc.quote(q)
	if end != mark || endDepth != depth {
		return 0, false
	}
	q = sc.blank(q, false)
	if sc.at(q) != ':' {
		return 0, false
	}
	at.colon = true
	v := sc.blank(q+1, mark != 0)
	if mark == 0 {
		return v, true
	}
	_, depth, end2 := sc.quote(v)
	return v, end2 > v && depth == keyDepth
}

// yamlBlock returns where the text of a block scalar begins, or 0. p is behind
// the sign on its first line.
func (sc *scan) yamlBlock(p int) int {
	if c := sc.at(p); c == '-' || c == '+' {
		p++
	}
	if sc.at(p) == '\r' {
		p++
	}
	if sc.at(p) != '\n' {
		return 0
	}
	q := sc.blank(p+1, false)
	if q == p+1 {
		return 0
	}
	return q
}

// lineStart reports whether a name is the first thing on its line, but for
// export and the like.
func (sc *scan) lineStart(p int) bool {
	q := p
	for p-q < 8 && sc.back(q-1) == ' ' {
		q--
	}
	switch sc.back(q - 1) {
	case '\n', 0:
		return true
	case 't': // export, set
		return p > q
	case 'n': // \n in JSON
		return sc.back(q-2) == '\\'
	}
	return false
}
