package patch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	propertySeed  = 20261115
	batches       = 24
	casesPerBatch = 25
)

// TestSameAsGitApply makes random trees and edits, lets git write the diffs,
// and applies each of them, as it is and damaged, with git apply and with
// Apply: the trees must be the same afterwards, or both must refuse.
func TestSameAsGitApply(t *testing.T) {
	seed := uint64(propertySeed)
	if s := os.Getenv("PATCH_TEST_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (set PATCH_TEST_SEED for another)", seed)
	var mu sync.Mutex
	var sum tally
	t.Run("batches", func(t *testing.T) {
		for batch := range batches {
			t.Run(fmt.Sprint(batch), func(t *testing.T) {
				t.Parallel()
				one := runBatch(t, generator{rand.New(rand.NewPCG(seed, uint64(batch)))})
				mu.Lock()
				defer mu.Unlock()
				sum.add(one)
			})
		}
	})
	t.Logf("%d cases: %d applied by both, %d refused by both, %d refused by us alone on purpose",
		sum.cases, sum.applied, sum.refused, sum.excused)
	if sum.cases < 2000 || sum.applied < 800 || sum.refused < 300 {
		t.Error("too few cases of one kind: the test has lost its point")
	}
}

type tally struct{ cases, applied, refused, excused int }

func (a *tally) add(b tally) {
	a.cases += b.cases
	a.applied += b.applied
	a.refused += b.refused
	a.excused += b.excused
}

// runBatch makes the diffs of many cases with few git processes: each case
// has its own directory, and one diff is cut apart by directories.
func runBatch(t *testing.T, g generator) (sum tally) {
	maker, applier := newGit(t), newGit(t)
	old, edited := make([]tree, casesPerBatch), make([]tree, casesPerBatch)
	for i := range casesPerBatch {
		old[i] = g.tree()
		edited[i] = g.edit(old[i])
	}
	first, second := writeTrees(t, maker, old), writeTrees(t, maker, edited)
	diffs := make([]string, casesPerBatch)
	args := []string{"diff-tree", "-r", "-p", fmt.Sprintf("-U%d", pick(g, []int{3, 3, 3, 1, 5, 0}))}
	if g.chance(85) {
		args = append(args, "--binary")
	}
	if g.chance(10) {
		args = append(args, "--text")
	}
	args = append(args, pick(g, [][]string{{"-M"}, {"-M"}, {"-C", "--find-copies-harder"}, {"--no-renames"}, {"-B", "-M"}, {"-M", "--full-index"}})...)
	if g.chance(30) {
		args = append([]string{"-c", "core.quotePath=false"}, args...)
	}
	out := maker.run(t, maker.base, "", append(args, first, second)...)
	for section := range sections(out) {
		if i, ok := caseOf(section); ok {
			diffs[i] += section
		}
	}
	try := func(kind string, tr tree, diff string) {
		v := applier.compare(t, tr, diff)
		sum.cases++
		switch {
		case v.mismatch == "" && v.applied:
			sum.applied++
		case v.mismatch == "":
			sum.refused++
		case v.excused(diff):
			sum.excused++
		default:
			t.Errorf("%s: %s\ntree: %q\ndiff:\n%s\nquoted: %q", kind, v.mismatch, tr, diff, diff)
		}
	}
	for i, diff := range diffs {
		tr := inDir(i, old[i])
		if diff == "" {
			continue
		}
		try("clean", tr, diff)
		if g.chance(30) {
			try("plain", tr, g.plain(diff))
		}
		try("disturbed", inDir(i, g.disturb(old[i])), diff)
		try("damaged", tr, g.damage(diff))
		if g.chance(30) {
			try("damaged, plain", tr, g.damage(g.plain(diff)))
		}
	}
	return sum
}

func inDir(i int, tr tree) tree {
	in := tree{}
	for name, e := range maps.All(tr) {
		in[fmt.Sprintf("c%02d/%s", i, name)] = e
	}
	return in
}

func writeTrees(t *testing.T, maker git, trees []tree) string {
	t.Helper()
	dir := scratch(t)
	for i, tr := range trees {
		inDir(i, tr).write(t, dir)
	}
	if err := os.Remove(filepath.Join(maker.repository, "index")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	maker.run(t, dir, "", "add", "-A", "-f")
	return strings.TrimSpace(maker.run(t, dir, "", "write-tree"))
}

// sections cuts a git diff apart; no line of a hunk begins with a "d".
func sections(diff string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for diff != "" {
			end := strings.Index(diff[1:], "\ndiff --git ")
			if end < 0 {
				yield(diff)
				return
			}
			if !yield(diff[:end+2]) {
				return
			}
			diff = diff[end+2:]
		}
	}
}

// caseOf reads the case's number; sections between two cases (renames) are
// left out.
func caseOf(section string) (int, bool) {
	var i, j int
	header, _, _ := strings.Cut(section, "\n")
	header = strings.ReplaceAll(header, `"`, "")
	if _, err := fmt.Sscanf(header, "diff --git a/c%02d/", &i); err != nil {
		return 0, false
	}
	at := strings.Index(header, " b/c")
	if at < 0 {
		return 0, false
	}
	if _, err := fmt.Sscanf(header[at:], " b/c%02d/", &j); err != nil {
		return 0, false
	}
	return i, i == j
}
