package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const namespace = "copilot_bridge_"

// UsageRow is what one door has used of one model since the start.
type UsageRow struct {
	Door, Model string
	In, Out     int64   // tokens
	Cost        float64 // in the agent's own unit
	Premium     float64 // premium requests
	Credits     float64 // AI credits
}

// metrics are counted by the server, or read when they are asked for.
type metrics struct {
	inFlight atomic.Int64
	gauges   map[string]func() float64
	usage    func() []UsageRow

	mu        sync.Mutex
	requests  map[string]float64    // by labels
	firstByte map[string]*histogram // likewise
	duration  map[string]*histogram
}

// histogram counts values up to each bound, and those above all of them.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
}

var (
	firstByteBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	durationBounds  = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800}
)

var gaugeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func newMetrics(connections func() float64, gauges map[string]func() float64, usage func() []UsageRow) (*metrics, error) {
	for name := range gauges {
		if !gaugeName.MatchString(name) {
			return nil, &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("%q is not a name for a metric", name)}
		}
	}
	m := &metrics{gauges: maps.Clone(gauges), usage: usage, requests: map[string]float64{}, firstByte: map[string]*histogram{}, duration: map[string]*histogram{}}
	if m.gauges == nil {
		m.gauges = map[string]func() float64{}
	}
	m.gauges["connections"] = connections
	m.gauges["requests_in_flight"] = func() float64 { return float64(m.inFlight.Load()) }
	return m, nil
}

func (m *metrics) observe(x *exchange, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	door := label("door", x.door)
	m.requests[door+","+label("status", strconv.Itoa(x.status))]++
	observe(m.duration, door, durationBounds, took)
	if !x.first.IsZero() && x.status < 400 {
		observe(m.firstByte, door, firstByteBounds, x.first.Sub(x.began))
	}
}

func observe(in map[string]*histogram, labels string, bounds []float64, took time.Duration) {
	h := in[labels]
	if h == nil {
		h = &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
		in[labels] = h
	}
	i, _ := slices.BinarySearch(bounds, took.Seconds())
	h.counts[i]++
	h.sum += took.Seconds()
}

func (m *metrics) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p := &metricsPage{}
		m.write(p)
		p.process()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(p.Bytes()) // the reader may have left
	})
}

func (m *metrics) write(p *metricsPage) {
	m.mu.Lock()
	p.counters(namespace+"requests_total", "HTTP requests by door and status.", m.requests)
	p.histograms(namespace+"request_seconds", "Duration of whole requests.", m.duration)
	p.histograms(namespace+"first_byte_seconds", "Time to the first byte of an answer that succeeded.", m.firstByte)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.gauges)) {
		p.gauge(namespace+name, strings.ReplaceAll(name, "_", " ")+".", m.gauges[name]())
	}
	if m.usage == nil {
		return
	}
	tokens, costs, premium, credits := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, row := range m.usage() { // rows of one name are one series
		of := label("door", row.Door) + "," + label("model", row.Model)
		tokens[label("direction", "in")+","+of] += float64(row.In)
		tokens[label("direction", "out")+","+of] += float64(row.Out)
		costs[of] += row.Cost
		premium[of] += row.Premium
		credits[of] += row.Credits
	}
	p.counters(namespace+"tokens_total", "Tokens by door, model and direction.", tokens)
	p.counters(namespace+"cost_total", "Cost by door and model, in the agent's own unit.", costs)
	p.counters(namespace+"premium_requests_total", "Premium requests by door and model, as GitHub counts them.", premium)
	p.counters(namespace+"ai_credits_total", "AI credits by door and model, as GitHub bills them.", credits)
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
	path, status, f := text.Clip(r.URL.Path, 256), x.status, &x.facts
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
