package patch

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// git writes names in several forms, and which part of a line is the name is
// a matter of convention. These functions follow git's conventions; s is the
// rest of a line, without its newline.

// unquote reads a name in C-style quotes at the start of s.
func unquote(s string) (name, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i >= len(s) {
				return "", "", false
			}
			if at := strings.IndexByte(`abfnrtv\"`, s[i]); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v\\\""[at])
				continue
			}
			if i+3 > len(s) {
				return "", "", false
			}
			v, err := strconv.ParseUint(s[i:i+3], 8, 8)
			if err != nil {
				return "", "", false
			}
			b.WriteByte(byte(v))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// afterSlash drops strip leading components.
func afterSlash(s string, strip int) (string, bool) {
	for ; strip > 0; strip-- {
		i := strings.IndexByte(s, '/')
		if i < 0 {
			return "", false
		}
		s = s[i+1:]
	}
	return s, true
}

func squashSlashes(s string) string {
	for strings.Contains(s, "//") {
		s = strings.ReplaceAll(s, "//", "/")
	}
	return s
}

func quotedName(s string, strip int) string {
	name, _, ok := unquote(s)
	if !ok {
		return ""
	}
	name, ok = afterSlash(name, strip)
	if !ok {
		return ""
	}
	return squashSlashes(name)
}

// plainName is the name in s, or fallback where there is none, or where the
// fallback is the shorter form of it (file against file.orig).
func plainName(s, fallback string, strip int) string {
	name, ok := afterSlash(s, strip)
	if !ok || name == "" || fallback != "" && len(fallback) < len(name) && strings.HasPrefix(name, fallback) {
		name = fallback
	}
	return squashSlashes(name)
}

// nameIn reads the name of a line in a git header. A tab ends it where the
// line may go on behind the name.
func nameIn(s string, strip int, tabEnds bool) string {
	if name := quotedName(s, strip); name != "" {
		return name
	}
	return plainName(cutName(s, tabEnds), "", strip)
}

func cutName(s string, tabEnds bool) string {
	ends := "\r"
	if tabEnds {
		ends = "\r\t"
	}
	if i := strings.IndexAny(s, ends); i >= 0 {
		return s[:i]
	}
	return s
}

// timestamp is what diff writes behind a name; the time and the zone may be
// missing, and the tab may have become spaces.
var timestamp = regexp.MustCompile(`(?:\t| +)(?:\d\d)?\d\d-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?)?(?: [-+]\d{4}| [-+]\d\d:\d\d)?$`)

// traditionalName reads the name of a ---/+++ line that no git header stands
// before.
func traditionalName(s, fallback string, strip int) string {
	if name := quotedName(s, strip); name != "" {
		return name
	}
	if at := timestamp.FindStringIndex(s); at != nil {
		return plainName(s[:at[0]], fallback, strip)
	}
	return plainName(cutName(s, true), fallback, strip)
}

func isDevNull(s string) bool {
	rest, ok := strings.CutPrefix(s, "/dev/null")
	return ok && (rest == "" || isSpace(rest[0]))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// isEpoch tells the time stamp by which GNU diff marks a file that does not
// exist on one side.
func isEpoch(s string) bool {
	stamp := s[strings.LastIndexByte(s, '\t')+1:]
	for _, layout := range []string{"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07:00"} {
		if t, err := time.Parse(layout, stamp); err == nil {
			return stamp != s && t.UnixNano() == 0
		}
	}
	return false
}

// skipTree drops strip leading components as git does on a "diff --git" line,
// where a name is never absolute.
func skipTree(s string, strip int) (string, bool) {
	if strip == 0 {
		return s, !strings.HasPrefix(s, "/")
	}
	name, ok := afterSlash(s, strip)
	return name, ok && (strip > 1 || s[0] != '/')
}

// headerName is the name that stands on both sides of a "diff --git" line, or
// "" if the sides differ. It is only needed where no other line has the name.
func headerName(s string, strip int) string {
	if strings.HasPrefix(s, `"`) {
		first, rest, ok := unquote(s)
		second, _, ok2 := unquote(strings.TrimLeft(rest, " \t\r"))
		if !ok || !ok2 {
			return ""
		}
		first, ok = skipTree(first, strip)
		second, ok2 = skipTree(second, strip)
		if !ok || !ok2 || first != second {
			return ""
		}
		return first
	}
	s, ok := skipTree(s, strip)
	if !ok {
		return ""
	}
	if i := strings.IndexByte(s, '"'); i >= 0 {
		name, _, ok := unquote(s[i:])
		if !ok {
			return ""
		}
		name, ok = skipTree(name, strip)
		if !ok || len(name) >= i || !strings.HasPrefix(s, name) || !isSpace(s[len(name)]) {
			return ""
		}
		return name
	}
	for i := range len(s) {
		if s[i] != ' ' && s[i] != '\t' {
			continue
		}
		if second, ok := skipTree(s[i+1:], strip); ok && second == s[:i] {
			return second
		}
	}
	return ""
}
