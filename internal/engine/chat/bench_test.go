//go:build unix

package chat

import (
	"slices"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
)

// BenchmarkAnswer compares the time to the first word of an answer with that
// of a turn in an engine's session that is reset after it, in alternation.
func BenchmarkAnswer(b *testing.B) {
	r := onRuntime(b, Options{}, engine.Limits{})
	s, err := r.engine.Open(r.ctx, engine.Request{Spec: bridge.SessionSpec{Profile: bridge.ProfileChat, System: bridge.SystemText{Text: "Be brief.", Replace: true}}})
	if err != nil {
		b.Fatal(err)
	}
	words := script("chunks a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t")
	first := func(events func(func(bridge.Event, error) bool)) (first time.Duration) {
		began := time.Now()
		for ev, err := range events {
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := ev.(bridge.TextDelta); ok && first == 0 {
				first = time.Since(began)
			}
		}
		return first
	}
	turn := func() time.Duration {
		d := first(s.Send(r.ctx, bridge.Prompt{Text: words.Text}))
		if err := s.Reset(r.ctx); err != nil {
			b.Fatal(err)
		}
		return d
	}
	c := chatOf(words)
	c.System = "Be brief."
	answer := func() time.Duration { return first(read(r.ctx, r.Service, c)) }
	alone := func() time.Duration {
		eventually(b, "quiet", func() bool { return r.Stats().Running == 0 })
		return answer()
	}
	for range 80 { // until conversations make room for each other
		turn()
		answer()
	}
	var x, y, z []time.Duration
	for b.Loop() {
		for range 10 {
			x = append(x, turn())
		}
		for range 10 {
			y = append(y, answer())
		}
		for range 10 {
			z = append(z, alone())
		}
	}
	slices.Sort(x)
	slices.Sort(y)
	slices.Sort(z)
	ms := func(d []time.Duration) float64 { return float64(d[len(d)/2]) / float64(time.Millisecond) }
	b.ReportMetric(ms(x), "ms-engine")
	b.ReportMetric(ms(y), "ms-answer")
	b.ReportMetric(ms(y)-ms(x), "ms-above")
	b.ReportMetric(ms(z)-ms(x), "ms-above-alone") // without the tail of the turn before
	b.Logf("%+v", r.Stats())
}
