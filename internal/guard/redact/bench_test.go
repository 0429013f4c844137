package redact

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// ordinary is a tool result as they are: source code, listings, logs, prose.
func ordinary(n int) string {
	const piece = `package server

// handle answers one request. The session token is checked by the caller.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {
	key := r.URL.Query().Get("key")
	if key == "" {
		return fmt.Errorf("missing key in %s", r.URL)
	}
	value, err := s.store.Get(r.Context(), key)
	if err != nil {
		return fmt.Errorf("get %q: %w", key, err)
	}
	return json.NewEncoder(w).Encode(map[string]any{"key": key, "value": value})
}

-rw-r--r-- 1 user user  1204 Jan  2 03:04 internal/server/server_test.go
2026-01-02T03:04:05Z INFO request done method=GET path=/v1/items status=200 bytes=1204 duration=1.2ms
{"level":"info","msg":"listening","addr":"127.0.0.1:8788","pid":4711,"url":"https://example.com/docs"}
The quick brown fox jumps over the lazy dog, and the author of this text knows no better one.
`
	return strings.Repeat(piece, n/len(piece)+1)[:n]
}

func BenchmarkString10KB(b *testing.B) {
	r := New(Options{Secrets: []string{"the-token-of-this-bridge-0123456789"}})
	plain := ordinary(10 << 10)
	var secrets strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	texts := sampleTexts(rng, 1)
	for secrets.Len() < 10<<10 {
		secrets.WriteString(ordinary(300) + texts[rng.IntN(len(texts))] + "\n")
	}
	for _, bb := range []struct{ name, text string }{{"ordinary", plain}, {"secrets", secrets.String()[:10<<10]}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.text)))
			b.ReportAllocs()
			for b.Loop() {
				r.String(bb.text)
			}
		})
	}
}

func BenchmarkValue10KB(b *testing.B) {
	r := New(Options{})
	text := ordinary(2 << 10)
	v := map[string]any{"textResultForLlm": text, "sessionLog": text, "contents": []any{map[string]any{"outputPreview": text}}, "detailedContent": text, "x": text}
	b.SetBytes(10 << 10)
	for b.Loop() {
		r.Value(v)
	}
}

func BenchmarkStream(b *testing.B) {
	r := New(Options{})
	words := strings.SplitAfter(ordinary(10<<10), " ")
	b.SetBytes(10 << 10)
	for b.Loop() {
		st := r.NewStream()
		for _, w := range words {
			st.Write(w)
		}
		st.Flush()
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New(Options{})
	}
}

// BenchmarkWorstPrefix finds the rules whose repeated prefixes cost most, and
// tells how long 1 MB of the worst takes, as a whole and as a stream. The target
// is 200 ms.
func BenchmarkWorstPrefix(b *testing.B) {
	type cost struct {
		name, unit string
		took       time.Duration
	}
	r := New(Options{}).Results()
	slowest := func(a, b cost) int { return cmp.Compare(b.took, a.took) }
	for _, way := range []struct {
		name   string
		redact func(string)
	}{{"whole", func(s string) { r.String(s) }}, {"stream of 4 KB", streamed(r, 4<<10)}} {
		measure := func(c cost, size, times int) cost {
			text := strings.Repeat(c.unit, size/len(c.unit)+1)[:size]
			c.took = quickest(times, func() { way.redact(text) })
			return c
		}
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				var all []cost
				for name, unit := range hostile(1) {
					all = append(all, measure(cost{name: name, unit: unit}, 32<<10, 1))
				}
				slices.SortFunc(all, slowest)
				worst := all[:20]
				for i, c := range worst {
					worst[i] = measure(c, 1<<20, 3)
				}
				slices.SortFunc(worst, slowest)
				b.ReportMetric(float64(worst[0].took.Microseconds())/1000, "ms/MB")
				b.Logf("%d prefixes; the worst at 1 MB: %s %s, %s %s, %s %s", len(all), worst[0].name, worst[0].took, worst[1].name, worst[1].took, worst[2].name, worst[2].took)
			}
		})
	}
}
