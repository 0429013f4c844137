package policy

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

// expression is a regular expression (RE2) over a tool's arguments.
type expression struct {
	re *regexp.Regexp
	// needs is a folded text without which nothing can match, or "". Looking
	// for it is much quicker than matching.
	needs string
}

func compileExpression(r *Rule) error {
	re, err := regexp.Compile(r.Pattern)
	if err != nil {
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return errors.New("it is not a valid regular expression (RE2 syntax): " + bad.Code.String())
		}
		return errors.New("it is not a valid regular expression (RE2 syntax)")
	}
	e := &expression{re: re}
	if tree, err := syntax.Parse(r.Pattern, syntax.Perl); err == nil {
		e.needs = required(tree.Simplify())
	}
	r.text = e
	return nil
}

// required returns the longest literal that every match holds, folded.
func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return fold(string(re.Rune))
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if s := required(sub); len(s) > len(best) {
				best = s
			}
		}
		return best
	default:
	}
	return ""
}

func (e *expression) matches(h *haystack) bool {
	if e.needs != "" && !strings.Contains(h.folded, e.needs) {
		return false
	}
	for _, text := range h.texts {
		if e.re.MatchString(text) {
			return true
		}
	}
	return false
}
