package search

import (
	"runtime"
	"slices"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// collection gathers matches file by file. Within a file lines come in order.
// It is not safe for concurrent use.
//
// Matches are kept small until the end, when the hits are made in order and
// once: with many of them the time goes into moving memory.
type collection struct {
	limit, context int
	groups         []group
	count          int
	truncated      bool
	done           bool // nothing more is wanted

	file   string
	fresh  bool // no match in file yet
	slab   []record
	recent []numbered // the last lines of file, as many as context
}

// group are the matches of one file.
type group struct {
	file    string
	records []record
	around  []surroundings // one for each record, if context is wanted
}

type record struct {
	line           string
	number, offset int
}

type surroundings struct{ before, after []string }

type numbered struct {
	number int
	text   string
}

// slabRecords is how many records are allocated at a time.
const slabRecords = 4096

// begin says that the lines that follow are those of file.
func (c *collection) begin(file string) {
	if c.truncated {
		c.done = true // only context was missing, and there is no more
	}
	c.file, c.fresh, c.recent = file, true, c.recent[:0]
}

// match takes a line that holds a match at offset.
func (c *collection) match(number int, line string, offset int) {
	if c.count == c.limit {
		c.truncated = true
		c.surround(number, line)
		return
	}
	var s surroundings
	if c.context > 0 {
		c.surround(number, line)
		for _, r := range c.recent {
			if r.number < number && r.number >= number-c.context {
				s.before = append(s.before, contextLine(r.text))
			}
		}
	}
	if c.fresh {
		c.groups, c.fresh = append(c.groups, group{file: c.file}), false
	}
	g := &c.groups[len(c.groups)-1]
	g.records = c.add(g.records, record{line: line, number: number, offset: offset})
	if c.context > 0 {
		g.around = append(g.around, s)
	}
	c.count++
}

// add appends to the records of the present file, which end where the slab
// does, and moves them to a new one when it is full.
func (c *collection) add(records []record, r record) []record {
	if len(c.slab) == cap(c.slab) {
		c.slab = append(make([]record, 0, max(min(slabRecords, c.limit), 2*len(records)+1)), records...)
	}
	c.slab = append(c.slab, r)
	return c.slab[len(c.slab)-len(records)-1:]
}

// surround takes a line that is shown with the hits before and after it.
func (c *collection) surround(number int, line string) {
	wanted := false
	if !c.fresh && c.context > 0 {
		g := &c.groups[len(c.groups)-1]
		for i := len(g.records) - 1; i >= 0 && g.records[i].number >= number-c.context; i-- {
			g.around[i].after = append(g.around[i].after, contextLine(line))
			wanted = true
		}
	}
	if c.truncated {
		c.done = !wanted
		return
	}
	if c.context > 0 {
		if len(c.recent) > c.context {
			c.recent = slices.Delete(c.recent, 0, 1)
		}
		c.recent = append(c.recent, numbered{number, line})
	}
}

// merge adds what was found in one file as far as the limit allows.
func (c *collection) merge(own *collection) {
	if c.done {
		return
	}
	room := c.limit - c.count
	if own.truncated || own.count > room {
		c.truncated, c.done = true, true
	}
	if room == 0 {
		return
	}
	g := own.groups[0]
	g.records = g.records[:min(room, len(g.records))]
	c.groups = append(c.groups, g)
	c.count += len(g.records)
}

// sorted returns all hits, made by several goroutines if there are many.
func (c *collection) sorted() []Hit {
	order := make([]int, len(c.groups)) // cheaper to move than groups
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return files.Compare(c.groups[a].file, c.groups[b].file) })
	hits := make([]Hit, c.count)
	workers := 1
	if c.count > 10*manyHits {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for at, rest := 0, hits; at < len(order); {
		from, taken := at, 0
		for ; at < len(order) && taken*workers < c.count; at++ {
			taken += len(c.groups[order[at]].records)
		}
		part, groups := rest[:taken], order[from:at]
		rest = rest[taken:]
		wg.Go(func() { c.fill(part, groups) })
	}
	wg.Wait()
	return hits
}

// fill makes the hits of the given groups.
func (c *collection) fill(hits []Hit, groups []int) {
	n := 0
	for _, i := range groups {
		g := &c.groups[i]
		for j, r := range g.records {
			h := &hits[n]
			h.set(g.file, r.number, r.line, r.offset)
			if g.around != nil {
				h.Before, h.After = g.around[j].before, g.around[j].after
			}
			n++
		}
	}
}
