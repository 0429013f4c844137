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

// choose picks the rule for a plan. Starting whatever is ready, longest
// expected path first, is nearly always the best that can be done without
// knowing how long tasks take; but with few places it can, in rare graphs,
// end later than going wave by wave would (Graham's anomalies). Where the
// expected times say so the cautious rule is used, which never does.
func choose(g *graph, limit int) chooser {
	weight := func(i int) int64 { return g.plan.Tasks[i].EstimatedComplexity.weight() }
	if predict(g, limit, &eager{g: g}, weight) <= predict(g, limit, &byWaves{g: g, order: g.inWaves()}, weight) {
		return &eager{g: g}
	}
	return newCautious(g, limit)
}

// predict is when the last task would end.
func predict(g *graph, limit int, c chooser, weight func(int) int64) int64 {
	missing := make([]int, len(g.order))
	for i := range missing {
		if missing[i] = len(g.needs[i]); missing[i] == 0 {
			c.ready(i)
		}
	}
	var now int64
	var running endings
	for left := len(missing); left > 0; left-- {
		for len(running) < limit {
			i, ok := c.next()
			if !ok {
				break
			}
			heap.Push(&running, ending{now + weight(i), i})
		}
		e, ok := heap.Pop(&running).(ending)
		if !ok {
			return now
		}
		now = e.at
		c.ended(e.task)
		for _, d := range g.dependents[e.task] {
			if missing[d]--; missing[d] == 0 {
				c.ready(d)
			}
		}
	}
	return now
}

type ending struct {
	at   int64
	task int
}

type endings []ending

func (h endings) Len() int { return len(h) }
func (h endings) Less(a, b int) bool {
	return h[a].at < h[b].at || h[a].at == h[b].at && h[a].task < h[b].task
}
func (h endings) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *endings) Push(x any) {
	if e, ok := x.(ending); ok {
		*h = append(*h, e)
	}
}
func (h *endings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
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

// byWaves goes wave by wave, with a barrier after each: what the others are
// compared with.
type byWaves struct {
	g     *graph
	order []int
	at    int // in order
	over  int // tasks of the present wave and before that have ended
}

func (b *byWaves) ready(int) {}
func (b *byWaves) ended(int) { b.over++ }
func (b *byWaves) next() (int, bool) {
	if b.at == len(b.order) {
		return 0, false
	}
	i := b.order[b.at]
	if b.at > 0 && b.g.wave[i] != b.g.wave[b.order[b.at-1]] && b.over < b.at {
		return 0, false
	}
	b.at++
	return i, true
}

// cautious starts, of the first tasks in the order of waves that have not
// ended, as many as there are places, those that are ready. By induction along
// that order each of them starts no later than it would wave by wave, however
// long tasks take and whichever fail: whatever could take its place comes
// before it in the same order.
type cautious struct {
	order       []int
	limit       int
	head        int // everything before has ended
	isReady     []bool
	over, begun []bool
}

func newCautious(g *graph, limit int) *cautious {
	n := len(g.order)
	return &cautious{order: g.inWaves(), limit: limit, isReady: make([]bool, n), over: make([]bool, n), begun: make([]bool, n)}
}

func (c *cautious) ready(i int) { c.isReady[i], c.begun[i] = true, false }
func (c *cautious) ended(i int) { c.over[i] = true }
func (c *cautious) next() (int, bool) {
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
