// Package lineconn is the life of a connection on which both sides write
// lines: the goroutine that reads, the one that writes, those that answer, and
// how all of them end. What the lines say is the affair of those who use it:
// acpwire for the Agent Client Protocol, editor for VS Code's extension.
package lineconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// FlushWithin is how long the last lines may take to be written.
const FlushWithin = 2 * time.Second

var (
	// ErrEnded is Send's answer when the connection has ended.
	ErrEnded = errors.New("the connection has ended")
	// ErrBusy and ErrInUse are Serve's when there is no room, and when the id
	// is that of a request under way.
	ErrBusy  = errors.New("too many requests run already")
	ErrInUse = errors.New("the id is in use")
)

// Conn is one connection. All methods may be called from any goroutine as soon
// as it is made; nothing is written before Run has begun.
type Conn struct {
	r io.Reader
	w io.Writer

	out       chan []byte
	ended     chan struct{} // closed by Fail: nothing new comes or goes
	silent    chan struct{} // closed when no answer can be written any more
	slots     chan struct{}
	answering sync.WaitGroup // begun under mu, and only before the end
	closer    sync.Once

	mu      sync.Mutex
	err     error // why it ended
	serving map[string]context.CancelCauseFunc
}

// New returns a connection that Run brings to life, with room for so many
// requests of the other side at a time. If r and w can be closed, Run closes
// them at the end.
func New(r io.Reader, w io.Writer, requests int) *Conn {
	return &Conn{r: r, w: w, out: make(chan []byte, 64), ended: make(chan struct{}), silent: make(chan struct{}),
		slots: make(chan struct{}, requests), serving: map[string]context.CancelCauseFunc{}}
}

// Run writes, and calls read to read, until read returns, Fail is called, or
// ctx ends; read's context ends with the connection. It returns when all
// goroutines have gone. The error is nil if read came to the end of the stream.
// (Only a read or a write that closing r or w does not end, of a terminal for
// instance, is left behind; it ends with the process.)
func (c *Conn) Run(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reads, writes := make(chan struct{}), make(chan struct{})
	go func() { defer close(writes); c.write() }()
	go func() { defer close(reads); c.Fail(read(ctx)) }()
	select {
	case <-ctx.Done():
		c.Fail(context.Cause(ctx))
	case <-c.ended:
	}
	cancel(c.Err())
	// The last answers are let out, but not for ever.
	hush := sync.OnceFunc(func() { close(c.silent) })
	late := time.AfterFunc(FlushWithin, func() { c.closeWriter(); hush() })
	defer late.Stop()
	c.answering.Wait()
	hush()
	within(writes)
	c.closeWriter()
	if rc, ok := c.r.(io.Closer); ok {
		_ = rc.Close() // only read from
	}
	within(reads)
	if err := c.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// within waits for something, but not for ever.
func within(done <-chan struct{}) {
	t := time.NewTimer(FlushWithin)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func (c *Conn) closeWriter() {
	c.closer.Do(func() {
		if wc, ok := c.w.(io.Closer); ok {
			_ = wc.Close() // whatever could not be written is lost already
		}
	})
}

// write is the one goroutine that writes. After an error it goes on taking
// lines, so that nobody waits for it.
func (c *Conn) write() {
	broken := false
	put := func(line []byte) {
		if broken {
			return
		}
		if _, err := c.w.Write(line); err != nil {
			broken = true
			c.Fail(fmt.Errorf("write: %w", err))
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

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ended }

// Err is why it ended: io.EOF if the other side ended it, nil if it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Fail ends the connection, if nobody has yet. Without an error the other side
// has ended it.
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

// Send queues a line, which it adds the end to, waiting while the other side
// does not read. It returns ErrEnded, or the cause of ctx's end.
func (c *Conn) Send(ctx context.Context, line []byte) error {
	select {
	case <-c.ended:
		return ErrEnded
	default:
	}
	select {
	case c.out <- append(line, '\n'):
		return nil
	case <-c.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reply queues a line also after the end has begun, as long as the other side
// takes it.
func (c *Conn) Reply(line []byte) {
	select {
	case c.out <- append(line, '\n'):
	case <-c.silent:
	}
}

// Serve answers a request of the other side. begin is called at once; what it
// returns runs on a goroutine of its own and makes the line that answers. ctx
// is that of the connection; the one that begin gets ends with Cancel, too.
// After the end nothing is served.
func (c *Conn) Serve(ctx context.Context, id string, begin func(context.Context) (answer func() []byte)) error {
	select {
	case c.slots <- struct{}{}:
	default:
		return ErrBusy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if in, err := c.admit(id, cancel); !in {
		cancel(nil)
		<-c.slots
		return err
	}
	answer := begin(ctx)
	go func() {
		defer c.answering.Done()
		line := answer()
		c.mu.Lock()
		delete(c.serving, id)
		c.mu.Unlock()
		cancel(nil)
		c.Reply(line)
		<-c.slots
	}()
	return nil
}

// admit registers a request, unless the end has come or its id is in use.
func (c *Conn) admit(id string, cancel context.CancelCauseFunc) (in bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false, nil
	}
	if _, double := c.serving[id]; double {
		return false, ErrInUse
	}
	c.serving[id] = cancel
	c.answering.Add(1)
	return true, nil
}

// Cancel ends the context of a request that is being served, if it is.
func (c *Conn) Cancel(id string, cause error) {
	c.mu.Lock()
	cancel := c.serving[id]
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}
