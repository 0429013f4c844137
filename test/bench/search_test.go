package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/search"
)

// searchTree is a large tree that every Go developer has.
func searchTree(b *testing.B) (dir, rg string) {
	b.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		b.Fatal(err)
	}
	rg = search.FindRipgrep(filepath.Dir(runtimetest.Path(b)), nil)
	if rg == "" {
		b.Fatal("the runtime's package has no ripgrep")
	}
	return strings.TrimSpace(string(out)), rg
}

// bareRipgrep runs ripgrep with equivalent options and discards its output.
func bareRipgrep(b *testing.B, dir, rg string, o search.Options) time.Duration {
	b.Helper()
	args := []string{"--no-config", "--color=never", "--no-heading", "--line-number", "--column"}
	if !o.CaseSensitive {
		args = append(args, "--ignore-case")
	}
	if !o.Regex {
		args = append(args, "--fixed-strings")
	}
	cmd := exec.Command(rg, append(args, "--regexp="+o.Query, "--", "./")...)
	cmd.Dir = dir
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		b.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		b.Fatal(err)
	}
	return time.Since(began)
}

func ourSearch(b *testing.B, o search.Options) (time.Duration, int) {
	b.Helper()
	began, hits := time.Now(), 0
	if _, err := search.Find(context.Background(), o, func(_ string, found []search.Hit) bool { hits += len(found); return true }); err != nil {
		b.Fatal(err)
	}
	return time.Since(began), hits
}

// compare alternates the two, so that drift affects both. It returns the best
// time of each and their ratio: other work on the machine only adds time.
func compare(rounds int, bare, ours func() time.Duration) (x, y time.Duration, ratio float64) {
	x, y = bare(), ours()
	for i := range rounds {
		if i%2 == 0 {
			x, y = min(x, bare()), min(y, ours())
		} else {
			y, x = min(y, ours()), min(x, bare())
		}
	}
	return x, y, float64(y) / float64(x)
}

// BenchmarkSearch compares a search for all hits with ripgrep: at most 1.1
// times its time.
func BenchmarkSearch(b *testing.B) {
	dir, rg := searchTree(b)
	for b.Loop() {
		for _, o := range []search.Options{
			{Query: "zz no such text zz"},
			{Query: "context.Context", CaseSensitive: true},
			{Query: "fmt"},
			{Query: "func"},
			{Query: `func \(\w+ \*\w+\) Close\(`, Regex: true, CaseSensitive: true},
			{Query: `err(or)?s?\.\w+`, Regex: true},
		} {
			o.Dir, o.RG, o.MaxResults = dir, rg, 1<<30
			hits := 0
			bare, ours, ratio := compare(8, func() time.Duration { return bareRipgrep(b, dir, rg, o) }, func() time.Duration {
				d, n := ourSearch(b, o)
				hits = n
				return d
			})
			report(fmt.Sprintf("search %.20s, %d hits", o.Query, hits), ms(bare), ms(ours), fmt.Sprintf("%.2f×", ratio), "≤ 1.1×", ratio <= 1.1)
		}
	}
}

// BenchmarkSearchFirst200 measures the first 200 hits of a common word. They
// must come at least 5 times sooner than all hits of ripgrep.
func BenchmarkSearchFirst200(b *testing.B) {
	dir, rg := searchTree(b)
	o := search.Options{Query: "func", Dir: dir, RG: rg}
	for b.Loop() {
		bare, ours, ratio := compare(8, func() time.Duration { return bareRipgrep(b, dir, rg, o) },
			func() time.Duration { d, _ := ourSearch(b, o); return d })
		report("first 200 hits of a common word", ms(bare), ms(ours), fmt.Sprintf("%.0f× sooner", 1/ratio), "≥ 5×", ratio <= 0.2)
		b.ReportMetric(1/ratio, "times-sooner")
	}
}

// BenchmarkSearchScanner measures the search without ripgrep. It has no target.
func BenchmarkSearchScanner(b *testing.B) {
	dir, rg := searchTree(b)
	for b.Loop() {
		for _, o := range []search.Options{{Query: "context.Context", CaseSensitive: true}, {Query: "context.Context"}, {Query: `func \(\w+ \*\w+\) Close\(`, Regex: true}} {
			o.Dir, o.MaxResults = dir, 1<<30
			bare, ours, ratio := compare(3, func() time.Duration { return bareRipgrep(b, dir, rg, o) },
				func() time.Duration { d, _ := ourSearch(b, o); return d })
			report(fmt.Sprintf("scanner, %.20s", o.Query), ms(bare), ms(ours), fmt.Sprintf("%.2f×", ratio), "none", true)
		}
	}
}

// BenchmarkList compares listing files with ripgrep's listing. It may take no
// longer.
func BenchmarkList(b *testing.B) {
	dir, rg := searchTree(b)
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = root.Close() })
	for b.Loop() {
		bare, ours, ratio := compare(8, func() time.Duration {
			cmd := exec.Command(rg, "--no-config", "--files", "--no-require-git", "--no-ignore-parent", "--sort=path", "./")
			cmd.Dir = dir
			began := time.Now()
			if _, err := cmd.Output(); err != nil {
				b.Fatal(err)
			}
			return time.Since(began)
		}, func() time.Duration {
			began := time.Now()
			if _, err := files.List(context.Background(), root, files.ListOptions{Limit: 1 << 30}); err != nil {
				b.Fatal(err)
			}
			return time.Since(began)
		})
		report("list of all files, in order", ms(bare), ms(ours), fmt.Sprintf("%.2f×", ratio), "≤ 1.1×", ratio <= 1.1)
	}
}
