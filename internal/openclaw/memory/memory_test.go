package memory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func terms(text string, query bool) []string {
	var out []string
	new(scanner).each(text, query, func(t []byte) { out = append(out, string(t)) })
	return out
}

func TestTerms(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		query      bool
	}{
		{text: "The Quick-brown_fox's den", want: "the quick brown fox s den"},
		{text: "Policies and boxes, class status", want: "policy and boxe class status"},
		{text: "Café CAFÉ cafe\u0301 Ｆｕｌｌ", want: "cafe cafe cafe full"},
		{text: "Москва ΑΘΉΝΑ straße", want: "москва αθηνα straße"},
		{text: "v2.1 go1.26", want: "v2 1 go1 26"},
		{text: "日本語", want: "日 日本 本 本語 語"},
		{text: "日本語", query: true, want: "日本 本語"},
		{text: "猫", query: true, want: "猫"},
		{text: "Goの設定file", want: "go の の設 設 設定 定 file"},
		{text: "東京タワー", query: true, want: "東京 京タ タワ ワー"},
		{text: "한국어 검색", query: true, want: "한국 국어 검색"},
		{text: "สวัสดี", query: true, want: "สว วั ัส สด ดี"},
		{text: "co\u00adoperate", want: "cooperate"},
		{text: " \t-- ** \x00 \xff", want: ""},
		{text: strings.Repeat("a", 200), want: strings.Repeat("a", maxTerm)},
	} {
		if got := strings.Join(terms(tt.text, tt.query), " "); got != tt.want {
			t.Errorf("%q (query %v): %q, want %q", tt.text, tt.query, got, tt.want)
		}
	}
}

func TestNumbering(t *testing.T) {
	var n numbering
	for range 2 {
		for i := range 30_000 {
			if got := n.of(fmt.Append(nil, "t", i)); got != uint32(i) {
				t.Fatalf("t%d has the number %d", i, got)
			}
		}
	}
	if n.count() != 30_000 || n.term(0) != "t0" || n.term(29_999) != "t29999" {
		t.Errorf("%d terms, %q to %q", n.count(), n.term(0), n.term(29_999))
	}
}

func TestSplit(t *testing.T) {
	long := strings.Repeat(strings.Repeat("word ", 30)+"\n\n", 40)
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "one\ntwo\n", "1-2 "},
		{"headings", "intro\n# A\na\n## B\nb\n# C\nc\n", "1-1 |2-3 A|4-5 A > B|6-7 C"},
		{"empty heading is kept", "# A\n## B\nb", "1-1 A|2-3 A > B"},
		{"closing hashes", "## A b ##\nx", "1-2 A b"},
		{"no heading", "#tag\n####### seven\n    # code", "1-3 "},
		{"code", "# A\n```sh\n# not one\n```\nx\n# B\ny", "1-5 A|6-7 B"},
		{"longer fence", "# A\n````\n```\n# no\n````\n# B\ny", "1-5 A|6-7 B"},
		{"underlined", "Title\n=====\nx\n\nSub\n---\ny", "1-4 Title|5-7 Title > Sub"},
		{"a rule is none", "x\n\n---\ny", "1-4 "},
		{"a list is none", "- x\n---\ny", "1-3 "},
		{"front matter", "---\ntitle: x\n# no\n---\n# A\na", "1-4 |5-6 A"},
		{"windows", "# A\r\na\r\n# B\r\nb\r\n", "1-2 A|3-4 B"},
		{"nothing", "\n \n", ""},
		{"no line end", "# A", "1-1 A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, s := range split(tt.text) {
				got = append(got, fmt.Sprintf("%d-%d %s", s.first, s.last, s.heading))
			}
			if g := strings.Join(got, "|"); g != tt.want {
				t.Errorf("%q, want %q", g, tt.want)
			}
		})
	}
	pieces := split("# A\n" + long)
	if len(pieces) < 2 || !pieces[1].continues || pieces[1].heading != "A" {
		t.Errorf("a long section is in %d pieces", len(pieces))
	}
	for i, p := range pieces[1:] {
		if p.first != pieces[i].last+1 {
			t.Errorf("piece %d begins on line %d, the one before ends on %d", i+1, p.first, pieces[i].last)
		}
	}
}

func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// workspace is a folder as OpenClaw has it.
func workspace(dir string) Folder {
	return Folder{Dir: dir, Files: []string{"MEMORY.md", "USER.md"}, Trees: []string{"memory"}}
}

func search(t *testing.T, x *Index, query string) []string {
	t.Helper()
	found, err := x.Search(t.Context(), query, 10)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range found.Hits {
		out = append(out, fmt.Sprintf("%s:%d %s", h.File, h.Line, h.Heading))
	}
	return out
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"MEMORY.md":              "# Projects\n\nThe bridge is written in Go.\n\n## Deploy\n\nStaging is deployed on Fridays by Ada.\n",
		"USER.md":                "# Preferences\nTabs, never spaces.\n",
		"memory/2026-01-02.md":   "We talked about staging. Staging is slow; staging needs a cache.\n",
		"memory/people/ada.md":   "# Ada\nAda Lovelace deploys. She prefers tabs.\n",
		"memory/日記.md":           "# 日記\n東京タワーに行った。猫が好き。\n",
		"memory/café.md":         "Le Café de Flore\n",
		"memory/notes.txt":       "staging\n",
		"memory/.hidden.md":      "staging\n",
		"memory/main.sqlite":     "staging\n",
		"SOUL.md":                "staging\n",
		"memory/binary.md":       "staging\x00staging",
		"memory/empty.md":        "",
		"memory/deep/a/b/c/d.md": "# Deep\nA needle in a haystack\n",
	})
	x := New(workspace(dir))
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"staging", []string{"memory/2026-01-02.md:1 ", "MEMORY.md:5 Projects > Deploy"}},
		{"who deploys staging", []string{"MEMORY.md:5 Projects > Deploy", "memory/2026-01-02.md:1 ", "memory/people/ada.md:1 Ada"}},
		{"tab", []string{"USER.md:1 Preferences", "memory/people/ada.md:1 Ada"}},
		{"preference", []string{"USER.md:1 Preferences"}},
		{"タワー", []string{"memory/日記.md:1 日記"}},
		{"猫", []string{"memory/日記.md:1 日記"}},
		{"cafe", []string{"memory/café.md:1 "}},
		{"NEEDLE", []string{"memory/deep/a/b/c/d.md:1 Deep"}},
		{"absent", nil},
	} {
		if got := search(t, x, tt.query); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.query, got, tt.want)
		}
	}
	found, err := x.Search(t.Context(), "staging fridays", 1)
	if err != nil || len(found.Hits) != 1 || found.Hits[0].Snippet != "Staging is deployed on Fridays by Ada." || found.Hits[0].EndLine != 7 {
		t.Errorf("%+v, %v", found, err)
	}
	if found.Files != 8 || found.Skipped != 1 {
		t.Errorf("%d files, %d skipped", found.Files, found.Skipped)
	}
	for _, bad := range []string{"", " -- ", strings.Repeat("x ", maxQuery)} {
		if _, err := x.Search(t.Context(), bad, 5); err == nil {
			t.Errorf("the query %.10q is taken", bad)
		}
	}
}

func TestFresh(t *testing.T) {
	dir := t.TempDir()
	x := New(workspace(dir), Folder{Dir: filepath.Join(dir, "absent"), Trees: []string{"."}})
	expect := func(query string, want ...string) {
		t.Helper()
		if got := search(t, x, query); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	expect("apple")
	put(t, dir, map[string]string{"memory/a.md": "apple\n", "memory/b.md": "pear\n"})
	expect("apple", "memory/a.md:1 ")
	put(t, dir, map[string]string{"memory/a.md": "melon\n"}) // the same size, within the same moment
	expect("apple")
	expect("melon", "memory/a.md:1 ")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "memory", "b.md"), old, old); err != nil {
		t.Fatal(err)
	}
	expect("pear", "memory/b.md:1 ")
	if err := os.Remove(filepath.Join(dir, "memory", "b.md")); err != nil {
		t.Fatal(err)
	}
	expect("pear")
	for i := range 200 {
		put(t, dir, map[string]string{"memory/a.md": fmt.Sprintf("# H\nmelon %d\n# I\nx\n", i)})
		if i%10 == 0 {
			expect("melon", "memory/a.md:1 H")
		}
	}
	put(t, dir, map[string]string{"memory/a.md": "# J\nplum\n", "memory/c.md": "# K\nplum plum plum\n"})
	expect("plum", "memory/c.md:1 K", "memory/a.md:1 J")
}

func TestCompact(t *testing.T) {
	dir := t.TempDir()
	x := New(workspace(dir))
	many := strings.Repeat("# H\nmelon\n", 700)
	for i := range 5 {
		put(t, dir, map[string]string{"memory/many.md": many + strings.Repeat("y\n", i), "memory/one.md": "# One\nplum\n"})
		if got := search(t, x, "plum"); !slices.Equal(got, []string{"memory/one.md:1 One"}) {
			t.Fatalf("round %d: %q", i, got)
		}
	}
	if len(x.sections) > 2*x.live+1000 {
		t.Errorf("%d sections for %d that live", len(x.sections), x.live)
	}
}

func TestLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, map[string]string{"secret.md": "apple\n", "dir/secret.md": "apple\n"})
	put(t, dir, map[string]string{"memory/a.md": "pear\n"})
	for link, target := range map[string]string{"memory/link.md": filepath.Join(outside, "secret.md"), "memory/dir": filepath.Join(outside, "dir"), "MEMORY.md": filepath.Join(outside, "secret.md")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("links cannot be made here:", err)
		}
	}
	if got := search(t, New(workspace(dir)), "apple"); len(got) > 0 {
		t.Errorf("found %q behind links that lead outside", got)
	}
}

func TestSearchEnds(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"memory/a.md": "apple\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(workspace(dir)).Search(ctx, "apple", 5); err == nil {
		t.Error("a search goes on after its end")
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"# A\nb\n## C\n", "---\nx\n---\n", "```\n# x\n", "T\n==\nx\n\nU\n--\n", "\r\n#\t\n", strings.Repeat("a\n\n", 2000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		last := 0
		for _, s := range split(text) {
			if s.first <= last || s.last < s.first || s.last > lines {
				t.Fatalf("lines %d to %d after %d of %d", s.first, s.last, last, lines)
			}
			last = s.last
		}
	})
}

func FuzzTerms(f *testing.F) {
	for _, s := range []string{"Hello, World", "日本語タワー", "cafe\u0301", "ไทย", "\xff\xfe", "Ⅷ ﬁ İ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, term := range terms(text, false) {
			if term == "" || len(term) > maxTerm || strings.ContainsAny(term, " \n\t") {
				t.Fatalf("%q of %q", term, text)
			}
		}
	})
}
