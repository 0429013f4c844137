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
	"time"
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

// flushWithin is how long the last answers may take to be written.
const flushWithin = 2 * time.Second

// Conn is one connection. Call and Notify may be used from any goroutine as
// soon as it is made; they do not return before Run has begun.
type Conn struct {
	r       io.Reader
	w       io.Writer
	handler Handler
	opts    Options

	out      chan []byte
	ended    chan struct{} // closed by fail: nothing new comes or goes
	silent   chan struct{} // closed when no answer can be written any more
	slots    chan struct{}
	handlers sync.WaitGroup // begun under mu, and only before the end
	closer   sync.Once

	mu      sync.Mutex
	err     error // why it ended
	lastID  int64
	waiting map[string]chan *frame             // our requests
	serving map[string]context.CancelCauseFunc // theirs
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
	return &Conn{r: r, w: w, handler: h, opts: o, out: make(chan []byte, 64), ended: make(chan struct{}),
		silent: make(chan struct{}), slots: make(chan struct{}, o.MaxRequests), waiting: map[string]chan *frame{}, serving: map[string]context.CancelCauseFunc{}}
}

// Run reads and writes until the other side ends the stream, Fail is called,
// or ctx ends, and returns when all of its goroutines have gone. The error is
// nil if the other side ended the stream. (Only a read or a write that closing
// r or w does not end, of a terminal for instance, is left behind; it ends with
// the process.)
func (c *Conn) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reads, writes := make(chan struct{}), make(chan struct{})
	go func() { defer close(writes); c.write() }()
	go func() { defer close(reads); c.fail(c.read(ctx)) }()
	select {
	case <-ctx.Done():
		c.fail(context.Cause(ctx))
	case <-c.ended:
	}
	cancel(c.Err())
	// The last answers are let out, but not for ever.
	hush := sync.OnceFunc(func() { close(c.silent) })
	late := time.AfterFunc(flushWithin, func() { c.closeWriter(); hush() })
	defer late.Stop()
	c.handlers.Wait()
	hush()
	wait := time.NewTimer(flushWithin)
	defer wait.Stop()
	select {
	case <-writes:
	case <-wait.C:
	}
	c.closeWriter()
	select {
	case <-reads:
	default:
		if rc, ok := c.r.(io.Closer); ok {
			_ = rc.Close() // only read from
		}
		wait.Reset(flushWithin)
		select {
		case <-reads:
		case <-wait.C:
		}
	}
	if err := c.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (c *Conn) closeWriter() {
	c.closer.Do(func() {
		if wc, ok := c.w.(io.Closer); ok {
			_ = wc.Close() // whatever could not be written is lost already
		}
	})
}

// write is the one goroutine that writes. After an error it goes on taking
// messages, so that nobody waits for it.
func (c *Conn) write() {
	broken := false
	put := func(line []byte) {
		if broken {
			return
		}
		if _, err := c.w.Write(line); err != nil {
			broken = true
			c.fail(fmt.Errorf("write: %w", err))
		}
	}
	for {
		select {
		case line := <-c.out:
			put(line)
			continue
		case <-c.silent:
		}
		for {
			select {
			case line := <-c.out:
				put(line)
			default:
				return
			}
		}
	}
}

// Fail ends the connection; every call that waits returns err at once.
func (c *Conn) Fail(err error) { c.fail(err) }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// Err is why it ended, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Conn) fail(err error) {
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
	case <-c.ended:
		select {
		case f := <-answer: // it came just before the end
			return read(f, method, result)
		default:
			return c.closed()
		}
	case <-ctx.Done():
		tell, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
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
	select {
	case <-c.ended:
		return c.closed()
	default:
	}
	select {
	case c.out <- append(line, '\n'):
		return nil
	case <-c.ended:
		return c.closed()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
