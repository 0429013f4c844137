// Package metrics keeps counters, histograms and gauges, and writes them in the
// text format that Prometheus scrapes.
package metrics

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxSeries bounds a metric: further label values are counted together as other,
// so that no client can make a page of any length.
const maxSeries = 200

// Registry holds the metrics of one server. Metrics are made before it is read.
type Registry struct{ families []*family }

// family is a metric with all its label values.
type family struct {
	name, help, kind string
	labels           []string
	buckets          []float64                                   // upper bounds, of a histogram
	read             func(add func(v float64, values ...string)) // nil if it is counted here

	mu     sync.Mutex
	series map[string]*series
}

type series struct {
	values []string
	sum    float64
	counts []uint64 // by bucket, the last is +Inf; of a histogram
}

func (r *Registry) add(f *family) *family {
	f.series = map[string]*series{}
	if len(f.labels) == 0 && f.read == nil {
		f.find(nil) // it is 0 from the start
	}
	r.families = append(r.families, f)
	return f
}

// Counter is a number that only grows, for each combination of label values.
type Counter struct{ f *family }

// Counter makes a counter.
func (r *Registry) Counter(name, help string, labels ...string) Counter {
	return Counter{r.add(&family{name: name, help: help, kind: "counter", labels: labels})}
}

// Inc adds one.
func (c Counter) Inc(values ...string) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.find(values).sum++
}

// Gauge is a number that rises and falls.
type Gauge struct{ f *family }

// Gauge makes a gauge.
func (r *Registry) Gauge(name, help string) Gauge {
	return Gauge{r.add(&family{name: name, help: help, kind: "gauge"})}
}

// Add changes the number.
func (g Gauge) Add(n float64) {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.find(nil).sum += n
}

// Histogram counts values by size.
type Histogram struct{ f *family }

// Histogram makes a histogram. buckets are upper bounds, in ascending order.
func (r *Registry) Histogram(name, help string, buckets []float64, labels ...string) Histogram {
	return Histogram{r.add(&family{name: name, help: help, kind: "histogram", buckets: buckets, labels: labels})}
}

// Observe counts one value.
func (h Histogram) Observe(v float64, values ...string) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	s := h.f.find(values)
	s.sum += v
	i, _ := slices.BinarySearch(h.f.buckets, v)
	s.counts[i]++
}

// Read makes a gauge or counter whose values are asked for when the metrics are
// read. Values of the same labels are added up.
func (r *Registry) Read(name, kind, help string, labels []string, read func(add func(v float64, values ...string))) {
	r.add(&family{name: name, help: help, kind: kind, labels: labels, read: read})
}

// Func makes a gauge of one value.
func (r *Registry) Func(name, help string, value func() float64) {
	r.Read(name, "gauge", help, nil, func(add func(float64, ...string)) { add(value()) })
}

// find returns the series of some label values. mu is held.
func (f *family) find(values []string) *series {
	values = slices.Clone(values)
	for i, v := range values {
		values[i] = strings.ToValidUTF8(v, "?")
	}
	key := strings.Join(values, "\xff")
	s := f.series[key]
	if s == nil && len(f.series) >= maxSeries {
		for i := range values {
			values[i] = "other"
		}
		key = strings.Join(values, "\xff")
		s = f.series[key]
	}
	if s == nil {
		s = &series{values: values}
		if f.buckets != nil {
			s.counts = make([]uint64, len(f.buckets)+1)
		}
		f.series[key] = s
	}
	return s
}

// Write writes all metrics.
func (r *Registry) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, f := range r.families {
		f.write(b)
	}
	return b.Flush() // which has the first error
}

func (f *family) write(w *bufio.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read != nil {
		f.series = map[string]*series{}
		f.read(func(v float64, values ...string) { f.find(values).sum += v })
	}
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
	all := make([]*series, 0, len(f.series))
	for _, s := range f.series {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *series) int { return slices.Compare(a.values, b.values) })
	for _, s := range all {
		if f.buckets == nil {
			f.line(w, "", s.values, "", s.sum)
			continue
		}
		var n uint64
		for i, count := range s.counts {
			n += count
			bound := "+Inf"
			if i < len(f.buckets) {
				bound = number(f.buckets[i])
			}
			f.line(w, "_bucket", s.values, bound, float64(n))
		}
		f.line(w, "_sum", s.values, "", s.sum)
		f.line(w, "_count", s.values, "", float64(n))
	}
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// line writes one value; bound is the upper bound of a bucket, or "".
func (f *family) line(w *bufio.Writer, suffix string, values []string, bound string, v float64) {
	var labels []string
	for i, name := range f.labels {
		labels = append(labels, name+`="`+escape.Replace(values[i])+`"`)
	}
	if bound != "" {
		labels = append(labels, `le="`+bound+`"`)
	}
	name := f.name + suffix
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	fmt.Fprintf(w, "%s %s\n", name, number(v))
}

func number(v float64) string {
	if v == float64(int64(v)) { // no exponents for people to read
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
