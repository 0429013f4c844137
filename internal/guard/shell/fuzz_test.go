package shell

import (
	"slices"
	"strings"
	"testing"
)

// FuzzAnalyse holds what can be said of any script: the result is well formed,
// and the same commands are found where the script is an argument of bash -c.
func FuzzAnalyse(f *testing.F) {
	for _, c := range scriptCases(f) {
		f.Add(c.script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if readable(script) != nil {
			return
		}
		a, err := analyse(script) // which does not recover
		if err != nil {
			if len(a.Commands) > 0 {
				t.Fatal("an error and commands")
			}
			return
		}
		for _, c := range a.Commands {
			if len(c.Words) == 0 {
				t.Fatal("a command without words")
			}
			if c.DynamicName && !c.Dynamic || len(c.DynamicWords) > 0 && !c.Dynamic {
				t.Fatalf("%+v contradicts itself", c)
			}
			for _, i := range slices.Concat(c.DynamicWords, c.Globs) {
				if i < 0 || i >= len(c.Words) {
					t.Fatalf("%+v has no word %d", c, i)
				}
			}
		}
		for _, p := range a.Paths {
			if p.Text == "" {
				t.Fatal("an empty path")
			}
		}
		for _, u := range a.URLs {
			_, _ = ParseHost(u) // must not panic
		}
		wrapped := "bash -c -- '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
		inner, err := analyse(wrapped)
		if err != nil {
			return // the bounds are reached earlier
		}
		if len(inner.Commands) != len(a.Commands)+1 {
			t.Fatalf("%d commands, wrapped %d", len(a.Commands), len(inner.Commands)-1)
		}
		for i, c := range a.Commands {
			if !slices.Equal(inner.Commands[i+1].Words, c.Words) {
				t.Fatalf("%q, wrapped %q", c.Words, inner.Commands[i+1].Words)
			}
		}
		if len(inner.Opaque) < len(a.Opaque) || len(inner.Dangerous) < len(a.Dangerous) {
			t.Fatalf("wrapped, less is seen: %q %q", inner.Opaque, inner.Dangerous)
		}
	})
}

// FuzzWords compares static words with what bash makes of them.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"a", "'a b'", `"a\"b"`, `a\ b`, "$'\\x41'", "{a,b}c", "a{1..3}", "*", `\`, "''", `"$x"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.ContainsAny(text, "\x00\x01;&|<>()`$\n") && !strings.HasPrefix(text, "$'") {
			return
		}
		if strings.Count(text, "$") > strings.Count(text, "$'") || strings.ContainsAny(text, "\x00\x01") {
			return
		}
		checkWords(t, []string{text}, true)
	})
}

func BenchmarkAnalyse(b *testing.B) {
	for name, script := range map[string]string{
		"simple":  "npm test",
		"typical": "cd src && go test ./... -run TestX 2>&1 | tail -n 20",
		"wrapped": "timeout 60 bash -c 'npm ci && npm test' > build.log",
		"search":  `grep -rn "func main" --include='*.go' src | head -20; git status --short`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Analyse(script); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
