package toolbus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

func someHits(n int) []search.Hit {
	hits := []search.Hit{}
	for i := range n {
		h := search.Hit{File: fmt.Sprintf("dir <%05d>/é\u2028.go", i/3), Line: i + 1, Column: i * 7, Snippet: "\ta \"b\" \\ \x01 & 世界"}
		if i%3 == 1 {
			h.Before, h.After = []string{"one", ""}, []string{"\xff"}
		}
		h.Cut = i%5 == 2
		hits = append(hits, h)
	}
	return hits
}

// give hands hits over by file, in any order of the files.
func give(f *found, hits []search.Hit) (all bool) {
	var by [][]search.Hit
	for len(hits) > 0 {
		n := 1
		for n < len(hits) && hits[n].File == hits[0].File {
			n++
		}
		by, hits = append(by, hits[:n]), hits[n:]
	}
	rand.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
	all = true
	for _, some := range by {
		all = f.take(some[0].File, some[:1]) && all
		if len(some) > 1 {
			all = f.take(some[0].File, some[1:]) && all
		}
	}
	return all
}

// The hand-made encoding equals that of encoding/json, in order, however
// many hits there are.
func TestFoundIsEncodedAsJSON(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100, 5000} {
		r := search.Result{Hits: someHits(n), Truncated: n%2 == 1, Engine: search.Ripgrep}
		want, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		f := &found{limit: maxFound, Result: search.Result{Truncated: r.Truncated, Engine: r.Engine}}
		if !give(f, r.Hits) {
			t.Errorf("not all of %d hits were taken", n)
		}
		if got := bytes.Join(f.encoded([]byte("x"), []byte("y")), nil); string(got) != "x"+string(want)+"y" {
			t.Errorf("%d hits: %.300s\nwant %.300s", n, got, want)
		}
	}
	message, err := resultMessage(json.RawMessage(`"7"`), &found{})
	if got, want := bytes.Join(message, nil), `{"jsonrpc":"2.0","id":"7","result":{"hits":[],"truncated":false,"engine":""}}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// An answer has an end, and is valid JSON up to it.
func TestFoundIsBounded(t *testing.T) {
	hits := someHits(1000)
	for _, limit := range []int{0, 10, 100, 5000, 50000} {
		f := &found{limit: limit}
		for i := range hits {
			if !f.take(hits[i].File, hits[i:i+1]) {
				break
			}
		}
		var got search.Result
		if err := json.Unmarshal(bytes.Join(f.encoded(nil, nil), nil), &got); err != nil {
			t.Fatal(err)
		}
		n := len(got.Hits)
		if f.size > limit || n == len(hits) || f.take(hits[n].File, hits[n:n+1]) || limit >= 5000 && n < limit/300 {
			t.Errorf("limit %d: %d hits, %d bytes", limit, n, f.size)
		}
		if !slices.IsSortedFunc(got.Hits, func(a, b search.Hit) int { return files.Compare(a.File, b.File) }) {
			t.Errorf("limit %d: not in order", limit)
		}
	}
}

func BenchmarkFound(b *testing.B) {
	hits := make([]search.Hit, 10000)
	for i := range hits {
		hits[i] = search.Hit{File: "internal/some/package/file.go", Line: i, Column: 5, Snippet: "\tfunc (c *conn) run(ctx context.Context) error {"}
	}
	for b.Loop() {
		f := &found{limit: maxFound}
		for i := 0; i < len(hits); i += 20 {
			f.take(hits[i].File, hits[i:i+20])
		}
		f.encoded(nil, nil)
	}
}
