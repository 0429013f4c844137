package config

import (
	"slices"
	"testing"
	"unicode"
)

func TestSplitWords(t *testing.T) {
	tests := []struct {
		text string
		want []string // nil for an error
	}{
		{`a`, []string{"a"}},
		{` a  b	c
d `, []string{"a", "b", "c", "d"}},
		{`'a b' "c d"`, []string{"a b", "c d"}},
		{`a'b'"c"d`, []string{"abcd"}},
		{`'' ""`, []string{"", ""}},
		{`'a"b' "c'd"`, []string{`a"b`, "c'd"}},
		{`a\ b \"c\' \\`, []string{"a b", `"c'`, `\`}},
		{`"\"\\\$\` + "`" + `\n\a"`, []string{`"\$` + "`" + `\n\a`}},
		{`'a\' b`, []string{`a\`, "b"}},
		{`$HOME ~ * ;`, []string{"$HOME", "~", "*", ";"}},
		{`"a`, nil},
		{`'a`, nil},
		{`a\`, nil},
		{`"a\`, nil},
		{``, nil},
	}
	for _, tt := range tests {
		got, err := splitWords(tt.text, unicode.IsSpace)
		if (err != nil) != (tt.want == nil) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}
