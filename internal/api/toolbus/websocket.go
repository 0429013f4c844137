package toolbus

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

const (
	// outgoing is how many messages may wait for a client to read them. A
	// sender of more waits, running commands included. The sender of a large
	// message waits until it is sent: a client that does not read must not pile
	// up megabytes.
	outgoing = 64
	large    = 64 << 10
	// goodbye is how long a client may take to answer a close.
	goodbye = 2 * time.Second
	// slowest is the rate, in bytes a second, that WriteTimeout is extended by
	// for large messages: a client is cut for standing still and not for being
	// far away.
	slowest = 64 << 10
)

// link is a WebSocket as the transport of a connection.
type link struct {
	ws      *websocket.Conn
	out     chan *message
	gone    <-chan struct{} // closed when the client cannot be reached any more
	cut     func()          // closes it, and the socket
	opts    Options
	writing atomic.Bool
}

var errGone = &bridge.Error{Code: bridge.CodeCanceled, Message: "the client is gone"}

// message is one that is to be sent, in pieces.
type message struct {
	pieces [][]byte
	size   int
	sent   chan struct{} // closed when it was sent
}

func newMessage(pieces ...[]byte) *message {
	m := &message{pieces: pieces, sent: make(chan struct{})}
	for _, p := range pieces {
		m.size += len(p)
	}
	return m
}

func (l *link) send(ctx context.Context, pieces ...[]byte) error {
	m := newMessage(pieces...)
	select {
	case l.out <- m:
	case <-l.gone:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.size < large {
		return nil
	}
	select {
	case <-m.sent:
		return nil
	case <-l.gone:
		return errGone
	}
}

func (l *link) offer(text []byte) {
	select {
	case l.out <- newMessage(text):
	default:
	}
}

func (l *link) notifies() bool { return true }

// upgrade serves a WebSocket until the client leaves or the bridge begins to
// stop. Calls under way may then finish, until the request's context ends.
func (d *door) upgrade(w http.ResponseWriter, r *http.Request, protocol string) {
	accept := &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled}
	if protocol != "" {
		accept.Subprotocols = []string{protocol}
	}
	ws, err := websocket.Accept(w, r, accept)
	if err != nil {
		d.opts.Logger.Debug("toolbus.websocket_refused", "error", err) // the client was told
		return
	}
	ws.SetReadLimit(d.opts.MaxMessage)
	// The socket outlives the request's context, to say goodbye on it.
	ctx, cut := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cut()
	l := &link{ws: ws, out: make(chan *message, outgoing), gone: ctx.Done(), cut: cut, opts: d.opts}
	c := d.connect(r.Context(), l)

	var running sync.WaitGroup
	left, flush, flushed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	running.Go(func() { defer close(left); l.read(ctx, c) })
	running.Go(func() { defer close(flushed); l.write(ctx, flush) })
	running.Go(func() { l.ping(ctx) })
	draining := wire.Draining(r.Context())
	select {
	case <-left:
		c.end(errGone)
	case <-draining.Done():
		c.refuse(context.Cause(draining))
		l.leave(r.Context(), c, flush, flushed)
	}
	cut()
	running.Wait()
	// The socket is closed by now; this is for what the library keeps of it.
	_ = ws.CloseNow()
	c.wait()
}

// leave waits for the running calls, cancels those that are left when ctx
// ends, sends their answers and closes the connection.
func (l *link) leave(ctx context.Context, c *conn, flush chan<- struct{}, flushed <-chan struct{}) {
	answered := make(chan struct{})
	go func() { c.wait(); close(answered) }()
	select {
	case <-answered:
	case <-l.gone:
	case <-ctx.Done():
	}
	c.end(context.Cause(ctx))
	// A call that does not hear keeps upgrade waiting, but not the client.
	l.within(l.opts.StopTimeout, answered)
	close(flush)
	if l.within(goodbye, flushed) {
		l.close(websocket.StatusGoingAway, "the bridge is shutting down")
	}
	l.cut()
	<-answered
}

// within waits for something, but not for ever, and not for a client that is
// gone.
func (l *link) within(limit time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-l.gone:
	case <-timer.C:
	}
	return false
}

// close says goodbye and waits a little for the client to do the same.
func (l *link) close(code websocket.StatusCode, reason string) {
	defer time.AfterFunc(goodbye, l.cut).Stop()
	_ = l.ws.Close(code, reason) // it fails if the client was quicker
}

// read hands messages to the connection, in order, until the client leaves.
func (l *link) read(ctx context.Context, c *conn) {
	for {
		kind, message, err := l.ws.Read(ctx)
		switch {
		case errors.Is(err, websocket.ErrMessageTooBig):
			// The client was told. It may still be sending, and would not
			// read why if the connection broke under it.
			l.close(websocket.StatusMessageTooBig, "")
			return
		case err != nil:
			return
		case kind != websocket.MessageText:
			l.close(websocket.StatusUnsupportedData, "expected text")
			return
		case !utf8.Valid(message):
			l.close(websocket.StatusInvalidFramePayloadData, "the text is not UTF-8")
			return
		}
		c.handle(message)
	}
}

// write sends messages until the client is gone or, after flush, the queue is
// empty. It cuts a client that does not read.
func (l *link) write(ctx context.Context, flush <-chan struct{}) {
	for {
		var m *message
		select {
		case m = <-l.out:
		case <-l.gone:
			return
		case <-flush:
			select {
			case m = <-l.out:
			default:
				return
			}
		}
		timeout := l.opts.WriteTimeout + time.Duration(m.size)*time.Second/slowest
		limited, cancel := context.WithTimeout(ctx, timeout)
		l.writing.Store(true)
		err := l.writeMessage(limited, m.pieces)
		l.writing.Store(false)
		cancel()
		if err != nil {
			l.cut()
			return
		}
		close(m.sent)
	}
}

// fragment is how much of a message in pieces is sent in one frame.
const fragment = 256 << 10

// writeMessage sends one message.
func (l *link) writeMessage(ctx context.Context, pieces [][]byte) error {
	if len(pieces) == 1 {
		return l.ws.Write(ctx, websocket.MessageText, pieces[0])
	}
	w, err := l.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, fragment)
	for _, p := range pieces {
		if _, err := out.Write(p); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), w.Close())
}

// ping finds out about clients that went away without a word.
func (l *link) ping(ctx context.Context) {
	ticker := time.NewTicker(l.opts.PingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.gone:
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, l.opts.PingInterval)
		err := l.ws.Ping(limited)
		cancel()
		// A ping may time out behind a large message, for which write has a
		// separate limit.
		if err != nil && !l.writing.Load() {
			l.cut()
			return
		}
	}
}
