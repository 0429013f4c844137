package front

import (
	"net"
	"sync"
	"sync/atomic"
)

// limitedListener accepts only while fewer than its bound of connections are
// open; the rest wait in the system's queue.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	close  func() error
	count  atomic.Int64
}

func limit(l net.Listener, n int) *limitedListener {
	closed := make(chan struct{})
	return &limitedListener{
		Listener: l, slots: make(chan struct{}, n), closed: closed,
		close: sync.OnceValue(func() error { close(closed); return l.Close() }),
	}
}

// Accept waits for a slot, then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	l.count.Add(1)
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.count.Add(-1); <-l.slots })}, nil
}

// Close may be called more than once.
func (l *limitedListener) Close() error { return l.close() }

// open counts the connections.
func (l *limitedListener) open() float64 { return float64(l.count.Load()) }

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// CloseWrite is used by net/http on clients that still send, so that they can
// read why nobody listens.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
