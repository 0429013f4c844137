package layout

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "set the budgets to what the packages have")

// budgets is the file with the maximum number of lines of each package, without
// tests. A change that needs more raises the number in the same commit, with
// the reason.
const budgets = "budget.txt"

func TestLineBudget(t *testing.T) {
	lines := map[string]int{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, p := range packagesFor(t, system) {
			files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sum += bytes.Count(text, []byte("\n"))
			}
			if sum > 0 {
				lines["/"+relative(p.ImportPath)] = sum
			}
		}
	}
	if *update {
		var out strings.Builder
		total := 0
		for _, name := range sorted(lines) {
			fmt.Fprintf(&out, "%6d %s\n", lines[name], name)
			total += lines[name]
		}
		if err := os.WriteFile(budgets, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d lines in all", total)
		return
	}
	text, err := os.ReadFile(budgets)
	if err != nil {
		t.Fatal(err)
	}
	budget := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var name string
		var most int
		if _, err := fmt.Sscan(line, &most, &name); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		budget[name] = most
	}
	for _, name := range sorted(lines) {
		switch most, ok := budget[name]; {
		case !ok:
			t.Errorf("%s has no budget: add a line to %s", name, budgets)
		case lines[name] > most:
			t.Errorf("%s has %d lines and a budget of %d: make it smaller, or raise its budget with a reason", name, lines[name], most)
		}
	}
	for _, name := range sorted(budget) {
		if lines[name] == 0 {
			t.Errorf("%s has a budget and no lines", name)
		}
	}
}

func sorted(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
