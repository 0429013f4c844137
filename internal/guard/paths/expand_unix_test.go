//go:build unix

package paths

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whatever bash makes of a pattern is among the matches, and a match that
// leads outside is noticed.
func TestExpandSeesWhatBashSees(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	for _, name := range []string{"docs/.hidden", "docs/[x].txt", "docs/-n", "docs/a b.txt"} {
		if err := os.WriteFile(filepath.Join(tr.ws, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outside := 0
	for _, pattern := range []string{
		"*", "*/", "*/*", "**", "**/*", "**/main.go", "**/secret.txt", "*/secret.txt", "docs/*", "docs/.h*", "docs/?*", "docs/[!x]*", "docs/[^x]*", "docs/[[:alpha:]]*",
		"docs/[]x]*", "docs/[[.x.]]*", "docs/[x", `docs/\[x\].txt`, "docs/[x].txt", "[l]ink/*", "[!z]ink", "[[:lower:]]ink/secret.txt", "l?nk/*", "in*/*.go", "src/*", "src/[a-z]*", "none*",
		"file[!x]ink", "[fg]ile*", "*ink", "docs/../*ink", "./*/secret.txt", "docs/a\\ b*",
	} {
		out, err := exec.Command("bash", "--norc", "-c", "cd \"$1\" && printf '%s\\0' "+pattern, "bash", tr.ws).Output()
		if err != nil {
			t.Fatal(err)
		}
		res, matches, err := w.Expand(strings.ReplaceAll(pattern, `\ `, " "), false)
		if literal, err := w.Resolve(strings.ReplaceAll(pattern, `\`, "")); err == nil {
			matches = append(matches, literal) // the guard looks at it too
		}
		escapes := false
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			place, evalErr := filepath.EvalSymlinks(filepath.Join(tr.ws, name))
			if evalErr != nil {
				continue // a pattern that stands for itself, or a link to nothing
			}
			if place != tr.ws && !strings.HasPrefix(place, tr.ws+"/") {
				escapes = true
				continue
			}
			if err == nil && res.Inside && !slices.ContainsFunc(matches, func(m Resolved) bool { return m.Abs == place }) {
				t.Errorf("%s: %s is missing", pattern, name)
			}
		}
		if escapes {
			outside++
			if err == nil && res.Inside {
				t.Errorf("%s leads outside, and passes", pattern)
			}
		}
	}
	if outside < 8 {
		t.Errorf("only %d patterns led outside", outside)
	}
}

// A link at the end of a pattern is a name for those who only list words.
func TestExpandWords(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	for pattern, inside := range map[string]bool{"*": true, "l*k": true, "l*k/*": false, "*/secret.txt": false, "/etc/*": false} {
		if res, _, err := w.Expand(pattern, true); err != nil || res.Inside != inside {
			t.Errorf("%s: %+v, %v", pattern, res, err)
		}
	}
}

// Relative paths start in the directory of At, and the same paths are inside.
func TestAt(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	at := w.At(filepath.Join(w.Root(), "src"))
	for path, want := range map[string]string{"main.go": "src/main.go", "../docs": "docs", ".": "src", filepath.Join(w.Root(), "docs"): "docs", "../../x": "", "../link/secret.txt": ""} {
		if res, err := at.Resolve(path); err != nil || res.Rel != want || res.Inside != (want != "") {
			t.Errorf("%s: %+v, %v", path, res, err)
		}
	}
	if res, err := w.Resolve("inside/main.go"); err != nil || res.Rel != "src/main.go" || res.Named != "inside/main.go" {
		t.Errorf("%+v, %v", res, err)
	}
	if at.Base() == w.Base() || at.Root() != w.Root() {
		t.Errorf("%s, %s", at.Base(), at.Root())
	}
}
