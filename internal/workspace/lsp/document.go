package lsp

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

// document is a text that a server works on instead of the file on disk. It
// is open for one operation only: the server would go on believing it when
// the file has changed.
type document struct {
	c       *client
	uri     string
	version int
	*buffer
}

// open gives the server a text and waits for its turn on that path.
func (c *client) open(ctx context.Context, path, languageID, content string) (*document, error) {
	d := &document{c: c, uri: fileURI(filepath.Join(c.m.dir, filepath.FromSlash(path))), version: 1, buffer: newBuffer(content)}
	if err := c.lock(ctx, d.uri); err != nil {
		return nil, err
	}
	err := c.conn.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": d.uri, "languageId": languageID, "version": d.version, "text": content,
	}})
	if err != nil {
		c.unlock(d.uri)
		return nil, err
	}
	return d, nil
}

// change replaces the text.
func (d *document) change(ctx context.Context, content string) error {
	d.version++
	d.buffer = newBuffer(content)
	return d.c.conn.Notify(ctx, "textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": d.uri, "version": d.version},
		"contentChanges": []map[string]string{{"text": content}},
	})
}

func (d *document) close() {
	ctx, cancel := context.WithTimeout(context.Background(), jsonrpc.FlushWithin)
	defer cancel()
	// If the server has ended there is nothing to close.
	_ = d.c.conn.Notify(ctx, "textDocument/didClose", map[string]any{"textDocument": documentID{d.uri}})
	d.c.unlock(d.uri)
}

func (c *client) lock(ctx context.Context, uri string) error {
	for {
		c.mu.Lock()
		held, busy := c.documents[uri]
		if !busy {
			c.documents[uri] = make(chan struct{})
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *client) unlock(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.documents[uri])
	delete(c.documents, uri)
}

// call is conn.Call, tried again if the server says that what it looked at
// has changed meanwhile, as it may while it loads.
func (c *client) call(ctx context.Context, method string, params, result any) error {
	const tries = 4
	for i := 1; ; i++ {
		err := c.conn.Call(ctx, method, params, result)
		if refusal, ok := asRefusal(err); !ok || refusal.Code != codeContentModified || i == tries {
			return err
		}
		select {
		case <-time.After(time.Duration(i) * 50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refused is a server's no, as an error for people.
func (c *client) refused(what string, refusal *jsonrpc.Error) error {
	return &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("%s could not %s: %s", filepath.Base(c.program.Path), what, refusal.Message),
		Remedy:  "See that the file's syntax is right.",
	}
}
