package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// bus is a connection to the tool bus of a running `serve`. A call ends with
// the last byte of the answer, like the measurement of ripgrep's output:
// decoding is up to the client.
type bus struct {
	ws *websocket.Conn
	id int
}

func dialBus(b *testing.B, s *server) *bus {
	b.Helper()
	ws, resp, err := websocket.Dial(context.Background(), s.rpc, nil)
	if err != nil {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close() // the error is enough
		}
		b.Fatal(err)
	}
	ws.SetReadLimit(-1)
	b.Cleanup(func() { _ = ws.CloseNow() })
	return &bus{ws: ws}
}

// call returns how long the answer took. If into is set, the answer is decoded
// afterwards.
func (c *bus) call(b *testing.B, method string, params any, into any) time.Duration {
	b.Helper()
	c.id++
	request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := c.ws.Write(context.Background(), websocket.MessageText, request); err != nil {
		b.Fatal(err)
	}
	_, r, err := c.ws.Reader(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	var answer []byte
	if into == nil {
		// The beginning is enough to see that it is not an error.
		answer = make([]byte, 64)
		n, err := io.ReadFull(r, answer)
		answer = answer[:n]
		if _, more := io.Copy(io.Discard, r); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || more != nil {
			b.Fatal(err, more)
		}
	} else if answer, err = io.ReadAll(r); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if !strings.HasPrefix(string(answer), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":`, c.id)) {
		b.Fatalf("%s: %.2000s", method, answer)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			b.Fatal(err)
		}
	}
	return took
}

// goTree is Go's source and the module cache in one directory, with hard links
// if possible.
func goTree(b *testing.B) string {
	b.Helper()
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		b.Fatal(err)
	}
	from := strings.Fields(string(out))
	dir := b.TempDir()
	for name, source := range map[string]string{"src": filepath.Join(from[0], "src"), "mod": from[1]} {
		if err := link(source, filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		if err = os.Link(path, at); !errors.Is(err, syscall.EXDEV) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, data, 0o600)
	})
}

func (c *bus) search(b *testing.B, o search.Options, into any) time.Duration {
	b.Helper()
	return c.call(b, "mcp.search.code", map[string]any{"query": o.Query, "regex": o.Regex, "caseSensitive": o.CaseSensitive, "maxResults": o.MaxResults}, into)
}

// searchSides are a served tree and ripgrep on the same tree.
func searchSides(b *testing.B) (c *bus, dir, rg string) {
	b.Helper()
	dir = goTree(b)
	if rg = search.FindRipgrep(filepath.Dir(runtimetest.Path(b)), nil); rg == "" {
		b.Fatal("the runtime's package has no ripgrep")
	}
	return dialBus(b, startServeIn(b, startModel(b), dir, nil)), dir, rg
}

// BenchmarkToolBusSearch compares a search for all hits through the WebSocket
// of `serve` with ripgrep: at most 1.1 times its time.
func BenchmarkToolBusSearch(b *testing.B) {
	c, dir, rg := searchSides(b)
	for b.Loop() {
		compareSearches(b, c, dir, rg,
			search.Options{Query: "zz no such text zz"},
			search.Options{Query: "context.Context", CaseSensitive: true},
			search.Options{Query: "sync.Mutex"},
			search.Options{Query: `func \(\w+ \*\w+\) Close\(`, Regex: true, CaseSensitive: true},
			search.Options{Query: `TODO\(\w+\)`, Regex: true, CaseSensitive: true},
			search.Options{Query: `err(or)?s?\.\w+`, Regex: true},
		)
	}
}

// BenchmarkToolBusSearchCommon is the same for a word with hundreds of
// thousands of hits. Every hit is redacted and encoded as JSON, which is twice
// as long as ripgrep's output.
func BenchmarkToolBusSearchCommon(b *testing.B) {
	c, dir, rg := searchSides(b)
	for b.Loop() {
		compareSearches(b, c, dir, rg, search.Options{Query: "func"})
	}
}

// compareSearches takes the best of 21 rounds of each side, like compare. The
// rounds of each query are spread over the whole time, because a shared machine
// may be slow for half a minute, as long as all rounds of one query take.
func compareSearches(b *testing.B, c *bus, dir, rg string, queries ...search.Options) {
	b.Helper()
	type best struct {
		hits       int
		bare, ours time.Duration
	}
	found := make([]best, len(queries))
	for i := range queries {
		o := &queries[i]
		o.MaxResults = 1 << 30
		var got struct{ Result search.Result }
		c.search(b, *o, &got)
		found[i] = best{hits: len(got.Result.Hits), bare: bareRipgrep(b, dir, rg, *o), ours: c.search(b, *o, nil)}
	}
	for round := range 20 {
		for i, o := range queries {
			f := &found[i]
			if round%2 == 0 {
				f.bare, f.ours = min(f.bare, bareRipgrep(b, dir, rg, o)), min(f.ours, c.search(b, o, nil))
			} else {
				f.ours, f.bare = min(f.ours, c.search(b, o, nil)), min(f.bare, bareRipgrep(b, dir, rg, o))
			}
		}
	}
	for i, f := range found {
		ratio := float64(f.ours) / float64(f.bare)
		report(fmt.Sprintf("tool bus, %.16s, %d hits", queries[i].Query, f.hits), ms(f.bare), ms(f.ours), fmt.Sprintf("%.2f×", ratio), "≤ 1.1×", ratio <= 1.1)
	}
}

// BenchmarkToolBusFirst200 measures the first 200 hits of a common word. The
// client must have them at least 5 times sooner than ripgrep has all hits.
func BenchmarkToolBusFirst200(b *testing.B) {
	c, dir, rg := searchSides(b)
	o := search.Options{Query: "func"}
	for b.Loop() {
		bare, ours, ratio := compare(8, func() time.Duration { return bareRipgrep(b, dir, rg, o) },
			func() time.Duration { return c.search(b, o, nil) })
		report("tool bus, first 200 hits", ms(bare), ms(ours), fmt.Sprintf("%.0f× sooner", 1/ratio), "≥ 5×", ratio <= 0.2)
		b.ReportMetric(1/ratio, "times-sooner")
	}
}

// BenchmarkToolBusPatch compares applying a diff of 1,000 files through the
// WebSocket with git apply: at most twice its time.
func BenchmarkToolBusPatch(b *testing.B) {
	dir, there, back := patchTree(b)
	c := dialBus(b, startServeIn(b, startModel(b), dir, []string{"--read-write"}))
	ours := func(diff string) time.Duration {
		var got struct {
			Result struct {
				OK        bool  `json:"ok"`
				Conflicts []any `json:"conflicts"`
				Files     []any `json:"files"`
			} `json:"result"`
		}
		took := c.call(b, "mcp.edit.applyPatch", map[string]any{"unifiedDiff": diff}, &got)
		if !got.Result.OK || len(got.Result.Files) != patchFiles {
			b.Fatalf("%d files, %v", len(got.Result.Files), got.Result.Conflicts)
		}
		return took
	}
	for b.Loop() {
		var x, y []time.Duration
		gitApply(b, dir, back)
		for range 8 {
			x = append(x, gitApply(b, dir, there), gitApply(b, dir, back))
			y = append(y, ours(there), ours(back))
		}
		gitApply(b, dir, there)
		bare, mine := percentile(x, 0.5), percentile(y, 0.5)
		ratio := float64(mine) / float64(bare)
		report("tool bus, diff of 1,000 files", ms(bare), ms(mine), fmt.Sprintf("%.2f×", ratio), "≤ 2×", ratio <= 2)
		b.ReportMetric(ratio, "times-git-apply")
	}
}
