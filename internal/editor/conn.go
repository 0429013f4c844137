// Package editor is the connection to the extension of the VS Code window that
// has started this program: JSON-RPC 2.0, one object a line, on standard streams.
// The editor's models, documents, language features and dialogs are methods here;
// the agent, the workspace and app use them. Every call is bounded twice: by the
// extension, which is told the bound, and a little later here. A line that is no
// message ends the connection. See docs/reference/vscode-protocol.md.
package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

const (
	// grace is how much longer than the extension we wait for an answer.
	grace = 3 * time.Second
	// maxServed is how many requests of the extension may run at a time.
	maxServed = 16
	// maxLine bounds a message, in bytes.
	maxLine = 64 << 20
)

// Handler is told what the extension says unasked.
type Handler interface {
	// Folders and ModelsChanged are called in the order of arrival, on the
	// goroutine that reads, so they must not block.
	Folders(folders []Folder)
	ModelsChanged()
	// Status and Consented are called on their own goroutines.
	Status(ctx context.Context) (Status, error)
	Consented(ctx context.Context) error
}

// Conn is the connection. Its methods may be called from any goroutine as soon
// as it is made; those that wait for an answer need Run to be running. Run ends
// with the extension's stream and at anything that is not a message.
type Conn struct {
	*jsonrpc.Conn
	handler Handler
	log     *slog.Logger
	unread  int // see maxUnread
	unsaved unsaved

	mu    sync.Mutex
	chats map[string]*parts // by the id of the request
}

// New returns a connection that Run brings to life. If r and w can be closed,
// Run closes them at the end.
func New(r io.Reader, w io.Writer, h Handler, log *slog.Logger) *Conn {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{handler: h, log: log, unread: maxUnread, chats: map[string]*parts{}}
	c.Conn = jsonrpc.New(jsonrpc.NewLines(r, w, maxLine), incoming{c},
		jsonrpc.Options{MaxRequests: maxServed, CancelMethod: methodCancel, CancelField: "id", Strict: true, ErrorOf: faultOf})
	return c
}

// explain words an error of a call.
func (c *Conn) explain(method string, err error) error {
	var fault *Fault
	switch {
	case errors.As(err, &fault):
		return asError(fault)
	case errors.Is(err, jsonrpc.ErrNotUnderstood):
		return &bridge.Error{Code: bridge.CodeInternal, Message: "the editor's answer to " + method + " is not understood", Cause: err,
			Remedy: "update the extension and the bridge to the same version"}
	case errors.Is(err, jsonrpc.ErrClosed):
		e := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the editor has gone", Remedy: "open VS Code again"}
		if cause := c.Err(); !errors.Is(cause, io.EOF) {
			e.Cause = cause
		}
		return e
	}
	return err
}

// ask sends a request and returns its answer. The extension has been told of
// the bound in params; ours is a little longer.
func ask[R any](ctx context.Context, c *Conn, method string, params any, bound time.Duration) (result R, err error) {
	raw, err := encode(method, params)
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound+grace, silent(method, bound+grace))
	defer cancel()
	err = c.explain(method, c.Call(ctx, method, raw, &result))
	return result, err
}

func silent(method string, after time.Duration) error {
	return &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the editor did not answer %s within %s", method, after),
		Remedy: "see whether its window still responds; reload it if not"}
}

// encode makes parameters that fit into a message.
func encode(method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	if len(raw) > maxLine-256 { // the rest of the message is short
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%s would be longer than %d MiB", method, maxLine>>20), Remedy: "send less at a time"}
	}
	return raw, nil
}

// incoming takes what the extension sends unasked.
type incoming struct{ *Conn }

// Notification implements jsonrpc.Handler. A method that is not known is that
// of a newer extension; parameters that are not understood are a mistake, and
// end the connection.
func (c incoming) Notification(method string, params json.RawMessage) {
	var p struct {
		ID      json.RawMessage `json:"id"`
		Part    Part            `json:"part"`
		Folders []Folder        `json:"folders"`
	}
	if method == methodPart || method == methodFolders {
		if err := json.Unmarshal(params, &p); err != nil {
			c.Fail(fmt.Errorf("the editor's %s is not understood: %w", method, err))
			return
		}
	}
	switch method {
	case methodPart:
		c.mu.Lock()
		in := c.chats[string(p.ID)]
		c.mu.Unlock()
		if in != nil {
			in.put(p.Part, len(params))
		}
	case methodFolders:
		c.handler.Folders(p.Folders)
	case methodChanged:
		c.handler.ModelsChanged()
	default:
		c.log.Debug("editor.unknown_notification", "method", method)
	}
}

// Request implements jsonrpc.Handler.
func (c incoming) Request(ctx context.Context, method string, _ json.RawMessage) func() (any, error) {
	switch method {
	case methodStatus:
		return func() (any, error) { return c.handler.Status(ctx) }
	case methodConsented:
		return func() (any, error) { return nil, c.handler.Consented(ctx) }
	}
	return nil
}
