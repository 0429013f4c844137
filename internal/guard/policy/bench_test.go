package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// rules200 is a policy of 200 rules of all kinds and shapes, over three
// layers.
func rules200(tb testing.TB) *Policy {
	tb.Helper()
	var user, workspace, env builder
	add := func(b *builder, list, pattern string) {
		b.add(list, list, pattern, Source{"bench", b.count + 1})
	}
	for i := range 20 {
		add(&user, "tools.deny", fmt.Sprintf("blocked_%d", i))
		add(&workspace, "tools.deny", fmt.Sprintf("srv%d-*", i))
		add(&env, "tools.ask", fmt.Sprintf("careful_%d*", i))
		add(&user, "reads.deny", fmt.Sprintf("**/secret%d/**", i))
		add(&workspace, "reads.deny", fmt.Sprintf("config/%d/**/*.p[ek]m", i))
		add(&workspace, "writes.deny", fmt.Sprintf("**/dist%d/*.{js,css,map}", i))
		add(&user, "shell.deny", fmt.Sprintf("danger%d --now", i))
		add(&user, "network.deny", fmt.Sprintf("*.bad%d.example", i))
	}
	for i := range 10 {
		add(&env, "patterns.deny", fmt.Sprintf(`rm\s+-rf\s+/dir%d`, i))
		add(&workspace, "patterns.deny", fmt.Sprintf(`(?i)password%d\s*=`, i))
		add(&user, "shell.allow", fmt.Sprintf("make target%d *", i))
	}
	for _, p := range []string{"go test *", "go build ./...", "npm test", "npm run lint", "git commit *", "cargo test", "ls *", "make", "tsc", "eslint *"} {
		add(&user, "shell.allow", p)
	}
	total := 0
	var layers []Layer
	for _, b := range []*builder{&user, &workspace, &env} {
		total += b.count
		r, err := b.finish("")
		if err != nil {
			tb.Fatal(err)
		}
		layers = append(layers, Layer{Rules: r, Trusted: true})
	}
	if total != 200 {
		tb.Fatalf("%d rules", total)
	}
	return Combine(DefaultsRun(), layers...)
}

// BenchmarkEvaluate200 also reports the median, which a busy machine disturbs
// less than the mean.
func BenchmarkEvaluate200(b *testing.B) {
	p := rules200(b)
	for _, bench := range []struct {
		name string
		a    Action
		want Verdict
	}{
		{"read", Action{Tool: "view", Kind: KindRead, Args: map[string]any{"path": "src/internal/server/handler.go", "view_range": []any{1.0, 200.0}},
			Paths: []Path{{Rel: "src/internal/server/handler.go"}}}, Allow},
		{"write", Action{Tool: "edit", Kind: KindWrite, Args: map[string]any{"path": "src/internal/server/handler.go",
			"old_str": "func (s *Server) handle(w http.ResponseWriter, r *http.Request) {\n\treturn\n}\n", "new_str": "func (s *Server) handle() {}\n"},
			Paths: []Path{{Rel: "src/internal/server/handler.go", Write: true}, {Rel: "src/internal/server/handler.go"}}}, Allow},
		{"shell", Action{Tool: "bash", Kind: KindShell, Args: map[string]any{"command": "go test -race ./internal/... && git commit -m 'fix the race'", "description": "test, then commit"},
			Commands: []Command{{Words: []string{"go", "test", "-race", "./internal/..."}, Text: "go test -race ./internal/..."},
				{Words: []string{"git", "commit", "-m", "fix the race"}, Text: "git commit -m 'fix the race'"}},
			Paths: []Path{{Rel: "internal"}}}, Allow},
		{"network", Action{Tool: "web_fetch", Kind: KindNetwork, Args: map[string]any{"url": "https://pkg.go.dev/net/http"},
			Hosts: []Host{{Name: "pkg.go.dev", Port: 443}}}, Ask},
		{"mcp", Action{Tool: "search_code", Server: "github", Kind: KindMCP, Args: map[string]any{"q": "repo:x/y handler", "page": 2.0}}, Ask},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			times := make([]time.Duration, 0, 1<<20)
			for b.Loop() {
				start := time.Now()
				got := p.Evaluate(bench.a)
				times = append(times, time.Since(start))
				if got.Verdict != bench.want {
					b.Fatal(got)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2]), "p50-ns/op")
		})
	}
}
