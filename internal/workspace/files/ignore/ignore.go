// Package ignore reads .gitignore files and those that share their form and
// says what they say of a path. It follows git, byte for byte, and is tested
// against it; the libraries get classes, escapes and negation wrong.
//
// It opens no files and knows no directories: the walk in package files, which
// calls it, does.
package ignore

import "strings"

// Verdict is what rules say of a path.
type Verdict uint8

// The verdicts.
const (
	Silent  Verdict = iota // no rule speaks of it
	Ignored                // the last rule that matches ignores it
	Kept                   // the last rule that matches is a negation
)

// Rules are the rules of one file. They do not change and may be used
// concurrently.
type Rules struct{ rules []rule }

type rule struct {
	verdict Verdict
	dirOnly bool
	// plain is the text of a pattern without wildcards and suffix that of one
	// like "*.o": both are by far the most common, and quick to compare.
	plain, suffix string
	// anchored patterns are matched against the whole path, others against
	// its last element.
	anchored bool
	// prefix is what stands before the first wildcard of an anchored pattern.
	// As in git the pattern proper begins behind it, which shows where that
	// is the middle of a name: in a**/b the stars stand for directories.
	prefix  string
	pattern pattern
}

// Parse reads the text of an ignore file. There is no wrong text: a pattern
// that cannot match anything is left out, as in git.
func Parse(text string) *Rules {
	text = strings.TrimPrefix(text, "\ufeff")
	r := &Rules{}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		if one, ok := parseRule(trimSpaces(line)); ok {
			r.rules = append(r.rules, one)
		}
	}
	return r
}

// trimSpaces drops the spaces at the end that no backslash protects.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = i + 1
	}
	return line[:min(end, len(line))]
}

func parseRule(text string) (rule, bool) {
	r := rule{verdict: Ignored}
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		r.verdict, text = Kept, rest
	}
	text, r.dirOnly = strings.CutSuffix(text, "/")
	if text == "" {
		return rule{}, false
	}
	r.anchored = strings.Contains(text, "/")
	text = strings.TrimPrefix(text, "/")
	const special = `*?[\`
	switch {
	case !strings.ContainsAny(text, special):
		r.plain = text
		return r, text != ""
	case !r.anchored && text[0] == '*' && len(text) > 1 && !strings.ContainsAny(text[1:], special):
		r.suffix = text[1:]
		return r, true
	}
	if r.anchored {
		i := strings.IndexAny(text, special)
		r.prefix, text = text[:i], text[i:]
	}
	var ok bool
	r.pattern, ok = compile(text)
	return r, ok
}

// Match says what the rules say of path, which is slash-separated and
// relative to the directory that the rules are for.
func (r *Rules) Match(path string, dir bool) Verdict {
	if r == nil {
		return Silent
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r.rules) - 1; i >= 0; i-- {
		one := &r.rules[i]
		if one.dirOnly && !dir {
			continue
		}
		subject := name
		if one.anchored {
			subject = path
		}
		var hit bool
		switch {
		case one.plain != "":
			hit = one.plain == subject
		case one.suffix != "":
			hit = strings.HasSuffix(subject, one.suffix)
		default:
			rest, begins := strings.CutPrefix(subject, one.prefix)
			hit = begins && one.pattern.match(rest)
		}
		if hit {
			return one.verdict
		}
	}
	return Silent
}

// Empty reports whether there are no rules.
func (r *Rules) Empty() bool { return r == nil || len(r.rules) == 0 }
