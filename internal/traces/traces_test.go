package traces

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/tracetest"
)

func newTracer(t *testing.T, environ ...string) (*Tracer, *programtest.Output) {
	t.Helper()
	out := &programtest.Output{}
	tr := New(Options{Environ: environ, Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(out, nil))})
	t.Cleanup(func() { tr.Close(context.Background()) })
	return tr, out
}

const parentID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// What happens in a request comes out as one tree, in OpenTelemetry's own form.
func TestTurnIsOneTree(t *testing.T) {
	c := tracetest.New(t, nil)
	tr, out := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL+"/", "OTEL_EXPORTER_OTLP_HEADERS=x-key=s%20ecret,y=2", "OTEL_SERVICE_NAME=mine", "OTEL_RESOURCE_ATTRIBUTES=a=b%2Cc")
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions?secret=x", nil)
	r.Header.Set("Traceparent", parentID)
	ctx, request := tr.Request(t.Context(), r, "req_1")
	ctx, turn := tr.Turn(Follow(context.Background(), ctx), About{Session: "s", Door: "openai", Profile: bridge.ProfileAgent})
	bash := bridge.ToolCall{ID: "1", Name: "bash", Args: map[string]any{"command": "ls"}}
	decide := func(call bridge.ToolCall, v bridge.Verdict) {
		call.ID = "" // the runtime's hook does not tell
		ctx, judged := Judge(ctx, call)
		SetRule(ctx, rule("tools.allow"))
		Wait(ctx).Done(v)
		judged.Judged(ctx, call, v, "because", true)
	}
	turn.See(bridge.ModelCalled{Model: "m"})
	turn.See(bridge.UsageReported{Usage: bridge.Usage{Model: "m-1", InputTokens: 10, OutputTokens: 2, CacheRead: 4}, Finish: "tool_calls", Call: &bridge.ModelCall{ID: "c1", FirstToken: time.Second}})
	decide(bash, bridge.Allow) // before the call is seen
	turn.See(bridge.ToolStarted{Call: bash})
	turn.See(bridge.ToolFinished{CallID: "1", OK: true})
	task := bridge.ToolCall{ID: "2", Name: "task"}
	turn.See(bridge.ToolStarted{Call: task})
	decide(task, bridge.Allow) // afterwards
	view := bridge.ToolCall{ID: "3", Name: "view", Parent: "2"}
	turn.See(bridge.ToolStarted{Call: view, AgentID: "sub"})
	turn.See(bridge.ToolFinished{CallID: "3", Code: "denied"})
	turn.See(bridge.UsageReported{Usage: bridge.Usage{Model: "m-1", InputTokens: 5, OutputTokens: 1}, AgentID: "sub"})
	turn.See(bridge.ModelFailed{Attempt: 1, Error: &bridge.Error{Code: bridge.CodeProvider, Status: 500, Message: "with words"}})
	decide(bridge.ToolCall{Name: "never started"}, bridge.Deny)
	turn.End(&bridge.Error{Code: bridge.CodeTimeout})
	request.Answered(r, "/v1/chat/completions", http.StatusOK, false)
	tr.Close(t.Context())

	const want = `mine: POST /v1/chat/completions
  mine: invoke_agent copilot
    mine: chat m
    mine: chat m-1
    mine: execute_tool bash
      mine: guard bash
        mine: guard wait
    mine: execute_tool task
      mine: chat m-1
      mine: execute_tool view
      mine: guard task
        mine: guard wait
    mine: guard never started
      mine: guard wait
`
	if got := c.Tree(); got != want {
		t.Errorf("%s", got)
	}
	if n := len(c.Spans("")); c.Sum(keyInputTokens) != 15 || c.Sum(keyOutputTokens) != 3 || n != 14 {
		t.Errorf("%d spans, %d in, %d out", n, c.Sum(keyInputTokens), c.Sum(keyOutputTokens))
	}
	for _, s := range c.Spans("") {
		if s.Trace != "0af7651916cd43dd8448eb211c80319c" || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStartTimeUnixNano() == 0 {
			t.Errorf("%s: trace %s, from %d to %d", s.GetName(), s.Trace, s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano())
		}
	}
	for _, want := range []struct {
		name, key string
		value     any
		failed    bool
	}{
		{"POST", keyStatusCode, int64(200), false}, {"invoke_agent", keyErrorType, "timeout", true}, {"invoke_agent", keyConversation, "s", true},
		{"chat m", keyStatusCode, int64(500), true}, {"execute_tool bash", keyVerdict, "allow", false}, {"execute_tool bash", keyRule, "tools.allow", false},
		{"execute_tool view", keyErrorType, "denied", true}, {"execute_tool task", keyErrorType, "unfinished", true}, {"guard never", keyVerdict, "deny", false},
	} {
		found := false
		for _, s := range c.Spans(want.name) {
			failed := s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR
			found = found || s.Attrs[want.key] == want.value && failed == want.failed
		}
		if !found {
			t.Errorf("no span %s with %s=%v", want.name, want.key, want.value)
		}
	}
	if root := c.Spans("POST")[0]; root.Parent != "b7ad6b7169203331" || root.GetKind() != trace.Span_SPAN_KIND_SERVER {
		t.Errorf("the parent is %q", root.Parent)
	}
	if _, headers := c.Requests(); headers[0].Get("X-Key") != "s ecret" || headers[0].Get("Y") != "2" {
		t.Errorf("%v", headers)
	}
	if out.String() != "" {
		t.Error(out)
	}
}

type rule string

func (r rule) String() string { return string(r) }

// Without an endpoint there is no tracer, and nothing of it costs or fails.
func TestOff(t *testing.T) {
	for _, environ := range [][]string{
		nil, {"OTEL_SERVICE_NAME=x"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=always_off"},
	} {
		tr, out := newTracer(t, environ...)
		if tr != nil || out.String() != "" {
			t.Errorf("%v: %v %s", environ, tr, out)
		}
	}
	var tr *Tracer
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	call := bridge.ToolCall{Name: "bash"}
	if n := testing.AllocsPerRun(100, func() {
		ctx, s := tr.Request(t.Context(), r, "")
		ctx, turn := tr.Turn(ctx, About{})
		ctx, judged := Judge(ctx, call)
		Wait(ctx).Done(bridge.Allow)
		judged.Judged(ctx, call, bridge.Allow, "", false)
		turn.See(bridge.TurnEnded{})
		turn.End(nil)
		s.Answered(r, "", 200, false)
	}); n > 1 { // of t.Context
		t.Errorf("%v allocations", n)
	}
}

// What is wrong with the variables is told in one line, without their values.
func TestSettingsThatAreWrong(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"
	for _, tc := range []struct {
		name    string
		environ []string
		told    []string
		off     bool
	}{
		{"endpoint", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4317"}, []string{"OTEL_EXPORTER_OTLP_ENDPOINT is not"}, true},
		{"user in it", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://me:hunter2@h"}, []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not"}, true},
		{"exporter", []string{at, "OTEL_TRACES_EXPORTER=zipkin"}, []string{"OTEL_TRACES_EXPORTER can be"}, true},
		{"protocol", []string{at, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, []string{"OTEL_EXPORTER_OTLP_PROTOCOL can only"}, false},
		{"several", []string{at, "OTEL_EXPORTER_OTLP_HEADERS=hunter2", "OTEL_EXPORTER_OTLP_TIMEOUT=soon", "OTEL_TRACES_SAMPLER=often", "OTEL_RESOURCE_ATTRIBUTES=hunter2", "TRACEPARENT=hunter2"},
			[]string{"_HEADERS is not", "_TIMEOUT is not", "_SAMPLER can be", "_ATTRIBUTES is not", "TRACEPARENT is not"}, false},
		{"ratio", []string{at, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=2"}, []string{"_SAMPLER_ARG is not"}, false},
		{"line break in a header", []string{at, "OTEL_EXPORTER_OTLP_HEADERS=a=b%0d%0ahunter2:x"}, []string{"_HEADERS is not"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr, out := newTracer(t, tc.environ...)
			got := out.String()
			if (tr == nil) != tc.off || strings.Count(got, "\n") != 1 || strings.Contains(got, "hunter2") {
				t.Errorf("%v: %s", tr, got)
			}
			for _, w := range tc.told {
				if !strings.Contains(got, w) {
					t.Errorf("%q is missing in %s", w, got)
				}
			}
		})
	}
}

func TestSettingsThatCount(t *testing.T) {
	s, wrong := read([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://traces/x", "OTEL_EXPORTER_OTLP_HEADERS=a=1",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=b=2", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=250", "TRACEPARENT=" + parentID}, "", "1")
	if wrong != nil || s.endpoint != "https://traces/x" || s.headers.Get("b") != "2" || s.headers.Get("a") != "" || s.timeout != 250*time.Millisecond || s.parent.String() != parentID {
		t.Errorf("%+v, %v", s, wrong)
	}
	if s, _ = read([]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://traces/x"}, "http://own:1", "1"); s.endpoint != "http://own:1/v1/traces" {
		t.Error(s.endpoint)
	}
}

func TestSamplers(t *testing.T) {
	low, high := [16]byte{}, [16]byte{8: 0xff, 9: 0xff}
	low[0] = 1
	yes, no := link{trace: low, span: [8]byte{1}, sampled: true}, link{trace: low, span: [8]byte{1}}
	for _, tc := range []struct {
		environ   string
		parent    link
		low, high bool
	}{
		{"", link{}, true, true}, {"", no, false, false}, {"always_on", no, true, true}, {"always_off", yes, false, false},
		{"parentbased_always_off", yes, true, true}, {"parentbased_always_off", link{}, false, false},
		{"traceidratio", yes, true, false}, {"parentbased_traceidratio", yes, true, true}, {"parentbased_traceidratio", link{}, true, false},
	} {
		s, _ := read([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_TRACES_SAMPLER=" + tc.environ, "OTEL_TRACES_SAMPLER_ARG=0.5"}, "", "")
		if a, b := s.sampler.keeps(tc.parent, low), s.sampler.keeps(tc.parent, high); a != tc.low || b != tc.high {
			t.Errorf("%s, parent %s: %t, %t", tc.environ, tc.parent, a, b)
		}
	}
	// What is below a trace that is not kept is not kept either.
	tr, _ := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Traceparent", strings.TrimSuffix(parentID, "1")+"0")
	ctx, s := tr.Request(t.Context(), r, "")
	_, turn := tr.Turn(ctx, About{})
	if s != nil || turn != nil {
		t.Error("a trace that its caller does not keep is kept")
	}
}

func TestParents(t *testing.T) {
	for _, bad := range []string{"", "00", "00-0-0-0", strings.ToUpper(parentID), parentID + "-x", "ff" + parentID[2:], "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0af7651916cd43dd8448eb211c80319z-b7ad6b7169203331-01"} {
		if l, ok := parseParent(bad); ok || l != (link{}) {
			t.Errorf("%q is taken for %s", bad, l)
		}
	}
	if l, ok := parseParent("cc" + parentID[2:] + "-later"); !ok || l.String() != parentID {
		t.Errorf("a later version: %s %t", l, ok)
	}
}

// A collector that is away for a moment loses nothing; one that refuses is not
// asked again.
func TestRetries(t *testing.T) {
	for name, tc := range map[string]struct {
		answer   func(int) int
		requests int
		dropped  int64
	}{
		"away":    {func(n int) int { return map[bool]int{true: 503, false: 200}[n < 3] }, 3, 0},
		"refused": {func(int) int { return 401 }, 1, 1},
		"gone":    {func(int) int { return 502 }, attempts, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := tracetest.New(t, tc.answer)
			tr, out := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=key=hunter2")
			tr.exporter.pause = time.Millisecond
			_, turn := tr.Turn(t.Context(), About{})
			turn.End(nil)
			tr.Close(t.Context())
			if n, _ := c.Requests(); n != tc.requests || tr.Dropped() != tc.dropped || strings.Contains(out.String(), "hunter2") || strings.Count(out.String(), "traces.dropped") != int(tc.dropped) {
				t.Errorf("%d requests, %d dropped\n%s", n, tr.Dropped(), out)
			}
		})
	}
}

// A collector that does not answer delays the end by no more than the bound, and
// holds up nothing before it.
func TestCollectorThatHangs(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	tr, out := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+l.Addr().String())
	began := time.Now()
	for range 2*queueMost + batchMost {
		_, turn := tr.Turn(t.Context(), About{})
		turn.End(nil)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("spans took %s", took)
	}
	began = time.Now()
	tr.Close(t.Context())
	if took := time.Since(began); took > closeMost+time.Second {
		t.Errorf("the end took %s", took)
	}
	if tr.Dropped() != 2*queueMost+batchMost || strings.Count(out.String(), "traces.dropped") != 1 {
		t.Errorf("%d dropped\n%s", tr.Dropped(), out)
	}
}

// The runtime's spans are passed on below the bridge's, without its timings and
// counts, and nobody else's.
func TestRelay(t *testing.T) {
	c := tracetest.New(t, nil)
	tr, _ := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	relay, err := tr.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	ctx, turn := tr.Turn(t.Context(), About{})
	parts := strings.Split(relay.Parent(ctx), "-")
	post := func(at, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	span := func(trace, name string) string {
		return `{"traceId":"` + trace + `","spanId":"00000000000000aa","parentSpanId":"` + parts[2] + `","name":"` + name + `","kind":3,"startTimeUnixNano":"1700000000000000000",
			"endTimeUnixNano":1700000001000000000,"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"7"}},{"key":"n","value":{"intValue":"7"}},
			{"key":"t","value":{"stringValue":"x"}},{"key":"b","value":{"boolValue":true}},{"key":"d","value":{"doubleValue":0.5}}],"status":{"code":2}}`
	}
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join([]string{span(parts[1], "chat m"), span(parts[1], "session.timing.x"), span(strings.Repeat("ab", 16), "other"), span("zz", "bad"), `{}`}, ",") + `]}]}]}`
	for at, want := range map[string]int{relay.URL() + "/v1/traces": 200, strings.TrimSuffix(relay.URL(), relay.path) + "/v1/traces": 404, relay.URL() + "/v1/logs": 404} {
		if got := post(at, body); got != want {
			t.Errorf("%s: %d", at, got)
		}
	}
	if got := post(relay.URL()+"/v1/traces", "protobuf"); got != http.StatusBadRequest {
		t.Error(got)
	}
	turn.End(nil)
	relay.Close()
	tr.Close(t.Context())
	got := c.Spans("chat")
	if n := len(c.Spans("")); n != 2 || len(got) != 1 {
		t.Fatalf("%s", c.Tree())
	}
	if s := got[0]; s.Service != runtimeService || s.Parent != c.Spans("invoke_agent")[0].ID || s.ID != "00000000000000aa" || len(s.Attrs) != 4 || s.Attrs["n"] != int64(7) ||
		s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano() != 1e9 || s.GetKind() != trace.Span_SPAN_KIND_CLIENT || s.GetStatus().GetCode() != trace.Status_STATUS_CODE_ERROR {
		t.Errorf("%v %v", s, s.Attrs)
	}
}

// Spans of many goroutines all arrive, whole.
func TestManyAtOnce(t *testing.T) {
	c := tracetest.New(t, nil)
	tr, _ := newTracer(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ctx, turn := tr.Turn(t.Context(), About{})
			for range 20 {
				call := bridge.ToolCall{ID: "1", Name: "bash"}
				all.Go(func() {
					ctx, judged := Judge(ctx, call)
					judged.Judged(ctx, call, bridge.Allow, "", false)
				})
				turn.See(bridge.ToolStarted{Call: call})
			}
			turn.End(nil)
		})
	}
	all.Wait()
	tr.Close(t.Context())
	if n := len(c.Spans("")); n != 20+20+20*20 {
		t.Errorf("%d spans", n)
	}
}
