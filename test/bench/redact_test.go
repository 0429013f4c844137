package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/redact"
)

// BenchmarkRedactionGrows checks that redaction takes linear time: four times
// the text takes about four times as long, for ordinary source code and for
// texts that repeat what the rules look for.
func BenchmarkRedactionGrows(b *testing.B) {
	source, err := os.ReadFile("guard_test.go")
	if err != nil {
		b.Fatal(err)
	}
	r := redact.New(redact.Options{}).Results()
	for b.Loop() {
		for _, unit := range []struct{ name, text string }{
			{"ordinary source", string(source)}, {"AccountKey=", "AccountKey="}, {"pwd=", "pwd="}, {"eyJ", "-eyJ"}, {"header of a key", "-----BEGIN PRIVATE KEY-----\n"},
			{"lines of a key", strings.Repeat("aB3dE6gH9jK2mN5p", 4) + "\n"},
		} {
			text := strings.Repeat(unit.text, 1<<20/len(unit.text)+1)[:1<<20]
			part, whole := fastest(r, text[:1<<18]), fastest(r, text)
			ratio := float64(whole) / float64(part)
			report("redaction, "+unit.name, ms(part)+" a quarter", ms(whole)+" 1 MB", fmt.Sprintf("%.1f times", ratio), "6 times", ratio < 6)
		}
	}
}

// fastest returns the shortest time of several redactions.
func fastest(r *redact.Redactor, text string) time.Duration {
	best := time.Hour
	for range 5 {
		began := time.Now()
		r.String(text)
		best = min(best, time.Since(began))
	}
	return best
}
