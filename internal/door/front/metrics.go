package front

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

const namespace = "copilot_bridge"

// UsageRow is what one door has used of one model since the start.
type UsageRow struct {
	Door, Model string
	In, Out     int64   // tokens
	Cost        float64 // in the runtime's own unit
}

// metrics has a registry of its own: two servers in one process do not mix.
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

// usageCollector reads the counts when somebody asks, so that nothing has to
// keep them twice.
type usageCollector func() []UsageRow

var (
	tokensDesc = prometheus.NewDesc(namespace+"_tokens_total", "Tokens by door, model and direction.", []string{"door", "model", "direction"}, nil)
	costDesc   = prometheus.NewDesc(namespace+"_cost_total", "Cost by door and model, in the runtime's own unit.", []string{"door", "model"}, nil)
)

// Describe is for the registry.
func (usageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- tokensDesc
	ch <- costDesc
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
		sums[key{row.Door, row.Model}] = sum
	}
	for k, sum := range sums {
		ch <- prometheus.MustNewConstMetric(tokensDesc, prometheus.CounterValue, float64(sum.In), k.door, k.model, "in")
		ch <- prometheus.MustNewConstMetric(tokensDesc, prometheus.CounterValue, float64(sum.Out), k.door, k.model, "out")
		ch <- prometheus.MustNewConstMetric(costDesc, prometheus.CounterValue, sum.Cost, k.door, k.model)
	}
}
