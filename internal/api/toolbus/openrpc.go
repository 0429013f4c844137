package toolbus

import (
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/lsp"
)

// document is an OpenRPC document.
type document struct {
	OpenRPC string        `json:"openrpc"`
	Info    info          `json:"info"`
	Methods []methodEntry `json:"methods"`
	// OpenRPC has no words for what a server sends unasked.
	Notifications []methodEntry `json:"x-notifications"`
}

type info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

type methodEntry struct {
	Name        string         `json:"name"`
	Summary     string         `json:"summary"`
	Description string         `json:"description,omitempty"`
	Structure   string         `json:"paramStructure"`
	Params      []descriptor   `json:"params"`
	Result      *descriptor    `json:"result,omitempty"` // none for a notification
	Errors      []fault        `json:"errors,omitempty"`
	Examples    []exampleEntry `json:"examples,omitempty"`
}

type descriptor struct {
	Name        string             `json:"name"`
	Description string             `json:"description,omitempty"`
	Required    bool               `json:"required,omitempty"`
	Schema      *jsonschema.Schema `json:"schema"`
}

type exampleEntry struct {
	Name   string        `json:"name"`
	Params []namedValue  `json:"params"`
	Result *exampleValue `json:"result,omitempty"`
}

type namedValue struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type exampleValue struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// symbol is language.Symbol by another name, so that it has a schema that is
// not the one of the symbols in it. A reference to itself would be exact, but
// common tools that read OpenRPC documents follow it without end.
type symbol lsp.Symbol

// special are the types whose schema does not follow from what Go knows.
func special() (*jsonschema.ForOptions, error) {
	tree, err := jsonschema.For[symbol](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[lsp.Symbol](): {Type: "object", Description: "a symbol, like the one that it is in"},
	}})
	if err != nil {
		return nil, err
	}
	return &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[lsp.Symbol]():      tree,
		reflect.TypeFor[json.RawMessage](): {Types: []string{"string", "number", "null"}},
		reflect.TypeFor[Verify](): {AnyOf: []*jsonschema.Schema{
			{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}}, {Type: "boolean"},
		}},
		reflect.TypeFor[Patterns](): {AnyOf: []*jsonschema.Schema{
			{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		}},
	}}, nil
}

// describe makes the document of the methods.
func (d *door) describe(all []method) (*document, error) {
	doc := &document{OpenRPC: "1.3.2", Info: info{Title: "Copilot Bridge tool bus", Version: d.opts.Version,
		Description: "The tools of a workspace, under its policy: JSON-RPC 2.0 over WebSocket, or over HTTP POST without notifications. " +
			"Requests of one connection run side by side. error.data has the bridge's own code, and remedy: what to do about it."}}
	types, err := special()
	if err != nil {
		return nil, err
	}
	for i := range all {
		entry, err := all[i].describe(types)
		if err != nil {
			return nil, err
		}
		doc.Methods = append(doc.Methods, entry)
	}
	sent := []method{
		define[progressParams, *none]("bridge.progress", "What a running call puts out", nil, progressParams{}, nil),
	}
	if d.opts.Hub != nil {
		sent = append(sent,
			define[Approval, *none]("bridge.approval.requested", "A person is asked for consent", nil, Approval{}, nil),
			define[closedParams, *none]("bridge.approval.closed", "A question needs no answer any more", nil, closedParams{}, nil),
			define[Question, *none]("bridge.question.requested", "An agent asks a person", nil, Question{}, nil),
			define[closedParams, *none]("bridge.question.closed", "An agent's question needs no answer any more", nil, closedParams{}, nil))
	}
	for _, m := range sent {
		m.result = nil
		entry, err := m.describe(types)
		if err != nil {
			return nil, err
		}
		entry.Examples, entry.Errors = nil, nil
		doc.Notifications = append(doc.Notifications, entry)
	}
	return doc, nil
}

func (m *method) describe(types *jsonschema.ForOptions) (methodEntry, error) {
	e := methodEntry{Name: m.name, Summary: m.summary, Description: m.about, Structure: "either", Params: []descriptor{}}
	params, err := jsonschema.ForType(m.params, types)
	if err != nil {
		return e, err
	}
	wire.PlainSchema(params)
	for _, f := range m.fields {
		s := params.Properties[f.name]
		about := s.Description
		s.Description = ""
		for _, v := range f.enum {
			s.Enum = append(s.Enum, v)
		}
		e.Params = append(e.Params, descriptor{Name: f.name, Description: about, Required: f.required, Schema: s})
	}
	if m.result != nil {
		result := &jsonschema.Schema{Type: "object"}
		if m.result != reflect.TypeFor[json.RawMessage]() { // the document itself
			if result, err = jsonschema.ForType(m.result, types); err != nil {
				return e, err
			}
			wire.PlainSchema(result)
		}
		e.Result = &descriptor{Name: "result", Schema: result}
		for _, row := range codes {
			if row.domain != "" { // the others are about messages, not about methods
				e.Errors = append(e.Errors, fault{Code: row.code, Message: row.meaning})
			}
		}
	}
	one, err := m.exampleEntry()
	e.Examples = []exampleEntry{one}
	return e, err
}

// exampleEntry shows the parameters that the example gives, by name.
func (m *method) exampleEntry() (exampleEntry, error) {
	e := exampleEntry{Name: m.name, Params: []namedValue{}}
	params, err := encode(m.example.params)
	if err != nil {
		return e, err
	}
	err = members(params, func(name string, value json.RawMessage) error {
		e.Params = append(e.Params, namedValue{name, value})
		return nil
	})
	if m.result != nil {
		e.Result = &exampleValue{"result", m.example.result}
	}
	return e, err
}
