package redact

import (
	"context"
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
	runs  []classRun
}

// classRun is a part of the text whose bytes are all of one class.
type classRun struct {
	set      *class
	from, to int
}

// reach returns where the run of set ends that begins at p, at most limit
// bytes on. No byte is read twice: the tokens of a text that repeats a prefix
// overlap, and each would otherwise read the bytes of the one before it again.
func (t *text) reach(set *class, p, limit int) int {
	i := 0
	for i < len(t.runs) && t.runs[i].set != set {
		i++
	}
	if i == len(t.runs) {
		t.runs = append(t.runs, classRun{set, p, p})
	}
	known := &t.runs[i]
	if p > known.to {
		known.from, known.to = p, p
	}
	most := len(t.s)
	if limit < most-p {
		most = p + limit
	}
	end := p
	for end < most && set[t.s[end]] {
		if end++; end >= known.from && end < known.to {
			end = known.to
		}
	}
	if end >= known.from {
		known.from, known.to = min(known.from, p), max(known.to, end)
	}
	return min(end, most)
}

// stretch is reach for matchers: it marks the text as too short if the run may
// go on past its end.
func (t *text) stretch(set *class, p, limit int) int {
	end := t.reach(set, p, limit)
	if end-p < limit {
		t.at(end)
	}
	return end
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
// Everything before done is decided; spans holds the secrets found in it, and
// may reach beyond done.
//
// A scan that is run again and again while its text grows finds the same
// spans as one that sees the whole text at once: a matcher that had to look
// past the end is asked again from its keyword on, and none may look back
// further than lookBehind or forward without bound.
type scan struct {
	text
	ctx   context.Context // nil for a stream, whose pieces are short
	find  func(*scan)
	done  int
	spans []span
	cut   int // while running: undecided from here
	block block

	// What matchers have looked at, so that they do not look at it again and
	// again where keywords stand close together.
	judged []judgedValue
	room   struct { // for most texts enough
		runs   [8]classRun
		judged [24]judgedValue
	}
	name      [2]int // the name that was asked about last
	cookiesTo int
	names     [4]namedKind
}

// checkEvery is how many bytes are scanned between two looks at the context.
const checkEvery = 32 << 10

// abandoned reports that the caller has given up.
func (sc *scan) abandoned() bool { return sc.ctx != nil && sc.ctx.Err() != nil }

// run decides as much as can be decided.
func (sc *scan) run() {
	sc.forget()
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
	if len(sc.judged) > 2*keptValues {
		sc.judged = append(sc.judged[:0], sc.judged[len(sc.judged)-keptValues:]...)
	}
	before, values := len(sc.spans), len(sc.judged)
	m.match(sc, start, end)
	if sc.short {
		sc.spans, sc.judged = sc.spans[:before], sc.judged[:values]
		sc.cut = min(sc.cut, start)
		return
	}
	for i := range sc.judged[values:] {
		sc.judged[values+i].origin = start
	}
	for i := range sc.spans[before:] {
		sc.spans[before+i].origin = start
	}
	sc.grow(sc.spans[before:])
	if before > 0 && len(sc.spans) == before+1 && sc.spans[before-1].covers(sc.spans[before]) {
		sc.spans = sc.spans[:before]
	}
}

// covers reports that t hides nothing that s does not, now and as they grow.
func (s span) covers(t span) bool {
	return s.from <= t.from && t.to <= s.to && (t.tail == nil || t.tail == s.tail)
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
		s.to = sc.reach(s.tail, s.to, len(sc.s))
		if s.to < len(sc.s) || sc.final {
			s.tail = nil
		}
	}
}

// render returns the text from emitted to done with the spans replaced, and
// how many markers it wrote. With lines there is one on every line of a secret.
// Spans that reach beyond done stay, marked.
func (sc *scan) render(emitted int, lines bool) (string, int) {
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
		end := min(groupEnd, sc.done)
		if hidden := max(at, s.from); lines && hidden < end {
			b.WriteString(strings.Repeat("\n"+Marker, strings.Count(sc.s[hidden:end], "\n")))
		}
		at = end
	}
	b.WriteString(sc.s[at:sc.done])
	sc.spans = slices.DeleteFunc(sc.spans, func(s span) bool { return s.to <= sc.done && s.tail == nil })
	sc.join()
	return b.String(), hits
}

// join makes one span of those that reach beyond done with the same tail, so
// that a stream has few to carry along.
func (sc *scan) join() {
	kept := sc.spans[:0]
	for _, s := range sc.spans {
		if s.from < sc.done {
			s.from, s.marked = sc.done, true
			same := slices.IndexFunc(kept, func(k span) bool { return k.marked && k.from == s.from && k.tail == s.tail })
			if same >= 0 {
				kept[same].to = max(kept[same].to, s.to)
				continue
			}
		}
		kept = append(kept, s)
	}
	sc.spans = kept
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
