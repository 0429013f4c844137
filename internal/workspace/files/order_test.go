package files

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOrder(t *testing.T) {
	type numbered struct {
		path string
		n    int
	}
	for round := range 50 {
		rng := rand.New(rand.NewPCG(1, uint64(round)))
		var all []numbered
		var o Order[numbered]
		for n := range rng.IntN(200) {
			path := fmt.Sprintf("f%c", "-.0a\x01"[rng.IntN(5)])
			for range rng.IntN(4) {
				path = fmt.Sprintf("d%c/", "-.0a\x01é"[rng.IntN(5)]) + path
			}
			v := numbered{path, n}
			all = append(all, v)
			o.Add(path, v)
		}
		slices.SortFunc(all, func(a, b numbered) int { return cmp.Or(Compare(a.path, b.path), a.n-b.n) })
		if got := slices.Collect(o.All()); !slices.Equal(got, all) {
			t.Fatalf("round %d: got %v\nwant %v", round, got, all)
		}
		for range o.All() {
			break // whoever has enough may stop
		}
	}
}

// BenchmarkOrder is what it costs to put the files of a large tree in order.
func BenchmarkOrder(b *testing.B) {
	var paths []string
	for i := range 30_000 {
		dir := i / 6 * 7919 % 5000
		paths = append(paths, fmt.Sprintf("mod/example.com/team/project%03d@v1.2.3/internal/package%02d/file%d.go", dir/40, dir%40, i*31%6))
	}
	b.Run("order", func(b *testing.B) {
		for b.Loop() {
			var o Order[int]
			for i, p := range paths {
				o.Add(p, i)
			}
			n := 0
			for range o.All() {
				n++
			}
			if n != len(paths) {
				b.Fatal(n)
			}
		}
	})
	b.Run("sort", func(b *testing.B) {
		for b.Loop() {
			slices.SortFunc(slices.Clone(paths), Compare)
		}
	})
}
