package anthropic

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCutter(t *testing.T) {
	for _, test := range []struct {
		name            string
		stops           []string
		max             int64
		pieces          []string
		want            string
		reason, matched string
	}{
		{"nothing to look for", nil, 99, []string{"a", "b"}, "ab", "", ""},
		{"in one piece", []string{"END"}, 99, []string{"a END b"}, "a ", stopSequence, "END"},
		{"in pieces", []string{"END"}, 99, []string{"a E", "N", "D b"}, "a ", stopSequence, "END"},
		{"not quite", []string{"END"}, 99, []string{"a E", "N", "E", "ND?"}, "a EN", stopSequence, "END"},
		{"held to the end", []string{"END"}, 99, []string{"a EN"}, "a EN", "", ""},
		{"the first of two", []string{"b", "a"}, 99, []string{"xab"}, "x", stopSequence, "a"},
		{"complete first", []string{"abcd", "c"}, 99, []string{"xabc", "d"}, "xab", stopSequence, "c"},
		{"one within another", []string{"c", "bc"}, 99, []string{"abc"}, "a", stopSequence, "bc"},
		{"of several bytes", []string{"終わり"}, 99, []string{"これで", "終", "わり", "。"}, "これで", stopSequence, "終わり"},
		{"too long", nil, 1, []string{"abc", "def", "g"}, "abcdef", stopMaxTokens, ""},
		{"too long within a character", nil, 1, []string{"abcdeé"}, "abcde", stopMaxTokens, ""},
		{"too long and a stop later", []string{"END"}, 1, []string{"abcdefg END"}, "abcdef", stopMaxTokens, ""},
		{"a stop before too long", []string{"END"}, 1, []string{"a END bcdefg"}, "a ", stopSequence, "END"},
		{"just long enough", nil, 1, []string{"abcdef"}, "abcdef", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCutter(test.stops, test.max)
			var got strings.Builder
			for _, piece := range test.pieces {
				got.WriteString(c.next(piece))
			}
			got.WriteString(c.rest())
			if got.String() != test.want || c.reason != test.reason || c.matched != test.matched {
				t.Errorf("got %q, %q, %q", got.String(), c.reason, c.matched)
			}
		})
	}
}

// FuzzCutter shows that it does not matter how a text comes in pieces, and that
// no stop sequence is ever shown.
func FuzzCutter(f *testing.F) {
	f.Add("one two three", "two", "e t", uint8(3), int64(100))
	f.Add("aaaaab", "aab", "ab", uint8(1), int64(1))
	f.Fuzz(func(t *testing.T, text, stop, other string, size uint8, limit int64) {
		if stop == "" || other == "" || size == 0 || limit < 0 || !utf8.ValidString(text) {
			return
		}
		stops := []string{stop, other}
		whole := newCutter(stops, limit)
		want := whole.next(text) + whole.rest()
		pieces := newCutter(stops, limit)
		var got strings.Builder
		for piece := range slices.Chunk([]byte(text), int(size)) {
			got.WriteString(pieces.next(string(piece)))
		}
		got.WriteString(pieces.rest())
		if limit < 1<<20 {
			// The limit counts what is shown, and what is held back is shown
			// late: only which of the two ends comes first may differ.
			if !strings.HasPrefix(text, got.String()) || int64(got.Len()) > limit*tokenBytes+int64(len(stop)+len(other)) {
				t.Errorf("shown: %q of %q", got.String(), text)
			}
			return
		}
		if got.String() != want || pieces.matched != whole.matched {
			t.Errorf("in pieces %q (%q), at once %q (%q)", got.String(), pieces.matched, want, whole.matched)
		}
		if strings.Contains(want, stop) || strings.Contains(want, other) {
			t.Errorf("a stop sequence is shown: %q", want)
		}
	})
}
