package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/files"
)

// both runs a test with each engine.
func both(t *testing.T, test func(t *testing.T, engine string)) {
	t.Helper()
	t.Run("ripgrep", func(t *testing.T) { test(t, rg(t)) })
	t.Run("scanner", func(t *testing.T) { test(t, "") })
}

func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".gitignore":        "*.log\n/out/\n!.kept\n",
		".ignore":           "private.txt\n",
		".hidden":           "needle hidden\n",
		".kept":             "needle kept\n",
		".git/config":       "needle in git\n",
		"a.log":             "needle ignored\n",
		"out/x.txt":         "needle ignored\n",
		"private.txt":       "needle private\n",
		"a.txt":             "one\ntwo\nthree needle\nfour\nfive NEEDLE needle\nsix\nseven\neight\nnine\nneedles\n",
		"a/b.txt":           "needle",
		"a-b.txt":           "x needle\n",
		"crlf.txt":          "first\r\nneedle\r\nlast\r\n",
		"utf16.txt":         "\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00\n\x00",
		"utf16be.txt":       "\xfe\xff\x20\xac\x00n\x00e\x00e\x00d\x00l\x00e",
		"bom.txt":           "\ufeffneedle\n",
		"latin.txt":         "caf\xe9 needle \xff\xfe\n",
		"wide.txt":          "漢字😀é needle\n",
		"binary":            "needle\n\x00\n",
		"late":              strings.Repeat("x\n", 300<<10) + "\x00needle\n",
		"long.txt":          strings.Repeat("é", 3000) + "needle" + strings.Repeat("x", 3000) + "\n",
		"two\nlines.txt":    "needle\n",
		"dir\nline/x.txt":   "needle\n",
		"two\n\nlate":       "needle\n" + strings.Repeat("x\n", 300<<10) + "\x00\n", // ripgrep warns of it by its name
		"carriage\rreturn":  "needle\n",
		"./-e":              "needle\n",
		"kelvin.txt":        "Kneedle \u212aneedle ſneedle\n",
		"sub/.gitignore":    "!*.log\nskip*\n",
		"sub/kept.log":      "needle\n",
		"sub/skipped":       "needle\n",
		"repo/.git/HEAD":    "needle",
		"repo/inner.log":    "needle in a repository of its own\n",
		"empty.txt":         "",
		"words.txt":         "needle_ xneedle\nneedle.needle éneedle\n",
		"deep/er/and/x.ts":  "needle\n",
		"deep/er/and/x.tsx": "needle\n",
	})
	for link, target := range map[string]string{"link": "a.txt", "linkdir": "deep"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func show(hits []Hit) []string {
	list := []string{}
	for _, h := range hits {
		list = append(list, fmt.Sprintf("%s:%d:%d", h.File, h.Line, h.Column))
	}
	return list
}

func TestEngines(t *testing.T) {
	dir := sample(t)
	all := []string{"-e:1:1", ".kept:1:1", "a/b.txt:1:1", "a-b.txt:1:3", "a.txt:3:7", "a.txt:5:6", "a.txt:10:1", "bom.txt:1:1", "crlf.txt:2:1",
		"deep/er/and/x.ts:1:1", "deep/er/and/x.tsx:1:1", "kelvin.txt:1:2", "latin.txt:1:6", "long.txt:1:3001", "repo/inner.log:1:1",
		"sub/kept.log:1:1", "utf16.txt:1:1", "utf16be.txt:1:2", "wide.txt:1:6", "words.txt:1:1", "words.txt:2:1"}
	only := func(prefixes ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
			return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
		})
	}
	scope := func(glob, exclude []string) files.Scope { return files.Scope{Glob: glob, Exclude: exclude} }
	tests := []struct {
		name string
		o    Options
		want []string
	}{
		{"all", Options{Query: "needle"}, all},
		{"regex", Options{Query: "ne{2}d.e", Regex: true}, all},
		{"case", Options{Query: "NEEDLE", CaseSensitive: true}, []string{"a.txt:5:6"}},
		{"word", Options{Query: "needle", Word: true, Scope: scope([]string{"words.txt", "a.txt"}, nil)}, []string{"a.txt:3:7", "a.txt:5:6", "words.txt:2:1"}},
		{"word, regex", Options{Query: "nee.le", Word: true, Regex: true, Scope: scope([]string{"words.txt", "a.txt"}, nil)}, []string{"a.txt:3:7", "a.txt:5:6", "words.txt:2:1"}},
		{"case outside ASCII", Options{Query: "É NEEDLE"}, []string{"wide.txt:1:4"}},
		{"folds into ASCII", Options{Query: "kneedle s"}, []string{"kelvin.txt:1:9"}},
		{"folds into ASCII", Options{Query: "kneedle kneedle sneedle"}, []string{"kelvin.txt:1:1"}},
		{"folds into ASCII, word", Options{Query: "sneedle", Word: true}, []string{"kelvin.txt:1:17"}},
		{"folds into ASCII, regex", Options{Query: "e ſneedle$", Regex: true}, []string{"kelvin.txt:1:15"}},
		{"glob", Options{Query: "needle", Scope: scope([]string{"*.ts"}, nil)}, only("deep/er/and/x.ts:")},
		{"braces", Options{Query: "needle", Scope: scope([]string{"deep/**/*.{ts,tsx}"}, nil)}, only("deep")},
		{"classes", Options{Query: "needle", Scope: scope([]string{"/[a-c].txt", "d?ep/**"}, nil)}, only("a.txt", "deep")},
		{"glob does not bring back", Options{Query: "needle", Scope: scope([]string{"*.log", "**/out/**", ".*", "private.txt"}, nil)}, only(".kept", "repo", "sub")},
		{"nested ignore file against glob", Options{Query: "needle", Scope: scope([]string{"*.txt"}, []string{"*.txt"})}, []string{}},
		{"exclude", Options{Query: "needle", Scope: scope([]string{"/*.txt", "deep/"}, []string{"er", "a*", "[k-z]*"})}, only("bom.txt", "crlf.txt")},
		{"hidden", Options{Query: "needle", Scope: files.Scope{Glob: []string{".*"}, Hidden: true}}, []string{".hidden:1:1", ".kept:1:1"}},
		{"no ignore", Options{Query: "needle", Scope: files.Scope{Glob: []string{"*.log", "out/*", "private.txt"}, NoIgnore: true}},
			[]string{"a.log:1:1", "out/x.txt:1:1", "private.txt:1:1", "repo/inner.log:1:1", "sub/kept.log:1:1"}},
		{"keep", Options{Query: "needle", Scope: files.Scope{Keep: func(p string) bool { return strings.HasPrefix(p, "deep") }}}, only("deep")},
		{"size", Options{Query: "needle", MaxFileSize: 12, Scope: scope([]string{"a*.txt", "wide.txt"}, nil)}, only("a-b.txt")},
		{"options in the query", Options{Query: "--files"}, []string{}},
		{"nothing", Options{Query: "no such thing"}, []string{}},
		{"past a late zero byte", Options{Query: "needle", Scope: scope([]string{"late"}, nil)}, []string{}},
	}
	both(t, func(t *testing.T, engine string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				o := test.o
				o.Dir, o.RG = dir, engine
				got, err := Search(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(show(got.Hits), test.want) || got.Truncated || got.Hits == nil {
					t.Errorf("got  %q, truncated %t\nwant %q", show(got.Hits), got.Truncated, test.want)
				}
			})
		}
	})
}

// Outside of repositories, and in a part of one.
func TestIgnoreFilesByPlace(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".gitignore": "*.top\n", ".ignore": "*.above\n",
		"w/.gitignore": "*.log\n", "w/x.log": "needle\n", "w/x.top": "needle\n", "w/x.above": "needle\n", "w/x.txt": "needle\n",
		"w/repo/.git/info/exclude": "*.ex\n", "w/repo/.gitignore": "*.in\n",
		"w/repo/x.log": "needle\n", "w/repo/x.ex": "needle\n", "w/repo/x.in": "needle\n", "w/repo/x.txt": "needle\n",
	})
	look := func(want ...string) {
		t.Helper()
		both(t, func(t *testing.T, engine string) {
			got, err := Search(t.Context(), Options{Dir: filepath.Join(dir, "w"), RG: engine, Query: "needle"})
			if err != nil || !slices.Equal(show(got.Hits), want) {
				t.Errorf("got %q, %v\nwant %q", show(got.Hits), err, want)
			}
		})
	}
	look("repo/x.txt:1:1", "x.above:1:1", "x.top:1:1", "x.txt:1:1")
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	look("repo/x.log:1:1", "repo/x.txt:1:1", "x.txt:1:1")
}

func TestSnippets(t *testing.T) {
	dir := sample(t)
	both(t, func(t *testing.T, engine string) {
		got, err := Search(t.Context(), Options{Dir: dir, RG: engine, Query: "needle"})
		if err != nil {
			t.Fatal(err)
		}
		snippets := map[string]Hit{}
		for _, h := range got.Hits {
			snippets[h.File] = h
		}
		for file, want := range map[string]string{"crlf.txt": "needle", "latin.txt": "caf\ufffd needle \ufffd\ufffd", "utf16be.txt": "€needle", "bom.txt": "needle", "a/b.txt": "needle"} {
			if h := snippets[file]; h.Snippet != want || h.Cut {
				t.Errorf("%s: got %q", file, h.Snippet)
			}
		}
		long := snippets["long.txt"]
		if !long.Cut || !strings.Contains(long.Snippet, "éneedlex") || len(long.Snippet) > maxSnippet || !utf8.ValidString(long.Snippet) {
			t.Errorf("a long line: got %+v", long)
		}
	})
}

func TestContextLines(t *testing.T) {
	dir := sample(t)
	want := []Hit{
		{File: "a.txt", Line: 3, Column: 7, Snippet: "three needle", Before: []string{"one", "two"}, After: []string{"four", "five NEEDLE needle"}},
		{File: "a.txt", Line: 5, Column: 6, Snippet: "five NEEDLE needle", Before: []string{"three needle", "four"}, After: []string{"six", "seven"}},
		{File: "a.txt", Line: 10, Column: 1, Snippet: "needles", Before: []string{"eight", "nine"}},
	}
	both(t, func(t *testing.T, engine string) {
		for limit := 1; limit <= 4; limit++ {
			o := Options{Dir: dir, RG: engine, Query: "needle", Context: 2, MaxResults: limit}
			o.Glob = []string{"a.txt"}
			got, err := Search(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, got.Hits, want[:min(limit, 3)])
			if got.Truncated != (limit < 3) {
				t.Errorf("limit %d: truncated %t", limit, got.Truncated)
			}
		}
	})
}

func TestLimit(t *testing.T) {
	dir := sample(t)
	both(t, func(t *testing.T, engine string) {
		for limit := 1; limit < 25; limit++ {
			for _, around := range []int{0, 3} {
				got, err := Search(t.Context(), Options{Dir: dir, RG: engine, Query: "needle", MaxResults: limit, Context: around})
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Hits) != min(limit, 21) || got.Truncated != (limit < 21) {
					t.Errorf("limit %d: %d hits, truncated %t", limit, len(got.Hits), got.Truncated)
				}
				if !slices.IsSortedFunc(got.Hits, func(a, b Hit) int { return files.Compare(a.File, b.File) }) {
					t.Errorf("limit %d: not in order: %q", limit, show(got.Hits))
				}
			}
		}
	})
}

func TestErrors(t *testing.T) {
	dir := sample(t)
	both(t, func(t *testing.T, engine string) {
		tests := []struct {
			name, words string
			o           Options
			code        bridge.Code
		}{
			{"regex", "unclosed group|missing closing", Options{Query: "a(b", Regex: true}, bridge.CodeInvalid},
			{"empty", "empty", Options{}, bridge.CodeInvalid},
			{"lines", "line break", Options{Query: "a\nb"}, bridge.CodeInvalid},
			{"not UTF-8", "UTF-8", Options{Query: "\xff"}, bridge.CodeInvalid},
			{"long", "too long", Options{Query: strings.Repeat("x", 1<<20)}, bridge.CodeInvalid},
			{"negative", "negative", Options{Query: "x", Context: -1}, bridge.CodeInvalid},
			{"context", "context", Options{Query: "x", Context: 1000}, bridge.CodeInvalid},
			{"glob", "malformed", Options{Query: "x", Scope: files.Scope{Glob: []string{"["}}}, bridge.CodeInvalid},
			{"directory", "not there", Options{Query: "x", Dir: filepath.Join(dir, "nowhere")}, bridge.CodeNotFound},
			{"file", "not there", Options{Query: "x", Dir: filepath.Join(dir, "a.txt")}, bridge.CodeNotFound},
		}
		for _, test := range tests {
			o := test.o
			o.RG = engine
			if o.Dir == "" {
				o.Dir = dir
			}
			_, err := Search(t.Context(), o)
			hit := slices.ContainsFunc(strings.Split(test.words, "|"), func(w string) bool { return err != nil && strings.Contains(err.Error(), w) })
			if bridge.CodeOf(err) != test.code || !hit || bridge.AsError(err).Remedy == "" {
				t.Errorf("%s: got %v", test.name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Search(ctx, Options{Dir: dir, RG: engine, Query: "needle"}); bridge.CodeOf(err) != bridge.CodeCanceled {
			t.Errorf("canceled: got %v", err)
		}
	})
}
