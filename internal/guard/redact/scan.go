package redact

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// lookBehind is how far before its keyword a matcher may look. Streams keep
// that much of what they have let out.
const lookBehind = 128

// text is what matchers read: the whole of a string, or as much of a stream
// as has come.
type text struct {
	s     string
	final bool // nothing comes after s
	short bool // somebody wanted to look past the end of s, and s is not final
	floor int  // matchers may not look before it
}

// at returns the byte at i, or 0 past the end. Which bytes a matcher asked
// for decides whether its answer can still change, so it must go through at
// for everything that may lie past the end of the keyword.
func (t *text) at(i int) byte {
	if i < len(t.s) {
		return t.s[i]
	}
	t.short = t.short || !t.final
	return 0
}

// back returns the byte at i, or 0 if that is before the text or too far back.
func (t *text) back(i int) byte {
	if i < t.floor {
		return 0
	}
	return t.s[i]
}

func (t *text) hasPrefix(i int, prefix string) bool {
	for k := range len(prefix) {
		if t.at(i+k) != prefix[k] {
			return false
		}
	}
	return true
}

// span is a piece of the text to be replaced.
type span struct {
	from, to int
	origin   int    // where the keyword began that led to it
	tail     *class // set while the span may grow by bytes of this class
	marked   bool   // its marker has been let out already
}

// scan applies one stage of redaction to a text that may still be growing.
// Everything before done is decided; spans holds what was found in it and
// reaches to done or beyond.
//
// A scan that is run again and again while its text grows finds the same
// spans as one that sees the whole text at once: a matcher that had to look
// past the end is asked again from its keyword on, and none may look back
// further than lookBehind or forward without bound.
type scan struct {
	text
	find  func(*scan)
	done  int
	spans []span
	cut   int // while running: undecided from here
	block block
}

// run decides as much as can be decided.
func (sc *scan) run() {
	sc.cut = len(sc.s)
	sc.grow(sc.spans)
	sc.short = false
	if sc.block.active {
		sc.block.advance(sc)
	}
	if sc.block.active {
		sc.cut = min(sc.cut, sc.block.at)
	}
	sc.find(sc)
	if sc.block.active && sc.block.origin >= sc.cut {
		sc.block = block{}
	}
	if sc.block.active {
		sc.cut = min(sc.cut, sc.block.at)
	}
	if !sc.final {
		sc.cut = max(sc.done, wholeRunes(sc.s, sc.cut))
	}
	sc.spans = slices.DeleteFunc(sc.spans, func(s span) bool { return s.origin >= sc.cut })
	sc.done = sc.cut
}

// try asks a matcher about the keyword at [start, end).
func (sc *scan) try(m matcher, start, end int) {
	if start >= sc.cut {
		return
	}
	sc.short = false
	sc.floor = max(0, start-lookBehind)
	before := len(sc.spans)
	m.match(sc, start, end)
	if sc.short {
		sc.spans = sc.spans[:before]
		sc.cut = min(sc.cut, start)
		return
	}
	for i := range sc.spans[before:] {
		sc.spans[before+i].origin = start
	}
	sc.grow(sc.spans[before:])
}

// add records a secret. Text in JSON must stay JSON, so an escape that the
// secret seems to begin in is left whole: in `\npm_…` the token is not npm_….
func (sc *scan) add(from, to int, tail *class) {
	slashes := 0
	for sc.back(from-1-slashes) == '\\' {
		slashes++
	}
	if slashes%2 == 1 && from < to {
		if sc.at(from) == 'u' {
			from += 4
		}
		from++
	}
	if from < to {
		sc.spans = append(sc.spans, span{from: from, to: to, tail: tail})
	}
}

// grow lengthens spans that have a tail.
func (sc *scan) grow(spans []span) {
	for i := range spans {
		s := &spans[i]
		if s.tail == nil {
			continue
		}
		for s.to < len(sc.s) && s.tail[sc.s[s.to]] {
			s.to++
		}
		if s.to < len(sc.s) || sc.final {
			s.tail = nil
		}
	}
}

// render returns the text from emitted to done with the spans replaced, and
// how many markers it wrote. Spans that reach beyond done stay, marked.
func (sc *scan) render(emitted int) (string, int) {
	if len(sc.spans) == 0 {
		return sc.s[emitted:sc.done], 0
	}
	slices.SortStableFunc(sc.spans, func(a, b span) int {
		switch {
		case a.from != b.from:
			return a.from - b.from
		case a.marked != b.marked && a.marked:
			return -1
		case a.marked != b.marked:
			return 1
		}
		return a.to - b.to
	})
	var b strings.Builder
	hits, at := 0, emitted
	groupEnd := -1 // of the overlapping spans that one marker stands for
	for _, s := range sc.spans {
		if s.from >= sc.done {
			break
		}
		if s.from >= groupEnd {
			b.WriteString(sc.s[at:s.from])
			if !s.marked {
				b.WriteString(Marker)
				hits++
			}
		}
		groupEnd = max(groupEnd, s.to)
		at = min(groupEnd, sc.done)
	}
	b.WriteString(sc.s[at:sc.done])
	sc.spans = slices.DeleteFunc(sc.spans, func(s span) bool { return s.to <= sc.done && s.tail == nil })
	for i := range sc.spans {
		if s := &sc.spans[i]; s.from < sc.done {
			s.from, s.marked = sc.done, true
		}
	}
	return b.String(), hits
}

// wholeRunes moves end back if it would split a character.
func wholeRunes(s string, end int) int {
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if c := s[end-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[end-back:end]) {
				return end - back
			}
			break
		}
	}
	return end
}
