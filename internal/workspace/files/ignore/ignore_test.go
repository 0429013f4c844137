package ignore

import (
	"strings"
	"testing"
)

func TestVerdicts(t *testing.T) {
	tests := []struct {
		rules, path string
		want        Verdict
	}{
		{"a", "a", Ignored},
		{"a", "x/y/a", Ignored},
		{"a", "ab", Silent},
		{"a\n!a", "a", Kept},
		{"!a\na", "a", Ignored},
		{"/a", "x/a", Silent},
		{"x/a", "x/a", Ignored},
		{"x/a", "y/x/a", Silent},
		{"a/", "a", Silent},
		{"a/", "a/", Ignored},
		{"*.o", "x/.o", Ignored},
		{"x/*.o", "x/y/a.o", Silent},
		{"**/a", "a", Ignored},
		{"x/**/a", "x/a", Ignored},
		{"x/**/a", "x/y/z/a", Ignored},
		{"x/**", "x/", Silent},
		{"x/**", "x/y/z", Ignored},
		{"x**y", "xay", Ignored},
		{"x**y/z", "xa/by/z", Silent},
		{"a?c", "abc", Ignored},
		{"a?c", "a/c", Silent},
		{"a[!b]c", "abc", Silent},
		{"a[^b]c", "axc", Ignored},
		{"a[]]c", "a]c", Ignored},
		{"a[b-]c", "a-c", Ignored},
		{"a[[:digit:]]c", "a7c", Ignored},
		{"a[[:nope:]]c", "a7c", Silent},
		{"a[", "a[", Silent},
		{`a\`, "a", Silent},
		{`\#a`, "#a", Ignored},
		{`\!a`, "!a", Ignored},
		{"#a", "#a", Silent},
		{"a  ", "a", Ignored},
		{`a\ `, "a ", Ignored},
		{"a\r\nb\r\n", "b", Ignored},
		{"\ufeffa", "a", Ignored},
		{"/", "a", Silent},
		{"!", "a", Silent},
		{"", "a", Silent},
	}
	for _, test := range tests {
		path, dir := strings.CutSuffix(test.path, "/")
		if got := Parse(test.rules).Match(path, dir); got != test.want {
			t.Errorf("%q says %d of %q, want %d", test.rules, got, test.path, test.want)
		}
	}
}

// A pattern that takes exponential time by plain backtracking.
func TestTimeIsBounded(t *testing.T) {
	rules := Parse(strings.Repeat("*a", 60) + "b\n/" + strings.Repeat("**/a/", 60) + "b")
	if got := rules.Match(strings.Repeat("a/", 500)+strings.Repeat("a", 255), false); got != Silent {
		t.Errorf("got %d", got)
	}
}

func FuzzMatch(f *testing.F) {
	for _, seed := range []string{"*.o\n!keep.o", "/a/**/b/", "[a-z]*", "\\", "[[:alpha:]-", "***", "a/**"} {
		f.Add(seed, "a/b/c.o", false)
	}
	f.Fuzz(func(t *testing.T, text, path string, dir bool) {
		rules := Parse(text)
		first := rules.Match(path, dir)
		if rules.Empty() && first != Silent {
			t.Error("no rules, yet a verdict")
		}
		// A negation of everything outweighs whatever came before.
		if path != "" && !strings.HasSuffix(path, "/") {
			if got := Parse(text+"\n!*").Match(path, dir); got != Kept {
				t.Errorf("the last rule keeps all, but %q is %d", path, got)
			}
		}
	})
}
