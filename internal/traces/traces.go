// Package traces makes spans of what the bridge does and sends them to an
// OpenTelemetry collector. A context carries the span under which its work happens.
// Without an endpoint there is no Tracer, and every call on a nil one does nothing.
// It holds no text of prompts, answers, arguments or results. Package app makes the
// Tracer; the HTTP server, the engine and the guard start spans.
package traces

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Options make a Tracer.
type Options struct {
	Environ  []string
	Endpoint string // counts before OpenTelemetry's variables; "/v1/traces" follows it
	Version  string
	Logger   *slog.Logger
}

// Tracer starts spans and owns their export. Its methods may be called
// concurrently, and on a nil Tracer.
type Tracer struct {
	settings settings
	exporter *exporter
}

// New returns nil if no traces are wanted. The caller must call Close.
func New(o Options) *Tracer {
	s, wrong := read(o.Environ, o.Endpoint, o.Version)
	if len(wrong) > 0 {
		o.Logger.Warn("traces.settings: " + strings.Join(wrong, "; "))
	}
	if s.endpoint == "" || s.sampler == (sampler{}) {
		return nil
	}
	return &Tracer{settings: s, exporter: newExporter(s, o.Version, o.Logger)}
}

// Close sends what is left, within bounds.
func (t *Tracer) Close(ctx context.Context) {
	if t != nil {
		t.exporter.close(ctx)
	}
}

// link names a span, perhaps of another program.
type link struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

func (l link) valid() bool { return l.trace != [16]byte{} && l.span != [8]byte{} }

// parseParent reads a traceparent of W3C Trace Context.
func parseParent(given string) (l link, ok bool) {
	parts := strings.Split(strings.TrimSpace(given), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(given) != given {
		return link{}, false
	}
	var head, flags [1]byte
	for i, into := range [][]byte{head[:], l.trace[:], l.span[:], flags[:]} {
		if _, err := hex.Decode(into, []byte(parts[i])); err != nil {
			return link{}, false
		}
	}
	l.sampled = flags[0]&1 == 1
	if !l.valid() {
		return link{}, false
	}
	return l, true
}

func (l link) String() string {
	flags := "-00"
	if l.sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(l.trace[:]) + "-" + hex.EncodeToString(l.span[:]) + flags
}

// kind is a span's kind, as OTLP numbers them.
type kind uint64

const (
	kindInternal kind = 1
	kindServer   kind = 2
	kindClient   kind = 3
)

// attr is an attribute; the value is a string, an int64, a float64, a bool or a
// []string.
type attr struct {
	key   string
	value any
}

// Span is something that takes time. Its methods may be called on a nil Span, and
// concurrently.
type Span struct {
	link
	tracer *Tracer
	parent [8]byte
	kind   kind
	guard  bool // of a decision of the guard

	mu     sync.Mutex
	name   string
	start  time.Time
	end    time.Time
	attrs  []attr
	failed bool
	ended  bool
	// foreign: the runtime made it.
	foreign bool
}

type spanKey struct{}

// spanOf is the span under which the work of a context happens, nil if there is
// none. It may be one that is not kept.
func spanOf(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// Follow returns a context of its own whose work belongs to the span of another.
func Follow(ctx, of context.Context) context.Context {
	if s := spanOf(of); s != nil {
		return context.WithValue(ctx, spanKey{}, s)
	}
	return ctx
}

// startIn starts a span below that of ctx, or below remote, or as a new trace. The
// span is nil if the trace is not kept; the context knows that.
func (t *Tracer) startIn(ctx context.Context, remote link, name string, k kind, attrs ...attr) (context.Context, *Span) {
	if above := spanOf(ctx); above != nil {
		s := above.child(name, k, attrs...)
		if s == nil {
			return ctx, nil
		}
		return context.WithValue(ctx, spanKey{}, s), s
	}
	if t == nil {
		return ctx, nil
	}
	s := &Span{tracer: t, kind: k, name: name, start: time.Now(), attrs: attrs}
	newID(s.span[:])
	if remote.valid() {
		s.trace, s.parent = remote.trace, remote.span
	} else {
		newID(s.trace[:])
	}
	s.sampled = t.settings.sampler.keeps(remote, s.trace)
	ctx = context.WithValue(ctx, spanKey{}, s)
	if !s.sampled {
		return ctx, nil
	}
	return ctx, s
}

func (p sampler) keeps(parent link, trace [16]byte) bool {
	switch {
	case p.parentBased && parent.valid():
		return parent.sampled
	case p.ratio >= 1:
		return true
	}
	return float64(binary.BigEndian.Uint64(trace[8:])>>1) < p.ratio*(1<<63)
}

// child starts a span below s; nil if the trace is not kept.
func (s *Span) child(name string, k kind, attrs ...attr) *Span {
	if s == nil || !s.sampled {
		return nil
	}
	c := &Span{tracer: s.tracer, parent: s.span, kind: k, name: name, start: time.Now(), attrs: attrs}
	c.trace, c.sampled = s.trace, true
	newID(c.span[:])
	return c
}

func newID(id []byte) { _, _ = rand.Read(id) } // never fails

// set adds attributes. Empty texts and zero numbers are left out.
func (s *Span) set(attrs ...attr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attrs {
		if a.value != "" && a.value != int64(0) && a.value != float64(0) {
			s.attrs = append(s.attrs, a)
		}
	}
}

// fail marks the span as failed; why is a short code.
func (s *Span) fail(why string) {
	if s == nil {
		return
	}
	s.set(attr{keyErrorType, why})
	s.mu.Lock()
	s.failed = true
	s.mu.Unlock()
}

// finish ends the span, the first time it is called, and hands it over for export.
func (s *Span) finish() { s.finishAt(time.Now()) }

func (s *Span) finishAt(end time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.end = true, end
	s.tracer.exporter.add(s)
}

// Request starts the span of an HTTP request, below the caller's if its headers
// name one.
func (t *Tracer) Request(ctx context.Context, r *http.Request, id string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	remote, _ := parseParent(r.Header.Get("Traceparent"))
	return t.startIn(ctx, remote, "HTTP", kindServer, attr{keyRequestID, id}, attr{keyScheme, "http"})
}

// Answered ends the span of a request to a route. A client that has left is
// status 499; failed says that an answer that had begun has failed.
func (s *Span) Answered(r *http.Request, route string, status int, failed bool) {
	if s == nil {
		return
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
	default:
		method = "_OTHER"
	}
	s.mu.Lock()
	s.name = strings.Replace(method, "_OTHER", "HTTP", 1) + " " + route
	s.mu.Unlock()
	s.set(attr{keyMethod, method}, attr{keyRoute, route}, attr{keyStatusCode, int64(status)}, attr{keyUserAgent, clip(r.UserAgent())})
	switch {
	case status >= http.StatusInternalServerError:
		s.fail(strconv.Itoa(status))
	case failed:
		s.fail("stream_failed")
	}
	s.finish()
}

// Judge starts the span of the guard's decision about a call.
func Judge(ctx context.Context, call bridge.ToolCall) (context.Context, *Span) {
	above := spanOf(ctx)
	if above == nil {
		return ctx, nil
	}
	s := above.child(guardSpan+" "+call.Name, kindInternal, attr{keyToolName, call.Name}, attr{keyConfined, call.Confined})
	if s == nil {
		return ctx, nil
	}
	s.guard = true
	return context.WithValue(ctx, spanKey{}, s), s
}

// SetRule tells which rule decides in the span of Judge.
func SetRule(ctx context.Context, rule fmt.Stringer) {
	if s := spanOf(ctx); s != nil && s.guard {
		s.set(attr{keyRule, clip(rule.String())})
	}
}

// Judged ends the span of Judge. The reason must be free of
// secrets.
func (s *Span) Judged(ctx context.Context, call bridge.ToolCall, v bridge.Verdict, reason string, asked bool) {
	if s == nil {
		return
	}
	s.set(attr{keyVerdict, v.String()}, attr{keyReason, clip(reason)}, attr{keyAsked, asked})
	if t, ok := ctx.Value(turnKey{}).(*Turn); ok && t.judged(s, call) {
		return
	}
	s.finish()
}

// Wait starts the span of a question to a person.
func Wait(ctx context.Context) *Span { return spanOf(ctx).child(waitSpan, kindInternal) }

// Done ends the span of Wait.
func (s *Span) Done(v bridge.Verdict) {
	s.set(attr{keyVerdict, v.String()})
	s.finish()
}

// clip shortens what others have written.
func clip(s string) string {
	const most = 256
	if len(s) > most {
		s = s[:most]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return s
}
