package redact

import (
	"fmt"
	"regexp/syntax"
)

// class is a set of bytes.
type class [256]bool

// plus returns the union of two classes.
func (c *class) plus(d *class) *class {
	u := *c
	for i, in := range d {
		u[i] = u[i] || in
	}
	return &u
}

func classOf(ranges string) *class {
	c := new(class)
	for i := 0; i < len(ranges); i++ {
		if i+2 < len(ranges) && ranges[i+1] == '-' {
			for b := int(ranges[i]); b <= int(ranges[i+2]); b++ {
				c[b] = true
			}
			i += 2
			continue
		}
		c[ranges[i]] = true
	}
	return c
}

var (
	alnum = classOf("0-9A-Za-z")
	word  = classOf("0-9A-Za-z_")
)

// shape is the form of a token: runs of bytes, each from one class and of a
// given length: a regular expression without alternatives, matched greedily and
// without going back. That has two advantages over package regexp: matching says how far it had to look, which
// streams need, and costs a few nanoseconds.
type shape struct {
	runs []run
	from int // the run at which the secret begins
	// tail is set if the last run has no upper bound. The match is then
	// decided as soon as the run has its minimum, and what follows in tail
	// belongs to the secret whatever its length.
	tail *class
}

type run struct {
	set      *class
	min, max int
}

// compileShape reads a regular expression of concatenated literals, classes
// and their repetitions; a group, if there is one, marks where the secret
// begins. It panics on anything else: shapes are constants of this package.
func compileShape(expr string) shape {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic(err)
	}
	sh := shape{from: -1}
	sh.add(re, 1, 1)
	if sh.from < 0 {
		sh.from = 0
	}
	if last := &sh.runs[len(sh.runs)-1]; last.max < 0 {
		sh.tail = last.set.plus(word)
		last.max = last.min
	}
	for _, r := range sh.runs {
		if r.max < 0 {
			panic("redact: unbounded before the end of a shape: " + expr)
		}
	}
	return sh
}

func (sh *shape) add(re *syntax.Regexp, least, most int) {
	switch re.Op {
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			sh.add(sub, 1, 1)
		}
	case syntax.OpCapture:
		sh.from = len(sh.runs)
		sh.add(re.Sub[0], 1, 1)
	case syntax.OpRepeat:
		sh.add(re.Sub[0], re.Min, re.Max)
	case syntax.OpPlus:
		sh.add(re.Sub[0], 1, -1)
	case syntax.OpQuest:
		sh.add(re.Sub[0], 0, 1)
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			sh.runs = append(sh.runs, run{literalSet(r, re.Flags&syntax.FoldCase != 0), least, most})
		}
	case syntax.OpCharClass:
		set := new(class)
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1] && r < 0x80; r++ {
				set[r] = true
			}
		}
		if set['+'] || set['/'] {
			set['%'] = true // as these appear in URLs
		}
		sh.runs = append(sh.runs, run{set, least, most})
	default:
		panic(fmt.Sprintf("redact: %v in a shape", re))
	}
}

func literalSet(r rune, fold bool) *class {
	set := new(class)
	set[byte(r)] = true
	if fold && 'a' <= r|0x20 && r|0x20 <= 'z' {
		set[byte(r)^0x20] = true
	}
	return set
}

// match returns the secret in the token of this shape that begins at start.
// A token of fixed length must end where a word ends.
func (sh *shape) match(t *text, start int) (from, to int, ok bool) {
	p := start
	for i := range sh.runs {
		r := &sh.runs[i]
		if i == sh.from {
			from = p
		}
		end := p
		if r.max > 8 {
			end = t.stretch(r.set, p, r.max)
		} else {
			for end-p < r.max && r.set[t.at(end)] {
				end++
			}
		}
		if end-p < r.min {
			return 0, 0, false
		}
		p = end
	}
	if sh.tail == nil && word[t.at(p)] {
		return 0, 0, false
	}
	return from, p, true
}
