package front

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// places bounds the connections that are open. Where the bound is reached a
// newcomer takes the place of another: first of one that has not shown who it
// is, then of one that rests between requests; never of one that is known and
// has a request under way. A quarter of the places is kept for those that are
// known. Of several candidates it is one from the address that holds the most
// places, and of those the one that has rested longest.
type places struct {
	net.Listener
	most     int
	unproved int // most connections that have not shown who they are
	closed   chan struct{}
	freed    chan struct{} // a place has become free, or there is somebody to give way
	close    func() error

	mu    sync.Mutex
	conns map[*placed]struct{}
	from  map[netip.Addr]*int // how many each address holds
	known int
	clock uint64 // counts what happens, to tell who has rested longest
}

// placed is a connection that has a place.
type placed struct {
	net.Conn
	all   *places
	from  netip.Addr
	held  *int // how many its address holds; guarded by all.mu
	leave func()

	// Used by the goroutine that serves the connection.
	asked, sameUser bool

	// Guarded by all.mu.
	known bool   // it has shown the token, or is of the same user
	busy  bool   // a request is under way
	since uint64 // when it last came to rest
	gone  bool
}

func limit(l net.Listener, most int) *places {
	closed := make(chan struct{})
	return &places{
		Listener: l, most: most, unproved: most - most/4, closed: closed, freed: make(chan struct{}, 1),
		close: sync.OnceValue(func() error { close(closed); return l.Close() }),
		conns: map[*placed]struct{}{}, from: map[netip.Addr]*int{},
	}
}

// Accept waits for a connection and gives it a place.
func (l *places) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &placed{Conn: conn, all: l}
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		p.from = at.AddrPort().Addr().Unmap()
	}
	p.leave = sync.OnceFunc(func() { l.remove(p) })
	for !l.admit(p) {
		select {
		case <-l.freed:
		case <-l.closed:
			_ = conn.Close() // nobody has said anything on it
			return nil, net.ErrClosed
		}
	}
	return p, nil
}

// admit gives p a place, if there is one or somebody gives way.
func (l *places) admit(p *placed) bool {
	l.mu.Lock()
	var victim *placed
	full := len(l.conns) >= l.most
	if full || len(l.conns)-l.known >= l.unproved {
		victim = l.victim()
	}
	if victim == nil && full {
		l.mu.Unlock()
		return false
	}
	if victim != nil {
		l.drop(victim)
	}
	l.conns[p] = struct{}{}
	if p.held = l.from[p.from]; p.held == nil {
		p.held = new(int)
		l.from[p.from] = p.held
	}
	*p.held++
	l.clock++
	p.since = l.clock
	l.mu.Unlock()
	if victim != nil {
		_ = victim.Close() // its handler sees that it has ended
	}
	return true
}

// victim is the connection that gives way, or nil.
func (l *places) victim() *placed {
	var worst *placed
	for c := range l.conns {
		if c.rank() < keep && (worst == nil || c.before(worst)) {
			worst = c
		}
	}
	return worst
}

// The order in which connections give way.
const (
	unprovedWaiting = iota
	unprovedBusy
	knownWaiting
	keep
)

func (p *placed) rank() int {
	switch {
	case !p.known && !p.busy:
		return unprovedWaiting
	case !p.known:
		return unprovedBusy
	case !p.busy:
		return knownWaiting
	}
	return keep
}

// before says whether p gives way before the other.
func (p *placed) before(other *placed) bool {
	if x, y := p.rank(), other.rank(); x != y {
		return x < y
	}
	if *p.held != *other.held {
		return *p.held > *other.held
	}
	return p.since < other.since
}

// drop takes a connection off the list, once.
func (l *places) drop(p *placed) {
	if _, there := l.conns[p]; !there {
		return
	}
	p.gone = true
	delete(l.conns, p)
	if *p.held--; *p.held == 0 {
		delete(l.from, p.from)
	}
	if p.known {
		l.known--
	}
}

func (l *places) remove(p *placed) {
	l.mu.Lock()
	l.drop(p)
	l.mu.Unlock()
	l.wake()
}

// wake lets Accept look again.
func (l *places) wake() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// follow hears of every change of a connection. A request ends when its answer has
// been sent, which is later than its handler.
func (l *places) follow(c net.Conn, state http.ConnState) {
	p, ok := c.(*placed)
	if !ok || state != http.StateIdle {
		return
	}
	l.mu.Lock()
	l.clock++
	p.busy, p.since = false, l.clock
	l.mu.Unlock()
	l.wake()
}

// begin marks that a request is under way. It reports false if the connection
// has just had to give way.
func (p *placed) begin() bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.busy = true
	return !p.gone
}

// prove marks that the client has shown who it is.
func (p *placed) prove() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if !p.known && !p.gone {
		p.known = true
		p.all.known++
	}
}

// Close may be called more than once.
func (l *places) Close() error { return l.close() }

// open counts the connections.
func (l *places) open() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(len(l.conns))
}

func (p *placed) Close() error {
	err := p.Conn.Close()
	p.leave()
	return err
}

// CloseWrite is used by net/http on clients that still send, so that they can
// read why nobody listens.
func (p *placed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
