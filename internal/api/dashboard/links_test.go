package dashboard

import (
	"html"
	"reflect"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/live"
)

// Whatever stands in any field of the page of a link, it is text there: the page is
// the one of a harmless value, with the value escaped.
func TestHostileLink(t *testing.T) {
	const evil = `</pre></title></textarea></style><script>alert(1)</script><img src=x onerror='x'> " ' & &lt; {css} {content} --> <!-- ]]>`
	page := func(value string, asked bool) string {
		v := shown{}
		if asked {
			v.Question = &live.Question{Form: &live.Form{}}
		}
		fill(reflect.ValueOf(&v), value)
		if asked {
			v.Question.Answers = append(v.Question.Answers, live.Text, live.Once, live.Deny, live.Decline)
		}
		return v.html()
	}
	for asked, values := range map[bool]int{true: 5, false: 2} {
		got, harmless := page(evil, asked), page("HARMLESS", asked)
		if n := strings.Count(harmless, "HARMLESS"); n != values {
			t.Errorf("%d values are shown, not %d:\n%s", n, values, harmless)
		}
		if want := strings.ReplaceAll(harmless, "HARMLESS", html.EscapeString(evil)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// fill sets every text in v, in the structs that it points to as well.
func fill(v reflect.Value, value string) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		fill(v.Elem(), value)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f, value)
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(value)
	case v.Type() == reflect.TypeFor[[]string]():
		v.Set(reflect.ValueOf([]string{value}))
	}
}
