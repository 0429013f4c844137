package orchestrate

import "slices"

// chooser says which tasks start next. One goroutine uses it.
type chooser interface {
	// ready says that all that a task depends on is done.
	ready(i int)
	// ended says that a task is over, whether it was started or not.
	ended(i int)
	// next returns a task to start while there is a free place, or false.
	next() (int, bool)
}

// inOrder is a chooser. It looks at the first tasks of an order that have not
// ended, as many as its window allows, and starts those of them that are ready.
type inOrder struct {
	order       []int
	window      int
	head        int // everything before has ended
	isReady     []bool
	over, begun []bool
}

// choose picks the rule for a plan. With as many places as the widest wave has
// tasks everything starts the moment that what it depends on is done, and that
// is never slower than going wave by wave. With fewer places it can be: a task
// that was started early may hold the place of one that turns out to take
// long (Graham's anomalies), and how long tasks take is not known. There the
// steady rule is used, which is never slower, unless eagerness is asked for.
func choose(g *graph, limit int, always bool) *inOrder {
	width := make([]int, g.waves+1)
	widest := 0
	for _, w := range g.wave {
		width[w]++
		widest = max(widest, width[w])
	}
	if always || limit >= widest {
		return newEager(g)
	}
	return newSteady(g, limit)
}

// newEager returns a chooser that starts whatever is ready, longest path first.
func newEager(g *graph) *inOrder {
	order := slices.Clone(g.order)
	slices.SortStableFunc(order, g.before)
	return newInOrder(order, len(order))
}

// newSteady returns a chooser with the order of waves and a window of as many
// tasks as there are places. By induction along that order each task starts no
// later than it would wave by wave, however long tasks take and whichever fail:
// all that could hold its place comes before it in that order, and has by then
// ended in both.
func newSteady(g *graph, limit int) *inOrder { return newInOrder(g.inWaves(), limit) }

func newInOrder(order []int, window int) *inOrder {
	n := len(order)
	return &inOrder{order: order, window: window, isReady: make([]bool, n), over: make([]bool, n), begun: make([]bool, n)}
}

func (c *inOrder) ready(i int) { c.isReady[i], c.begun[i] = true, false }
func (c *inOrder) ended(i int) { c.over[i] = true }

func (c *inOrder) next() (int, bool) {
	for c.head < len(c.order) && c.over[c.order[c.head]] {
		c.head++
	}
	seen := 0
	for _, i := range c.order[c.head:] {
		if c.over[i] {
			continue
		}
		if seen++; seen > c.window {
			break
		}
		if c.isReady[i] && !c.begun[i] {
			c.begun[i] = true
			return i, true
		}
	}
	return 0, false
}
