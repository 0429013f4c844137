package patch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		_, diff, _ := strings.Cut(string(text), "-- diff --\n")
		f.Add(diff)
	}
	_, _, diff := everyStep()
	f.Add(diff)
}

// FuzzParse: no text makes the parser fail otherwise than by an error, and
// what it returns is consistent.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, diff string) {
		all, err := parse(diff, 1<<20)
		if err != nil {
			return
		}
		for _, s := range all {
			if s.name() == "" || s.created == yes && s.old != "" || s.line < 1 {
				t.Errorf("section %+v", s)
			}
			for _, h := range s.hunks {
				var old, added int64
				for _, l := range h.Lines {
					if l.Old() {
						old++
					}
					if l.New() {
						added++
					}
				}
				if old != h.OldLines || added != h.NewLines {
					t.Errorf("hunk %+v", h)
				}
			}
		}
	})
}

// FuzzApply: nothing outside the workspace changes, and inside nothing if the
// diff is refused.
func FuzzApply(f *testing.F) {
	seeds(f)
	before := tree{
		"workspace/x": {"file", numbers}, "workspace/e": {"file", ""}, "workspace/d/x": {"file", numbers}, "workspace/l": {"link", "d"},
		"workspace/out": {"link", ".."}, "workspace/a b": {"exec", numbers}, "workspace/.git/config": {"file", "[core]\n"},
		"x": {"file", numbers}, "secret": {"file", "s\n"},
	}
	f.Fuzz(func(t *testing.T, diff string) {
		base := scratch(t)
		outer := filepath.Join(base, "outer")
		before.write(t, outer)
		root := open(t, filepath.Join(outer, "workspace"))
		res, err := Apply(t.Context(), root, diff, Options{Journal: filepath.Join(base, "journal"), MaxBytes: 1 << 20})
		after := readTree(t, outer)
		if err != nil || !res.OK {
			if d := before.diff(after); d != "" {
				t.Errorf("refused (%v %v), but: %s", err, res.Conflicts, d)
			}
			return
		}
		for _, name := range []string{"x", "secret", "workspace/.git/config"} {
			if after[name] != before[name] {
				t.Errorf("%s has changed", name)
			}
		}
		for name := range after {
			if !strings.HasPrefix(name, "workspace") && name != "x" && name != "secret" || strings.Contains(name, stagePrefix) {
				t.Errorf("%q is there", name)
			}
		}
	})
}
