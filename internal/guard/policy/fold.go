package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// foldRune maps all runes that differ only in case to one of them, by the
// same simple folding that regular expressions use for (?i).
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if 'A' <= least && least <= 'Z' {
		return least + 'a' - 'A'
	}
	return least
}

// fold makes names comparable without regard to case.
func fold(s string) string { return strings.Map(foldRune, s) }

// disguise folds a path to what a forgiving file system takes it for: case
// (macOS, Windows), invisible characters (HFS+ ignores some), trailing dots
// and spaces of a segment and stream suffixes (Windows drops them). Denials
// look at this form as well, on every system, because the price of a false
// match is small.
func disguise(rel string) string {
	folded := strings.Map(func(r rune) rune {
		if ignorable(r) {
			return -1
		}
		return foldRune(r)
	}, rel)
	if !strings.ContainsAny(folded, ":. ") {
		return folded
	}
	segments := strings.Split(folded, "/")
	for i, s := range segments {
		if at := strings.IndexByte(s, ':'); at > 0 {
			s = s[:at]
		}
		if trimmed := strings.TrimRight(s, ". "); trimmed != "" {
			s = trimmed
		}
		segments[i] = s
	}
	return strings.Join(segments, "/")
}

func ignorable(r rune) bool {
	switch {
	case r < 0x200b:
		return r == 0xad
	case r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f, 0xfe00 <= r && r <= 0xfe0f:
		return true
	default:
		return r == 0xfeff || 0xe0100 <= r && r <= 0xe01ef
	}
}
