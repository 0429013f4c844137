package acpwire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/copilot-bridge/copilot-bridge/internal/lineconn"
)

// read takes lines until there are no more.
func (c *Conn) read(ctx context.Context) error {
	in := newLines(c.r, c.opts.MaxLine)
	for {
		line, err := in.next()
		switch {
		case errors.Is(err, errTooLong):
			c.malformed(nil, line, err)
			continue
		case err != nil:
			return err
		case len(line) == 0:
			continue
		}
		f, err := decodeFrame(line)
		if err != nil {
			c.malformed(f, line, err)
			continue
		}
		switch f.kind() {
		case frameRequest:
			c.serve(ctx, f)
		case frameNotification:
			c.hear(f)
		case frameResponse:
			c.answered(f)
		case frameBad:
		}
	}
}

// answered hands an answer to whoever waits for it; late ones find nobody.
func (c *Conn) answered(f *frame) {
	id := string(f.ID)
	var text string
	if json.Unmarshal(f.ID, &text) == nil {
		id = text // an agent that makes texts of ids
	}
	c.mu.Lock()
	w := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if w != nil {
		w <- f
	}
}

func (c *Conn) hear(f *frame) {
	if f.Method != NotifyCancelRequest {
		c.handler.Notification(f.Method, f.Params)
		return
	}
	var p CancelRequest
	if json.Unmarshal(f.Params, &p) != nil {
		return
	}
	c.line.Cancel(string(p.RequestID), errCancelled)
}

var errCancelled = &Error{Code: CodeCancelled, Message: "the request was cancelled"}

// serve starts the answer to a request.
func (c *Conn) serve(ctx context.Context, f *frame) {
	id := string(f.ID)
	err := c.line.Serve(ctx, id, func(ctx context.Context) func() []byte {
		answer := c.handler.Request(ctx, f.Method, f.Params)
		return func() []byte {
			result, err := outcome(answer, f.Method)
			if err != nil && errors.Is(context.Cause(ctx), errCancelled) {
				err = errCancelled
			}
			return encoded(f.ID, result, err)
		}
	})
	switch {
	case errors.Is(err, lineconn.ErrBusy):
		c.refuse(f.ID, Errorf(CodeInternal, "busy: %d requests run already", c.opts.MaxRequests))
	case errors.Is(err, lineconn.ErrInUse):
		c.refuse(f.ID, Errorf(CodeInvalidRequest, "the id %s is in use", id))
	}
}

// outcome calls a handler so that a panic is an error of that request alone.
func outcome(answer func() (any, error), method string) (result any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s failed: %v", method, r)
		}
	}()
	if answer == nil {
		return nil, Errorf(CodeMethodNotFound, "there is no method %s", method)
	}
	return answer()
}

func (c *Conn) refuse(id json.RawMessage, err error) { c.line.Reply(encoded(id, nil, err)) }

// encoded is an answer.
func encoded(id json.RawMessage, result any, err error) []byte {
	f := frame{Version: "2.0", ID: id, Result: emptyResult}
	if err == nil && result != nil {
		if f.Result, err = json.Marshal(result); err != nil {
			err = fmt.Errorf("encode the answer: %w", err)
		}
	}
	if err != nil {
		f.Result = nil
		if !errors.As(err, &f.Error) {
			f.Error = &Error{Code: CodeInternal, Message: err.Error()}
		}
	}
	line, err := json.Marshal(f)
	if err != nil {
		line = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the answer could not be encoded"}}`)
	}
	return line
}

func (c *Conn) malformed(f *frame, line []byte, err error) {
	if c.opts.Malformed != nil {
		c.opts.Malformed(line, err)
	}
	if !c.opts.AnswerMalformed {
		return
	}
	id, code := nullID, CodeInvalidRequest
	if f == nil {
		code = CodeParse
	} else if len(f.ID) > 0 && f.kind() != frameResponse {
		id = f.ID
	}
	c.refuse(id, Errorf(code, "%s", err))
}
