package orchestrate

import (
	"slices"
	"strings"
)

// graph is a plan by position: task i is the i-th of the plan.
type graph struct {
	plan       TaskPlan
	index      map[string]int
	needs      [][]int // what a task depends on, in the order of the plan
	dependents [][]int
	order      []int // topological; among equals the order of the plan
	wave       []int // 1 for tasks without dependencies
	waves      int
	// rank is the expected length of the longest path from the start of a
	// task to the end of the plan.
	rank []int64
}

// newGraph checks a plan and sorts it by Kahn's algorithm.
func newGraph(p TaskPlan) (*graph, error) {
	n := len(p.Tasks)
	switch {
	case n == 0:
		return nil, invalid("the plan has no tasks")
	case n > maxTasks:
		return nil, invalid("the plan has %d tasks; at most %d are possible", n, maxTasks)
	}
	g := &graph{plan: p, index: make(map[string]int, n), needs: make([][]int, n), dependents: make([][]int, n), wave: make([]int, n)}
	for i, t := range p.Tasks {
		if err := t.check(); err != nil {
			return nil, err
		}
		if _, twice := g.index[t.ID]; twice {
			return nil, invalid("two tasks have the id %q", t.ID)
		}
		g.index[t.ID] = i
	}
	if err := g.connect(); err != nil {
		return nil, err
	}
	if err := g.sort(); err != nil {
		return nil, err
	}
	g.rank = g.ranks(func(i int) int64 { return p.Tasks[i].EstimatedComplexity.weight() })
	return g, nil
}

func (g *graph) connect() error {
	for id := range g.plan.Dependencies {
		if _, known := g.index[id]; !known {
			return invalid("dependencies name the task %q, which is not in the plan", id)
		}
	}
	for i, t := range g.plan.Tasks {
		for _, id := range g.plan.Dependencies[t.ID] {
			j, known := g.index[id]
			switch {
			case !known:
				return invalid("task %q depends on %q, which is not in the plan", t.ID, id)
			case j == i:
				return invalid("task %q depends on itself", t.ID)
			}
			g.needs[i] = append(g.needs[i], j)
		}
		slices.Sort(g.needs[i])
		g.needs[i] = slices.Compact(g.needs[i])
		for _, j := range g.needs[i] {
			g.dependents[j] = append(g.dependents[j], i)
		}
	}
	return nil
}

// sort is Kahn's algorithm, a wave at a time.
func (g *graph) sort() error {
	n := len(g.plan.Tasks)
	missing := make([]int, n)
	var now []int
	for i := range n {
		if missing[i] = len(g.needs[i]); missing[i] == 0 {
			now = append(now, i)
		}
	}
	for ; len(now) > 0; g.waves++ {
		var next []int
		for _, i := range now {
			g.wave[i] = g.waves + 1
			g.order = append(g.order, i)
			for _, d := range g.dependents[i] {
				if missing[d]--; missing[d] == 0 {
					next = append(next, d)
				}
			}
		}
		slices.Sort(next)
		now = next
	}
	if len(g.order) < n {
		return invalid("the dependencies go in a circle: %s", strings.Join(g.cycle(missing), " → "))
	}
	return nil
}

// cycle names one circle among the tasks that could not be sorted.
func (g *graph) cycle(missing []int) []string {
	at := slices.IndexFunc(missing, func(m int) bool { return m > 0 })
	seen := map[int]int{}
	var path []int
	for {
		if from, met := seen[at]; met {
			path = append(path[from:], at)
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		// One that could not be sorted waits for another such.
		at = g.needs[at][slices.IndexFunc(g.needs[at], func(j int) bool { return missing[j] > 0 })]
	}
	const most = 20
	var names []string
	for _, i := range path[:min(len(path), most)] {
		names = append(names, g.plan.Tasks[i].ID)
	}
	if len(path) > most {
		names = append(names, "…", g.plan.Tasks[path[len(path)-1]].ID)
	}
	return names
}

// ranks returns, for each task, the weight of the heaviest path that begins
// with it.
func (g *graph) ranks(weight func(int) int64) []int64 {
	rank := make([]int64, len(g.order))
	for _, i := range slices.Backward(g.order) {
		for _, d := range g.dependents[i] {
			rank[i] = max(rank[i], rank[d])
		}
		rank[i] += weight(i)
	}
	return rank
}

// criticalPath is the heaviest path through the graph.
func (g *graph) criticalPath(weight func(int) int64) (path []int, total int64) {
	path = []int{}
	rank := g.ranks(weight)
	next := g.order
	for len(next) > 0 {
		best := next[0]
		for _, i := range next {
			if rank[i] > rank[best] {
				best = i
			}
		}
		if rank[best] == 0 {
			break
		}
		if len(path) == 0 {
			total = rank[best]
		}
		path, next = append(path, best), g.dependents[best]
	}
	return path, total
}

// below marks all that depends on a task, directly or not.
func (g *graph) below(i int, visit func(int)) {
	seen := map[int]bool{}
	for todo := []int{i}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		for _, d := range g.dependents[at] {
			if !seen[d] {
				seen[d] = true
				visit(d)
				todo = append(todo, d)
			}
		}
	}
}

// inWaves are the tasks wave by wave, in each the longest path first.
func (g *graph) inWaves() []int {
	out := slices.Clone(g.order)
	slices.SortStableFunc(out, func(a, b int) int {
		if g.wave[a] != g.wave[b] {
			return g.wave[a] - g.wave[b]
		}
		return g.before(a, b)
	})
	return out
}

// before compares by longest path first, then by the order of the plan.
func (g *graph) before(a, b int) int {
	switch {
	case g.rank[a] > g.rank[b]:
		return -1
	case g.rank[a] < g.rank[b]:
		return 1
	}
	return a - b
}
