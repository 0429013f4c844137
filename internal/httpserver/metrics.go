package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const namespace = "copilot_bridge"

// UsageRow is what one door has used of one model since the start.
type UsageRow struct {
	Door, Model string
	In, Out     int64   // tokens
	Cost        float64 // in the agent's own unit
	Premium     float64 // premium requests
	Credits     float64 // AI credits
}

// metrics does not use the global registry: two servers in one process do not mix.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	firstByte *prometheus.HistogramVec
	duration  *prometheus.HistogramVec
	inFlight  prometheus.Gauge
}

var gaugeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func newMetrics(connections func() float64, gauges map[string]func() float64, usage func() []UsageRow) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "requests_total", Help: "HTTP requests by door and status.",
		}, []string{"door", "status"}),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "first_byte_seconds", Help: "Time to the first byte of an answer that succeeded.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"door"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "request_seconds", Help: "Duration of whole requests.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800},
		}, []string{"door"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "requests_in_flight", Help: "HTTP requests being answered.",
		}),
	}
	all := []prometheus.Collector{
		m.requests, m.firstByte, m.duration, m.inFlight, gauge("connections", "Open connections.", connections),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if usage != nil {
		all = append(all, usageCollector(usage))
	}
	for name, read := range gauges {
		if !gaugeName.MatchString(name) {
			return nil, &bridge.Error{Code: bridge.CodeInternal, Message: fmt.Sprintf("%q is not a name for a metric", name)}
		}
		all = append(all, gauge(name, strings.ReplaceAll(name, "_", " ")+".", read))
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, &bridge.Error{Code: bridge.CodeInternal, Message: "the metrics cannot be set up", Cause: err}
		}
	}
	return m, nil
}

func gauge(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, read)
}

func (m *metrics) observe(x *exchange, took time.Duration) {
	m.requests.WithLabelValues(x.door, strconv.Itoa(x.status)).Inc()
	m.duration.WithLabelValues(x.door).Observe(took.Seconds())
	if !x.first.IsZero() && x.status < 400 {
		m.firstByte.WithLabelValues(x.door).Observe(x.first.Sub(x.began).Seconds())
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true})
}

// usageCollector reads the counts when the metrics are read.
type usageCollector func() []UsageRow

var (
	tokensDesc = prometheus.NewDesc(namespace+"_tokens_total", "Tokens by door, model and direction.", []string{"door", "model", "direction"}, nil)
	costDesc   = prometheus.NewDesc(namespace+"_cost_total", "Cost by door and model, in the agent's own unit.", []string{"door", "model"}, nil)

	premiumDesc = prometheus.NewDesc(namespace+"_premium_requests_total", "Premium requests by door and model, as GitHub counts them.", []string{"door", "model"}, nil)
	creditsDesc = prometheus.NewDesc(namespace+"_ai_credits_total", "AI credits by door and model, as GitHub bills them.", []string{"door", "model"}, nil)
)

// Describe is for the registry.
func (usageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- tokensDesc
	ch <- costDesc
	ch <- premiumDesc
	ch <- creditsDesc
}

// Collect is for the registry.
func (u usageCollector) Collect(ch chan<- prometheus.Metric) {
	type key struct{ door, model string }
	sums := map[key]UsageRow{} // two rows of one name would fail the whole page
	for _, row := range u() {
		sum := sums[key{row.Door, row.Model}]
		sum.In += row.In
		sum.Out += row.Out
		sum.Cost += row.Cost
		sum.Premium += row.Premium
		sum.Credits += row.Credits
		sums[key{row.Door, row.Model}] = sum
	}
	for k, sum := range sums {
		ch <- prometheus.MustNewConstMetric(tokensDesc, prometheus.CounterValue, float64(sum.In), k.door, k.model, "in")
		ch <- prometheus.MustNewConstMetric(tokensDesc, prometheus.CounterValue, float64(sum.Out), k.door, k.model, "out")
		ch <- prometheus.MustNewConstMetric(costDesc, prometheus.CounterValue, sum.Cost, k.door, k.model)
		ch <- prometheus.MustNewConstMetric(premiumDesc, prometheus.CounterValue, sum.Premium, k.door, k.model)
		ch <- prometheus.MustNewConstMetric(creditsDesc, prometheus.CounterValue, sum.Credits, k.door, k.model)
	}
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
