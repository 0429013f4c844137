package lsp

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
)

// The part of the Language Server Protocol 3.17 that is used here.

// positionEncoding names the unit of columns. The protocol wants every
// server to know this one.
const positionEncoding = "utf-16"

// Position is a place in a document. Lines count from 0.
type Position struct {
	Line      uint32 `json:"line"`
	Character uint32 `json:"character"`
}

// Span is a part of a document.
type Span struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

type textEdit struct {
	Range   Span   `json:"range"`
	NewText string `json:"newText"`
}

type documentID struct {
	URI string `json:"uri"`
}

type workspaceEdit struct {
	Changes         map[string][]textEdit `json:"changes"`
	DocumentChanges []struct {
		Kind         string     `json:"kind"` // create, rename or delete of a file
		TextDocument documentID `json:"textDocument"`
		Edits        []textEdit `json:"edits"`
	} `json:"documentChanges"`
}

type serverCommand struct {
	Title     string          `json:"title"`
	Command   string          `json:"command"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// codeAction is also what a bare Command decodes into: then command is a
// string.
type codeAction struct {
	Title     string          `json:"title"`
	Kind      string          `json:"kind,omitempty"`
	Edit      *workspaceEdit  `json:"edit,omitempty"`
	Command   json.RawMessage `json:"command,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Disabled  *struct {
		Reason string `json:"reason"`
	} `json:"disabled,omitempty"`
}

// DocumentSymbol is a symbol as servers and editors report it. It is also what a flat SymbolInformation decodes into: then
// location is set and the ranges are not.
type DocumentSymbol struct {
	Name           string           `json:"name"`
	Detail         string           `json:"detail"`
	Kind           int              `json:"kind"`
	Range          *Span            `json:"range"`
	SelectionRange *Span            `json:"selectionRange"`
	Children       []DocumentSymbol `json:"children"`
	ContainerName  string           `json:"containerName"`
	Location       *struct {
		URI   string `json:"uri"`
		Range Span   `json:"range"`
	} `json:"location"`
}

type capabilities struct {
	PositionEncoding           string          `json:"positionEncoding"`
	DocumentSymbolProvider     json.RawMessage `json:"documentSymbolProvider"`
	DocumentFormattingProvider json.RawMessage `json:"documentFormattingProvider"`
	CodeActionProvider         json.RawMessage `json:"codeActionProvider"`
}

// offered says whether a provider, which is a truth value or options, is there.
func offered(provider json.RawMessage) bool {
	s := string(provider)
	return s != "" && s != "null" && s != "false"
}

func (c capabilities) resolvesActions() bool {
	var opts struct {
		ResolveProvider bool `json:"resolveProvider"`
	}
	return json.Unmarshal(c.CodeActionProvider, &opts) == nil && opts.ResolveProvider
}

// clientCapabilities are sent at the start.
func clientCapabilities() any {
	type m = map[string]any
	return m{
		"general": m{"positionEncodings": []string{positionEncoding}},
		"workspace": m{
			"applyEdit": true, "configuration": true, "workspaceFolders": true,
			"workspaceEdit":         m{"documentChanges": true},
			"didChangeWatchedFiles": m{"dynamicRegistration": true, "relativePatternSupport": true},
			"executeCommand":        m{},
		},
		"textDocument": m{
			"synchronization": m{},
			"documentSymbol": m{
				"hierarchicalDocumentSymbolSupport": true,
				"symbolKind":                        m{"valueSet": kindNumbers()},
			},
			"formatting": m{"dynamicRegistration": true},
			"codeAction": m{
				"codeActionLiteralSupport": m{"codeActionKind": m{"valueSet": []string{"", "source", organizeImports}}},
				"resolveSupport":           m{"properties": []string{"edit"}}, "dataSupport": true, "disabledSupport": true,
			},
		},
		"window": m{"workDoneProgress": true},
	}
}

// fileURI is the address of an absolute path.
func fileURI(path string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") { // C:/…
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p}).String()
}

// sameFile compares addresses, which servers may write with other escapes.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Scheme == "file" && ub.Scheme == "file" && ua.Path == ub.Path
}
