package front

import (
	"html"
	"regexp"
	"testing"
)

func TestFill(t *testing.T) {
	values := map[string]string{"a": "<1>", "b": "{{a}}", "none": ""}
	for text, want := range map[string]string{
		"":                        "",
		"plain { } }}":            "plain { } }}",
		"x{{a}}y":                 "x&lt;1&gt;y",
		"{{b}}":                   "{{a}}", // a value is no text to be filled
		"{{none}}{{unknown}}":     "",
		"{{#a}}yes {{a}}{{/a}}.":  "yes &lt;1&gt;.",
		"{{^a}}no{{/a}}.":         ".",
		"{{#none}}{{a}}{{/none}}": "",
		"{{^none}}{{#a}}in{{/a}}{{^a}}out{{/a}}{{/none}}": "in",
	} {
		if got := fill(text, values, html.EscapeString); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestPagesNameWhatThereIs: a name that nobody knows would be left out in
// silence.
func TestPagesNameWhatThereIs(t *testing.T) {
	known := shown{}.values("")
	for _, m := range regexp.MustCompile(`\{\{[#^/]?(\w+)\}\}`).FindAllStringSubmatch(styledHTML+pageText, -1) {
		if _, ok := known[m[1]]; !ok {
			t.Errorf("%s means nothing", m[0])
		}
	}
}
