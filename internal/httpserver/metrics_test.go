package httpserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/metrics"
)

func TestMetrics(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	further := &metrics.Registry{}
	further.Func("copilot_bridge_sessions", "Sessions.", func() float64 { return 3 })
	r := start(t, Options{
		Doors: map[string]http.Handler{
			"POST /v1/messages": echo(),
			"POST /stream":      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = wire.NewStream(w, r).Data("x") }),
			"GET /wait":         http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-release }),
		},
		Metrics: further,
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
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
	for _, name := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("lacks %s", name)
		}
	}
	if strings.Contains(text, "random") || strings.Contains(text, `first_byte_seconds_count{door="other"}`) {
		t.Error("unknown paths have series of their own")
	}
	if t.Failed() {
		t.Log(text)
	}
}
