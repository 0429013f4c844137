package openai

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

const streamHello = `{"model":"gpt-5","input":"Say hello","stream":true}`

// A client that hangs up in the middle ends the turn behind it.
func TestResponsesClientHangsUp(t *testing.T) {
	ended := make(chan error, 1)
	svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		for yield(bridge.TextDelta{Message: "m", Text: "more "}, nil) {
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			case <-time.After(time.Millisecond):
			}
		}
		ended <- ctx.Err()
	}}
	server := httptest.NewServer(New(svc, Options{}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/responses", strings.NewReader(streamHello))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: response.output_text.delta") {
	}
	cancel()
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the turn's context had not ended")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the turn goes on")
	}
}

// broken is a client that cannot be written to after some bytes.
type broken struct {
	header http.Header
	left   int
}

func (b *broken) Header() http.Header { return b.header }
func (b *broken) WriteHeader(int)     {}
func (b *broken) FlushError() error   { return nil }
func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("connection reset")
	}
	return len(p), nil
}

func TestResponsesClientThatDoesNotRead(t *testing.T) {
	ended := make(chan struct{})
	svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		defer close(ended)
		for yield(bridge.TextDelta{Message: "m", Text: "more"}, nil) {
		}
	}}
	New(svc, Options{}).ServeHTTP(&broken{header: http.Header{}, left: 4000},
		httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(streamHello)))
	select {
	case <-ended: // the handler waits for it
	default:
		t.Error("the handler has left its turn alone")
	}
}

// The answer may still have to come to its end after its last event, and what
// waits for the client's tools must not be aborted.
func TestResponsesLetTheTurnEnd(t *testing.T) {
	for _, body := range []string{streamHello, `{"model":"gpt-5","input":"Say hello"}`} {
		parked := false
		svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			yield(bridge.MessageDone{Message: "m", Calls: []bridge.ToolCall{{ID: "c", Name: "f"}}}, nil)
			parked = yield(bridge.TurnEnded{Reason: bridge.EndTools}, nil) && ctx.Err() == nil
		}}
		w := post(t, fixed(svc), "/v1/responses", body)
		if !parked || !strings.Contains(w.Body.String(), `"call_id":"c"`) {
			t.Errorf("%s: aborted, or no call: %s", body, w.Body)
		}
	}
}

// watched is a recorder that can be read while it is written to.
type watched struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResponseRecorder.Write(p)
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Body.String()
}

func TestResponsesStaySilentThenShowLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		w := &watched{ResponseRecorder: httptest.NewRecorder()}
		svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			for _, wait := range []time.Duration{19 * time.Second, 2 * time.Second, 10 * time.Second} {
				<-time.After(wait)
				synctest.Wait() // the handler does what its timer told it
				seen = append(seen, w.text())
			}
			yield(bridge.MessageDone{Message: "m", Text: "ok"}, nil)
			yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
		}}
		fixed(svc).mux().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(streamHello)))
		if seen[0] != "" {
			t.Errorf("after 19 s: %s", seen[0])
		}
		if !strings.HasPrefix(seen[1], "event: response.created\n") || strings.Contains(seen[1], "\n: ") {
			t.Errorf("after 21 s: %s", seen[1])
		}
		if !strings.HasSuffix(seen[2], "\n\n: keep-alive\n\n") {
			t.Errorf("after 31 s: %s", seen[2])
		}
		checkStream(t, strings.ReplaceAll(w.Body.String(), ": keep-alive\n\n", ""))
	})
}

// When the server stops it says so before and after a stream has begun.
func TestResponsesServerStops(t *testing.T) {
	stopping := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the server stops"}
	for _, begun := range []bool{false, true} {
		ctx, stop := context.WithCancelCause(t.Context())
		svc := &script{list: testModels(), answer: func(ctx context.Context, yield func(bridge.Event, error) bool) {
			if begun {
				yield(bridge.TextDelta{Message: "m", Text: "Hel"}, nil)
			}
			stop(stopping)
			<-ctx.Done()
			yield(nil, ctx.Err())
		}}
		w := httptest.NewRecorder()
		fixed(svc).mux().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(streamHello)).WithContext(ctx))
		body := w.Body.String()
		if !strings.Contains(body, "the server stops") {
			t.Errorf("begun %v: %s", begun, body)
		}
		if w.Code == http.StatusOK {
			checkStream(t, body)
		} else if begun {
			// The events that waited may be overtaken by the end, but then
			// nothing was sent.
			readError(t, w)
		}
	}
}

// Every code has a word in a failed response, and those that do not go away by
// trying again have one of the two after which Codex does not.
func TestFailedResponses(t *testing.T) {
	final := map[bridge.Code]bool{
		bridge.CodeInvalid: true, bridge.CodeNotFound: true, bridge.CodeUnauthenticated: true, bridge.CodeDenied: true, bridge.CodeConsent: true,
		bridge.CodeConflict: true, bridge.CodeUnsupported: true, bridge.CodeBudget: true, bridge.CodeQuota: true,
	}
	for _, code := range domainCodes(t) {
		got := failureCode(&bridge.Error{Code: code})
		if isFinal := got == "invalid_prompt" || got == "insufficient_quota"; got == "" || isFinal != final[code] {
			t.Errorf("%s fails with %q", code, got)
		}
	}
	for status, want := range map[int]string{0: "server_error", 400: "invalid_prompt", 408: "server_error", 429: "rate_limit_exceeded", 500: "server_error"} {
		if got := failureCode(&bridge.Error{Code: bridge.CodeProvider, Status: status}); got != want {
			t.Errorf("a provider's %d fails with %q, want %q", status, got, want)
		}
	}
}

func BenchmarkResponseDelta(b *testing.B) {
	out := wire.NewStream(nowhere{header: http.Header{}}, httptest.NewRequest(http.MethodPost, "/", nil))
	a := &responseAnswer{out: out, begun: true}
	b.ReportAllocs()
	for b.Loop() {
		a.write(" token")
		if err := out.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}
