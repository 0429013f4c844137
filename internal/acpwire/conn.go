package acpwire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/internal/lineconn"
)

// Handler answers the other side.
type Handler interface {
	// Request is called for each request in the order of arrival, on the
	// goroutine that reads, so it must not block. What it returns runs on a
	// goroutine of its own, and its result is the answer. ctx ends when the
	// other side cancels the request and when the connection ends.
	Request(ctx context.Context, method string, params json.RawMessage) func() (any, error)
	// Notification is called in the order of arrival too, before any later
	// message is looked at, and must not block.
	Notification(method string, params json.RawMessage)
}

// Options tune a Conn. The zero value is right for most.
type Options struct {
	// MaxLine bounds a message, in bytes; 0 means 32 MiB.
	MaxLine int
	// MaxRequests is how many requests of the other side may run at a time;
	// more are refused. 0 means 64.
	MaxRequests int
	// Malformed hears of lines that are no messages; it must not block.
	Malformed func(line []byte, err error)
	// AnswerMalformed tells the other side of them too. It is for the serving
	// side: a program that we started may print what it likes.
	AnswerMalformed bool
}

// Conn is one connection. Call and Notify may be used from any goroutine as
// soon as it is made; they do not return before Run has begun.
type Conn struct {
	r       io.Reader
	handler Handler
	opts    Options
	line    *lineconn.Conn

	mu      sync.Mutex
	lastID  int64
	waiting map[string]chan *frame // our requests
}

// NewConn returns a connection that Run brings to life. If r and w can be
// closed, Run closes them at the end.
func NewConn(r io.Reader, w io.Writer, h Handler, o Options) *Conn {
	if o.MaxLine <= 0 {
		o.MaxLine = 32 << 20
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = 64
	}
	return &Conn{r: r, handler: h, opts: o, line: lineconn.New(r, w, o.MaxRequests), waiting: map[string]chan *frame{}}
}

// Run reads and writes until the other side ends the stream, Fail is called,
// or ctx ends, and returns when all of its goroutines have gone. The error is
// nil if the other side ended the stream.
func (c *Conn) Run(ctx context.Context) error { return c.line.Run(ctx, c.read) }

// Fail ends the connection; every call that waits returns err at once.
func (c *Conn) Fail(err error) { c.line.Fail(err) }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.line.Done() }

// Err is why it ended, or nil.
func (c *Conn) Err() error { return c.line.Err() }

func (c *Conn) closed() error {
	if err := c.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return ErrClosed
}

// Call sends a request and decodes its answer into result, unless that is nil.
// When ctx ends first the other side is told, and ctx's cause is returned.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	answer := make(chan *frame, 1)
	c.mu.Lock()
	c.lastID++
	id := strconv.FormatInt(c.lastID, 10)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, &frame{Version: "2.0", ID: json.RawMessage(id), Method: method, Params: p}); err != nil {
		return err
	}
	select {
	case f := <-answer:
		return read(f, method, result)
	case <-c.Done():
		select {
		case f := <-answer: // it came just before the end
			return read(f, method, result)
		default:
			return c.closed()
		}
	case <-ctx.Done():
		tell, cancel := context.WithTimeout(context.WithoutCancel(ctx), lineconn.FlushWithin)
		defer cancel()
		_ = c.Notify(tell, NotifyCancelRequest, CancelRequest{RequestID: json.RawMessage(id)}) // it may have gone
		return context.Cause(ctx)
	}
}

func read(f *frame, method string, result any) error {
	if f.Error != nil {
		return f.Error
	}
	if result == nil || len(f.Result) == 0 || bytes.Equal(f.Result, nullID) {
		return nil
	}
	if err := json.Unmarshal(f.Result, result); err != nil {
		return fmt.Errorf("the answer to %s is not understood: %w", method, err)
	}
	return nil
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return c.send(ctx, &frame{Version: "2.0", Method: method, Params: p})
}

// send queues a message, waiting while the other side does not read.
func (c *Conn) send(ctx context.Context, f *frame) error {
	line, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if err := c.line.Send(ctx, line); !errors.Is(err, lineconn.ErrEnded) {
		return err
	}
	return c.closed()
}
