package toolbus

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// published is what rpc.discover returns, as a client reads it.
func published(t *testing.T, d *door) (doc document) {
	t.Helper()
	got := exchange(t, d, `{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`)
	var r response
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &r) != nil || r.Result == nil {
		t.Fatalf("got %s", got)
	}
	if err := json.Unmarshal(*r.Result, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func validator(t *testing.T, s *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func value(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryMethodIsDescribed(t *testing.T) {
	d := newDoor(&fake{}, Options{Hub: &Hub{}, Version: "1.2.3"})
	doc := published(t, d)
	if !strings.HasPrefix(doc.OpenRPC, "1.") || doc.Info.Version != "1.2.3" || doc.Info.Title == "" {
		t.Errorf("openrpc %q, info %+v", doc.OpenRPC, doc.Info)
	}
	var names []string
	for _, m := range doc.Methods {
		names = append(names, m.Name)
		if d.methods[m.Name] == nil || m.Summary == "" || len(m.Examples) == 0 || m.Params == nil {
			t.Errorf("%s: %+v", m.Name, m)
		}
		for _, p := range m.Params {
			if p.Description == "" || p.Schema == nil {
				t.Errorf("%s: %s is not described", m.Name, p.Name)
			}
		}
		if (m.Result == nil) != (m.Name == "$/cancelRequest") {
			t.Errorf("%s: result %v", m.Name, m.Result)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(d.methods) {
		t.Errorf("%d methods are described, there are %d", len(names), len(d.methods))
	}
	for _, want := range []string{"mcp.fs.read", "mcp.fs.list", "mcp.search.code", "mcp.symbols.list", "mcp.edit.applyPatch", "mcp.format.apply",
		"mcp.imports.organize", "mcp.task.list", "mcp.task.run", "mcp.shell.run", "bridge.status", "bridge.approvals.subscribe", "bridge.approval.answer", "bridge.question.answer", "bridge.sessions.list", "bridge.session.send", "bridge.session.stop", "rpc.discover"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
	var sent []string
	for _, n := range doc.Notifications {
		sent = append(sent, n.Name)
	}
	if !slices.Equal(sent, []string{"bridge.progress", "bridge.approval.requested", "bridge.approval.closed", "bridge.question.requested", "bridge.question.closed"}) {
		t.Errorf("notifications: %v", sent)
	}
}

func TestExamplesAreValid(t *testing.T) {
	d := newDoor(&fake{}, Options{Hub: &Hub{}})
	doc := published(t, d)
	for _, m := range doc.Methods {
		schemas := map[string]*jsonschema.Resolved{}
		for _, p := range m.Params {
			schemas[p.Name] = validator(t, p.Schema)
		}
		for _, e := range m.Examples {
			params := map[string]json.RawMessage{}
			for _, p := range e.Params {
				params[p.Name] = p.Value
				if schemas[p.Name] == nil {
					t.Errorf("%s has no parameter %s", m.Name, p.Name)
				} else if err := schemas[p.Name].Validate(value(t, p.Value)); err != nil {
					t.Errorf("%s: %s=%s: %v", m.Name, p.Name, p.Value, err)
				}
			}
			raw, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.methods[m.Name].decode(raw); err != nil {
				t.Errorf("%s%s: %v", m.Name, raw, err)
			}
			if m.Result != nil {
				if err := validator(t, m.Result.Schema).Validate(e.Result.Value); err != nil {
					t.Errorf("%s: result %v: %v", m.Name, e.Result.Value, err)
				}
			}
		}
	}
}

// What the document says of a parameter is what the bus accepts.
func TestSchemasAgreeWithDecoding(t *testing.T) {
	d := newDoor(&fake{}, Options{Hub: &Hub{}})
	doc := published(t, d)
	agreed := 0
	for _, m := range doc.Methods {
		for _, p := range m.Params {
			schema := validator(t, p.Schema)
			row := *d.methods[m.Name]
			row.fields = slices.Clone(row.fields)
			for i := range row.fields {
				if p.Name == row.fields[i].name && p.Required != row.fields[i].required {
					t.Errorf("%s: %s", m.Name, p.Name)
				}
				row.fields[i].required = false
			}
			for _, v := range []string{`7`, `-1`, `1.5`, `4294967296`, `"x"`, `"once"`, `true`, `[]`, `["a"]`, `[1]`, `{}`, `{"a":"b"}`, `{"a":1}`} {
				if m.Name == "$/cancelRequest" && strings.ContainsAny(v[:1], "[{t") {
					continue // the method itself refuses these
				}
				_, err := row.decode(json.RawMessage(`{"` + p.Name + `":` + v + `}`))
				if said := schema.Validate(value(t, []byte(v))); (said == nil) != (err == nil) {
					t.Errorf("%s: %s=%s: the schema says %v, the bus %v", m.Name, p.Name, v, said, err)
				}
				agreed++
			}
		}
	}
	if agreed < 200 {
		t.Errorf("only %d comparisons", agreed)
	}
}

func TestSymbolsNest(t *testing.T) {
	d := newDoor(&fake{}, Options{})
	doc := published(t, d)
	i := slices.IndexFunc(doc.Methods, func(m methodEntry) bool { return m.Name == "mcp.symbols.list" })
	schema := validator(t, doc.Methods[i].Result.Schema)
	at := `"range":{"startLine":1,"startColumn":1,"endLine":1,"endColumn":1},"selection":{"startLine":1,"startColumn":1,"endLine":1,"endColumn":1}`
	good := `{"symbols":[{"name":"T","kind":"struct",` + at + `,"children":[{"name":"f","kind":"field",` + at + `}]}]}`
	if err := schema.Validate(value(t, []byte(good))); err != nil {
		t.Error(err)
	}
	if err := schema.Validate(value(t, []byte(strings.Replace(good, `"name":"T"`, `"name":7`, 1)))); err == nil {
		t.Error("a symbol is not checked")
	}
}
