// Package jsonrpc is a JSON-RPC 2.0 peer over a stream of messages: lines, messages
// behind headers, or another stream. Requests go both ways. The methods belong to
// the callers: acpwire (Agent Client Protocol), editor (VS Code's extension), lsp
// (language servers) and toolbus.
package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// FlushWithin is how long the last messages may take to be written.
const FlushWithin = 2 * time.Second

// Stream carries whole messages. One goroutine reads, another writes, and Close
// ends both.
type Stream interface {
	// Read returns the next message, which is valid until the next call, or
	// io.EOF. After ErrTooLong the next message can be read.
	Read() ([]byte, error)
	Write(message []byte) error
	Close()
}

// Handler answers the other side.
type Handler interface {
	// Request is called in the order of arrival on the goroutine that reads, so
	// it must not block. The function that it returns makes the answer on another
	// goroutine; nil means that there is no such method. ctx ends when the other
	// side cancels the request and when the connection ends.
	Request(ctx context.Context, method string, params json.RawMessage) func() (any, error)
	// Notification is called in the order of arrival and must not block.
	Notification(method string, params json.RawMessage)
}

// Options tune a Conn.
type Options struct {
	// MaxRequests bounds the running requests of the other side. 0 means 64.
	MaxRequests int
	// CancelMethod is the notification that cancels a request, CancelField its
	// parameter with the id.
	CancelMethod, CancelField string
	// Strict ends the connection at the first message that is not one.
	Strict bool
	// Malformed gets such messages and must not block. AnswerMalformed answers
	// them too, for the serving side: programs may print anything.
	Malformed       func(message []byte, err error)
	AnswerMalformed bool
	// ErrorOf makes an Error of a handler's error. By default it is the Error in
	// the chain, or CodeInternal with its text.
	ErrorOf func(error) *Error
}

// Conn is one connection. Its methods may be called concurrently; nothing is
// written before Run has begun.
type Conn struct {
	stream  Stream
	handler Handler
	opts    Options

	out       Writer
	ended     chan struct{} // closed by Fail: nothing new comes or goes
	flushed   chan struct{} // closed when no further answer is written
	slots     chan struct{}
	answering sync.WaitGroup // begun under mu, and only before the end
	close     func()         // of the stream, once

	mu      sync.Mutex
	err     error                              // why it ended
	serving map[string]context.CancelCauseFunc // requests of the other side
	lastID  int64
	waiting map[string]chan *Message // requests of this side
}

// New returns a connection that Run brings to life.
func New(s Stream, h Handler, o Options) *Conn {
	if o.MaxRequests <= 0 {
		o.MaxRequests = 64
	}
	if o.ErrorOf == nil {
		o.ErrorOf = errorOf
	}
	ended, flushed := make(chan struct{}), make(chan struct{})
	return &Conn{stream: s, handler: h, opts: o, out: NewWriter(ended, flushed), ended: ended, flushed: flushed,
		slots: make(chan struct{}, o.MaxRequests), close: sync.OnceFunc(s.Close), serving: map[string]context.CancelCauseFunc{}, waiting: map[string]chan *Message{}}
}

func errorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// Run reads and writes until the other side ends the stream, Fail is called, or ctx
// ends, and returns when its goroutines have ended. The error is nil if the other
// side ended the stream. A read or a write that Close does not end, of a terminal
// for instance, ends with the process.
func (c *Conn) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reads, writes := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(writes)
		c.out.Run(c.stream.Write, func(err error) { c.Fail(fmt.Errorf("write: %w", err)) })
	}()
	go func() { defer close(reads); c.Fail(c.read(ctx)) }()
	select {
	case <-ctx.Done():
		c.Fail(context.Cause(ctx))
	case <-c.ended:
	}
	cancel(c.Err())
	// The last answers are written, but not for ever.
	flush := sync.OnceFunc(func() { close(c.flushed) })
	late := time.AfterFunc(FlushWithin, func() { c.close(); flush() })
	defer late.Stop()
	c.answering.Wait()
	flush()
	waitFor(writes)
	c.close()
	waitFor(reads)
	if err := c.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// waitFor waits for done, but not for ever.
func waitFor(done <-chan struct{}) {
	t := time.NewTimer(FlushWithin)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// Err is why it ended: io.EOF if the other side ended it, nil if it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Fail ends the connection. Waiting calls return. nil means that the other side has
// ended it.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if err == nil {
		err = io.EOF
	}
	c.err = err
	close(c.ended)
}

func (c *Conn) closed() error {
	if err := c.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return ErrClosed
}

// Call sends a request and decodes its answer into result, unless that is nil. The
// end of ctx cancels the request.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	call := c.NewCall()
	defer call.Forget()
	if err := call.Send(ctx, method, params); err != nil {
		return err
	}
	err := call.Wait(ctx, result)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		call.Cancel()
	}
	return err
}

// Notify sends a notification, and waits while the other side does not read.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	return c.send(ctx, "", method, params)
}

// Call is a request with an id that is known before it is sent. The caller must
// call Forget.
type Call struct {
	ID     string
	method string
	conn   *Conn
	answer chan *Message // of one
}

// NewCall registers a request.
func (c *Conn) NewCall() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	call := &Call{ID: strconv.FormatInt(c.lastID, 10), conn: c, answer: make(chan *Message, 1)}
	c.waiting[call.ID] = call.answer
	return call
}

// Send sends the request, waiting while the other side does not read.
func (k *Call) Send(ctx context.Context, method string, params any) error {
	k.method = method
	return k.conn.send(ctx, k.ID, method, params)
}

// Answer gets the answer. It is not closed at the end of the connection.
func (k *Call) Answer() <-chan *Message { return k.answer }

// Wait waits for the answer and decodes it into result, unless that is nil.
func (k *Call) Wait(ctx context.Context, result any) error {
	select {
	case m := <-k.answer:
		return k.decode(m, result)
	case <-k.conn.ended:
		select {
		case m := <-k.answer: // it came just before the end
			return k.decode(m, result)
		default:
			return k.conn.closed()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cancel tells the other side that the answer is not needed.
func (k *Call) Cancel() {
	ctx, cancel := context.WithTimeout(context.Background(), FlushWithin)
	defer cancel()
	// The other side may have gone.
	_ = k.conn.Notify(ctx, k.conn.opts.CancelMethod, map[string]json.RawMessage{k.conn.opts.CancelField: json.RawMessage(k.ID)})
}

// Forget gives the answer up.
func (k *Call) Forget() {
	k.conn.mu.Lock()
	defer k.conn.mu.Unlock()
	delete(k.conn.waiting, k.ID)
}

func (k *Call) decode(m *Message, result any) error {
	if m.Error != nil {
		return m.Error
	}
	if raw, ok := result.(*json.RawMessage); ok {
		*raw = m.Result
		return nil
	}
	if result == nil || len(m.Result) == 0 || bytes.Equal(m.Result, Null) {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotUnderstood, k.method, err)
	}
	return nil
}

// ErrNotUnderstood is in the chain of errors about an answer of a wrong shape.
var ErrNotUnderstood = errors.New("the answer is not understood")

// send queues a request, or without an id a notification.
func (c *Conn) send(ctx context.Context, id, method string, params any) error {
	m := Message{Version: "2.0", ID: json.RawMessage(id), Method: method}
	if raw, ok := params.(json.RawMessage); ok {
		m.Params = raw
	} else if params != nil {
		var err error
		if m.Params, err = json.Marshal(params); err != nil {
			return fmt.Errorf("encode %s: %w", method, err)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	if err := c.out.Send(ctx, text); !errors.Is(err, ErrClosed) {
		return err
	}
	return c.closed()
}
