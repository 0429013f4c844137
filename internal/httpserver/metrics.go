package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/metrics"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Namespace begins the names of all metrics of the bridge.
const Namespace = "copilot_bridge_"

// requestMetrics are what is counted of requests.
type requestMetrics struct {
	requests                             metrics.Counter
	firstByte, firstWord, duration, turn metrics.Histogram
	inFlight                             metrics.Gauge
}

// short and long are bounds of times, in seconds.
var (
	short = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	long  = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800}
)

func newRequestMetrics(r *metrics.Registry, connections func() float64) requestMetrics {
	r.Func(Namespace+"connections", "Open connections.", connections)
	return requestMetrics{
		requests:  r.Counter(Namespace+"requests_total", "HTTP requests by door and status.", "door", "status"),
		firstByte: r.Histogram(Namespace+"first_byte_seconds", "Time to the first byte of an answer that succeeded.", short, "door"),
		firstWord: r.Histogram(Namespace+"first_word_seconds", "Time to the first word of a model's answer.", short, "door"),
		duration:  r.Histogram(Namespace+"request_seconds", "Duration of whole requests.", long, "door"),
		turn:      r.Histogram(Namespace+"turn_seconds", "Duration of requests that a model has answered.", long, "door"),
		inFlight:  r.Gauge(Namespace+"requests_in_flight", "HTTP requests being answered."),
	}
}

func (m *requestMetrics) observe(x *exchange, took time.Duration) {
	m.requests.Inc(x.door, strconv.Itoa(x.status))
	m.duration.Observe(took.Seconds(), x.door)
	if !x.first.IsZero() && x.status < 400 {
		m.firstByte.Observe(x.first.Sub(x.began).Seconds(), x.door)
	}
	if !x.facts.First.IsZero() {
		m.firstWord.Observe(x.facts.First.Sub(x.began).Seconds(), x.door)
		m.turn.Observe(took.Seconds(), x.door)
	}
}

// metricsPage is GET /metrics.
func (s *Server) metricsPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if err := s.opts.Metrics.Write(w); err != nil {
		s.opts.Logger.Debug("metrics.not_sent", "error", err)
	}
}

// shownPath is how the log names what was asked for: without a part that is a
// secret, by its pattern.
func (s *Server) shownPath(r *http.Request) string {
	path := singleSlashes(r.URL.Path)
	for pattern := range s.opts.Open {
		if before, _, secret := strings.Cut(pathOf(pattern), "{token}"); secret && strings.HasPrefix(path, before) {
			return pathOf(pattern)
		}
	}
	return text.Clip(r.URL.Path, 256)
}

// quiet are paths that are asked all the time, by machines.
var quiet = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// log writes one line for each request, without its content and its query.
func (s *Server) log(x *exchange, r *http.Request, body *timedBody, id string, took time.Duration) {
	level := slog.LevelInfo
	if quiet[x.door] || r.Method == http.MethodHead {
		level = slog.LevelDebug
	}
	l := s.opts.Logger
	if !l.Enabled(context.Background(), level) {
		return
	}
	if body.ended && x.Header().Get("Content-Length") != "" {
		_ = x.rc.Flush() // the answer is complete, and should not wait for the log
	}
	path, status, f := s.shownPath(r), x.status, &x.facts
	if r.URL.RawQuery != "" {
		path += "?…"
	}
	if f.Left {
		status = wire.StatusClientGone // though some of the answer has a status of its own
	}
	var attrs []slog.Attr
	add := func(known bool, more ...slog.Attr) {
		if known {
			attrs = append(attrs, more...)
		}
	}
	gone := status == wire.StatusClientGone
	add(true, slog.String("method", text.Clip(r.Method, 32)), slog.String("path", path))
	add(f.Model != "", slog.String("model", f.Model))
	add(f.Requested != f.Model, slog.String("requested", text.Clip(f.Requested, 128)))
	add(true, slog.Int("status", status))
	add(f.In > 0 || f.Out > 0, slog.Int64("in", f.In), slog.Int64("out", f.Out))
	add(!f.First.IsZero(), slog.Duration("first", f.First.Sub(x.began).Round(time.Millisecond)))
	add(true, slog.Duration("total", took.Round(time.Millisecond)))
	add(gone, slog.String("ended", "client left"))
	add(f.Failed && !gone, slog.String("ended", "failed"))
	add(true, slog.String("request_id", id))
	add(l.Enabled(context.Background(), slog.LevelDebug), slog.Int64("bytes", x.bytes), slog.String("user_agent", text.Clip(r.UserAgent(), 200)))
	l.LogAttrs(context.Background(), level, "request", attrs...)
}
