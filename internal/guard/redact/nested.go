package redact

import "slices"

// maxNested is how many values may lie in one another. In pwd=pwd=pwd=… every
// value is the rest of the text, and to judge each would take time with the
// square of its length. From this depth on a value is hidden unseen.
const maxNested = 4

// keptValues is how many values a scan remembers, and nearValues how many of
// them it looks through: as many as may begin in the length of one.
const (
	keptValues = 256
	nearValues = 32
)

// judgedValue is a value that was judged, secret or not.
type judgedValue struct {
	origin   int // where the keyword began that led to it
	from, to int
}

// judge remembers that the value at [from, to) was judged. Several keywords may
// lead to one value, which counts once.
func (sc *scan) judge(from, to int) {
	for i := len(sc.judged) - 1; i >= max(0, len(sc.judged)-nearValues); i-- {
		if sc.judged[i].from == from {
			return
		}
	}
	sc.judged = append(sc.judged, judgedValue{from: from, to: to})
}

// nested reports whether p lies in so many values that one more is not judged.
func (sc *scan) nested(p int) bool {
	n := 0
	for i := len(sc.judged) - 1; i >= max(0, len(sc.judged)-nearValues); i-- {
		if v := sc.judged[i]; v.from < p && p < v.to {
			n++
		}
	}
	return n >= maxNested
}

// forget drops the notes about the undecided part of the text, which is scanned
// again.
func (sc *scan) forget() {
	if sc.runs == nil {
		sc.runs, sc.judged = sc.room.runs[:0], sc.room.judged[:0]
	}
	sc.runs, sc.name, sc.cookiesTo = sc.runs[:0], [2]int{}, 0
	sc.judged = slices.DeleteFunc(sc.judged, func(v judgedValue) bool { return v.origin >= sc.done || v.to <= sc.done })
}

// hide adds the bare value at from without judging it.
func (sc *scan) hide(from int) {
	p := from
	for range 8 {
		p = sc.stretch(quotedTail, p, max(0, from+maxValue-p))
		if sc.at(p) != '\\' {
			break
		}
		n, ends := sc.escape(p)
		if ends {
			break
		}
		p += n
	}
	if !sc.short {
		sc.add(from, p, quotedTail)
	}
}
