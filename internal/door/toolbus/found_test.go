package toolbus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// What is put together by hand is what encoding/json makes, however many hits
// there are.
func TestFoundIsEncodedAsJSON(t *testing.T) {
	hit := func(i int) search.Hit {
		h := search.Hit{File: fmt.Sprintf("dir <%d>/é\u2028.go", i/3), Line: i + 1, Column: i * 7, Snippet: "\ta \"b\" \\ \x01 & 世界"}
		if i%3 == 1 {
			h.Before, h.After = []string{"one", ""}, []string{"\xff"}
		}
		h.Cut = i%5 == 2
		return h
	}
	for _, n := range []int{0, 1, 2, manyFound - 1, manyFound, manyFound + 1, 3*manyFound + 7} {
		r := search.Result{Hits: []search.Hit{}, Truncated: n%2 == 1, Engine: search.Ripgrep}
		for i := range n {
			r.Hits = append(r.Hits, hit(i))
		}
		want, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendFound([]byte("x"), r); !bytes.Equal(got, append([]byte("x"), want...)) {
			t.Errorf("%d hits: %.300s\nwant %.300s", n, got, want)
		}
	}
	message, err := resultMessage(json.RawMessage(`"7"`), search.Result{Hits: []search.Hit{}})
	if want := `{"jsonrpc":"2.0","id":"7","result":{"hits":[],"truncated":false,"engine":""}}`; err != nil || string(message) != want {
		t.Errorf("%s, %v", message, err)
	}
}

func BenchmarkFound(b *testing.B) {
	r := search.Result{Hits: make([]search.Hit, 10000)}
	for i := range r.Hits {
		r.Hits[i] = search.Hit{File: "internal/some/package/file.go", Line: i, Column: 5, Snippet: "\tfunc (c *conn) run(ctx context.Context) error {"}
	}
	for b.Loop() {
		appendFound(nil, r)
	}
}
