package front

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// journal keeps what is logged. It may be written to concurrently.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

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
		Bytes, Duration          int64
		RequestID                string `json:"request_id"`
		UserAgent                string `json:"user_agent"`
	}
	line, _, _ := strings.Cut(log.String(), "\n")
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatal(err)
	}
	want := "POST /v1/messages body-secret"
	if entry.Level != "DEBUG" || entry.Method != http.MethodPost || entry.Path != "/v1/messages" || entry.Status != 200 || entry.Bytes != int64(len(want)) ||
		entry.Duration <= 0 || entry.RequestID != "id-7" || !strings.HasPrefix(entry.UserAgent, "agent/1") || len(entry.UserAgent) > 210 {
		t.Errorf("%s", line)
	}
	for _, secret := range []string{"t0ken", "secret"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is in the log", secret)
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
