package patch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Both ways to apply hunks make the same of the same, or the quick one says
// that it does not know.
func TestInPlaceIsAnywhere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 7))
	lines := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = []string{"a\n", "b\n", "\n", "c\r\n"}[rnd.IntN(4)]
		}
		return out
	}
	quick := 0
	for range 20000 {
		file := lines(rnd.IntN(12))
		data := strings.Join(file, "")
		if rnd.IntN(4) == 0 {
			data = strings.TrimSuffix(data, "\n")
		}
		diff := randomHunks(rnd, file, data)
		p := &parser{text: diff, line: 1, limit: DefaultMaxBytes}
		s := &section{}
		if err := p.hunks(s); err != nil || len(s.hunks) == 0 {
			continue
		}
		made, ok := applyInPlace(data, s.hunks)
		if !ok {
			continue
		}
		quick++
		want, conflicts := applyAnywhere("f", data, s.hunks)
		if len(conflicts) > 0 || made != want {
			t.Fatalf("file %q, hunks\n%s\nmade %q, want %q %v", data, diff, made, want, conflicts)
		}
	}
	if quick < 2000 {
		t.Errorf("only %d files were changed in place", quick)
	}
}

// randomHunks changes some lines of a file, and now and then says something
// wrong about them.
func randomHunks(rnd *rand.Rand, file []string, data string) string {
	var b strings.Builder
	shift := 0
	for at := rnd.IntN(3); at <= len(file); at += rnd.IntN(4) {
		end := min(at+rnd.IntN(5), len(file))
		var body strings.Builder
		old, added := 0, 0
		mark := func(i int) {
			if i == len(file)-1 && !strings.HasSuffix(data, "\n") {
				body.WriteString("\\ No newline at end of file\n")
			}
		}
		for i := at; i < end; i++ {
			switch rnd.IntN(4) {
			case 0:
				body.WriteString("-" + file[i])
				mark(i)
				old++
			case 1:
				body.WriteString("+new\n")
				added++
				fallthrough
			default:
				body.WriteString(" " + file[i])
				mark(i)
				old++
				added++
			}
		}
		if rnd.IntN(3) == 0 {
			body.WriteString("+last\n")
			added++
		}
		first, second := at+1, at+1+shift
		if old == 0 {
			first--
		}
		if added == 0 {
			second--
		}
		if rnd.IntN(8) == 0 {
			second += rnd.IntN(3) - 1
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s", max(first, 0), old, max(second, 0), added, body.String())
		shift += added - old
		at = end
	}
	return b.String()
}
