package httpserver

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/programtest"
)

// journal keeps the log.
type journal struct{ programtest.Output }

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestPanics(t *testing.T) {
	var log journal
	r := start(t, Options{Logger: log.logger(), Doors: map[string]http.Handler{
		"/v1/chat/completions": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("kaputt") }),
		"/v1/messages":         http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(io.ErrUnexpectedEOF) }),
		"/late": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := wire.NewStream(w, r).Data("x"); err != nil {
				t.Error(err)
			}
			panic("too late")
		}),
		"/abort": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	}})
	id := map[string]string{"X-Request-Id": "id-1"}
	got := r.do(t, http.MethodPost, "/v1/chat/completions", id, "")
	if got.status != 500 || !strings.Contains(got.body, `"code":"internal_error"`) || !strings.Contains(got.body, "id-1") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if strings.Contains(got.body, "kaputt") || strings.Contains(got.body, ".go:") {
		t.Errorf("the answer says too much: %s", got.body)
	}
	if got := r.do(t, http.MethodPost, "/v1/messages", id, ""); got.status != 500 || !strings.Contains(got.body, `"type":"api_error"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, text := range []string{"kaputt", "unexpected EOF", "exchange_test.go", "id-1"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not say %q", text)
		}
	}
	for _, path := range []string{"/late", "/abort"} {
		resp, err := r.client.Get(r.URL() + path)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s looks whole to the client", path)
		}
	}
	if got := r.get(t, "/healthz"); got.status != 200 {
		t.Errorf("afterwards %d", got.status)
	}
}

func TestRequestID(t *testing.T) {
	r := start(t, Options{})
	for given, kept := range map[string]bool{"abc-1.2_3": true, "": false, "a b": false, "é": false, strings.Repeat("x", 65): false, strings.Repeat("x", 64): true, "<script>": false} {
		got := r.do(t, http.MethodGet, "/healthz", map[string]string{"X-Request-Id": given}, "").header
		id := got.Get("X-Request-Id")
		if (id == given) != kept || id == "" || got.Get("Request-Id") != id {
			t.Errorf("given %q, got %q", given, id)
		}
	}
	if a, b := requestID(""), requestID(""); a == b {
		t.Error("ids repeat")
	}
}

func TestAccessLog(t *testing.T) {
	var log journal
	r := start(t, Options{Logger: log.logger(), Token: "t0ken", Doors: echoDoors})
	header := map[string]string{"Authorization": "Bearer t0ken", "User-Agent": "agent/1 " + strings.Repeat("x", 1000), "X-Request-Id": "id-7", "X-Other": "header-secret"}
	r.do(t, http.MethodPost, "/v1/messages?key=query-secret", header, "body-secret")
	if err := r.finish(t); err != nil {
		t.Error(err)
	}
	var entry struct {
		Level, Msg, Method, Path string
		Status                   int
		Bytes                    int64
		RequestID                string `json:"request_id"`
		UserAgent                string `json:"user_agent"`
	}
	line, _, _ := strings.Cut(log.String(), "\n")
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatal(err)
	}
	want := "POST /v1/messages body-secret"
	if entry.Level != "INFO" || entry.Msg != "request" || entry.Method != http.MethodPost || entry.Path != "/v1/messages?…" || entry.Status != 200 || entry.Bytes != int64(len(want)) ||
		entry.RequestID != "id-7" || !strings.HasPrefix(entry.UserAgent, "agent/1") || len(entry.UserAgent) > 210 {
		t.Errorf("%s", line)
	}
	for _, secret := range []string{"t0ken", "secret"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

// TestRequestLine holds the fields of a request's line in the log.
func TestRequestLine(t *testing.T) {
	var log journal
	left, over := make(chan struct{}), make(chan struct{})
	turn := func(f func(w http.ResponseWriter, r *http.Request, facts *wire.Facts)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, wire.FactsOf(r.Context())) })
	}
	r := start(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Doors: map[string]http.Handler{
		"POST /whole": turn(func(w http.ResponseWriter, _ *http.Request, f *wire.Facts) {
			f.Requested, f.Model = "claude-opus-9", "gpt-5"
			for _, ev := range []bridge.Event{bridge.TextDelta{Text: "sub", AgentID: "a"}, bridge.UsageReported{Usage: bridge.Usage{InputTokens: 7}},
				bridge.MessageDone{Text: "x"}, bridge.TurnEnded{Reason: bridge.EndDone, Usage: bridge.Usage{InputTokens: 120, OutputTokens: 45}}} {
				f.See(ev)
			}
			wire.JSON(w, 200, "x")
		}),
		"POST /fails": turn(func(w http.ResponseWriter, r *http.Request, f *wire.Facts) {
			f.Requested, f.Model = "gpt-5", "gpt-5"
			f.See(bridge.TurnEnded{Reason: bridge.EndFailed})
			_ = wire.NewStream(w, r).Data("error")
		}),
		"POST /unknown": turn(func(w http.ResponseWriter, _ *http.Request, f *wire.Facts) {
			f.Requested = strings.Repeat("n", 500)
			wire.JSON(w, 404, "x")
		}),
		"POST /left": turn(func(w http.ResponseWriter, r *http.Request, f *wire.Facts) {
			_, _ = io.Copy(io.Discard, r.Body)
			f.Requested, f.Model = "gpt-5", "gpt-5"
			out := wire.NewStream(w, r)
			_ = out.Data("one")
			close(left)
			<-r.Context().Done()
			_ = out.Data("two")
			close(over)
		}),
	}})
	for _, path := range []string{"/whole", "/fails", "/unknown", "/nowhere"} {
		r.do(t, http.MethodPost, path, nil, "")
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r.get(t, path)
	}
	r.do(t, http.MethodHead, "/", nil, "")
	conn := r.dial(t)
	if _, err := io.WriteString(conn, "POST /left HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-left
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-over
	if err := r.finish(t); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := []string{
		`msg=request method=POST path=/whole model=gpt-5 requested=claude-opus-9 status=200 in=120 out=45 first=[0-9.]+m?s total=[0-9.]+m?s request_id=req_\w+$`,
		`msg=request method=POST path=/fails model=gpt-5 status=200 total=[0-9.]+m?s ended=failed request_id=`,
		`msg=request method=POST path=/unknown requested=n{128}… status=404 total=`,
		`msg=request method=POST path=/nowhere status=404 total=`,
		`msg=request method=POST path=/left model=gpt-5 status=499 total=[0-9.]+m?s ended="client left" request_id=`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log.String())
	}
	for i, line := range lines {
		if !regexp.MustCompile(want[i]).MatchString(line) {
			t.Errorf("%s\nwant %s", line, want[i])
		}
	}
}

func TestNotice(t *testing.T) {
	r := start(t, Options{Notice: "Answers are rehearsed — not “Copilot’s”…\r\nX-Evil: 1 \x1b[31m é"})
	for _, path := range []string{"/", "/healthz", "/nowhere"} {
		if got := r.get(t, path).header.Get("X-Copilot-Bridge-Notice"); got != `Answers are rehearsed - not "Copilot's"...? X-Evil: 1 ?[31m ?` {
			t.Errorf("%s: %q", path, got)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/"} {
		if got := start(t, Options{Notice: "x", Token: "t"}).get(t, path).header; got.Values("X-Copilot-Bridge-Notice") != nil {
			t.Errorf("without the token %s has %v", path, got)
		}
	}
	long := start(t, Options{Notice: strings.Repeat("é", 1000)}).get(t, "/healthz").header.Get("X-Copilot-Bridge-Notice")
	if len(long) > 600 || strings.Trim(long, "?.") != "" {
		t.Errorf("a long notice: %q", long)
	}
	if got := start(t, Options{}).get(t, "/healthz").header; got.Values("X-Copilot-Bridge-Notice") != nil {
		t.Errorf("headers %v", got)
	}
}

// TestHealthIsAskedOnce in a while, however many want to know.
func TestHealthIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := prober{check: func(ctx context.Context) Health {
			asked++
			if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
				t.Errorf("context %v", ctx)
			}
			return Health{OK: true, Ready: asked > 1}
		}}
		gone, leave := context.WithCancel(t.Context())
		leave()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { p.health(gone) })
		}
		wg.Wait()
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		<-time.After(freshness - 1)
		if p.health(t.Context()).Ready {
			t.Error("asked again too early")
		}
		<-time.After(1)
		if !p.health(t.Context()).Ready || asked != 2 {
			t.Error("not asked again")
		}
	})
}
