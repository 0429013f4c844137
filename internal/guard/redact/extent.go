package redact

import "strings"

var (
	bareStop    = classOf(" \t\r\n\"'`<>\x00")
	bareDelim   = classOf(",;)]}&|")
	bareTail    = complement(bareStop.plus(bareDelim).plus(classOf("\\")))
	quotedTail  = complement(bareStop.plus(classOf("\\")))
	maxSlashes  = 32
	maxPhrase   = 100
	spaced      = classOf(" 0-9A-Za-z'-")
	closingPart = classOf(",]}:;)\x00 \t\r\n") // what follows the closing mark of a string
)

func complement(c *class) *class {
	n := new(class)
	for i := range c {
		n[i] = !c[i]
	}
	return n
}

// value judges the value that begins at p and adds it if it is a secret.
func (sc *scan) value(at *place, p int) {
	mark, depth, from := sc.quote(p)
	var to int
	var tail *class
	switch {
	case mark != 0:
		// In JSON a mark after "password: may also be the end of the string.
		if at.quoted = true; closingPart[sc.at(from)] {
			return
		}
		end, whole, ok := sc.quotedEnd(from, mark, depth)
		if !ok {
			return
		}
		if at.call && sc.at(end+1<<depth) != ')' {
			return
		}
		if to = end; !whole {
			tail = quotedTail
		}
	case sc.nested(from):
		sc.hide(from)
		return
	default:
		end, whole := sc.bareEnd(at, from)
		if to = end; !whole {
			tail = bareTail
		} else {
			to = from + len(strings.TrimRight(sc.s[from:to], trimmed(at)))
		}
		if q := sc.typed(at, from, to); q > 0 {
			sc.value(at, q)
			return
		}
		at.next = sc.at(to)
		at.literal = sc.literal(at, sc.s[from:to], to)
		if end := sc.words(at, from); end > to && sc.literal(at, sc.s[from:end], end) && phrase(at, sc.s[from:end]) {
			to, at.literal = end, true
		}
		if at.xml && !sc.hasPrefix(end, "</") {
			return
		}
	}
	if from < to {
		sc.judge(from, to)
	}
	if v := sc.s[from:to]; !sc.short && v != "" && !endsInMarker(v) && secret(at, v) {
		sc.add(from, to, tail)
	}
}

// typed returns where the string begins that follows the type at [from, to), as
// in password: string = "…", or 0.
func (sc *scan) typed(at *place, from, to int) int {
	if !at.colon || !identifier(sc.s[from:to]) {
		return 0
	}
	q := sc.blank(to, false)
	if sc.at(q) != '=' {
		return 0
	}
	q = sc.blank(q+1, false)
	if _, _, end := sc.quote(q); end == q {
		return 0
	}
	return q
}

// words returns the end of the words of a passphrase that is the rest of its
// line, or 0.
func (sc *scan) words(at *place, from int) int {
	if !at.phrase || at.code || at.prose || at.loose || at.flag {
		return 0
	}
	end := sc.stretch(spaced, from, maxPhrase)
	if end-from == maxPhrase || !sc.lineEnds(end) {
		return 0
	}
	return from + len(strings.TrimRight(sc.s[from:end], " "))
}

func trimmed(at *place) string {
	if at.env {
		return ";,)}]"
	}
	return ".,;:"
}

// endsInMarker reports whether a marker stands in v or begins at its end. What
// has been judged once must not be judged again without its secret part.
func endsInMarker(v string) bool {
	if strings.Contains(v, Marker[:len(Marker)-1]) {
		return true
	}
	for n := 2; n < len(Marker) && n <= len(v); n++ {
		if v[len(v)-n:] == Marker[:n] {
			return true
		}
	}
	return false
}

// quotedEnd finds the end of a value in quotation marks. The value ends at
// the same mark in the same layer, and in any case where a JSON string around
// it would end. ok is false if it does not end on its line, whole is false if
// it is too long to be judged whole.
func (sc *scan) quotedEnd(from int, mark byte, depth int) (end int, whole, ok bool) {
	p := from
	for p-from < maxValue {
		slashes := 0
		for sc.at(p+slashes) == '\\' {
			if slashes++; slashes > maxSlashes {
				return 0, false, false
			}
		}
		switch sc.at(p + slashes) {
		case '\n':
			return 0, false, false
		case 0:
			return p, true, true
		case '"', mark:
			d := quoteDepth(slashes)
			if d <= depth {
				return p + slashes - (1<<d - 1), true, true
			}
		}
		p += slashes + 1
	}
	return p, false, true
}

// bareEnd finds the end of a value without quotation marks. In the text of a
// JSON string an escaped line end, quotation mark or ampersand ends it; a
// backslash before anything else belongs to it.
func (sc *scan) bareEnd(at *place, from int) (end int, whole bool) {
	p := from
	for p-from < maxValue {
		p = sc.stretch(bareTail, p, from+maxValue-p)
		if p-from >= maxValue {
			break
		}
		c := sc.at(p)
		switch {
		case bareStop[c]:
			return p, true
		case bareDelim[c] && !at.prose && (!at.env || sc.pairFollows(p+1)):
			return p, true
		case c == '\\':
			n, ends := sc.escape(p)
			if ends {
				return p, true
			}
			p += n
		default:
			p++
		}
	}
	return p, false
}

// escape reads the backslashes at p and what they escape.
func (sc *scan) escape(p int) (length int, ends bool) {
	n := 0
	for sc.at(p+n) == '\\' {
		if n++; n > maxSlashes {
			return 0, true
		}
	}
	switch c := sc.at(p + n); c {
	case 'n', 'r', 't', '"', '\'', '`', 0, ' ', '\n', '\r':
		return 0, true
	case 'u':
		for _, mark := range []string{"0026", "0022", "0027", "000a", "000d", "0009", "0020", "003c", "003e"} {
			if sc.hasPrefix(p+n+1, mark) {
				return 0, true
			}
		}
		if n%2 == 1 {
			digits := 0
			for digits < 4 && isHex(sc.at(p+n+1+digits)) {
				digits++
			}
			return n + 1 + digits, false
		}
	}
	if n%2 == 1 {
		return n + 1, false
	}
	return n, false
}

// pairFollows reports whether another name=value begins at p, or nothing.
func (sc *scan) pairFollows(p int) bool {
	q := sc.blank(p, false)
	start := q
	for q-start < maxName && isNameByte(sc.at(q)) {
		q++
	}
	return q > start && sc.at(q) == '='
}
