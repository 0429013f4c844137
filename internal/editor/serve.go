package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/lineconn"
)

// read takes lines until there are no more, or one that is no message.
func (c *Conn) read(ctx context.Context) error {
	in := newLines(c.r, maxLine)
	for {
		line, err := in.next()
		if err != nil {
			return err
		}
		f, err := decode(line)
		if err != nil {
			return fmt.Errorf("the editor's stream is broken: %w", err)
		}
		switch {
		case f.Method == "":
			c.answered(f)
		case len(f.ID) == 0:
			if err := c.hear(f); err != nil {
				return err
			}
		default:
			c.serve(ctx, f)
		}
	}
}

// answered hands an answer to whoever waits for it; late ones find nobody.
func (c *Conn) answered(f *frame) {
	c.mu.Lock()
	w := c.waiting[string(f.ID)]
	delete(c.waiting, string(f.ID))
	c.mu.Unlock()
	if w == nil {
		return
	}
	if w.parts != nil {
		w.parts.end(f)
		return
	}
	w.answer <- f
}

// hear takes a notification. One that is not known is of a newer extension;
// one that is known and not understood is a mistake.
func (c *Conn) hear(f *frame) error {
	switch f.Method {
	case methodPart:
		var p partParams
		if err := json.Unmarshal(f.Params, &p); err != nil {
			return fmt.Errorf("the editor's %s is not understood: %w", f.Method, err)
		}
		c.mu.Lock()
		w := c.waiting[string(p.ID)]
		c.mu.Unlock()
		if w != nil && w.parts != nil {
			w.parts.put(p.Part, len(f.Params))
		}
	case methodFolders:
		var p foldersParams
		if err := json.Unmarshal(f.Params, &p); err != nil {
			return fmt.Errorf("the editor's %s is not understood: %w", f.Method, err)
		}
		c.handler.Folders(p.Folders)
	case methodChanged:
		c.handler.ModelsChanged()
	case methodCancel:
		var p cancelParams
		if err := json.Unmarshal(f.Params, &p); err != nil {
			return fmt.Errorf("the editor's %s is not understood: %w", f.Method, err)
		}
		c.line.Cancel(string(p.ID), errCanceled)
	default:
		c.log.Debug("the editor says what this version does not know", "method", f.Method)
	}
	return nil
}

var errCanceled = &bridge.Error{Code: bridge.CodeCanceled, Message: "the request was canceled"}

// serve starts the answer to a request.
func (c *Conn) serve(ctx context.Context, f *frame) {
	id := string(f.ID)
	err := c.line.Serve(ctx, id, func(ctx context.Context) func() []byte {
		return func() []byte {
			result, err := c.outcome(ctx, f)
			if err != nil && errors.Is(context.Cause(ctx), errCanceled) {
				err = errCanceled
			}
			return encoded(f.ID, result, err)
		}
	})
	switch {
	case errors.Is(err, lineconn.ErrBusy):
		c.line.Reply(encoded(f.ID, nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("%d requests run already", maxServed)}))
	case errors.Is(err, lineconn.ErrInUse):
		c.line.Reply(encoded(f.ID, nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the id " + id + " is in use"}))
	}
}

// outcome answers one request; a panic is an error of that request alone.
func (c *Conn) outcome(ctx context.Context, f *frame) (result any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s failed: %v", f.Method, r)
		}
	}()
	switch f.Method {
	case methodStatus:
		return c.handler.Status(ctx)
	case methodConsented:
		return struct{}{}, c.handler.Consented(ctx)
	}
	return nil, &Fault{Code: codeNoMethod, Message: "there is no method " + f.Method}
}

// encoded is an answer.
func encoded(id json.RawMessage, result any, err error) []byte {
	f := frame{Version: "2.0", ID: id}
	if err == nil {
		if f.Result, err = json.Marshal(result); err != nil {
			err = fmt.Errorf("encode the answer: %w", err)
		}
	}
	if err != nil {
		f.Result, f.Error = nil, faultOf(err)
	}
	line, err := json.Marshal(f)
	if err != nil { // never: a frame of plain texts always can be
		line = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the answer could not be encoded"}}`)
	}
	return line
}
