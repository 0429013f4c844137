package editor

import (
	"context"
	"fmt"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
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
	var h Hello
	if err := c.call(ctx, methodHello, helloParams{bound(quick), Protocol, version}, quick, &h); err != nil {
		return h, err
	}
	if h.Protocol != Protocol {
		return h, &bridge.Error{Code: bridge.CodeUnsupported, Message: fmt.Sprintf("the extension speaks protocol %d, this program protocol %d", h.Protocol, Protocol),
			Remedy: "update the Copilot Bridge extension, and clear the setting bridge.binaryPath if it names another copilot-bridge"}
	}
	return h, nil
}

// Models lists Copilot's models.
func (c *Conn) Models(ctx context.Context) ([]Model, error) {
	var r struct {
		Models []Model `json:"models"`
	}
	err := c.call(ctx, methodModels, bound(quick), quick, &r)
	return r.Models, err
}

// Documents returns the documents that are not saved. known are the versions
// by path whose texts the caller has; those are not sent again.
func (c *Conn) Documents(ctx context.Context, known map[string]int64) ([]Document, error) {
	var r struct {
		Dirty []Document `json:"dirty"`
	}
	err := c.call(ctx, methodDocuments, documentsParams{bound(quick), known}, quick, &r)
	return r.Dirty, err
}

// ApplyEdit changes files, all or none of them, and saves them if asked to.
// That it does not fit is a result, not an error.
func (c *Conn) ApplyEdit(ctx context.Context, e Edit) (Applied, error) {
	var r Applied
	within := slow + time.Duration(len(e.Files))*perFile
	err := c.call(ctx, methodApply, applyParams{bound(within), e}, within, &r)
	return r, err
}

// Format lays out a file and saves it. CodeUnsupported says that no extension
// of the editor can; so it is with OrganizeImports and Symbols.
func (c *Conn) Format(ctx context.Context, path string) (Rewritten, error) {
	var r Rewritten
	err := c.call(ctx, methodFormat, pathParams{bound(slow), path}, slow, &r)
	return r, err
}

// OrganizeImports sorts and completes the imports of a file and saves it.
func (c *Conn) OrganizeImports(ctx context.Context, path string) (Rewritten, error) {
	var r Rewritten
	err := c.call(ctx, methodOrganize, pathParams{bound(slow), path}, slow, &r)
	return r, err
}

// Symbols lists what a file declares.
func (c *Conn) Symbols(ctx context.Context, path string) ([]Symbol, error) {
	var r struct {
		Symbols []Symbol `json:"symbols"`
	}
	err := c.call(ctx, methodSymbols, pathParams{bound(slow), path}, slow, &r)
	return r.Symbols, err
}

// Confirm asks the person at the editor and returns the id of the action that
// they chose; "" for none, also when the time is up.
func (c *Conn) Confirm(ctx context.Context, q Question, within time.Duration) (string, error) {
	var r struct {
		Choice *string `json:"choice"`
	}
	if err := c.call(ctx, methodConfirm, confirmParams{bound(within), q}, within, &r); err != nil || r.Choice == nil {
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
func (c *Conn) Ready(ctx context.Context, r Ready) error { return c.send(ctx, methodReady, "", r) }

// State tells it what has changed.
func (c *Conn) State(ctx context.Context, s State) error { return c.send(ctx, methodState, "", s) }
