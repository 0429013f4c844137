package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func BenchmarkAppend(b *testing.B) {
	l, err := Open(b.TempDir(), Options{Redact: plain})
	if err != nil {
		b.Fatal(err)
	}
	e := Entry{Hook: HookPreTool, Session: "session", Door: "acp", Tool: "bash", Call: "call", Input: map[string]any{"command": "go test ./..."}, Decision: "allow", Reason: "default"}
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := l.Append(b.Context(), e); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	prev, name := genesis, "audit-2026-03-01.jsonl"
	var text []byte
	const n = 20_000
	for seq := uint64(1); seq <= n; seq++ {
		line, hash, err := seal(Entry{Seq: seq, Hook: HookPostTool, Session: "session", Tool: "bash", Output: map[string]any{"text": fmt.Sprintf("%0800d", seq)}, Prev: prev})
		if err != nil {
			b.Fatal(err)
		}
		text = append(append(text, line...), '\n')
		prev = hash
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		b.Fatal(err)
	}
	writeHead(b, dir, head{Seq: n, Hash: prev, File: name})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if r := verify(b, dir); !r.OK() || r.Entries != n {
			b.Fatalf("%+v", r)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
