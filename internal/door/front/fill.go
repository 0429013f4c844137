package front

import "strings"

// fill puts values into a text: {{Name}} is the value, passed through escape;
// {{#Name}}…{{/Name}} is there only if the value is not empty, and
// {{^Name}}…{{/Name}} only if it is. Values are never looked at again.
//
// The packages text/template and html/template could do this, but they call
// methods by name, so that with them in it the linker must keep every exported
// method of every type in the program: a sixth of its size.
func fill(text string, values map[string]string, escape func(string) string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		tag, after, _ := strings.Cut(rest, "}}")
		name := tag[1:]
		switch tag[0] {
		case '#', '^':
			inside, behind, _ := strings.Cut(after, "{{/"+name+"}}")
			if (values[name] != "") == (tag[0] == '#') {
				out.WriteString(fill(inside, values, escape))
			}
			after = behind
		default:
			out.WriteString(escape(values[tag]))
		}
		text = after
	}
}
