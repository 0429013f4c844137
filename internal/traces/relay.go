package traces

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Relay takes the runtime's own spans, on this machine only, and adds those below
// the bridge's to its traces. What the runtime counts of tokens is left out, because
// it counts twice, and so are its timings of opening sessions, a hundred spans each.
type Relay struct {
	tracer   *Tracer
	listener net.Listener
	server   *http.Server
	path     string // known to the runtime only
	done     sync.WaitGroup

	mu     sync.Mutex
	heard  time.Time  // when the last spans came
	traces [][16]byte // that the runtime was told of, the newest last
}

// RelayEvery is how long the runtime collects spans before it sends them.
const RelayEvery = 200 * time.Millisecond

const (
	relayBytes  = 8 << 20 // of one batch
	relaySettle = 2 * RelayEvery
	relayTraces = 1024 // the older are forgotten
)

// Relay starts taking spans. The caller must call Close.
func (t *Tracer) Relay(ctx context.Context) (*Relay, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{tracer: t, listener: l, path: "/" + rand.Text()}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	r.done.Go(func() { _ = r.server.Serve(l) }) // ends with Close, and says so
	return r, nil
}

// URL is the runtime's endpoint.
func (r *Relay) URL() string { return "http://" + r.listener.Addr().String() + r.path }

// Parent is the traceparent for what the runtime does under ctx; "" if there is no
// trace. Only spans of such traces are passed on.
func (r *Relay) Parent(ctx context.Context) string {
	s := spanOf(ctx)
	if s == nil {
		return ""
	}
	if s.sampled {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.Contains(r.traces, s.trace) {
			r.traces = append(r.traces, s.trace)
			r.traces = r.traces[max(0, len(r.traces)-relayTraces):]
		}
	}
	return s.String()
}

// Settle waits, within bounds, until the runtime has sent what it has. It sends
// nothing when it is ended.
func (r *Relay) Settle(ctx context.Context) {
	if r == nil {
		return
	}
	tick := time.NewTicker(RelayEvery / 8)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < relaySettle; {
		r.mu.Lock()
		used, heard := len(r.traces) > 0, r.heard
		r.mu.Unlock()
		// A batch that comes a while later has all spans that had ended before.
		if !used || heard.After(began.Add(RelayEvery/2)) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close stops taking spans.
func (r *Relay) Close() {
	if r == nil {
		return
	}
	_ = r.server.Close() // what it could say is that a connection was closed already
	r.done.Wait()
}

func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost || req.URL.Path != r.path+"/v1/traces" {
		http.NotFound(w, req)
		return
	}
	var in exported
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, relayBytes)).Decode(&in); err != nil {
		http.Error(w, "not OTLP in JSON", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.heard = time.Now()
	for _, resource := range in.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				r.add(s)
			}
		}
	}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

// exported is OTLP in JSON, as far as the runtime uses it.
type exported struct {
	ResourceSpans []struct {
		ScopeSpans []struct {
			Spans []exportedSpan `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

type exportedSpan struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Kind         uint64 `json:"kind"`
	Start        any    `json:"startTimeUnixNano"` // a number, or one as a text
	End          any    `json:"endTimeUnixNano"`
	Attributes   []struct {
		Key   string `json:"key"`
		Value struct {
			String *string  `json:"stringValue"`
			Bool   *bool    `json:"boolValue"`
			Int    any      `json:"intValue"`
			Double *float64 `json:"doubleValue"`
		} `json:"value"`
	} `json:"attributes"`
	Status struct {
		Code int `json:"code"`
	} `json:"status"`
}

// add passes a span on, unless it is one of those that are left out. mu is held.
func (r *Relay) add(in exportedSpan) {
	s := &Span{tracer: r.tracer, foreign: true, ended: true, name: clip(in.Name), kind: kind(in.Kind), failed: in.Status.Code == 2,
		start: when(in.Start), end: when(in.End)}
	if strings.HasPrefix(in.Name, runtimeTiming) || !fromHex(s.trace[:], in.TraceID) || !fromHex(s.span[:], in.SpanID) || !fromHex(s.parent[:], in.ParentSpanID) ||
		!slices.Contains(r.traces, s.trace) {
		return
	}
	for _, a := range in.Attributes {
		if strings.HasPrefix(a.Key, keyUsage) || a.Key == runtimeCost {
			continue
		}
		var v any
		switch {
		case a.Value.String != nil:
			v = *a.Value.String
		case a.Value.Bool != nil:
			v = *a.Value.Bool
		case a.Value.Int != nil:
			v = whole(a.Value.Int)
		case a.Value.Double != nil:
			v = *a.Value.Double
		default:
			continue
		}
		s.attrs = append(s.attrs, attr{a.Key, v})
	}
	r.tracer.exporter.add(s)
}

func fromHex(into []byte, text string) bool {
	n, err := hex.Decode(into, []byte(text)[:min(len(text), 2*len(into))])
	return err == nil && n == len(into)
}

func when(v any) time.Time { return time.Unix(0, whole(v)) }

func whole(v any) int64 {
	switch v := v.(type) {
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	case float64:
		return int64(v)
	}
	return 0
}
