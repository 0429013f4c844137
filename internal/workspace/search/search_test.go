package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rg is the ripgrep of the Copilot runtime.
func rg(tb testing.TB) string {
	tb.Helper()
	path := FindRipgrep(filepath.Dir(runtimetest.Path(tb)), nil)
	if path == "" {
		tb.Fatal("the runtime's package has no ripgrep")
	}
	return path
}

// reference runs ripgrep itself and reads its JSON.
func reference(tb testing.TB, dir string, o Options) []Hit {
	tb.Helper()
	args := []string{"--no-config", "--json"}
	for flag, on := range map[string]bool{"--fixed-strings": !o.Regex, "--ignore-case": !o.CaseSensitive, "--word-regexp": o.Word,
		"--hidden": o.Hidden, "--no-ignore": o.NoIgnore} {
		if on {
			args = append(args, flag)
		}
	}
	for _, g := range o.Glob {
		args = append(args, "--glob="+g)
	}
	for _, g := range o.Exclude {
		args = append(args, "--glob=!"+g)
	}
	cmd := exec.CommandContext(tb.Context(), rg(tb), append(args, "--regexp="+o.Query, "--", "./")...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		tb.Fatalf("rg %q: %v", o.Query, err)
	}
	type text struct {
		Text  string `json:"text"`
		Bytes []byte `json:"bytes"`
	}
	str := func(t text) string { return cmp.Or(t.Text, string(t.Bytes)) }
	hits := []Hit{}
	for line := range bytes.Lines(out) {
		var message struct {
			Type string `json:"type"`
			Data struct {
				Path       text `json:"path"`
				Lines      text `json:"lines"`
				LineNumber int  `json:"line_number"`
				Submatches []struct {
					Start int `json:"start"`
				} `json:"submatches"`
			} `json:"data"`
		}
		if err := json.Unmarshal(line, &message); err != nil {
			tb.Fatal(err)
		}
		if message.Type == "match" {
			d := message.Data
			var h Hit
			h.set(strings.TrimPrefix(str(d.Path), "./"), d.LineNumber, strings.TrimSuffix(str(d.Lines), "\n"), d.Submatches[0].Start)
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(files.Compare(a.File, b.File), a.Line-b.Line) })
	return hits
}

func goroot(tb testing.TB) string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

func wantSame(t *testing.T, got, want []Hit) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("hit %d of %d:\ngot  %+v\nwant %+v", i, len(want), got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d hits, want %d", len(got), len(want))
	}
}

// queries are put to the Go source tree.
func queries() []Options {
	var list []Options
	add := func(o Options, queries ...string) {
		for _, q := range queries {
			o.Query = q
			list = append(list, o)
		}
	}
	add(Options{}, "context.Context", "TODO(", "sync.Mutex", "eof", "Kelvin", "func main()", "$", "-e", "--files", "a\\b", "[]byte{", "/*", "été", "ß", "\t\t\t\t\t//", "日本", "zz no such text zz", "GOMAXPROCS", "unsafe.Pointer(", "KSI", "'\\''")
	add(Options{CaseSensitive: true}, "EOF", "TODO", "errors.New", "ſ", "K", "http.Handler", "goroutine", "é", "世界", "\ufeff", "\\n\\n", "SIGKILL", "net/http", ".Close()")
	add(Options{Word: true}, "foo", "defer", "_", "a.b", "é", "chan<-", "µs")
	add(Options{Word: true, CaseSensitive: true}, "GC", "iota", "T", "fallthrough")
	add(Options{Regex: true}, `^package main$`, `func \(\w+ \*\w+\) Close\(`, `TODO\(\w+\)`, `\bgo func\b`, `[^\s]\s+$`, `0x[0-9a-f]{16}`, `(foo|bar)baz`, `a.*b.*c.*d.*e.*f.*g.*h`, `panic\("[^"]*"\)`,
		`^\s*//\s*Deprecated:`, `[[:upper:]]{20,}`, `import "C"`, `k8s|kelvin`, `\x{4e16}`, `日.`, `errors\.(New|Is|As)\(`, `^func Test\w+\(t \*testing\.T\) \{$`, `(?-i)Kelvin`)
	add(Options{Regex: true, CaseSensitive: true}, `^func [A-Z]\w{25,}`, `(?i)deadlock`, `Close\(\) error`, `[^\x00-\x7F]`, `\d{10,}`, `TODO|FIXME|XXX`, `^type \w+ interface`, `sync\.(RW)?Mutex`, `%[+#]v`, `(?i:eof)\b`)
	add(Options{Regex: true, Word: true}, `fo+`, `z..`, `\w+Error`, `[a-z]+_[a-z]+_[a-z]+`, `GOOS|GOARCH`)
	glob := func(include, exclude []string) Options {
		return Options{Scope: files.Scope{Glob: include, Exclude: exclude}}
	}
	add(glob([]string{"*.s"}, nil), "MOVQ", "RET")
	add(glob([]string{"net/**/*_test.go"}, nil), "tcp")
	add(glob([]string{"*.{c,h}"}, nil), "include")
	add(glob(nil, []string{"*_test.go"}), "t.Fatal", "Benchmark")
	add(glob(nil, []string{"vendor", "testdata", "cmd/**"}), "golang.org")
	add(glob([]string{"runtime/*.go"}, []string{"*_windows*"}), "syscall")
	add(glob([]string{"go.mod", "/make.*"}, nil), "go")
	add(glob([]string{"crypto/**"}, []string{"**/*.go"}), "crypto")
	add(glob([]string{"os/[a-f]*.go", "io/?o.go"}, nil), "func")
	// A query that nearly every line matches is limited to a small part.
	few := []string{"strings/**"}
	add(Options{Regex: true, Scope: files.Scope{Glob: few}}, `x*`, `^$`, `.`, `^`, `\s`, `$`, `e..`)
	add(Options{Word: true, Scope: files.Scope{Glob: few}}, "s", "err")
	hidden := Options{Scope: files.Scope{Hidden: true}}
	add(hidden, "gofmt")
	add(Options{Scope: files.Scope{NoIgnore: true}}, "go build")
	return list
}

// long says that whole trees are wanted, not one below them.
func long() bool { return os.Getenv("COPILOT_BRIDGE_TEST_LONG") != "" }

// Through the engine that is used, a hundred queries and more give what
// ripgrep itself gives.
func TestSameHitsAsRipgrep(t *testing.T) {
	dir, program, hits := filepath.Join(goroot(t), "net"), rg(t), 0
	if long() {
		dir = goroot(t)
	}
	if n := len(queries()); n < 100 {
		t.Errorf("only %d queries", n)
	}
	for _, o := range queries() {
		o.Dir, o.RG, o.MaxResults = dir, program, 1<<30
		t.Run(o.Query, func(t *testing.T) {
			got, err := Search(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Truncated || got.Engine != Ripgrep {
				t.Errorf("truncated %t, by %s", got.Truncated, got.Engine)
			}
			wantSame(t, got.Hits, reference(t, dir, o))
			hits += len(got.Hits)
		})
	}
	t.Logf("%d hits", hits)
}

// The scanner gives the same, on a part of the tree.
func TestScannerFindsTheSame(t *testing.T) {
	program := rg(t)
	parts := []string{"unicode", "strings", "testing"}
	if long() {
		parts = append(parts, "net")
	}
	for _, part := range parts {
		dir := filepath.Join(goroot(t), part)
		for _, o := range queries() {
			o.Dir, o.MaxResults = dir, 1<<30
			t.Run(part+"/"+o.Query, func(t *testing.T) {
				got, err := Search(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				o.RG = program
				want, err := Search(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if got.Engine != Scanner || want.Engine != Ripgrep {
					t.Errorf("by %s and %s", got.Engine, want.Engine)
				}
				wantSame(t, got.Hits, want.Hits)
			})
		}
	}
}

func write(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	for name, text := range tree {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// gathered are all hits, to be put in order.
type gathered struct {
	pieces files.Order[[]Hit] // hits of one file, several times if it has many
}

func (g *gathered) take(file string, hits []Hit) bool {
	g.pieces.Add(file, slices.Clone(hits))
	return true
}

func (g *gathered) sorted() []Hit {
	return append([]Hit{}, slices.Concat(slices.Collect(g.pieces.All())...)...)
}

// Search is Find with the hits.
func Search(ctx context.Context, o Options) (Result, error) {
	var all gathered
	r, err := Find(ctx, o, all.take)
	r.Hits = all.sorted()
	return r, err
}
