package httpserver

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/traces"
)

const (
	requestIDHeader = "X-Request-Id"

	// patience is how long a client may take to accept the last bytes of an answer.
	patience = 30 * time.Second
)

// answer is called by the http.Server in a goroutine for each request.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.requestBegan()
	defer s.requestEnded()
	if c := connOf(r); c != nil && !c.begin() {
		panic(http.ErrAbortHandler) // it has just been closed to make room
	}
	x := &exchange{ResponseWriter: w, rc: http.NewResponseController(w), began: time.Now(), door: "other"}
	body := limitBody(r, x.rc, s.opts.BodyTimeout)
	id := requestID(r.Header.Get(requestIDHeader))
	s.setHeaders(w.Header(), id)

	if s.opts.Tracer != nil {
		var ctx context.Context
		ctx, x.span = s.opts.Tracer.Request(r.Context(), r, id)
		r = r.WithContext(ctx)
		x.request = r
	}
	s.metrics.inFlight.Add(1)
	defer s.metrics.inFlight.Add(-1)
	broken := s.guarded(x, r, id)
	took := time.Since(x.began)
	if !x.hijacked {
		// net/http still has to send the rest, and then removes the deadline.
		// It fails only on a closed connection.
		_ = x.rc.SetWriteDeadline(time.Now().Add(patience))
	}
	if x.status == 0 {
		x.status = http.StatusOK
		if errors.Is(context.Cause(r.Context()), context.Canceled) {
			x.status = wire.StatusClientGone
		}
	}
	if !quiet[x.door] {
		s.health.stale.Store(true)
	}
	x.endSpan()
	s.metrics.observe(x, took)
	s.log(x, r, body, id, took)
	if broken {
		panic(http.ErrAbortHandler) // the only way to let the client see it
	}
	if !x.hijacked {
		body.drain()
	}
}

// setHeaders sets the headers of every answer. Anthropic's clients read Request-Id.
func (s *Server) setHeaders(h http.Header, id string) {
	h.Set(requestIDHeader, id)
	h.Set("Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// guarded handles the request and recovers from panics. It reports whether an
// answer that had begun was cut.
func (s *Server) guarded(x *exchange, r *http.Request, id string) (broken bool) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		begun := x.status != 0 || x.hijacked
		if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			broken = true
			return
		}
		s.opts.Logger.Error("a request handler failed", "panic", fmt.Sprint(fault), "path", s.shownPath(r), "request_id", id, "stack", string(debug.Stack()))
		broken = begun
		if !begun {
			refuse(x, r, internal, "The bridge failed on this request; its log says more under the request id "+id+".")
		}
	}()
	caller := bridge.Caller{Name: text.Clip(r.UserAgent(), 200), Request: id}
	s.handle(x, r.WithContext(bridge.WithCaller(r.Context(), caller)))
	return false
}

func (s *Server) handle(x *exchange, r *http.Request) {
	if wrong := s.gate.foreign(r); wrong != "" {
		refuse(x, r, forbidden, wrong)
		return
	}
	r = r.WithContext(wire.WithUser(r.Context(), func() int { return s.userOf(r) }))
	admitted := s.admits(r)
	if admitted && s.notice != "" {
		x.Header().Set(wire.NoticeHeader, s.notice)
	}
	if clean := singleSlashes(r.URL.Path); clean != r.URL.Path {
		// From a base URL that ends in a slash. Clients would follow a redirect
		// without their body.
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = clean, ""
	}
	_, pattern := s.mux.Handler(r)
	if pattern != "" {
		x.door = pathOf(pattern)
	}
	r = r.WithContext(wire.WithFacts(context.WithValue(r.Context(), admittedKey{}, admitted), &x.facts))
	if _, open := s.opts.Open[pattern]; open && (admitted || s.gate.token) {
		s.mux.ServeHTTP(x, r)
		return
	}
	// The APIs need none of these, so they cannot leak them.
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
		r.Header.Del(name)
	}
	switch {
	case !admitted && !s.gate.token && pattern != "GET /healthz" && pattern != "GET /readyz":
		refuse(x, r, forbidden, anotherUser)
	case pattern == firstPage && s.opts.Page != nil && wantsHTML(r.Header):
		withWriteDeadline(s.opts.Page).ServeHTTP(x, r)
	case !admitted && pattern == firstPage:
		withWriteDeadline(http.HandlerFunc(s.page.locked)).ServeHTTP(x, r)
	case !admitted && pattern != "GET /healthz" && pattern != "GET /readyz":
		x.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
		refuse(x, r, unauthorized, "The token is missing or wrong. Send the one that the bridge was started with as \"Authorization: Bearer …\" or \"x-api-key: …\".")
	case pattern == "":
		s.unknownPath(x, r)
	default:
		s.mux.ServeHTTP(x, r)
	}
}

const anotherUser = "Without a token only programs of the user who has started the bridge may use it. " +
	"Start it with COPILOT_BRIDGE_TOKEN set, and send that token as \"Authorization: Bearer …\"."

// admits reports whether a request shows the token or, without one, comes from a
// program of the same user.
func (s *Server) admits(r *http.Request) bool {
	c := connOf(r)
	ok := s.gate.admits(r.Header)
	if s.gate.token {
		ok = ok || s.opts.LoggedIn != nil && usedByPage(r.URL.Path) && s.opts.LoggedIn(r)
	} else {
		if c != nil && c.sameUser == nil {
			c.sameUser = new(ofSameUser(c.Conn, s.opts.peer))
		}
		ok = c != nil && *c.sameUser
	}
	if ok && c != nil {
		c.prove()
	}
	return ok
}

// usedByPage are the paths that the login of a browser opens: what the page uses.
func usedByPage(path string) bool {
	return path == "/" || path == "/healthz" || path == "/metrics" || strings.HasPrefix(path, "/v1/")
}

// userOf is the user at the other end of a request's connection, -1 if it is not known.
func (s *Server) userOf(r *http.Request) int {
	if c := connOf(r); c != nil {
		if uid, err := s.opts.peer(c.Conn); err == nil {
			return uid
		}
	}
	return -1
}

// connOf is the connection of a request.
func connOf(r *http.Request) *placed {
	c, _ := r.Context().Value(placedKey{}).(*placed)
	return c
}

// admittedKey marks requests that are admitted; open paths say less to others.
type admittedKey struct{}

func admitted(ctx context.Context) bool {
	ok, _ := ctx.Value(admittedKey{}).(bool)
	return ok
}

// singleSlashes removes doubled slashes; all else is the mux's to judge.
func singleSlashes(p string) string {
	if !strings.Contains(p, "//") {
		return p
	}
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

var harmlessID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// requestID takes the client's id if it is harmless in headers and logs.
func requestID(given string) string {
	if harmlessID.MatchString(given) {
		return given
	}
	return "req_" + rand.Text()
}

// headerText makes text fit for a header.
func headerText(s string) string {
	s = text.Clip(s, 500)
	s = strings.NewReplacer("—", "-", "–", "-", "’", "'", "‘", "'", "“", `"`, "”", `"`, "…", "...", "\n", " ", "\t", " ").Replace(s)
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
	return strings.TrimSpace(s)
}

// exchange observes the answer of a request. It belongs to the handler's goroutine.
type exchange struct {
	http.ResponseWriter
	rc       *http.ResponseController
	began    time.Time
	first    time.Time // when the first byte of the body was written
	door     string
	status   int
	bytes    int64
	hijacked bool
	facts    wire.Facts
	span     *traces.Span  // nil if there is none
	request  *http.Request // nil without traces
}

// endSpan ends the span of the request, the first time.
func (x *exchange) endSpan() {
	if x.span == nil || quiet[x.door] {
		return
	}
	status := x.status
	if x.facts.Left {
		status = wire.StatusClientGone
	}
	x.span.Answered(x.request, x.door, status, x.facts.Failed)
}

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	if x.first.IsZero() && n > 0 {
		x.first = time.Now()
	}
	x.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach deadlines and the like.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush is for handlers that ask for an http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() }

// FlushError is what http.ResponseController calls.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	return x.rc.Flush()
}

// Hijack is for WebSockets. The handler then owns the connection.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := x.rc.Hijack()
	if err == nil {
		x.hijacked = true
		x.status = http.StatusSwitchingProtocols
		x.endSpan() // the connection may be open for hours
	}
	return conn, rw, err
}

// How much of an unread body a client may send after the answer, and how long it
// may pause.
const (
	leftover      = 5 * time.Second
	leftoverWhole = 30 * time.Second
	leftoverBytes = 256 << 20
)

// limitBody bounds the time that the body of r may take to arrive.
func limitBody(r *http.Request, rc *http.ResponseController, within time.Duration) *timedBody {
	b := &timedBody{ReadCloser: r.Body, ctx: r.Context(), draining: wire.Draining(r.Context()), rc: rc, within: within, unwatch: func() bool { return true }}
	if r.Body == nil || r.Body == http.NoBody {
		b.ended = true
		return b
	}
	r.Body = b
	return b
}

// timedBody sets the deadline when reading begins. It moves it up when the
// server begins to stop, and again when it ends all requests: a client that
// does not send must not delay that. At the end of the body net/http removes the
// deadline, since it reads on to see whether the client hangs up.
type timedBody struct {
	io.ReadCloser
	ctx      context.Context // the request's
	draining context.Context // ends when the server begins to stop
	rc       *http.ResponseController
	within   time.Duration
	begun    bool
	ended    bool
	unwatch  func() bool // keeps the end of the contexts from moving the deadline
}

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		until := time.Now().Add(b.within)
		_ = b.rc.SetReadDeadline(until) // fails only on a connection that is closed, here and below
		soon := context.AfterFunc(b.draining, func() {
			_ = b.rc.SetReadDeadline(earlier(time.Now().Add(leftover), until))
			if b.ctx.Err() != nil {
				_ = b.rc.SetReadDeadline(time.Now())
			}
		})
		now := context.AfterFunc(b.ctx, func() { _ = b.rc.SetReadDeadline(time.Now()) })
		b.unwatch = func() bool { soon(); return now() }
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
		b.unwatch()
		return n, err
	}
	var why *bridge.Error
	if err != nil && errors.As(context.Cause(b.draining), &why) {
		return n, why
	}
	return n, err
}

// drain is called when the handler has returned. It sends the answer and drops
// the rest of the body, within bounds. Most clients send all before they read;
// if the connection were closed meanwhile they would never see the answer.
func (b *timedBody) drain() {
	defer func() { b.unwatch() }() // which may be set below
	if b.ended {
		return
	}
	whole := time.Now().Add(leftoverWhole)
	until := func() { // net/http reads some of it before it sends the answer
		_ = b.rc.SetReadDeadline(earlier(time.Now().Add(leftover), whole))
		if b.ctx.Err() != nil { // nobody will use the connection again
			_ = b.rc.SetReadDeadline(time.Now())
		}
	}
	if until(); b.ctx.Err() != nil {
		return
	}
	if !b.begun {
		b.unwatch = context.AfterFunc(b.ctx, func() { _ = b.rc.SetReadDeadline(time.Now()) })
	}
	if b.rc.Flush() != nil {
		return
	}
	buf := make([]byte, 32<<10)
	for left := leftoverBytes; left > 0; {
		until()
		n, err := b.ReadCloser.Read(buf)
		if err != nil {
			return
		}
		left -= n
	}
	_ = b.rc.SetReadDeadline(time.Now())
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
