package wire

import (
	"strings"
	"testing"
)

// cutWhole is what a stopper must amount to, however the text is split: it is
// read byte by byte, until a sequence is complete.
func cutWhole(text string, stops []string) (shown, hit string) {
	for end := range len(text) + 1 {
		cut := -1
		for _, s := range stops {
			if start := end - len(s); strings.HasSuffix(text[:end], s) && (cut < 0 || start < cut) {
				cut = start
			}
		}
		if cut >= 0 {
			return text[:cut], text[cut:end]
		}
	}
	return text, ""
}

func TestStopperForEverySplit(t *testing.T) {
	for _, c := range []struct {
		text  string
		stops []string
	}{
		{"one END two", []string{"END"}},
		{"aaab", []string{"aab"}},
		{"ababac", []string{"abac"}},
		{"abcabd", []string{"abd", "bca"}},
		{"abcd", []string{"bcd", "c"}},
		{"é…END", []string{"…E"}},
		{"no stop EN", []string{"END"}},
		{"END", []string{"END"}},
		{"xx\n\n\nyy", []string{"\n\n"}},
		{"plain", nil},
		{"a E N END?", []string{"END"}},
		{"xab", []string{"b", "a"}},
		{"xabcd", []string{"abcd", "c"}},
		{"abc", []string{"c", "bc"}},
	} {
		want, wantHit := cutWhole(c.text, c.stops)
		for mask := range 1 << (len(c.text) - 1) { // where it is split
			s := Stopper{Stops: c.stops}
			var got strings.Builder
			start := 0
			for i := 1; i <= len(c.text); i++ {
				if i == len(c.text) || mask>>(i-1)&1 == 1 {
					got.WriteString(s.Next(c.text[start:i]))
					start = i
				}
			}
			got.WriteString(s.Rest())
			if got.String() != want || s.Hit != wantHit {
				t.Fatalf("%q %q split %b: got %q %q, want %q %q", c.text, c.stops, mask, got.String(), s.Hit, want, wantHit)
			}
		}
	}
}

func TestStopperHoldsBackOnlyWhatItMust(t *testing.T) {
	s := Stopper{Stops: []string{"END"}}
	if got := s.Next("a word E"); got != "a word " {
		t.Errorf("got %q", got)
	}
	if got := s.Next("x"); got != "Ex" {
		t.Errorf("got %q", got)
	}
}

func FuzzStopper(f *testing.F) {
	f.Add("one END two", "END", "\n", uint64(5))
	f.Add("aabaab", "aab", "b", uint64(0xffff))
	f.Fuzz(func(t *testing.T, text, a, b string, mask uint64) {
		if a == "" || b == "" {
			return
		}
		stops := []string{a, b}
		s := Stopper{Stops: stops}
		var got strings.Builder
		start := 0
		for i := range len(text) {
			if mask>>(i%64)&1 == 1 {
				got.WriteString(s.Next(text[start:i]))
				start = i
			}
		}
		got.WriteString(s.Next(text[start:]))
		got.WriteString(s.Rest())
		if want, hit := cutWhole(text, stops); got.String() != want || s.Hit != hit {
			t.Errorf("got %q %q, want %q %q", got.String(), s.Hit, want, hit)
		}
	})
}
