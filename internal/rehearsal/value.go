package rehearsal

import (
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func (b *builder) object(s schema, depth int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(schema)
	add := func(name string) {
		if p, ok := properties[name]; ok {
			out[name] = b.any(p, depth+1, 0)
			return
		}
		out[name] = b.any(s["additionalProperties"], depth+1, 0)
	}
	required, _ := s["required"].([]any)
	for _, r := range required {
		if name, ok := r.(string); ok && b.nodes < maxNodes {
			add(name)
		}
	}
	want := int(min(toFloat(s["minProperties"], 0), 1000))
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if len(out) >= want {
			break
		}
		add(name)
	}
	for i := 1; len(out) < want && s["additionalProperties"] != false && b.nodes < maxNodes; i++ {
		add("property" + strconv.Itoa(i))
	}
	return out
}

// any builds from a schema that may also be true, false or absent.
func (b *builder) any(node any, depth, n int) any {
	if s, ok := node.(schema); ok {
		return b.build(s, depth, n)
	}
	return b.build(schema{}, depth, n)
}

func (b *builder) array(s schema, depth int) any {
	out := []any{}
	prefix, _ := s["prefixItems"].([]any)
	want := int(min(toFloat(s["minItems"], 0), 1000))
	for i := 0; len(out) < want && b.nodes < maxNodes; i++ {
		item := s["items"]
		if i < len(prefix) {
			item = prefix[i]
		}
		n := 0
		if s["uniqueItems"] == true {
			n = i
		}
		out = append(out, b.any(item, depth+1, n))
	}
	return out
}

// number returns the nth number that fits; grid is 1 for integers.
func number(s schema, grid float64, n int) float64 {
	low := toFloat(s["minimum"], math.Inf(-1))
	high := toFloat(s["maximum"], math.Inf(1))
	over := toFloat(s["exclusiveMinimum"], math.Inf(-1))
	under := toFloat(s["exclusiveMaximum"], math.Inf(1))
	step := max(grid, math.Abs(toFloat(s["multipleOf"], 0)))
	if grid == 1 && step != math.Trunc(step) {
		step = 1
	}
	fits := func(v float64) bool { return v >= low && v <= high && v > over && v < under }
	if step > 0 {
		start := 0.0
		if v := max(low, over); !math.IsInf(v, 0) && !fits(0) {
			start = math.Ceil(v/step) * step
		} else if w := min(high, under); !math.IsInf(w, 0) && !fits(0) {
			start = math.Floor(w/step)*step - step*float64(n)
		}
		if !fits(start) && fits(start+step) {
			start += step
		}
		if !fits(start) && fits(start-step) {
			start -= step
		}
		if v := start + step*float64(n); fits(v) {
			return v
		}
		if v := start - step*float64(n); fits(v) {
			return v
		}
		return start
	}
	if v := float64(n); fits(v) {
		return v
	}
	bottom, top := max(low, over), min(high, under)
	candidates := []float64{bottom + float64(n), top - float64(n), (bottom + top) / 2, bottom, top, bottom + 1, top - 1}
	for _, v := range candidates {
		if fits(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return 0
}

var formats = map[string]string{
	"date-time": "2025-01-01T00:00:00Z", "date": "2025-01-01", "time": "00:00:00Z", "duration": "PT1S",
	"email": "rehearsal@example.com", "hostname": "example.com", "ipv4": "127.0.0.1", "ipv6": "::1",
	"uri": "https://example.com/", "uuid": "00000000-0000-4000-8000-000000000000",
}

// text returns the nth string that fits.
func text(s schema, n int) string {
	low := int(min(max(toFloat(s["minLength"], 0), 0), maxLength))
	high := int(min(max(toFloat(s["maxLength"], maxLength), 0), maxLength))
	if pattern, ok := s["pattern"].(string); ok {
		if v, ok := matching(pattern, low, high); ok {
			return v
		}
	}
	if f, ok := s["format"].(string); ok && formats[f] != "" {
		return formats[f]
	}
	v := "rehearsal"
	if n > 0 {
		v = strconv.Itoa(n) + " " + v
	}
	if missing := low - len(v); missing > 0 {
		v += strings.Repeat(".", missing)
	}
	return v[:min(len(v), high)]
}

// matching makes a string that a pattern matches, of a length in bounds.
func matching(pattern string, low, high int) (string, bool) {
	re, err := regexp.Compile(pattern)
	if err != nil || len(pattern) > 1000 {
		return "", false
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	// First as short as can be; then repetitions are drawn out step by step.
	for extra := 0; extra <= min(low, 256); extra++ {
		w := writer{extra: extra}
		w.write(tree)
		v := w.out.String()
		length := utf8.RuneCountInString(v)
		if length >= low && length <= high && re.MatchString(v) {
			return v, true
		}
		// An unanchored pattern matches inside a longer string too.
		if padded := v + strings.Repeat(".", max(0, low-length)); low > length && low <= high && re.MatchString(padded) {
			return padded, true
		}
	}
	return "", false
}

// writer writes a string that a parsed expression matches.
type writer struct {
	out   strings.Builder
	extra int // repetitions beyond the least
	steps int
}

func (w *writer) write(re *syntax.Regexp) {
	// Repetitions of nothing write nothing, so the steps have a bound too.
	if w.steps++; w.steps > 10*maxLength || w.out.Len() > maxLength {
		return
	}
	repeat := func(low, high int) {
		times := low + w.extra
		if high >= 0 {
			times = min(times, high)
		}
		for range times {
			w.write(re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		w.out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		w.out.WriteRune(classRune(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		w.out.WriteByte('r')
	case syntax.OpStar:
		repeat(0, -1)
	case syntax.OpPlus:
		repeat(1, -1)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(re.Min, re.Max)
	case syntax.OpAlternate:
		w.write(re.Sub[0])
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			w.write(sub)
		}
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText,
		syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	}
}

// classRune prefers a letter or digit, then anything that can be seen.
func classRune(pairs []rune) rune {
	for i := 0; i+1 < len(pairs); i += 2 {
		for _, r := range []rune{'a', 'A', '0', pairs[i]} {
			if r >= pairs[i] && r <= pairs[i+1] && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return r
			}
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if r := max(pairs[i], '!'); r <= pairs[i+1] {
			return r
		}
	}
	if len(pairs) > 0 {
		return pairs[0]
	}
	return 'r'
}
