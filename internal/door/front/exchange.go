package front

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

const (
	requestIDHeader = "X-Request-Id"
	noticeHeader    = "X-Copilot-Bridge-Notice"

	// patience is how long a client may take to accept what the front itself
	// writes, and the last bytes of what a door has written.
	patience = 30 * time.Second
	// statusClientGone is what logs show for a client that gave up before
	// there was an answer.
	statusClientGone = 499
)

// answer is called by the http.Server, for each request in a goroutine of its
// own.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.enter()
	defer s.leave()
	if c := connOf(r); c != nil && !c.begin() {
		panic(http.ErrAbortHandler) // it has just been closed to make room
	}
	x := &exchange{ResponseWriter: w, rc: http.NewResponseController(w), began: time.Now(), door: "other"}
	body := watch(r, x.rc, s.opts.BodyTimeout)
	id := requestID(r.Header.Get(requestIDHeader))
	s.greet(w.Header(), id)

	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	broken := s.guarded(x, r, id)
	took := time.Since(x.began)
	if !x.hijacked {
		// net/http has yet to send what is left. It then takes the deadline
		// away. Failing means that there is no connection to wait for.
		_ = x.rc.SetWriteDeadline(time.Now().Add(patience))
		body.leave()
	}
	if x.status == 0 {
		x.status = http.StatusOK
		if errors.Is(context.Cause(r.Context()), context.Canceled) {
			x.status = statusClientGone
		}
	}
	s.metrics.observe(x, took)
	s.opts.Logger.LogAttrs(r.Context(), slog.LevelDebug, "request",
		slog.String("method", clip(r.Method, 32)), slog.String("path", clip(r.URL.Path, 256)), slog.Int("status", x.status),
		slog.Int64("bytes", x.bytes), slog.Duration("duration", took), slog.String("request_id", id),
		slog.String("user_agent", clip(r.UserAgent(), 200)))
	if broken {
		panic(http.ErrAbortHandler) // the only way to let the client see it
	}
}

// greet sets the headers that every answer has. Anthropic's clients look for
// the id under a name of their own.
func (s *Server) greet(h http.Header, id string) {
	h.Set(requestIDHeader, id)
	h.Set("Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// guarded handles the request and survives its handler. It reports whether an
// answer that had begun was broken off.
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
		s.opts.Logger.Error("a request handler failed", "panic", fmt.Sprint(fault), "path", clip(r.URL.Path, 256), "request_id", id, "stack", string(debug.Stack()))
		broken = begun
		if !begun {
			refuse(x, r, internal, "The bridge failed on this request; its log says more under the request id "+id+".")
		}
	}()
	s.handle(x, r)
	return false
}

func (s *Server) handle(x *exchange, r *http.Request) {
	if wrong := s.gate.cross(r); wrong != "" {
		refuse(x, r, forbidden, wrong)
		return
	}
	admitted := s.admits(r)
	if admitted && s.notice != "" {
		x.Header().Set(noticeHeader, s.notice)
	}
	// The doors have no use for these, and cannot leak what they do not have.
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
		r.Header.Del(name)
	}
	if clean := tidy(r.URL.Path); clean != r.URL.Path {
		// From a base URL that ends in a slash. Not worth a redirect, which
		// clients would follow without their body.
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = clean, ""
	}
	_, pattern := s.mux.Handler(r)
	if pattern != "" {
		x.door = pathOf(pattern)
	}
	r = r.WithContext(context.WithValue(r.Context(), admittedKey{}, admitted))
	switch {
	case !admitted && !s.gate.token && pattern != "GET /healthz" && pattern != "GET /readyz":
		refuse(x, r, forbidden, anotherUser)
	case !admitted && pattern == "GET /{$}" && s.opts.Home == nil:
		prompt(http.HandlerFunc(s.page.locked)).ServeHTTP(x, r)
	case !admitted && pattern != "GET /healthz" && pattern != "GET /readyz":
		x.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge"`)
		refuse(x, r, unauthorized, "The token is missing or wrong. Send the one that the bridge was started with as \"Authorization: Bearer …\" or \"x-api-key: …\".")
	case pattern == "":
		s.nowhere(x, r)
	default:
		s.mux.ServeHTTP(x, r)
	}
}

const anotherUser = "Without a token only programs of the user who has started the bridge may use it. " +
	"Start it with COPILOT_BRIDGE_TOKEN set, and send that token as \"Authorization: Bearer …\"."

// admits reports whether a request shows the token or, where there is none,
// comes from a program of the same user.
func (s *Server) admits(r *http.Request) bool {
	c := connOf(r)
	ok := s.gate.admits(r.Header)
	if !s.gate.token {
		ok = c != nil && c.ofSameUser(s.opts.peer)
	}
	if ok && c != nil {
		c.prove()
	}
	return ok
}

// connOf is the connection of a request.
func connOf(r *http.Request) *placed {
	c, _ := r.Context().Value(placedKey{}).(*placed)
	return c
}

// admittedKey marks in a request's context whether it showed the token or
// needed none; the open paths say less to others.
type admittedKey struct{}

func admitted(ctx context.Context) bool {
	ok, _ := ctx.Value(admittedKey{}).(bool)
	return ok
}

// tidy removes doubled slashes; all else is the mux's to judge.
func tidy(p string) string {
	if !strings.Contains(p, "//") {
		return p
	}
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// requestID takes the client's id if it is harmless in headers and logs.
func requestID(given string) string {
	harmless := func(c rune) bool {
		return c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	if given != "" && len(given) <= 64 && !strings.ContainsFunc(given, func(c rune) bool { return !harmless(c) }) {
		return given
	}
	return "req_" + rand.Text()
}

// headerText makes text fit for a header.
func headerText(s string) string {
	s = strings.NewReplacer("—", "-", "–", "-", "’", "'", "‘", "'", "“", `"`, "”", `"`, "…", "...", "\n", " ", "\t", " ").Replace(s)
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
	return strings.TrimSpace(clip(s, 500))
}

// exchange is one request's answer, watched. It belongs to the handler's
// goroutine.
type exchange struct {
	http.ResponseWriter
	rc       *http.ResponseController
	began    time.Time
	first    time.Time // when the first byte of the body was written
	door     string
	status   int
	bytes    int64
	hijacked bool
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

// Hijack is for WebSockets. What becomes of the connection is then the
// handler's business, deadlines included.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := x.rc.Hijack()
	if err == nil {
		x.hijacked = true
		x.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}
