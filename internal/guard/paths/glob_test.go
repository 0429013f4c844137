package paths

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResolveGlob(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	for _, name := range []string{"docs/st*r.md", "docs/.hidden", "docs/a[1].txt"} {
		if err := os.WriteFile(filepath.Join(tr.ws, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ pattern, want, why string }{
		{"src/*.go", "inside", ""},
		{"src/*", "inside", ""},
		{"docs/*.md", "inside", ""},
		{"docs/[ab]*", "inside", ""},
		{`docs/st\*r.md`, "inside", ""},
		{`docs/a\[1\].txt`, "inside", ""},
		{"nothing/*", "inside", ""},
		{"nothing*/x", "inside", ""},
		{"src/main.go/*", "inside", ""},
		{"**/*.go", "inside", ""},
		{"src/**", "inside", ""},
		{"in*e/main.go", "inside", ""},
		{"{{ws}}/src/*.go", "inside", ""},
		{"*", "outside", "it matches"},
		{"*/secret.txt", "outside", "it matches"},
		{"l*k/secret.txt", "outside", "link"},
		{"l?nk", "outside", ""},
		{"[k-m]ink/*", "outside", ""},
		{"l*/deep/*", "outside", ""},
		{"file*", "outside", "secret.txt"},
		{"dangl*", "outside", "nothing"},
		{"sr*/d*p/up/*", "outside", ""},
		{"{{out}}/*", "outside", ""},
		{"../outer/*", "outside", ""},
		{"link/**", "outside", ""},
		{"/etc/*", "outside", ""},
		{"/etc/pass*", "outside", ""},
		{"~/*", "outside", ""},
		{"src/../../*", "outside", ""},
		{"*/../../x", "error", "parent"},
		{"sr*/..", "error", "parent"},
		{".*", "error", "parent"},
		{".?/x", "error", "parent"},
		{"src/.[.]/../x", "error", "parent"},
		{"[.]./x", "error", "parent"},
		{"**/../../x", "error", "parent"},
		{"src/[", "error", "pattern"},
		{"self/*", "error", "loop"},
		{"s*f/*", "error", "loop"},
		{"docs/*\x00", "error", "NUL"},
		{"docs/*\u202e", "error", "invisible"},
		{"a\\b/*", "error", "backslash"},
	} {
		got, err := w.ResolveGlob(tr.fill(tc.pattern))
		switch {
		case err != nil:
			if tc.want != "error" || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%q: %v, want %s", tc.pattern, err, tc.want)
			}
		case tc.want == "error" || got.Inside != (tc.want == "inside") || !strings.Contains(got.Reason, tc.why):
			t.Errorf("%q: %+v, want %s", tc.pattern, got, tc.want)
		case !got.Inside && !strings.Contains(got.Reason, "outside the workspace"):
			t.Errorf("%q: reason %q", tc.pattern, got.Reason)
		}
	}
}

func TestResolveGlobIsBounded(t *testing.T) {
	tr := newTree(t)
	w := open(t, tr)
	for i := range 40 {
		for j := range 40 {
			if err := os.MkdirAll(filepath.Join(tr.ws, "many", fmt.Sprint(i), fmt.Sprint(j)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Each level is visited again for every wildcard in front of it.
	for range 40 {
		if err := os.Symlink("..", filepath.Join(tr.ws, "many", "back")); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if _, err := w.ResolveGlob("many/*/*"); err != nil {
		t.Errorf("two levels: %v", err)
	}
	if _, err := w.ResolveGlob("many/*" + strings.Repeat("/many/*", 200) + "/*"); err != nil && !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}
