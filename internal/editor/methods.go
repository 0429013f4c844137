package editor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// How long the extension may take. Edits of many files are saved one by one;
// formatters and symbols may have to wait for a language server to start.
const (
	quick = 10 * time.Second
	slow  = 30 * time.Second
	// perFile is what one more file adds to an edit.
	perFile = 200 * time.Millisecond
)

func bound(d time.Duration) bounded { return bounded{TimeoutMs: d.Milliseconds()} }

// Hello is the first message, and makes sure that both speak the same
// protocol.
func (c *Conn) Hello(ctx context.Context, version string) (Hello, error) {
	h, err := ask[Hello](ctx, c, methodHello, helloParams{bound(quick), Protocol, version}, quick)
	if err == nil && h.Protocol != Protocol {
		err = &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("the extension speaks protocol %d, this program protocol %d", h.Protocol, Protocol),
			Remedy: "update the Copilot Bridge extension, and clear the setting bridge.binaryPath if it names another copilot-bridge"}
	}
	return h, err
}

// Models lists Copilot's models.
func (c *Conn) Models(ctx context.Context) ([]Model, error) {
	r, err := ask[struct {
		Models []Model `json:"models"`
	}](ctx, c, methodModels, bound(quick), quick)
	return r.Models, err
}

// Documents returns the documents that are not saved. known are the versions
// by path whose texts the caller has; those are not sent again.
func (c *Conn) Documents(ctx context.Context, known map[string]int64) ([]Document, error) {
	r, err := ask[struct {
		Dirty []Document `json:"dirty"`
	}](ctx, c, methodDocuments, documentsParams{bound(quick), known}, quick)
	return r.Dirty, err
}

// ApplyEdit changes files, all or none of them, and saves them if asked to.
// That it does not fit is a result, not an error.
func (c *Conn) ApplyEdit(ctx context.Context, e Edit) (Applied, error) {
	within := slow + time.Duration(len(e.Files))*perFile
	return ask[Applied](ctx, c, methodApply, applyParams{bound(within), e}, within)
}

// Format lays out a file and saves it. CodeUnsupported says that no extension
// of the editor can; so it is with OrganizeImports and Symbols.
func (c *Conn) Format(ctx context.Context, path string) (Rewritten, error) {
	return ask[Rewritten](ctx, c, methodFormat, pathParams{bound(slow), path}, slow)
}

// OrganizeImports sorts and completes the imports of a file and saves it.
func (c *Conn) OrganizeImports(ctx context.Context, path string) (Rewritten, error) {
	return ask[Rewritten](ctx, c, methodOrganize, pathParams{bound(slow), path}, slow)
}

// Symbols lists what a file declares.
func (c *Conn) Symbols(ctx context.Context, path string) ([]Symbol, error) {
	r, err := ask[struct {
		Symbols []Symbol `json:"symbols"`
	}](ctx, c, methodSymbols, pathParams{bound(slow), path}, slow)
	return r.Symbols, err
}

// Confirm asks the person at the editor and returns the id of the action that
// they chose; "" for none, also when the time is up.
func (c *Conn) Confirm(ctx context.Context, q Question, within time.Duration) (string, error) {
	r, err := ask[struct {
		Choice *string `json:"choice"`
	}](ctx, c, methodConfirm, confirmParams{bound(within), q}, within)
	if err != nil || r.Choice == nil {
		return "", err
	}
	for _, a := range q.Actions {
		if a.ID == *r.Choice {
			return a.ID, nil
		}
	}
	return "", &bridge.Error{Code: bridge.CodeInternal, Message: "the editor's answer is none of the choices"}
}

// Ready tells the extension where the bridge answers.
func (c *Conn) Ready(ctx context.Context, r Ready) error {
	return c.explain(methodReady, c.Notify(ctx, methodReady, r))
}

// State tells it the current state after a change.
func (c *Conn) State(ctx context.Context, s State) error {
	return c.explain(methodState, c.Notify(ctx, methodState, s))
}

// Between returns the edits that make one text of another: one that replaces
// all lines from the first to the last that differ, none if they are the same.
// Lines end with LF or CRLF.
func Between(before, after string) []TextEdit {
	if before == after {
		return nil
	}
	old, made := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	head := 0
	for head < min(len(old), len(made)) && old[head] == made[head] {
		head++
	}
	tail := 0
	for tail < min(len(old), len(made))-head && old[len(old)-1-tail] == made[len(made)-1-tail] {
		tail++
	}
	// SplitAfter leaves an empty last line behind a final newline, as a document
	// does, so the place where a line begins is always one of the document.
	e := TextEdit{Start: Position{Line: head}, Text: strings.Join(made[head:len(made)-tail], "")}
	if e.End = (Position{Line: len(old) - tail}); tail == 0 {
		e.End = end(old)
	}
	return []TextEdit{e}
}

// end is the place behind the last character.
func end(lines []string) Position {
	last := lines[len(lines)-1]
	return Position{Line: len(lines) - 1, Character: units(last)}
}

// units counts a text as VS Code does.
func units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}
