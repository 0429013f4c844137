package orchestrate

import "container/heap"

// predict is when the last task would end if each took its weight.
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

// byWaves goes wave by wave, with a barrier after each.
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
