package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// read handles messages until the stream ends.
func (c *Conn) read(ctx context.Context) error {
	for {
		text, err := c.stream.Read()
		switch {
		case err != nil && !errors.Is(err, ErrTooLong):
			return err
		case err == nil && len(text) == 0 && !c.opts.Strict:
			continue
		}
		var m *Message
		if err == nil {
			m, err = Decode(text, c.opts.Strict)
		}
		switch {
		case err != nil && c.opts.Strict:
			return fmt.Errorf("the other side sent what is not a message: %w", err)
		case err != nil:
			c.malformed(m, text, err)
		case m.Method == "":
			c.answered(m)
		case m.ID != nil:
			c.serve(ctx, m)
		case m.Method == c.opts.CancelMethod:
			c.canceled(m.Params)
		default:
			c.handler.Notification(m.Method, m.Params)
		}
	}
}

// answered hands an answer to the call that waits for it, if one does.
func (c *Conn) answered(m *Message) {
	id := string(m.ID)
	var text string
	if json.Unmarshal(m.ID, &text) == nil {
		id = text // some agents make texts of ids
	}
	c.mu.Lock()
	w := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if w != nil {
		w <- m
	}
}

// ErrCanceled is the cause and the answer of a request that was canceled.
var ErrCanceled = &Error{Code: CodeCanceled, Message: "the request was cancelled"}

func (c *Conn) canceled(params json.RawMessage) {
	var p map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	cancel := c.serving[string(p[c.opts.CancelField])]
	c.mu.Unlock()
	if cancel != nil {
		cancel(ErrCanceled)
	}
}

// serve begins to answer a request.
func (c *Conn) serve(ctx context.Context, m *Message) {
	select {
	case c.slots <- struct{}{}:
	default:
		c.reply(m.ID, nil, Errorf(CodeInternal, "busy: %d requests run already", c.opts.MaxRequests))
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := string(m.ID)
	if err := c.admit(id, cancel); err != nil {
		cancel(nil)
		<-c.slots
		if c.Err() == nil {
			c.reply(m.ID, nil, err)
		}
		return
	}
	begun := c.handler.Request(ctx, m.Method, m.Params)
	go func() {
		defer c.answering.Done()
		result, err := outcome(begun, m.Method)
		if err != nil && errors.Is(context.Cause(ctx), ErrCanceled) {
			err = ErrCanceled
		}
		c.mu.Lock()
		delete(c.serving, id)
		c.mu.Unlock()
		cancel(nil)
		c.reply(m.ID, result, err)
		<-c.slots // held while the other side does not read
	}()
}

// admit registers a request, unless the end has come or its id is in use.
func (c *Conn) admit(id string, cancel context.CancelCauseFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if _, double := c.serving[id]; double {
		return Errorf(CodeInvalidRequest, "the id %s is in use", id)
	}
	c.serving[id] = cancel
	c.answering.Add(1)
	return nil
}

// outcome calls a handler so that a panic is an error of that request alone.
func outcome(begun func() (any, error), method string) (result any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s failed: %v", method, r)
		}
	}()
	if begun == nil {
		return nil, Errorf(CodeMethodNotFound, "there is no method %s", method)
	}
	return begun()
}

// reply queues an answer, also after the end if the other side takes it.
func (c *Conn) reply(id json.RawMessage, result any, err error) {
	m := Message{Version: "2.0", ID: id, Result: json.RawMessage("{}")}
	if err == nil && result != nil {
		if m.Result, err = json.Marshal(result); err != nil {
			err = fmt.Errorf("encode the answer: %w", err)
		}
	}
	if err != nil {
		m.Result, m.Error = nil, c.opts.ErrorOf(err)
	}
	text, err := json.Marshal(m)
	if err != nil { // only an ErrorOf whose data is not JSON
		text = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the answer could not be encoded"}}`)
	}
	c.out.Reply(text)
}

func (c *Conn) malformed(m *Message, text []byte, err error) {
	if c.opts.Malformed != nil {
		c.opts.Malformed(text, err)
	}
	if !c.opts.AnswerMalformed {
		return
	}
	id, code := Null, CodeInvalidRequest
	if m == nil {
		code = CodeParse
	} else if m.ID != nil && m.Method != "" {
		id = m.ID
	}
	c.reply(id, nil, Errorf(code, "%s", err))
}
