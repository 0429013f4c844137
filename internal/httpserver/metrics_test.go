package httpserver

import (
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

func TestMetrics(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, Options{
		Doors: map[string]http.Handler{
			"POST /v1/messages": echo(),
			"POST /stream":      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = wire.NewStream(w, r).Data("x") }),
			"GET /wait":         http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-release }),
		},
		Gauges: map[string]func() float64{"sessions": func() float64 { return 3 }},
		Usage: func() []UsageRow {
			return []UsageRow{{"openai", "gpt-5", 10, 4, 0.5, 1, 0}, {"openai", "gpt-5", 1, 1, 0.25, 1, 0.25}, {"anthropic", `odd"name`, 2, 0, 0, 0, 0}}
		},
	})
	r.do(t, http.MethodPost, "/v1/messages", nil, "x")
	r.do(t, http.MethodPost, "/v1/messages", nil, "x")
	r.do(t, http.MethodPost, "/stream", nil, "x")
	r.get(t, "/v1/messages")
	r.get(t, "/some/random/path")
	r.do(t, http.MethodGet, "/healthz", map[string]string{"Host": "evil.example"}, "")
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	text := r.get(t, "/metrics").body
	close(release)
	readAnswer(t, conn)
	for _, line := range []string{
		`copilot_bridge_requests_total{door="/v1/messages",status="200"} 2`,
		`copilot_bridge_requests_total{door="/stream",status="200"} 1`,
		`copilot_bridge_requests_total{door="other",status="404"} 1`,
		`copilot_bridge_requests_total{door="other",status="405"} 1`,
		`copilot_bridge_requests_total{door="other",status="403"} 1`,
		`copilot_bridge_request_seconds_count{door="/v1/messages"} 2`,
		`copilot_bridge_first_byte_seconds_count{door="/stream"} 1`,
		`copilot_bridge_requests_in_flight 2`,
		`copilot_bridge_connections 2`,
		`copilot_bridge_sessions 3`,
		`copilot_bridge_tokens_total{direction="in",door="openai",model="gpt-5"} 11`,
		`copilot_bridge_tokens_total{direction="out",door="openai",model="gpt-5"} 5`,
		`copilot_bridge_tokens_total{direction="in",door="anthropic",model="odd\"name"} 2`,
		`copilot_bridge_cost_total{door="openai",model="gpt-5"} 0.75`,
		`copilot_bridge_premium_requests_total{door="openai",model="gpt-5"} 2`,
		`copilot_bridge_ai_credits_total{door="openai",model="gpt-5"} 0.25`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
	names := []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "process_start_time_seconds"}
	if runtime.GOOS == "linux" {
		names = append(names, "process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes", "process_virtual_memory_bytes")
	}
	for _, name := range names {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("lacks %s", name)
		}
	}
	checkFormat(t, text)
	if strings.Contains(text, "random") || strings.Contains(text, `first_byte_seconds_count{door="other"}`) {
		t.Error("unknown paths have series of their own")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// checkFormat holds a page to Prometheus' text format: each sample is a number of a
// family that was declared, once, and the buckets of a histogram only grow.
func checkFormat(t *testing.T, text string) {
	t.Helper()
	sample := regexp.MustCompile(`^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\["\\n])*",?)+)\})? (\S+)$`)
	kinds, last := map[string]string{}, map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if about, ok := strings.CutPrefix(line, "# "); ok {
			f := strings.SplitN(about, " ", 3)
			if f[0] == "TYPE" {
				if kinds[f[1]] != "" {
					t.Errorf("%s is declared twice", f[1])
				}
				kinds[f[1]] = f[2]
			} else if f[0] != "HELP" || len(f) < 3 {
				t.Errorf("not a comment of the format: %q", line)
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a sample: %q", line)
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		name := m[1]
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && kinds[base] == "histogram" {
				name = base
			}
		}
		if kinds[name] == "" {
			t.Errorf("%q has no type", line)
		}
		if labels, _, ok := strings.Cut(m[2], ",le="); ok {
			if value < last[name+labels] {
				t.Errorf("the buckets shrink at %q", line)
			}
			last[name+labels] = value
		}
	}
	if len(last) == 0 {
		t.Error("there is no histogram")
	}
}
