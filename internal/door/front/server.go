// Package front stands in front of every HTTP door: it listens, decides who
// may come in (network safety, tokens), bounds what they can take up, routes
// to the doors, and answers what belongs to no door: the first page, health,
// readiness, metrics, and requests that lead nowhere.
//
// It knows nothing of any door's API beyond the shape of its errors, and
// nothing of sessions. The composition root gives it the doors.
package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Server is a bound listener and, once Serve is called, what answers on it.
// Its methods may be called concurrently.
type Server struct {
	opts     Options
	listener *places
	http     *http.Server
	mux      *http.ServeMux
	paths    []string // what exists, for those who ask for something else
	gate     gate
	health   prober
	metrics  *metrics
	notice   string
	page     *page
	fresh    newcomers

	end context.CancelCauseFunc // ends every request

	mu       sync.Mutex
	served   bool
	draining bool
	running  int           // requests, those that were hijacked included
	idle     chan struct{} // closed once draining with none running
}

// Listen binds the address. It refuses one that others can reach unless there
// is a token. The caller must call Serve or Close.
func Listen(ctx context.Context, opts Options) (*Server, error) {
	opts = opts.defaults()
	if err := checkToken(opts.Token); err != nil {
		return nil, err
	}
	ip, err := resolve(ctx, opts.Addr)
	if err != nil {
		return nil, err
	}
	if !ip.IsLoopback() && opts.Token == "" {
		return nil, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("the address %s can be reached from other machines, and no token is set", opts.Addr),
			Remedy:  "Set a token that clients must send, or listen on 127.0.0.1.",
		}
	}
	l, err := bind(ctx, ip, opts)
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, opts, ip, l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

func newServer(ctx context.Context, opts Options, ip netip.Addr, l net.Listener) (*Server, error) {
	listener := limit(l, opts.MaxConnections)
	m, err := newMetrics(listener.open, opts.Gauges, opts.Usage)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:     opts,
		listener: listener,
		gate:     newGate(ip, opts),
		health:   prober{check: opts.Health},
		metrics:  m,
		notice:   headerText(opts.Notice),
		page:     newPage(opts),
		idle:     make(chan struct{}),
		fresh:    newcomers{conns: map[net.Conn]struct{}{}},
	}
	s.routes()

	// Requests live as long as the server, not as long as this call.
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	s.end = end
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:                      http.HandlerFunc(s.answer),
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, placedKey{}, c) },
		ConnState:                    s.follow,
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true,
		MaxHeaderBytes:               opts.MaxHeaderBytes,
		ReadHeaderTimeout:            opts.ReadHeaderTimeout,
		IdleTimeout:                  opts.IdleTimeout,
		// No WriteTimeout: streams last. Each write has its own deadline.
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// placedKey is where a request's context has its connection.
type placedKey struct{}

// follow is the http.Server's ConnState.
func (s *Server) follow(c net.Conn, state http.ConnState) {
	s.fresh.follow(c, state)
	s.listener.follow(c, state)
}

// URL is where clients of this machine find the server, without a slash at
// the end.
func (s *Server) URL() string {
	at := boundTo(s.listener)
	host := at.Addr()
	switch {
	case host == netip.IPv4Unspecified():
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case host == netip.IPv6Unspecified():
		host = netip.IPv6Loopback()
	}
	return "http://" + net.JoinHostPort(host.String(), strconv.Itoa(int(at.Port())))
}

// Serve answers until ctx ends. Then it stops accepting, ends the contexts of
// running requests with a *bridge.Error as their cause, so that streams can
// say goodbye, waits for them within bounds, and closes everything. It returns
// nil if nothing had to be cut. A server serves once.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	again := s.served
	s.served = true
	s.mu.Unlock()
	if again {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "this server is or was serving already"}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.listener) }()
	select {
	case err := <-failed:
		s.drain(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge cannot accept connections any more", Cause: err})
		closed := errors.Join(s.http.Close(), s.settle())
		if errors.Is(err, http.ErrServerClosed) { // by Close
			return closed
		}
		return errors.Join(fmt.Errorf("accept connections on %s: %w", s.URL(), err), closed)
	case <-ctx.Done():
	}
	err := s.shutDown()
	<-failed
	return err
}

// Close ends everything at once. Without Serve it only gives the address back.
func (s *Server) Close() error {
	s.drain(stopping())
	// http.Server knows the listener only while it serves.
	return errors.Join(s.http.Close(), s.listener.Close())
}

func stopping() *bridge.Error {
	return &bridge.Error{
		Code:    bridge.CodeUnavailable,
		Message: "the bridge is shutting down",
		Remedy:  "Try again once it has been started again.",
	}
}

func (s *Server) shutDown() error {
	// The listener first, so that nobody comes in to be turned away.
	closed := s.listener.Close()
	s.drain(stopping())
	s.fresh.sendAway()
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.DrainTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(closed, err, s.settle()) // hijacked connections are not Shutdown's business
	}
	return errors.Join(closed, &bridge.Error{
		Code:    bridge.CodeTimeout,
		Message: fmt.Sprintf("requests were still running %s after the bridge was told to stop, and were cut", s.opts.DrainTimeout),
	}, s.http.Close(), s.settle())
}

// drain ends the contexts of all requests.
func (s *Server) drain(cause *bridge.Error) {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		if s.running == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	s.end(cause)
}

// settle waits for the handlers. Their connections are gone and their contexts
// have ended, so what does not return now is stuck.
func (s *Server) settle() error {
	timer := time.NewTimer(s.opts.DrainTimeout)
	defer timer.Stop()
	select {
	case <-s.idle:
		return nil
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("%d requests did not end", s.running)}
}

func (s *Server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	// A request that was read just before the end may come after the last
	// one has gone.
	if s.draining && s.running == 0 {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}
