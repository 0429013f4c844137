package search

import "slices"

// collection makes hits of matches, which come file by file and within a file
// in the order of lines, and hands them on when a file is complete or there
// are many. It is not safe for concurrent use.
//
// The hits' memory is used again and again: with hundreds of thousands of them
// the time would go into moving it.
type collection struct {
	limit, context int
	take           Taker
	count          int
	truncated      bool
	done           bool // nothing more is wanted

	file   string
	hits   []Hit      // of file, not handed on yet
	recent []numbered // the last lines of file, as many as context
}

type numbered struct {
	number int
	text   string
}

// batch is how many hits of one file are handed on together.
const batch = 256

// begin says that the lines that follow are those of file.
func (c *collection) begin(file string) {
	c.flush()
	if c.truncated {
		c.done = true // only context was missing, and there is no more
	}
	c.file, c.recent = file, c.recent[:0]
}

// flush hands on what there is.
func (c *collection) flush() {
	if len(c.hits) > 0 && !c.take(c.file, c.hits) {
		c.truncated, c.done = true, true
	}
	c.hits = c.hits[:0]
}

// match takes a line that holds a match at offset.
func (c *collection) match(number int, line string, offset int) {
	if c.count == c.limit {
		c.truncated = true
		c.surround(number, line)
		return
	}
	var before []string
	if c.context > 0 {
		c.surround(number, line)
		for _, r := range c.recent {
			if r.number < number && r.number >= number-c.context {
				before = append(before, contextLine(r.text))
			}
		}
	} else if len(c.hits) == batch {
		c.flush()
		if c.done {
			return
		}
	}
	if len(c.hits) == cap(c.hits) {
		c.hits = slices.Grow(c.hits, batch)
	}
	c.hits = c.hits[:len(c.hits)+1]
	h := &c.hits[len(c.hits)-1]
	h.set(c.file, number, line, offset)
	h.Before, h.After = before, nil
	c.count++
}

// surround takes a line that is shown with the hits before and after it.
func (c *collection) surround(number int, line string) {
	wanted := false
	if c.context > 0 {
		for i := len(c.hits) - 1; i >= 0 && c.hits[i].Line >= number-c.context; i-- {
			c.hits[i].After = append(c.hits[i].After, contextLine(line))
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
