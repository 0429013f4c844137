package toolbus

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write the reference in docs/reference/toolbus.md")

const docs = "../../../docs/reference/toolbus.md"

// The reference in the documentation is what rpc.discover says. To write it
// anew: go test ./internal/api/toolbus -run TestDocs -update
func TestDocs(t *testing.T) {
	d := newDoor(&fake{}, Options{Hub: &Hub{}})
	doc, err := d.describe(d.table())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, want := range map[string]string{"methods": methodsText(t, doc.Methods), "notifications": methodsText(t, doc.Notifications), "codes": codesText()} {
		begin, end := "<!-- "+name+": by TestDocs -->\n", "<!-- end of "+name+" -->"
		head, rest, ok := strings.Cut(text, begin)
		got, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for the %s", docs, name)
		}
		if got == want {
			continue
		}
		if !*update {
			t.Errorf("the %s in %s are not those of rpc.discover; run this test with -update", name, docs)
		}
		text = head + begin + want + end + tail
	}
	if *update {
		if err := os.WriteFile(docs, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func meanings() (all []fault) {
	for _, row := range codes {
		all = append(all, fault{Code: row.code, Message: row.meaning})
	}
	return all
}

func codesText() string {
	var b strings.Builder
	b.WriteString("\n| code | meaning |\n|---|---|\n")
	for _, m := range meanings() {
		fmt.Fprintf(&b, "| %d | %s |\n", m.Code, m.Message)
	}
	return b.String() + "\n"
}

func methodsText(t *testing.T, all []methodEntry) string {
	t.Helper()
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "\n### %s\n%s.", m.Name, m.Summary)
		if m.Description != "" {
			b.WriteString(" " + m.Description)
		}
		b.WriteString("\n")
		if len(m.Params) > 0 {
			b.WriteString("\n| parameter | type | |\n|---|---|---|\n")
		}
		for _, p := range m.Params {
			name := "`" + p.Name + "`"
			if !p.Required {
				name += " (optional)"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, typeText(p.Schema), strings.ReplaceAll(p.Description, "|", `\|`))
		}
		if m.Result != nil && m.Name != "rpc.discover" {
			fmt.Fprintf(&b, "\nResult: %s\n", typeText(m.Result.Schema))
			if len(m.Examples) > 0 {
				value, err := json.Marshal(m.Examples[0].Result.Value)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "such as\n```json\n%s\n```\n", value)
			}
		}
	}
	return b.String() + "\n"
}

// typeText is a schema in a few words.
func typeText(s *jsonschema.Schema) string {
	switch {
	case s == nil:
		return "anything"
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, ", ")
	case len(s.AnyOf) > 0:
		var parts []string
		for _, a := range s.AnyOf {
			parts = append(parts, typeText(a))
		}
		return strings.Join(parts, " or ")
	case len(s.Types) > 0:
		return strings.Join(s.Types, ", ")
	case s.Type == "array":
		return "array of " + typeText(s.Items)
	case s.Type == "object" && len(s.Properties) > 0:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			optional := "?"
			if slices.Contains(s.Required, name) {
				optional = ""
			}
			parts = append(parts, "`"+name+optional+"` "+typeText(s.Properties[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Type != "":
		return "object of " + typeText(s.AdditionalProperties)
	case s.Type == "":
		return "anything"
	}
	return s.Type
}
