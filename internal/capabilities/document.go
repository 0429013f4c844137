package capabilities

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed document.md.tmpl
var documentText string

// Document renders the inventory and the findings of the probes as Markdown.
// The same input gives the same bytes.
func Document(inv *Inventory, record *Record) (string, error) {
	is := func(text string) func(string) string { return func(string) string { return text } }
	return expand(documentText, map[string]func(argument string) string{
		"date": is(record.Date), "runtime": is(record.Runtime), "sdk": is(record.SDK), "platform": is(record.Platform),
		"versions": is(inv.versionsTable()), "figures": is(FiguresTable(inv)), "members": inv.membersTable,
		"eventTypes": is(strconv.Itoa(len(inv.Runtime.Events))), "events": is(inv.eventsTable()), "lost": is(inv.lostTable()),
		"permissions": is(inv.permissionsTable()), "decisions": is(variantsTable("decision", inv.Runtime.Decisions)), "results": is(variantsTable("result", inv.Runtime.Results)),
		"enum": inv.enumLine, "struct": inv.structTable, "methods": inv.methodsTable, "facts": record.factsTable,
	})
}

// expand puts the parts of that name in the place of each {{name}} and {{name "argument"}}.
func expand(text string, parts map[string]func(argument string) string) (string, error) {
	var out strings.Builder
	for {
		before, rest, more := strings.Cut(text, "{{")
		out.WriteString(before)
		if !more {
			return out.String(), nil
		}
		call, after, _ := strings.Cut(rest, "}}")
		name, argument, _ := strings.Cut(call, " ")
		part := parts[name]
		if part == nil {
			return "", fmt.Errorf("the document's text has {{%s}}, and nothing makes that", call)
		}
		out.WriteString(part(strings.Trim(argument, `"`)))
		text = after
	}
}

// table is a Markdown table that is built row by row.
type table struct{ strings.Builder }

func newTable(columns ...string) *table {
	t := &table{}
	t.row(columns...)
	t.row(slices.Repeat([]string{"---"}, len(columns))...)
	return t
}

var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// plain keeps text from being taken for HTML. Code is left alone.
func plain(s string) string {
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "<", "&lt;")
	}
	return strings.Join(parts, "`")
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = plain(cell.Replace(c))
	}
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func code(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

func (s Status) words() string {
	var out []string
	for i, on := range []bool{s.Experimental, s.Internal, s.Deprecated} {
		if on {
			out = append(out, []string{"experimental", "internal", "deprecated"}[i])
		}
	}
	return strings.Join(out, ", ")
}

// named is a name with its status.
func named(name string, s Status) string {
	if words := s.words(); words != "" {
		return code(name) + " *" + words + "*"
	}
	return code(name)
}

func (inv *Inventory) versionsTable() string {
	rt, sdk := inv.Runtime, inv.SDK
	t := newTable("what", "version", "SHA-256")
	t.row("npm "+code(rt.Package), rt.Version, "")
	for _, f := range []string{apiFile, eventsFile} {
		t.row("its "+code(schemaFolder+"/"+f), "", code(rt.Digests[f]))
	}
	t.row("Go module "+code(sdk.Module), sdk.Version, "")
	t.row("protocol of the SDK", fmt.Sprint(sdk.Protocol), "")
	return t.String()
}

// FiguresTable is the table of the coverage, as the README shows it too.
func FiguresTable(inv *Inventory) string {
	t := &table{}
	t.row("of the pinned runtime "+inv.Runtime.Version+" and SDK "+inv.SDK.Version, "in all", "used", "passed through", "by direct call", "ignored on purpose", "not yet")
	t.row("---", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, f := range inv.Figures() {
		t.row(f.What, fmt.Sprint(f.Total), fmt.Sprint(f.Used), fmt.Sprint(f.Passed), fmt.Sprint(f.Direct), fmt.Sprint(f.Ignored), fmt.Sprint(f.NotYet))
	}
	return t.String()
}

// factsTable shows the facts of a probe, folded.
func (r *Record) factsTable(probe string) string {
	f, _ := r.Finding(probe)
	t := newTable("what", "seen")
	for _, x := range f.Facts {
		t.row(x.What, x.Seen)
	}
	return fmt.Sprintf("<details><summary>Facts of the probe %s</summary>\n\n%s\n</details>\n", probe, t)
}

func (inv *Inventory) membersTable(owner string) string {
	t := newTable("method", "meaning", "bridge")
	for _, m := range inv.SDK.Members {
		if m.Owner == owner {
			t.row(code(m.Name+m.Signature), m.About, ofMember(m).String())
		}
	}
	return t.String()
}

func fields(list []Field) string {
	if len(list) == 0 {
		return ""
	}
	parts := make([]string, len(list))
	for i, f := range list {
		optional := ""
		if f.Optional {
			optional = "?"
		}
		parts[i] = f.Name + optional + ": " + f.Type
	}
	return code(strings.Join(parts, ", "))
}

func (inv *Inventory) eventsTable() string {
	t := newTable("event", "meaning", "payload", "stored", "has", "bridge")
	for _, e := range inv.Runtime.Events {
		stored := "yes"
		if e.Ephemeral {
			stored = ""
		}
		t.row(named(e.Name, e.Status), e.About, fields(e.Fields), stored, e.Carries(), inv.ofEvent(e).String())
	}
	return t.String()
}

// lostTable shows the fields of events that the SDK's types leave out; it is
// empty, without a word, if there are none.
func (inv *Inventory) lostTable() string {
	t, some := newTable("event", "fields"), false
	for _, e := range inv.Runtime.Events {
		u, known := useOf(inv.SDK.Events, e.Name)
		var lost []string
		for _, f := range e.Fields {
			if known && !slices.Contains(u.Fields, f.Name) {
				lost = append(lost, f.Name)
			}
		}
		if len(lost) > 0 {
			some = true
			t.row(code(e.Name), strings.Join(lost, ", "))
		}
	}
	if !some {
		return ""
	}
	return "Fields that the schema has and the SDK's types have not, so that nobody who uses the SDK sees them:\n\n" + t.String()
}

func (inv *Inventory) permissionsTable() string {
	t := newTable("kind", "meaning", "fields", "bridge")
	for _, v := range inv.Runtime.Permissions {
		t.row(named(v.Kind, v.Status), v.About, fields(v.Fields), inv.ofPermission(v).String())
	}
	return t.String()
}

func variantsTable(what string, list []Variant) string {
	t := newTable(what, "meaning", "fields")
	for _, v := range list {
		t.row(named(v.Kind, v.Status), v.About, fields(v.Fields))
	}
	return t.String()
}

func (inv *Inventory) enumLine(name string) string {
	for _, e := range inv.Runtime.Enums {
		if e.Name == name {
			return "\n" + code(e.Name) + ": " + code(strings.Join(e.Values, ", ")) + "\n"
		}
	}
	return ""
}

func (inv *Inventory) structTable(name string) string {
	i := slices.IndexFunc(inv.SDK.Types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return ""
	}
	of := inv.SDK.Types[i]
	t := newTable("field", "meaning", "bridge")
	for _, f := range of.Fields {
		t.row(code(f.Name+" "+f.Type), f.About, ofField(of, f).String())
	}
	return "\n**" + code(of.Name) + "** " + plain(of.About) + "\n\n" + t.String()
}

func (inv *Inventory) methodsTable(side string) string {
	t := newTable("method", "meaning", "parameters", "result", "bridge")
	for _, m := range inv.methods() {
		if m.Side == Side(side) {
			t.row(named(m.Name, m.Status), m.About, fields(m.Params), fields(m.Result), inv.ofMethod(m).String())
		}
	}
	return t.String()
}
