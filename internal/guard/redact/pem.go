package redact

import "strings"

var base64Set = classOf("0-9A-Za-z+/=")

// block follows the body of a private key, which may be of any length, from
// its header on. It takes one line at a time: a line is part of the key if it
// is long enough base64, or if the footer or the end of the text follows it.
// Lines may be numbered, quoted, escaped as in JSON, or prefixed as in a diff.
// Header and footer stay, so that a reader sees that a key was there.
type block struct {
	active  bool
	started bool // a line has been seen
	origin  int  // where the header began
	at      int  // decided up to here
}

// The first line must be longer or hold more than letters, because in source
// code an identifier may follow a header.
const (
	bodyLine  = 16
	plainLine = 40
	maxGap    = 96
)

// privateKey matches the header of a private key.
type privateKey struct{}

func (privateKey) match(sc *scan, start, end int) {
	p := end
	for p-end < 48 && (alnum[sc.at(p)] || sc.at(p) == ' ') {
		p++
	}
	if sc.at(p) != '-' || !strings.Contains(sc.s[end:p], "PRIVATE KEY") {
		return
	}
	for sc.at(p) == '-' && p-end < 64 {
		p++
	}
	sc.follow(start, p)
}

// puttyKey matches the line before the private part of a PuTTY key file.
type puttyKey struct{}

func (puttyKey) match(sc *scan, start, end int) {
	p := end
	for p-end < 8 && (sc.at(p) == ' ' || '0' <= sc.at(p) && sc.at(p) <= '9') {
		p++
	}
	sc.follow(start, p)
}

// follow begins a block at p. The header itself is decided, whatever comes of
// the body.
func (sc *scan) follow(start, p int) {
	if sc.short {
		return
	}
	sc.block = block{active: true, origin: start, at: p}
	sc.block.advance(sc)
	sc.short = false
}

// advance takes as many lines as can be decided.
func (b *block) advance(sc *scan) {
	for b.active {
		if b.started {
			for b.at < len(sc.s) && base64Set[sc.s[b.at]] {
				b.at++
			}
		}
		sc.short = false
		from, to, joined, ok := b.line(sc)
		if sc.short {
			sc.short = false
			return
		}
		if !ok {
			b.active = false
			return
		}
		// A line that is joined to the one before it needs no marker of its
		// own.
		sc.spans = append(sc.spans, span{from: from, to: to, origin: b.origin, tail: base64Set, marked: joined})
		sc.grow(sc.spans[len(sc.spans)-1:])
		b.started = true
		b.at = sc.spans[len(sc.spans)-1].to
	}
}

// line returns the next line of the key without its end. It is joined to the
// one before, and the gap between them hidden too, unless a quotation mark
// stands between them: they may then be two strings of a JSON text.
func (b *block) line(sc *scan) (from, to int, joined, ok bool) {
	p, quoted := gap(sc, b.at)
	for headers := 0; !b.started && headers < 6; headers++ {
		q, is := pemHeader(sc, p)
		if !is {
			break
		}
		p, quoted = gap(sc, q)
	}
	n, letters := base64Run(sc, p)
	if number := lineNumber(sc, p, n); number > 0 {
		p, _ = gap(sc, p+number)
		n, letters = base64Run(sc, p)
	}
	switch {
	case n >= plainLine, n >= bodyLine && (b.started || !letters):
		ok = true
	case n > 0 && b.started:
		q, _ := gap(sc, p+n)
		ok = sc.hasPrefix(q, "-----END") || sc.hasPrefix(q, "---- END") || sc.final && q == len(sc.s)
	}
	if !ok {
		return b.dressed(sc)
	}
	joined = b.started && !quoted
	from = p
	if joined {
		from = b.at
	}
	return from, p + n, joined, ok
}

// dressed finds the next line of a key behind anything else, such as the mark
// of a comment, a command or an entity: a long run that looks generated, or
// the longest one before a footer close by.
func (b *block) dressed(sc *scan) (from, to int, joined, ok bool) {
	run := 0
	for p := b.at; p-b.at < maxGap+plainLine; p++ {
		c := sc.at(p)
		if base64Set[c] {
			if run++; run >= 4 && run > to-from {
				from, to = p+1-run, p+1
			}
			if run == plainLine && looksEncoded(sc.s[from:to]) {
				return from, to, false, true
			}
			continue
		}
		run = 0
		switch c {
		case '\\': // an escape must stay whole
			for sc.at(p+1) == '\\' {
				p++
			}
			if p++; sc.at(p) == 'u' {
				p += 4
			}
		case '[':
			if sc.hasPrefix(p, Marker) { // from here on it has been looked at before
				return 0, 0, false, false
			}
		case '-':
			if b.started && to > 0 && (sc.hasPrefix(p, "-----END") || sc.hasPrefix(p, "---- END")) {
				return from, to, false, true
			}
		}
	}
	return 0, 0, false, false
}

// gap skips what may stand between two lines of a key.
func gap(sc *scan, p int) (end int, quoted bool) {
	for start := p; p-start < maxGap; {
		switch c := sc.at(p); c {
		case ' ', '\t', '\r', '\n', '|', '>':
			p++
		case '"', '\'', '`', ',':
			quoted = true
			p++
		case '+':
			// Glue between two literals; in base64 it has neighbours.
			if base64Set[sc.at(p+1)] {
				return p, quoted
			}
			p++
		case '-':
			if !base64Set[sc.at(p+1)] {
				return p, quoted
			}
			p++
		case '\\':
			for sc.at(p) == '\\' && p-start < maxGap {
				p++
			}
			switch sc.at(p) {
			case 'n', 'r', 't':
				p++
			default:
				return start, quoted // some other escape; not a gap
			}
		default:
			return p, quoted
		}
	}
	return p, quoted
}

// base64Run counts base64 characters at p, up to plainLine, and tells whether
// they are letters alone.
func base64Run(sc *scan, p int) (n int, letters bool) {
	letters = true
	for n < plainLine && base64Set[sc.at(p+n)] {
		c := sc.at(p+n) | 0x20
		letters = letters && 'a' <= c && c <= 'z'
		n++
	}
	return n, letters
}

// lineNumber returns the length of a line number with what sets it off, if
// the run of n characters at p is one.
func lineNumber(sc *scan, p, n int) int {
	if n == 0 || n > 6 || strings.Trim(sc.s[p:p+n], "0123456789") != "" {
		return 0
	}
	switch sc.at(p + n) {
	case '\t', ' ', ':', '.':
		return n + 1
	case 0xE2: // an arrow or a rule
		if sc.at(p+n+2) != 0 {
			return n + 3
		}
	}
	return 0
}

var pemHeaders = []string{"Proc-Type: ", "DEK-Info: ", "Version: ", "Comment: ", "Charset: ", "Hash: ", "MessageID: ", "Subject: "}

// pemHeader skips a line like "Proc-Type: 4,ENCRYPTED".
func pemHeader(sc *scan, p int) (end int, ok bool) {
	for _, h := range pemHeaders {
		if !sc.hasPrefix(p, h) {
			continue
		}
		end = p + len(h)
		for end-p < 128 {
			if c := sc.at(end); c == '\n' || c == '\\' || c == '"' || c == 0 {
				break
			}
			end++
		}
		return end, true
	}
	return p, false
}
