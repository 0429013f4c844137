// Package httpserver stands in front of every HTTP API: it listens, admits
// clients (network safety, tokens), bounds their connections and bodies, routes
// to the APIs, and answers the first page, health, readiness, metrics and
// unknown paths. Of the APIs it knows only the shape of their errors, and of
// sessions nothing. Package app gives it the handlers.
package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/metrics"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
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
	metrics  requestMetrics
	notice   string
	page     *page

	end      context.CancelCauseFunc // ends every request
	draining context.Context         // ends when the server begins to stop; see wire.Draining
	drain    context.CancelCauseFunc

	served    atomic.Bool
	idle      chan struct{} // closed once draining with no request running
	closeIdle func()        // closes idle

	mu      sync.Mutex
	running int // requests, those that were hijacked included
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
	return newServer(ctx, opts, ip, l), nil
}

func newServer(ctx context.Context, opts Options, ip netip.Addr, l net.Listener) *Server {
	listener := limit(l, opts.MaxConnections)
	if opts.Metrics == nil {
		opts.Metrics = &metrics.Registry{}
	}
	opts.Metrics.Process()
	s := &Server{
		opts:     opts,
		listener: listener,
		gate:     newGate(ip, opts),
		health:   prober{check: opts.Health},
		metrics:  newRequestMetrics(opts.Metrics, listener.open),
		notice:   headerText(opts.Notice),
		page:     newPage(opts),
		idle:     make(chan struct{}),
	}
	s.closeIdle = sync.OnceFunc(func() { close(s.idle) })
	s.routes()

	// Requests live as long as the server, not as long as this call.
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	s.end = end
	s.draining, s.drain = context.WithCancelCause(base)
	base = wire.WithDraining(base, s.draining)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:                      http.HandlerFunc(s.answer),
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, placedKey{}, c) },
		ConnState:                    listener.connState,
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true,
		MaxHeaderBytes:               opts.MaxHeaderBytes,
		ReadHeaderTimeout:            opts.ReadHeaderTimeout,
		IdleTimeout:                  opts.IdleTimeout,
		// No WriteTimeout: streams last. Each write has its own deadline.
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// placedKey is where a request's context has its connection.
type placedKey struct{}

// URL is the address for clients of this machine, without a slash at the end.
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

// Serve answers until ctx ends. Then it stops accepting, lets running requests
// continue for DrainTimeout, and ends the contexts of the others with a
// *bridge.Error as their cause, so that streams can end properly. It waits for them
// within bounds and returns nil if no connection was cut. A server serves once.
func (s *Server) Serve(ctx context.Context) error {
	if s.served.Swap(true) {
		return &bridge.Error{Code: bridge.CodeConflict, Message: "this server is or was serving already"}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.listener) }()
	select {
	case err := <-failed:
		s.endRequests(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge cannot accept connections any more", Cause: err})
		closed := errors.Join(s.http.Close(), s.waitForHandlers())
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
	s.endRequests(stopping())
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
	// The listener first, so that no new request has to be refused.
	closed := s.listener.Close()
	s.drainRequests()
	s.endRequests(stopping())
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.StopTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(closed, err, s.waitForHandlers()) // hijacked connections are not Shutdown's business
	}
	return errors.Join(closed, &bridge.Error{
		Code:    bridge.CodeTimeout,
		Message: fmt.Sprintf("requests were still running %s after they were told to end, and were cut", s.opts.StopTimeout),
	}, s.http.Close(), s.waitForHandlers())
}

// drainRequests waits at most DrainTimeout for running requests. Connections are
// closed when they are idle.
func (s *Server) drainRequests() {
	running := s.beginDrain(stopping())
	s.listener.closeFresh()
	s.http.SetKeepAlivesEnabled(false)
	if running == 0 || s.opts.DrainTimeout <= 0 {
		return
	}
	s.opts.Logger.Info("server.draining: running requests may finish", "requests", running, "timeout", s.opts.DrainTimeout)
	timer := time.NewTimer(s.opts.DrainTimeout)
	defer timer.Stop()
	select {
	case <-s.idle:
		s.opts.Logger.Info("server.drained: all requests have finished")
	case <-timer.C:
		s.mu.Lock()
		running = s.running
		s.mu.Unlock()
		s.opts.Logger.Warn("server.drain_timeout: requests that still run are ended", "requests", running, "timeout", s.opts.DrainTimeout)
	}
}

// beginDrain ends the context draining, and returns how many requests run.
func (s *Server) beginDrain(cause *bridge.Error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain(cause) // only the first cause counts
	if s.running == 0 {
		s.closeIdle()
	}
	return s.running
}

// endRequests ends the contexts of all requests.
func (s *Server) endRequests(cause *bridge.Error) {
	s.beginDrain(cause)
	s.end(cause)
}

// waitForHandlers waits for the handlers, whose contexts have ended.
func (s *Server) waitForHandlers() error {
	timer := time.NewTimer(s.opts.StopTimeout)
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

func (s *Server) requestBegan() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

func (s *Server) requestEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.draining.Err() != nil && s.running == 0 {
		s.closeIdle() // perhaps again: a request may begin after the last one has ended
	}
}

// Options tune a server. Only Doors is needed; callbacks are called concurrently.
type Options struct {
	Addr string // a host name or an IP address; default 127.0.0.1
	Port int    // 0: a free one
	// Ports remembers the free port for the next start, unless it is nil.
	Ports *Ports
	// Token is required of every client; "" admits clients of this process's user
	// instead, on loopback addresses and where KnowsPeers.
	Token string
	// Hosts are further names of this server, such as that of a reverse proxy.
	Hosts []string

	// Doors are the handlers by their http.ServeMux patterns. A method and a whole
	// path ("POST /v1/messages") give the best errors and metrics.
	Doors map[string]http.Handler
	// Open are further handlers, which decide by themselves whom they answer: they
	// are given credentials, and requests without the token. Without a token other
	// users of this machine are refused here too.
	Open map[string]http.Handler
	// Page, if set, answers browsers at "/", as open as Open.
	Page http.Handler
	// LoggedIn, if set, admits requests of browsers to Doors besides the token.
	LoggedIn func(*http.Request) bool
	About    func() About                 // for the plain text at "/"
	Health   func(context.Context) Health // may be asked every two seconds; nil: always well
	// Metrics are written by GET /metrics, with those of requests and of this
	// process added. They belong to this server alone; nil: no further ones.
	Metrics *metrics.Registry
	Tracer  *traces.Tracer // nil for no traces

	// Notice, if set, is sent in X-Copilot-Bridge-Notice to admitted clients.
	Notice string
	Logger *slog.Logger

	// Limits; 0 means the default.
	MaxConnections    int           // 1024; at the limit others give way, see places
	MaxHeaderBytes    int           // 64 KiB
	ReadHeaderTimeout time.Duration // 10 s
	BodyTimeout       time.Duration // 60 s for the whole body of a request
	IdleTimeout       time.Duration // 2 min between requests
	StopTimeout       time.Duration // 10 s at shutdown for requests that were told to end
	// DrainTimeout is how long running requests may continue at shutdown.
	DrainTimeout time.Duration

	peer peerFunc // replaced in tests
}

// defaults returns the options with defaults for zero values.
func (o Options) defaults() Options {
	o.Addr = cmp.Or(o.Addr, "127.0.0.1")
	if o.Health == nil {
		o.Health = func(context.Context) Health { return Health{OK: true, Copilot: CopilotOK, Ready: true} }
	}
	if o.About == nil {
		o.About = func() About { return About{} }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.peer == nil {
		o.peer = new(peers).of
	}
	o.MaxConnections = cmp.Or(o.MaxConnections, 1024)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 64<<10)
	o.ReadHeaderTimeout = cmp.Or(o.ReadHeaderTimeout, 10*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, time.Minute)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 2*time.Minute)
	o.StopTimeout = cmp.Or(o.StopTimeout, 10*time.Second)
	return o
}

// checkToken refuses a token that cannot be sent in a header.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: "the token has characters that cannot be sent in a header",
			Remedy:  "Use letters, digits and punctuation of ASCII, without spaces.",
		}
	}
	return nil
}
