package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// organize asks for one kind of action after the other, each on the text that
// the one before left, and leaves the result as the document's text.
func (d *document) organize(ctx context.Context, t target) error {
	if !offered(d.c.caps.CodeActionProvider) && !d.c.hasRegistered("textDocument/codeAction") {
		return &bridge.Error{
			Code: bridge.CodeUnsupported, Message: "the language server for " + t.language + " does not organise imports",
			Remedy: "Configure another server for it. " + t.server.Install,
		}
	}
	kinds := t.server.organize
	if len(kinds) == 0 {
		kinds = []string{organizeImports}
	}
	for _, kind := range kinds {
		edits, err := d.actions(ctx, kind)
		if err != nil {
			return err
		}
		if len(edits) == 0 {
			continue
		}
		after, err := d.edited(edits)
		if err != nil {
			return err
		}
		if after == d.s {
			continue
		}
		if err := d.change(ctx, after); err != nil {
			return err
		}
	}
	return nil
}

// actions returns the edits of the first action of a kind.
func (d *document) actions(ctx context.Context, kind string) ([]textEdit, error) {
	var found []codeAction
	err := d.c.call(ctx, "textDocument/codeAction", map[string]any{
		"textDocument": documentID{d.uri},
		"range":        Span{End: d.end()},
		"context":      map[string]any{"diagnostics": []any{}, "only": []string{kind}, "triggerKind": 1},
	}, &found)
	if err != nil {
		return nil, err
	}
	for _, a := range found {
		if a.Disabled != nil || (a.Kind != "" && a.Kind != kind && !strings.HasPrefix(a.Kind, kind+".")) {
			continue
		}
		return d.edits(ctx, a)
	}
	return nil, nil
}

// edits are what an action would do: what it says itself, what it says when
// asked again, and what its command sends.
func (d *document) edits(ctx context.Context, a codeAction) ([]textEdit, error) {
	if a.Edit == nil && d.c.caps.resolvesActions() && len(a.Data) > 0 {
		resolved := codeAction{}
		if err := d.c.call(ctx, "codeAction/resolve", a, &resolved); err != nil {
			return nil, err
		}
		a = resolved
	}
	var edits []textEdit
	if a.Edit != nil {
		own, err := d.only(*a.Edit)
		if err != nil {
			return nil, err
		}
		edits = own
	}
	command := a.command()
	if command.Command == "" {
		return edits, nil
	}
	if len(edits) > 0 {
		return nil, unsupportedEdit("an edit and a command in one action")
	}
	return d.execute(ctx, command)
}

// command is the action's command, in either of its two forms.
func (a codeAction) command() serverCommand {
	var c serverCommand
	if len(a.Command) == 0 {
		return c
	}
	if json.Unmarshal(a.Command, &c.Command) == nil {
		c.Title, c.Arguments = a.Title, a.Arguments
		return c
	}
	if json.Unmarshal(a.Command, &c) != nil {
		return serverCommand{}
	}
	return c
}

// execute runs a command of the server and collects the edits that it sends.
func (d *document) execute(ctx context.Context, command serverCommand) ([]textEdit, error) {
	into := &capture{}
	d.c.mu.Lock()
	d.c.captured[d.uri] = into // the document is ours alone
	d.c.mu.Unlock()
	params := map[string]any{"command": command.Command}
	if len(command.Arguments) > 0 {
		params["arguments"] = command.Arguments
	}
	err := d.c.call(ctx, "workspace/executeCommand", params, nil)
	d.c.mu.Lock()
	delete(d.c.captured, d.uri)
	d.c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(into.edits) > 1 {
		return nil, unsupportedEdit("several edits, one after the other")
	}
	if len(into.edits) == 0 {
		return nil, nil
	}
	return d.only(into.edits[0])
}

func unsupportedEdit(what string) error {
	return &bridge.Error{
		Code: bridge.CodeUnsupported, Message: "the language server would organise imports with " + what + ", which is not supported",
	}
}

// only returns an edit's part for this document, and refuses one that would
// change anything else.
func (d *document) only(e workspaceEdit) ([]textEdit, error) {
	var edits []textEdit
	for uri, list := range e.Changes {
		if len(list) > 0 && !sameFile(uri, d.uri) {
			return nil, unsupportedEdit("changes to " + fileName(uri))
		}
		if len(e.DocumentChanges) == 0 { // they are the same, said better
			edits = append(edits, list...)
		}
	}
	for _, change := range e.DocumentChanges {
		switch {
		case change.Kind != "":
			return nil, unsupportedEdit(fmt.Sprintf("the %s of a file", change.Kind))
		case len(change.Edits) > 0 && !sameFile(change.TextDocument.URI, d.uri):
			return nil, unsupportedEdit("changes to " + fileName(change.TextDocument.URI))
		}
		edits = append(edits, change.Edits...)
	}
	return edits, nil
}

func fileName(uri string) string { return filepath.Base(uri) }

// touches says whether an edit is about a document.
func (e workspaceEdit) touches(uri string) bool {
	for u := range e.Changes {
		if sameFile(u, uri) {
			return true
		}
	}
	for _, c := range e.DocumentChanges {
		if sameFile(c.TextDocument.URI, uri) {
			return true
		}
	}
	return false
}
