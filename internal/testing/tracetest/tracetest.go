// Package tracetest is an OpenTelemetry collector for tests: it reads what an
// exporter sends with OpenTelemetry's own messages.
package tracetest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it has arrived.
type Span struct {
	*trace.Span

	Trace, ID, Parent string // in hexadecimal
	Service           string
	Attrs             map[string]any
}

// Collector answers on URL. Its methods may be called concurrently.
type Collector struct {
	URL string

	mu       sync.Mutex
	answer   func(n int) int
	requests int
	headers  []http.Header
	spans    []Span
}

// New starts a collector, which ends with the test. answer gives the status of the
// n-th request, from 1 on; nil is always 200. Spans of refused requests are not kept.
func New(t *testing.T, answer func(n int) int) *Collector {
	t.Helper()
	c := &Collector{answer: answer}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s, %v", r.Method, r.URL.Path, err)
		}
		// The request of the collector's service has the fields of TracesData.
		var data trace.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Errorf("not OTLP: %v", err)
		}
		if unknown := data.ProtoReflect().GetUnknown(); len(unknown) > 0 {
			t.Errorf("fields that OTLP does not have: %x", unknown)
		}
		w.WriteHeader(c.take(&data, r.Header))
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) take(data *trace.TracesData, h http.Header) (status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.headers = append(c.headers, h)
	if status = http.StatusOK; c.answer != nil {
		status = c.answer(c.requests)
	}
	if status != http.StatusOK {
		return status
	}
	for _, r := range data.GetResourceSpans() {
		service, _ := attributes(r.GetResource().GetAttributes())["service.name"].(string)
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{Span: s, Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()), Service: service, Attrs: attributes(s.GetAttributes())})
			}
		}
	}
	return status
}

// Requests is how many have come, with the headers of each.
func (c *Collector) Requests() (n int, headers []http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, append([]http.Header(nil), c.headers...)
}

// Spans are all that have arrived whose name begins so.
func (c *Collector) Spans(prefix string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Span
	for _, s := range c.spans {
		if strings.HasPrefix(s.GetName(), prefix) {
			out = append(out, s)
		}
	}
	return out
}

// Sum adds up an attribute of all spans.
func (c *Collector) Sum(key string) (sum int64) {
	for _, s := range c.Spans("") {
		n, _ := s.Attrs[key].(int64)
		sum += n
	}
	return sum
}

// Tree draws the spans by their parents, those of one parent by their names.
func (c *Collector) Tree() string {
	spans := c.Spans("")
	slices.SortStableFunc(spans, func(a, b Span) int { return strings.Compare(a.Service+a.GetName(), b.Service+b.GetName()) })
	known := map[string]bool{}
	for _, s := range spans {
		known[s.ID] = true
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range spans {
			if s.Parent == parent || parent == "" && !known[s.Parent] {
				b.WriteString(indent + s.Service + ": " + s.GetName() + "\n")
				draw(s.ID, indent+"  ")
			}
		}
	}
	draw("", "")
	return b.String()
}

func attributes(list []*collector.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *collector.AnyValue_StringValue:
			out[kv.GetKey()] = v.StringValue
		case *collector.AnyValue_IntValue:
			out[kv.GetKey()] = v.IntValue
		case *collector.AnyValue_BoolValue:
			out[kv.GetKey()] = v.BoolValue
		case *collector.AnyValue_DoubleValue:
			out[kv.GetKey()] = v.DoubleValue
		case *collector.AnyValue_ArrayValue:
			var all []string
			for _, e := range v.ArrayValue.GetValues() {
				all = append(all, e.GetStringValue())
			}
			out[kv.GetKey()] = all
		}
	}
	return out
}
