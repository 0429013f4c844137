package language

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// maxQueue bounds what waits for a server that does not read.
const maxQueue = 128 << 20

var errClosed = errors.New("the connection was closed")

// rpcError is a server's refusal of one request.
type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// The codes of JSON-RPC and LSP that matter here.
const (
	codeMethodNotFound  = -32601
	codeInvalidParams   = -32602
	codeContentModified = -32801
)

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// conn is a JSON-RPC connection with a server. A reader and a writer
// goroutine own the two streams; run returns when both have ended. call and
// notify may be used concurrently and never wait for the server to read.
type conn struct {
	in  *frameReader
	out io.Writer
	// Both are called by the reader, so they must not wait for the server.
	request      func(method string, params json.RawMessage) (any, *rpcError)
	notification func(method string, params json.RawMessage)

	heard atomic.Int64 // messages received

	mu      sync.Mutex
	next    int64
	pending map[int64]chan message
	queue   [][]byte
	queued  int
	err     error // why it ended; set before done is closed

	wake chan struct{}
	done chan struct{}
}

func newConn(in io.Reader, noise, out io.Writer) *conn {
	return &conn{
		in: newFrameReader(in, noise), out: out, pending: map[int64]chan message{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		request: func(method string, _ json.RawMessage) (any, *rpcError) {
			return nil, &rpcError{Code: codeMethodNotFound, Message: "not supported: " + method}
		},
		notification: func(string, json.RawMessage) {},
	}
}

// run serves the connection until it fails or is closed. The streams must be
// closed by the caller for it to return then.
func (c *conn) run() {
	var wg sync.WaitGroup
	wg.Go(c.write)
	c.fail(c.read())
	wg.Wait()
}

func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
}

// cause is why the connection ended; it is valid once done is closed.
func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) read() error {
	for {
		content, err := c.in.next()
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(content, &m); err != nil {
			return fmt.Errorf("a message that is no JSON-RPC: %w", err)
		}
		c.heard.Add(1)
		switch {
		case m.Method != "" && len(m.ID) > 0:
			result, refusal := c.request(m.Method, m.Params)
			if err := c.reply(m.ID, result, refusal); err != nil {
				return err
			}
		case m.Method != "":
			c.notification(m.Method, m.Params)
		default:
			c.deliver(m)
		}
	}
}

func (c *conn) deliver(m message) {
	var id int64
	if json.Unmarshal(m.ID, &id) != nil {
		return // an answer to nothing we asked
	}
	c.mu.Lock()
	ch := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if ch != nil {
		ch <- m
	}
}

func (c *conn) reply(id json.RawMessage, result any, refusal *rpcError) error {
	m := message{JSONRPC: "2.0", ID: id, Error: refusal}
	if refusal == nil {
		b, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("answer a server's request: %w", err)
		}
		m.Result = b
	}
	return c.enqueue(m)
}

func (c *conn) write() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		for {
			c.mu.Lock()
			if len(c.queue) == 0 || c.err != nil {
				c.mu.Unlock()
				break
			}
			content := c.queue[0]
			c.queue = c.queue[1:]
			c.queued -= len(content)
			c.mu.Unlock()
			if err := writeFrame(c.out, content); err != nil {
				c.fail(err)
				return
			}
		}
	}
}

func (c *conn) enqueue(m message) error {
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.queued > maxQueue:
		return errors.New("the server has stopped reading")
	}
	c.queue = append(c.queue, content)
	c.queued += len(content)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// notify sends a notification; nil means that it has no parameters.
func (c *conn) notify(method string, params any) error {
	raw, err := encode(params)
	if err != nil {
		return err
	}
	return c.enqueue(message{JSONRPC: "2.0", Method: method, Params: raw})
}

func encode(params any) (json.RawMessage, error) {
	if params == nil {
		return nil, nil
	}
	return json.Marshal(params)
}

// lostError says that the connection ended under a call.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// call sends a request and decodes the answer into result. When ctx ends, the
// server is told that nobody waits any more.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, err := encode(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.pending[id] = answer
	c.mu.Unlock()
	if err := c.enqueue(message{JSONRPC: "2.0", ID: fmt.Append(nil, id), Method: method, Params: raw}); err != nil {
		c.forget(id)
		return &lostError{err}
	}
	select {
	case m := <-answer:
		return decode(m, method, result)
	case <-ctx.Done():
		c.forget(id)
		_ = c.notify("$/cancelRequest", map[string]int64{"id": id}) // it may have gone
		return ctx.Err()
	case <-c.done:
		select { // the answer may have come with the last bytes
		case m := <-answer:
			return decode(m, method, result)
		default:
		}
		c.forget(id)
		return &lostError{c.cause()}
	}
}

func (c *conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func decode(m message, method string, result any) error {
	if m.Error != nil {
		return m.Error
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("answer to %s: %w", method, err)
	}
	return nil
}
