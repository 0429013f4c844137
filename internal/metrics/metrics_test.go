package metrics

import (
	"bytes"
	"math"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func parse(t *testing.T, r *Registry) map[string]*dto.MetricFamily {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(&b)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Prometheus' own parser reads what was counted.
func TestAsPrometheusReadsIt(t *testing.T) {
	r := &Registry{}
	c := r.Counter("c_total", "Counts.", "model", "status")
	none := r.Counter("none_total", "Nothing yet.")
	g := r.Gauge("g", "Rises and falls.")
	h := r.Histogram("h_seconds", "Times.", []float64{.1, 1}, "door")
	r.Read("u_total", "counter", "Added up.", []string{"model"}, func(add func(float64, ...string)) { add(1.5, "a"); add(2, "a"); add(1e18, "b") })
	r.Func("nan", "Not a number.", math.NaN)
	r.Process()
	odd := "a\"b\\c\nd\xff"
	c.Inc(odd, "200")
	c.Inc(odd, "200")
	g.Add(2)
	g.Add(-1.5)
	for _, v := range []float64{.05, .1, .5, 7} {
		h.Observe(v, "/x")
	}
	_ = none
	f := parse(t, r)
	if m := f["c_total"].GetMetric(); len(m) != 1 || m[0].GetCounter().GetValue() != 2 || m[0].GetLabel()[0].GetValue() != "a\"b\\c\nd?" {
		t.Errorf("%v", m)
	}
	if v := f["none_total"].GetMetric(); len(v) != 1 || v[0].GetCounter().GetValue() != 0 {
		t.Errorf("%v", v)
	}
	if v := f["g"].GetMetric()[0].GetGauge().GetValue(); v != .5 {
		t.Error(v)
	}
	got := f["h_seconds"].GetMetric()[0].GetHistogram()
	if b := got.GetBucket(); len(b) != 3 || b[0].GetCumulativeCount() != 2 || b[1].GetCumulativeCount() != 3 || b[2].GetCumulativeCount() != 4 || got.GetSampleSum() != 7.65 || got.GetSampleCount() != 4 {
		t.Errorf("%v", got)
	}
	if m := f["u_total"].GetMetric(); len(m) != 2 || m[0].GetCounter().GetValue() != 3.5 || m[1].GetCounter().GetValue() != 1e18 {
		t.Errorf("%v", m)
	}
	if !math.IsNaN(f["nan"].GetMetric()[0].GetGauge().GetValue()) || f["go_goroutines"].GetMetric()[0].GetGauge().GetValue() < 1 || f["go_memstats_heap_inuse_bytes"].GetMetric()[0].GetGauge().GetValue() < 1e4 {
		t.Errorf("%v", f)
	}
}

// No client can make the page long.
func TestSeriesAreBounded(t *testing.T) {
	r := &Registry{}
	c := r.Counter("c_total", "Counts.", "model")
	for i := range 3 * maxSeries {
		c.Inc(strings.Repeat("x", i+1))
	}
	m := parse(t, r)["c_total"].GetMetric()
	sum := 0.0
	for _, one := range m {
		sum += one.GetCounter().GetValue()
	}
	if len(m) != maxSeries+1 || sum != 3*maxSeries {
		t.Errorf("%d series, sum %v", len(m), sum)
	}
}
