package lsp

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func at(line, char uint32) Position { return Position{line, char} }

func edit(l1, c1, l2, c2 uint32, s string) textEdit {
	return textEdit{Range: Span{at(l1, c1), at(l2, c2)}, NewText: s}
}

func TestApply(t *testing.T) {
	tests := []struct {
		name   string
		before string
		edits  []textEdit
		after  string
		err    string
	}{
		{"none", "abc", nil, "abc", ""},
		{"in any order", "one two three", []textEdit{edit(0, 0, 0, 3, "1"), edit(0, 8, 0, 13, "3"), edit(0, 4, 0, 7, "2")}, "1 2 3", ""},
		{"insertions keep order", "x", []textEdit{edit(0, 0, 0, 0, "a"), edit(0, 0, 0, 0, "b"), edit(0, 1, 0, 1, "c")}, "abxc", ""},
		{"insert before replace", "x", []textEdit{edit(0, 0, 0, 1, "y"), edit(0, 0, 0, 0, "a")}, "ay", ""},
		{"surrogates", "a😀b😀c", []textEdit{edit(0, 3, 0, 4, "B"), edit(0, 6, 0, 7, "C")}, "a😀B😀C", ""},
		{"inside a surrogate pair", "a😀b", []textEdit{edit(0, 2, 0, 3, "X")}, "aXb", ""},
		{"CRLF", "a\r\nb\r\nc", []textEdit{edit(0, 1, 1, 0, ";"), edit(2, 0, 2, 1, "C")}, "a;b\r\nC", ""},
		{"end of a CRLF line", "ab\r\nc", []textEdit{edit(0, 99, 0, 99, "!")}, "ab!\r\nc", ""},
		{"CR alone", "a\rb\rc", []textEdit{edit(1, 0, 1, 1, "B"), edit(2, 0, 2, 0, "-")}, "a\rB\r-c", ""},
		{"mixed", "a\nb\r\nc\rd", []textEdit{edit(3, 0, 3, 1, "D"), edit(1, 0, 2, 0, "")}, "a\nc\rD", ""},
		{"past the end", "a\nb", []textEdit{edit(1, 0, 99, 0, "z\n")}, "a\nz\n", ""},
		{"line behind the last newline", "a\n", []textEdit{edit(1, 0, 1, 0, "b\n")}, "a\nb\n", ""},
		{"everything", "a\nb\n", []textEdit{edit(0, 0, 4294967295, 4294967295, "new")}, "new", ""},
		{"empty text", "", []textEdit{edit(0, 0, 0, 0, "x")}, "x", ""},
		{"overlap", "abcdef", []textEdit{edit(0, 0, 0, 3, "x"), edit(0, 2, 0, 5, "y")}, "", "overlap at line 1, column 3"},
		{"backwards", "abc", []textEdit{edit(0, 2, 0, 1, "x")}, "", "before it begins"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newBuffer(tt.before).apply(tt.edits)
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) || got != tt.after {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestKeepLineEnds(t *testing.T) {
	for _, tt := range [][3]string{
		{"a\r\nb\r\n", "a\nb\n", "a\r\nb\r\n"}, {"a\r\nb\r\n", "a\r\nc\nb\r\n", "a\r\nc\r\nb\r\n"},
		{"a\r\nb\n", "a\nb\n", "a\nb\n"}, {"a\nb\n", "a\nb\n", "a\nb\n"}, {"a", "a\n", "a\n"}, {"a\r\n", "a\r\n", "a\r\n"},
	} {
		if got := keepLineEnds(tt[0], tt[1]); got != tt[2] {
			t.Errorf("keepLineEnds(%q, %q) = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

func TestIndentation(t *testing.T) {
	for text, want := range map[string]struct {
		size   int
		spaces bool
	}{
		"a\n\tb\n\t\tc\n":                   {3, false},
		"a\n  b\n    c\n  d\n":              {2, true},
		"a\n    b\n        c\n":             {4, true},
		"a\n":                               {3, true},
		"/*\n * x\n * y\n */\na\n  b\n":     {2, true},
		"a {\n  b\n}\nc {\n  d\n\te\n  }\n": {2, true},
	} {
		if size, spaces := indentation(text, 3); size != want.size || spaces != want.spaces {
			t.Errorf("%q: %d, %v", text, size, spaces)
		}
	}
}

func TestURIs(t *testing.T) {
	uri := fileURI("/a b/ä#?%.go")
	if uri != "file:///a%20b/%C3%A4%23%3F%25.go" {
		t.Errorf("got %s", uri)
	}
	if !sameFile(uri, "file:///a%20b/ä%23%3f%25.go") || sameFile(uri, "file:///a") || sameFile("http://x/a", "https://x/a") {
		t.Error("addresses compare wrongly")
	}
}

// FuzzApply compares with the plainest way: UTF-16 code units, from right to
// left.
func FuzzApply(f *testing.F) {
	f.Add("a😀b\r\nc\rd\n", uint32(0), uint32(1), uint32(1), uint32(0), "x", uint32(2), uint32(0), uint32(2), uint32(1), "yä")
	f.Add("", uint32(0), uint32(0), uint32(9), uint32(9), "x", uint32(0), uint32(0), uint32(0), uint32(0), "")
	f.Fuzz(func(t *testing.T, s string, l1, c1, l2, c2 uint32, n1 string, l3, c3, l4, c4 uint32, n2 string) {
		if !utf8.ValidString(s) || !utf8.ValidString(n1) || !utf8.ValidString(n2) {
			return
		}
		edits := []textEdit{edit(l1, c1, l2, c2, n1), edit(l3, c3, l4, c4, n2)}
		doc := newBuffer(s)
		got, err := doc.apply(edits)
		if err != nil {
			return
		}
		if !utf8.ValidString(got) {
			t.Errorf("result %q", got)
		}
		if want := applyPlainly(s, edits); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if end := doc.offset(doc.end()); end != len(s) {
			t.Errorf("the end is at %d of %d", end, len(s))
		}
	})
}

func applyPlainly(s string, edits []textEdit) string {
	u := utf16.Encode([]rune(s))
	type change struct {
		from, to int
		text     []uint16
	}
	var changes []change
	for _, e := range edits {
		changes = append(changes, change{plainOffset(u, e.Range.Start), plainOffset(u, e.Range.End), utf16.Encode([]rune(e.NewText))})
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return a.to - b.to
	})
	for _, c := range slices.Backward(changes) {
		u = slices.Concat(u[:c.from], c.text, u[c.to:])
	}
	return string(utf16.Decode(u))
}

func plainOffset(u []uint16, p Position) int {
	i, line := 0, uint32(0)
	for ; i < len(u) && line < p.Line; i++ {
		if u[i] == '\n' || (u[i] == '\r' && (i+1 == len(u) || u[i+1] != '\n')) {
			line++
		}
	}
	if line < p.Line {
		return len(u)
	}
	for n := uint32(0); n < p.Character && i < len(u) && u[i] != '\n' && u[i] != '\r'; n++ {
		i++
	}
	if i > 0 && i < len(u) && utf16.IsSurrogate(rune(u[i])) && u[i] >= 0xDC00 {
		i-- // the second half of a pair
	}
	return i
}
