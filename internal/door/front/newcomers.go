package front

import (
	"net"
	"net/http"
	"sync"
)

// newcomers are connections on which no request has come yet. http.Server
// waits some seconds for them at its end, though there is nothing to wait
// for: browsers and client libraries open connections in advance.
type newcomers struct {
	mu    sync.Mutex
	sent  bool // away, with all who follow
	conns map[net.Conn]struct{}
}

// follow hears of every change of a connection.
func (n *newcomers) follow(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(n.conns, c)
	case n.sent:
		_ = c.Close() // nobody has said anything on it
	default:
		n.conns[c] = struct{}{}
	}
}

// sendAway closes them.
func (n *newcomers) sendAway() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = true
	for c := range n.conns {
		_ = c.Close() // nobody has said anything on it
	}
	clear(n.conns)
}
