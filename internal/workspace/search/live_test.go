package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// A search over live texts finds what a search would find if they were saved.
func TestLiveIsAsIfSaved(t *testing.T) {
	rg := rg(t)
	r := rand.New(rand.NewPCG(7, 11))
	words := []string{"alpha", "Beta", "gamma_1", "δέλτα", "x", "alphabet"}
	text := func() string {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			fmt.Fprintf(&b, "%s %s\n", words[r.IntN(len(words))], words[r.IntN(len(words))])
		}
		return b.String()
	}
	for range 20 {
		saved, stale := t.TempDir(), t.TempDir()
		live := map[string]string{}
		for _, name := range []string{"a.go", "b/c.go", "b/d.txt", "b/e/f.go", "z.md", ".hidden/h.go", "out/o.go", ".gitignore", ".ignore"} {
			content := text()
			if name == ".gitignore" || name == ".ignore" {
				content = "out/\n"
			} else if r.IntN(2) == 0 {
				live[name] = content
			}
			for dir, c := range map[string]string{saved: content, stale: content} {
				if _, edited := live[name]; edited && dir == stale {
					c = "alpha was saved\n"
				}
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, o := range []Options{{Query: "alpha"}, {Query: "BETA"}, {Query: "Beta", CaseSensitive: true}, {Query: "alpha", Word: true, Context: 2}, {Query: "δ"},
			{Query: "a[lm]+", Regex: true}, {Query: "x", Scope: files.Scope{Glob: []string{"*.go"}}}, {Query: "x", Scope: files.Scope{Hidden: true, Exclude: []string{"b/e"}}}} {
			for _, engine := range []string{rg, ""} {
				one, two := o, o
				one.Dir, one.RG = saved, engine
				two.Dir, two.RG, two.Live = stale, engine, live
				want, err := Search(t.Context(), one)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Search(t.Context(), two)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v over %q: %+v, %v, want %+v", o, live, got, err, want)
				}
			}
		}
	}
}
