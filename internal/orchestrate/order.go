package orchestrate

import (
	"container/heap"
)

// chooser says which tasks start next. One goroutine uses it.
type chooser interface {
	// ready says that all that a task depends on is done.
	ready(i int)
	// ended says that a task is over, whether it was started or not.
	ended(i int)
	// next returns a task to start while there is a free place, or false.
	next() (int, bool)
}

// choose picks the rule for a plan. With as many places as the widest wave has
// tasks everything starts the moment that what it depends on is done, and that
// is never slower than going wave by wave. With fewer places it can be: a task
// that was started early may hold the place of one that turns out to take
// long (Graham's anomalies), and nobody knows how long tasks take. There the
// steady rule is used, which is never slower, unless eagerness is asked for.
func choose(g *graph, limit int, always bool) chooser {
	width := make([]int, g.waves+1)
	widest := 0
	for _, w := range g.wave {
		width[w]++
		widest = max(widest, width[w])
	}
	if always || limit >= widest {
		return &eager{g: g}
	}
	return newSteady(g, limit)
}

// eager starts whatever is ready, longest path first.
type eager struct {
	g    *graph
	heap []int
}

func (e *eager) Len() int           { return len(e.heap) }
func (e *eager) Less(a, b int) bool { return e.g.before(e.heap[a], e.heap[b]) < 0 }
func (e *eager) Swap(a, b int)      { e.heap[a], e.heap[b] = e.heap[b], e.heap[a] }
func (e *eager) Push(x any) {
	if i, ok := x.(int); ok {
		e.heap = append(e.heap, i)
	}
}
func (e *eager) Pop() any {
	last := e.heap[len(e.heap)-1]
	e.heap = e.heap[:len(e.heap)-1]
	return last
}

func (e *eager) ready(i int) { heap.Push(e, i) }
func (e *eager) ended(int)   {}
func (e *eager) next() (int, bool) {
	if len(e.heap) == 0 {
		return 0, false
	}
	i, ok := heap.Pop(e).(int)
	return i, ok
}

// steady looks at the first tasks in the order of waves that have not ended,
// as many as there are places, and starts those of them that are ready. By
// induction along that order each task starts no later than it would wave by
// wave, however long tasks take and whichever fail: all that could hold its
// place comes before it in that order, and has by then ended in both.
type steady struct {
	order       []int
	limit       int
	head        int // everything before has ended
	isReady     []bool
	over, begun []bool
}

func newSteady(g *graph, limit int) *steady {
	n := len(g.order)
	return &steady{order: g.inWaves(), limit: limit, isReady: make([]bool, n), over: make([]bool, n), begun: make([]bool, n)}
}

func (c *steady) ready(i int) { c.isReady[i], c.begun[i] = true, false }
func (c *steady) ended(i int) { c.over[i] = true }
func (c *steady) next() (int, bool) {
	for c.head < len(c.order) && c.over[c.order[c.head]] {
		c.head++
	}
	seen := 0
	for _, i := range c.order[c.head:] {
		if c.over[i] {
			continue
		}
		if seen++; seen > c.limit {
			break
		}
		if c.isReady[i] && !c.begun[i] {
			c.begun[i] = true
			return i, true
		}
	}
	return 0, false
}
