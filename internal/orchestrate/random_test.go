package orchestrate

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Random graphs by the four methods of the Standard Task Graph Set (Tobita and
// Kasahara, "A standard task graph set for fair evaluation of multiprocessor
// scheduling algorithms", 2002): edges by a constant probability or by a
// constant mean number of predecessors, each with and without layers. The set
// is generated here, by seed, with edge probability 0.1, 3 predecessors on
// average and √n layers.
var families = []string{"sameprob", "samepred", "layrprob", "layrpred"}

func randomPlan(rng *rand.Rand, family string, n int) TaskPlan {
	p := TaskPlan{Dependencies: map[string][]string{}}
	layer := make([]int, n)
	for i := range n {
		c := []Complexity{Small, Medium, Large}[rng.IntN(3)]
		p.Tasks = append(p.Tasks, SubTask{ID: fmt.Sprintf("t%d", i), Description: "x", EstimatedComplexity: c})
		layer[i] = i
		if family[0] == 'l' {
			layer[i] = i * max(1, int(math.Sqrt(float64(n)))) / n
		}
	}
	for i := range n {
		var before []int
		for j := range i {
			if layer[j] < layer[i] {
				before = append(before, j)
			}
		}
		rng.Shuffle(len(before), func(a, b int) { before[a], before[b] = before[b], before[a] })
		if family[4:] == "pred" {
			before = before[:min(len(before), rng.IntN(7))]
		}
		for _, j := range before {
			if family[4:] == "pred" || rng.Float64() < 0.1 {
				p.Dependencies[p.Tasks[i].ID] = append(p.Dependencies[p.Tasks[i].ID], p.Tasks[j].ID)
			}
		}
	}
	return p
}
