package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/lineconn"
)

const (
	// grace is how much longer than the extension we wait for an answer.
	grace = 3 * time.Second
	// maxServed is how many requests of the extension may run at a time.
	maxServed = 16
)

// Handler hears what the extension has to say by itself.
type Handler interface {
	// Folders and ModelsChanged are called in the order of arrival, on the
	// goroutine that reads, so they must not block.
	Folders(folders []Folder)
	ModelsChanged()
	// Status and Consented are called on goroutines of their own.
	Status(ctx context.Context) (Status, error)
	Consented(ctx context.Context) error
}

// Conn is the connection. Its methods may be called from any goroutine as soon
// as it is made; those that wait for an answer need Run to be running.
type Conn struct {
	r       io.Reader
	handler Handler
	log     *slog.Logger
	unread  int // see maxUnread
	line    *lineconn.Conn

	mu      sync.Mutex
	lastID  int64
	waiting map[string]*pending // our requests
}

// New returns a connection that Run brings to life. If r and w can be closed,
// Run closes them at the end.
func New(r io.Reader, w io.Writer, h Handler, log *slog.Logger) *Conn {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Conn{r: r, handler: h, log: log, unread: maxUnread, line: lineconn.New(r, w, maxServed), waiting: map[string]*pending{}}
}

// Run reads and writes until the extension ends the stream, something comes
// that is no message, or ctx ends. It returns when all of its goroutines have
// gone, and nil if the extension ended the stream.
func (c *Conn) Run(ctx context.Context) error { return c.line.Run(ctx, c.read) }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.line.Done() }

// Err is why it ended: io.EOF if the extension ended it, nil if it has not.
func (c *Conn) Err() error { return c.line.Err() }

// Fail ends the connection; whoever waits gets an error at once.
func (c *Conn) Fail(err error) { c.line.Fail(err) }

// gone is the error of whoever asks, or waits, when the editor is not there.
func (c *Conn) gone() error {
	e := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the editor has gone", Remedy: "open VS Code again"}
	if err := c.Err(); err != nil && !errors.Is(err, io.EOF) {
		e.Cause = err
	}
	return e
}

// pending is a request of ours that waits for its answer.
type pending struct {
	id     string
	answer chan *frame // of one
	parts  *parts      // of a chat; nil for the rest
}

// expect registers a request.
func (c *Conn) expect(p *parts) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	w := &pending{id: strconv.FormatInt(c.lastID, 10), answer: make(chan *frame, 1), parts: p}
	c.waiting[w.id] = w
	return w
}

func (c *Conn) forget(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, p.id)
}

// call sends a request and decodes its answer into result, unless that is nil.
// The extension has been told of the bound in params; ours is a little longer.
func (c *Conn) call(ctx context.Context, method string, params any, bound time.Duration, result any) error {
	p := c.expect(nil)
	defer c.forget(p)
	if err := c.send(ctx, method, p.id, params); err != nil {
		return err
	}
	late := time.NewTimer(bound + grace)
	defer late.Stop()
	select {
	case f := <-p.answer:
		return read(f, method, result)
	case <-c.Done():
		select {
		case f := <-p.answer: // it came just before the end
			return read(f, method, result)
		default:
			return c.gone()
		}
	case <-late.C:
		c.cancel(p.id)
		return silent(method, bound+grace)
	case <-ctx.Done():
		c.cancel(p.id)
		return context.Cause(ctx)
	}
}

func silent(method string, after time.Duration) error {
	return &bridge.Error{Code: bridge.CodeTimeout, Message: fmt.Sprintf("the editor did not answer %s within %s", method, after),
		Remedy: "see whether its window still responds; reload it if not"}
}

func read(f *frame, method string, result any) error {
	if f.Error != nil {
		return f.Error.asError()
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(f.Result, result); err != nil {
		return &bridge.Error{Code: bridge.CodeInternal, Message: "the editor's answer to " + method + " is not understood", Cause: err,
			Remedy: "update the extension and the bridge to the same version"}
	}
	return nil
}

// cancel tells the extension that nobody waits for a request any more.
func (c *Conn) cancel(id string) {
	ctx, stop := context.WithTimeout(context.Background(), lineconn.FlushWithin)
	defer stop()
	_ = c.send(ctx, methodCancel, "", cancelParams{ID: json.RawMessage(id)}) // it may have gone
}

// send queues a message, waiting while the other side does not read. Without
// an id it is a notification.
func (c *Conn) send(ctx context.Context, method, id string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	line, err := json.Marshal(frame{Version: "2.0", ID: json.RawMessage(id), Method: method, Params: raw})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	if len(line) > maxLine {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%s would be longer than %d MiB", method, maxLine>>20), Remedy: "send less at a time"}
	}
	if err := c.line.Send(ctx, line); !errors.Is(err, lineconn.ErrEnded) {
		return err
	}
	return c.gone()
}
