package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

func TestGlobs(t *testing.T) {
	const (
		both  = "both"
		deny  = "deny only"
		never = "never"
	)
	tests := []struct{ glob, path, matches string }{
		{".env", ".env", both},
		{".env", "a/.env", never},
		{"**/.env", ".env", both},
		{"**/.env", "a/.env", both},
		{"**/.env", "a/b/.env", both},
		{"**/.env", "a/.envrc", never},
		{"**/.env", "a/x.env", never},
		{"**/.env", ".env/secret", deny},
		{"**/.env", ".ENV", deny},
		{"**/.env", "a/.Env", deny},
		{"**/.env", "a/.env.", deny},
		{"**/.env", "a/.env ", deny},
		{"**/.env", "a/.env::$DATA", deny},
		{"**/.env", "a/.e\u200bnv", deny},
		{"**/.env", "a/.e\u200cnv", deny},
		{"**/.env", "a/.\ufeffenv", deny},
		{"**/kelvin", "a/\u212aelvin", deny},
		{"**/secret", "\u017fecret", deny},
		{"**", ".", both},
		{"**", "a", both},
		{"**", "a/b/c", both},
		{"**/*", ".", both},
		{"**/*", "a/b", both},
		{"*", ".", both},
		{"*", "a", both},
		{"*", ".hidden", both},
		{"*", "a/b", never},
		{".", ".", both},
		{".", "a", deny},
		{"**/.*", ".", never},
		{"**/.*", ".git", both},
		{"**/.*", "a/.x", both},
		{"src/*", "src/a", both},
		{"src/*", "src/a/b", never},
		{"src/*", "src", never},
		{"src/**", "src", both},
		{"src/**", "src/a/b", both},
		{"src/**", "src2/a", never},
		{"src/**", "a/src/b", never},
		{"src/**", "SRC/a", deny},
		{"src/", "src", both},
		{"src/", "src/a/b", both},
		{"./src/**", "src/a", both},
		{"./", "a/b", both},
		{"secrets", "secrets", both},
		{"secrets", "secrets/a/b", deny},
		{"secrets", "secrets2", never},
		{"a/b", "a/b/c", deny},
		{"a/b", "a/bc", never},
		{"src/**/*.ts", "src/x.ts", both},
		{"src/**/*.ts", "src/a/b/x.ts", both},
		{"src/**/*.ts", "src/a/b/x.tsx", never},
		{"src/**/*.ts", "x.ts", never},
		{"src/**/*.ts", "src/a/X.TS", deny},
		{"**/*.pem", "key.pem", both},
		{"**/*.pem", "a/b/key.pem", both},
		{"**/*.pem", "a/.pem", both},
		{"**/*.pem", "a/pem", never},
		{"**/*.pem", "a.pem/x", never},
		{"**/node_modules/**", "node_modules", both},
		{"**/node_modules/**", "node_modules/a/b", both},
		{"**/node_modules/**", "a/node_modules/b", both},
		{"**/node_modules/**", "a/node_modules", both},
		{"**/node_modules/**", "a/my_node_modules/b", never},
		{"**/a/b/**", "x/a/b/c", both},
		{"**/a/b/**", "x/a/c/b", never},
		{"**/a/b", "x/a/b", both},
		{"**/a/b", "xa/b", never},
		{"*.{md,txt}", "a.md", both},
		{"*.{md,txt}", "a.rst", never},
		{"{a,b}/**", "b/c", both},
		{"{a,b}", "b/c", deny},
		{"**/[abc].go", "x/b.go", both},
		{"**/[abc].go", "x/d.go", never},
		{"**/[!a]x", "q/bx", both},
		{"**/[!a]x", "q/Ax", both}, // exactly; folded it does not
		{"a?c", "abc", both},
		{"a?c", "a/c", never},
		{"**/?.go", "x/y.go", both},
		{"**/?.go", "x/é.go", both},
		{"**/?.go", "x/yy.go", never},
		{`app/\[id\].tsx`, "app/[id].tsx", both},
		{`app/\[id\].tsx`, "app/i.tsx", never},
		{`app/\[id\]`, "app/[id]/page.tsx", deny},
		{`a\*b`, "a*b", both},
		{`a\*b`, "axb", never},
		{"a/**/b/**/c", "a/b/c", both},
		{"a/**/b/**/c", "a/x/y/b/z/c", both},
		{"a/**/b/**/c", "a/x/c", never},
		{"**/**", "a/b", both},
		{"a*/**", "a", both},
		{"a*/**", "ab/c", both},
		{"a*/**", "b/a", never},
		{"{b/c,a*,d}", "a", both},
		{"{b/c,a*,d}", "d/e", never}, // its last part has a wildcard
		{"{b/c,a*,x/d}", "a", both},
		{"{b/c,a*,x/d}", "x/d/e", deny},
		{"ÄÖ/**", "äö/x", deny},
		{"with space/*", "with space/a", both},
		{"10:30", "10:30", both},
		{"docs", "docs:stream", deny},
	}
	for _, tt := range tests {
		n := newNamed(tt.path)
		allow, err := newPathGlob(tt.glob, false)
		if err != nil {
			t.Errorf("%q: %v", tt.glob, err)
			continue
		}
		denial, err := newPathGlob(tt.glob, true)
		if err != nil {
			t.Errorf("%q: %v", tt.glob, err)
			continue
		}
		got := never
		switch a, d := allow.allows(&n, false), denial.denies(&n); {
		case a && d:
			got = both
		case d:
			got = deny
		case a:
			got = "allow only"
		}
		if got != tt.matches {
			t.Errorf("%q on %q: %s, want %s", tt.glob, tt.path, got, tt.matches)
		}
	}
}

func TestCaseInsensitiveAllow(t *testing.T) {
	for _, tt := range []struct {
		glob, path   string
		exact, blind bool
	}{
		{"Src/**", "src/a", false, true},
		{"src/**", "SRC/A", false, true},
		{"**/*.Go", "a/b.gO", false, true},
		{"src/**", "src/a", true, true},
		{"src/**", "srcx/a", false, false},
		{"src/**", "src./a", false, false}, // only denials look behind a disguise
		{"**/[A-C]x", "bx", false, true},
	} {
		g, err := newPathGlob(tt.glob, false)
		if err != nil {
			t.Fatal(err)
		}
		n := newNamed(tt.path)
		if got := g.allows(&n, false); got != tt.exact {
			t.Errorf("%q on %q exactly: %v", tt.glob, tt.path, got)
		}
		if got := g.allows(&n, true); got != tt.blind {
			t.Errorf("%q on %q without case: %v", tt.glob, tt.path, got)
		}
	}
}

func TestBadGlobs(t *testing.T) {
	for glob, want := range map[string]string{
		"!src/**":                     "negated",
		"~/.ssh/**":                   "~ is not expanded",
		" src":                        "white space",
		"src ":                        "white space",
		`src\lib\x`:                   "write / between",
		`src\**`:                      "write / between",
		`src\`:                        "write / between",
		"a/../b":                      "..",
		"..":                          "..",
		"**.ts":                       "** must stand alone",
		"src/**x/a":                   "** must stand alone",
		"a***":                        "** must stand alone",
		"a//b":                        "empty directory",
		"[a":                          "not a valid glob",
		"{a,b":                        "not a valid glob",
		"[]":                          "not a valid glob",
		strings.Repeat("{a,b}", 8):    "alternatives",
		strings.Repeat("{a,b,c}", 50): "alternatives",
		"{" + strings.Repeat("{a,b},", 7) + strings.Repeat("c,", 9) + "d}": "alternatives",
	} {
		if _, err := newPathGlob(glob, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", glob, err, want)
		}
	}
}

// The quick shapes must mean what doublestar would say.
func TestShapesAgreeWithDoublestar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", ".x", "a.go", "*", "**", "?", "*.go", "a*", "[ab]", "{a,b}", "x.y", "*a*", `\*`, "[!a]b"}
	names := []string{"a", "b", ".x", "a.go", "b.go", "aa", "ab", "x.y", "*", "xb", "c"}
	join := func(from []string) string {
		parts := make([]string, 1+rng.IntN(4))
		for i := range parts {
			parts[i] = from[rng.IntN(len(from))]
		}
		return strings.Join(parts, "/")
	}
	// The generator knows no braces around slashes, so here are some.
	pieces = append(pieces, "{a/b,x}", "a{b,c/d}e", `[\]a]b`, "x{.y,}")
	names = append(names, "abe", "ac", "de", "]b", "x")
	shapes := map[shape]int{}
	matched := 0
	for range 200_000 {
		glob, name := join(pieces), join(names)
		m := newMatcher(glob)
		shapes[m.shape]++
		want, err := doublestar.Match(glob, name)
		if err != nil {
			t.Fatal(err)
		}
		if top, ok := strings.CutSuffix(glob, "/**"); ok && !want {
			// Where a*/** should match a, doublestar is wrong.
			if want, err = doublestar.Match(top, name); err != nil {
				t.Fatal(err)
			}
		}
		if want {
			matched++
		}
		if got := m.match(name); got != want {
			t.Fatalf("%q (shape %d) on %q: %v, doublestar says %v", glob, m.shape, name, got, want)
		}
	}
	for s := shapeGeneral; s <= shapeBelow; s++ {
		if shapes[s] == 0 {
			t.Errorf("shape %d was never tried", s)
		}
	}
	if matched < 5_000 {
		t.Errorf("only %d matches: the test has lost its point", matched)
	}
}

func TestReachesBelow(t *testing.T) {
	for _, tt := range []struct {
		glob, dir string
		want      bool
	}{
		{"**/.env", ".", true},
		{"**/.env", "src", true},
		{"secrets/**", ".", true},
		{"secrets/**", "src", false},
		{"src/secrets/**", "src", true},
		{"src/secrets/**", "SRC", true},
		{"src/secrets/*.pem", "src/secrets/deep", true},
		{"src2/**", "src", false},
		{".env", "src", false},
		{".env", ".", true},
	} {
		g, err := newPathGlob(tt.glob, true)
		if err != nil {
			t.Fatal(err)
		}
		n := newNamed(tt.dir)
		if got := g.reachesBelow(&n); got != tt.want {
			t.Errorf("%q below %q: %v", tt.glob, tt.dir, got)
		}
	}
}
