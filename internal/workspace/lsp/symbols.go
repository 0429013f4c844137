package lsp

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Range is a part of a file. Lines and columns count from 1; a column counts
// characters (Unicode code points), and the end is the place behind the last.
type Range struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
	EndLine     int `json:"endLine"`
	EndColumn   int `json:"endColumn"`
}

// Symbol is a declaration in a file, with those inside it.
type Symbol struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"` // function, struct, …; see kinds
	Detail    string   `json:"detail,omitempty"`
	Range     Range    `json:"range"`               // the whole declaration
	Selection Range    `json:"selection"`           // its name
	Container string   `json:"container,omitempty"` // from servers that know no nesting
	Children  []Symbol `json:"children,omitempty"`
}

// kinds are the protocol's, numbered from 1.
var kinds = [...]string{
	"file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
	"interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key",
	"null", "enumMember", "struct", "event", "operator", "typeParameter",
}

func kindNumbers() []int {
	numbers := make([]int, len(kinds))
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

func kindName(n int) string {
	if n < 1 || n > len(kinds) {
		return "unknown"
	}
	return kinds[n-1]
}

// Symbols lists what a file on disk declares, in the order of the file.
func (m *Manager) Symbols(ctx context.Context, path string) ([]Symbol, error) {
	t, err := m.target(path)
	if err != nil {
		return nil, err
	}
	onDisk, err := m.read(path)
	if err != nil {
		return nil, err
	}
	body, _, err := content(path, onDisk)
	if err != nil {
		return nil, err
	}
	var symbols []Symbol
	err = m.do(ctx, t, "list the symbols of "+path, func(ctx context.Context, c *client) error {
		if !offered(c.caps.DocumentSymbolProvider) && !c.hasRegistered("textDocument/documentSymbol") {
			return &bridge.Error{
				Code: bridge.CodeUnsupported, Message: "the language server for " + t.language + " lists no symbols",
				Remedy: "Configure another server for it. " + t.server.Install,
			}
		}
		d, err := c.open(ctx, t.path, t.id, body)
		if err != nil {
			return err
		}
		defer d.close()
		var found []DocumentSymbol
		params := map[string]any{"textDocument": documentID{d.uri}}
		if err := c.call(ctx, "textDocument/documentSymbol", params, &found); err != nil {
			return err
		}
		symbols = d.symbols(found)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return symbols, nil
}

// Outline makes of the symbols of an editor, which counts UTF-16 units, what
// Symbols returns for a document with this text.
func Outline(body string, found []DocumentSymbol) []Symbol {
	return newBuffer(body).symbols(found)
}

func (t *buffer) symbols(found []DocumentSymbol) []Symbol {
	symbols := make([]Symbol, 0, len(found))
	for _, f := range found {
		s := Symbol{Name: f.Name, Kind: kindName(f.Kind), Detail: f.Detail, Container: f.ContainerName}
		switch {
		case f.Range != nil:
			s.Range = t.person(*f.Range)
			s.Selection = s.Range
			if f.SelectionRange != nil {
				s.Selection = t.person(*f.SelectionRange)
			}
		case f.Location != nil:
			s.Range = t.person(f.Location.Range)
			s.Selection = s.Range
		}
		if len(f.Children) > 0 {
			s.Children = t.symbols(f.Children)
		}
		symbols = append(symbols, s)
	}
	slices.SortStableFunc(symbols, func(a, b Symbol) int {
		return cmp.Or(a.Range.StartLine-b.Range.StartLine, a.Range.StartColumn-b.Range.StartColumn, strings.Compare(a.Name, b.Name))
	})
	return symbols
}

// person is a span as people count.
func (t *buffer) person(s Span) Range {
	var r Range
	r.StartLine, r.StartColumn = t.place(t.offset(s.Start))
	r.EndLine, r.EndColumn = t.place(t.offset(s.End))
	return r
}
