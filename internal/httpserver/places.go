package httpserver

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// places bounds the open connections. At the bound a new one takes the place of
// another: first of one that has not shown who it is, then of a known one that
// is idle; never of a known one with a request, nor of one that came or ended a
// request just now. A quarter of the places is kept for known ones. Of several
// candidates it is one from the address with the most connections, and of those
// the one that has been idle longest.
type places struct {
	net.Listener
	most     int
	unproved int // most connections that have not shown who they are
	closed   chan struct{}
	freed    chan struct{} // a place has become free, or there is somebody to give way
	close    func() error

	mu    sync.Mutex
	ends  bool // connections without a request are closed
	conns map[*placed]struct{}
	known int
}

// grace is how long a connection keeps its place after it came or ended a request.
const grace = time.Second

// placed is a connection that has a place.
type placed struct {
	net.Conn
	all      *places
	from     netip.Addr
	leave    func()
	sameUser *bool // as this process, once asked; for the goroutine that serves the connection

	// Guarded by all.mu.
	known bool      // it has shown the token, or is of the same user
	fresh bool      // no byte of a request has come yet
	busy  bool      // a request is under way
	since time.Time // when it last came to rest
	gone  bool
}

func limit(l net.Listener, most int) *places {
	closed := make(chan struct{})
	return &places{
		Listener: l, most: most, unproved: most - most/4, closed: closed, freed: make(chan struct{}, 1),
		close: sync.OnceValue(func() error { close(closed); return l.Close() }),
		conns: map[*placed]struct{}{},
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
	for {
		wait, ok := l.admit(p)
		if ok {
			return p, nil
		}
		select {
		case <-time.After(wait):
		case <-l.freed:
		case <-l.closed:
			_ = conn.Close() // nobody has said anything on it
			return nil, net.ErrClosed
		}
	}
}

// admit gives p a place, or says how long to wait at most for the next try.
func (l *places) admit(p *placed) (wait time.Duration, ok bool) {
	var victim *placed
	defer func() {
		if victim != nil {
			_ = victim.Close() // its handler sees that it has ended
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	now, full := time.Now(), len(l.conns) >= l.most
	if full || len(l.conns)-l.known >= l.unproved {
		victim, wait = l.victim(now)
		switch {
		case victim != nil:
			l.drop(victim)
		case full || wait > 0:
			return cmp.Or(wait, time.Minute), false // a minute, or until one ends a request
		}
	}
	l.conns[p] = struct{}{}
	p.since = now
	return 0, true
}

// victim is the connection that gives way, or else wait is the time until there is
// one. Known ones stay while there are others to wait for.
func (l *places) victim(now time.Time) (worst *placed, wait time.Duration) {
	held := map[netip.Addr]int{}
	for c := range l.conns {
		held[c.from]++
	}
	var next *placed // of those that still have their grace, the first to lose it
	for c := range l.conns {
		switch {
		case c.known && c.busy:
		case now.Sub(c.since) >= grace:
			if worst == nil || cmp.Or(cmp.Compare(c.rank(), worst.rank()), cmp.Compare(held[worst.from], held[c.from]), c.since.Compare(worst.since)) < 0 {
				worst = c
			}
		case next == nil || !c.known && next.known || c.known == next.known && c.since.Before(next.since):
			next = c
		}
	}
	if next != nil && (worst == nil || worst.known && !next.known) {
		return nil, grace - now.Sub(next.since)
	}
	return worst, 0
}

// rank orders those that give way: unknown before known, waiting before busy.
func (p *placed) rank() (rank int) {
	if p.known {
		rank += 2
	}
	if p.busy {
		rank++
	}
	return rank
}

// drop takes a connection off the list, once.
func (l *places) drop(p *placed) {
	if _, there := l.conns[p]; !there {
		return
	}
	p.gone = true
	delete(l.conns, p)
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

// connState is the http.Server's ConnState. A request ends when its answer was sent.
func (l *places) connState(c net.Conn, state http.ConnState) {
	p, ok := c.(*placed)
	if !ok {
		return
	}
	l.mu.Lock()
	p.fresh = state == http.StateNew
	unwanted := p.fresh && l.ends
	if state == http.StateIdle {
		p.busy, p.since = false, time.Now()
		defer l.wake()
	}
	l.mu.Unlock()
	if unwanted {
		_ = p.Close() // nothing has been said on it
	}
}

// closeFresh closes connections without a request, now and later. http.Server would
// wait for them, which clients open in advance.
func (l *places) closeFresh() {
	l.mu.Lock()
	l.ends = true
	var fresh []*placed
	for p := range l.conns {
		if p.fresh {
			fresh = append(fresh, p)
		}
	}
	l.mu.Unlock()
	for _, p := range fresh {
		_ = p.Close() // nothing has been said on it
	}
}

// begin marks a request. It reports false if the connection had to give way.
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
		p.all.wake()
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

// CloseWrite is used by net/http, so that clients that send can read the error.
func (p *placed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
