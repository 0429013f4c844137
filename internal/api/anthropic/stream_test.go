package anthropic

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// limit is how long a test waits for what must happen.
const limit = 10 * time.Second

// await fails the test if what it waits for does not happen.
func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(limit):
		t.Errorf("%s did not happen", what)
	}
}

// connect starts a request of a real client, and returns the status and the
// body as it comes.
func connect(t *testing.T, d *door, body string) (int, *bufio.Reader) {
	t.Helper()
	server := httptest.NewServer(d.mux())
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	})
	return resp.StatusCode, bufio.NewReader(resp.Body)
}

// readTo reads up to a line that begins with these words.
func readTo(t *testing.T, r *bufio.Reader, words string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%q did not come: %v", words, err)
		}
		if strings.HasPrefix(line, words) {
			return
		}
	}
}

func TestErrorAfterFirstWord(t *testing.T) {
	read := make(chan struct{})
	svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		if !yield(bridge.TextDelta{Message: "m1", Text: "Hel"}, nil) {
			return
		}
		select {
		case <-read:
		case <-ctx.Done():
			return
		}
		yield(nil, &bridge.Error{Code: bridge.CodeCrashed, Message: "The runtime exited", Remedy: "Try again."})
	}}
	status, body := connect(t, fixed(svc, Options{}), askStream)
	readTo(t, body, `data: {"type":"content_block_delta"`)
	close(read)
	rest, err := io.ReadAll(body)
	want := "\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"The runtime exited. Try again.\"},\"request_id\":\"req_1\"}\n\n"
	if err != nil || string(rest) != want || status != http.StatusOK {
		t.Errorf("%d %q, %v", status, rest, err)
	}
}

// TestHangUp shows that a client which goes away ends the turn, whether it
// streams or waits for the whole.
func TestHangUp(t *testing.T) {
	for name, body := range map[string]string{"stream": askStream, "whole": ask} {
		t.Run(name, func(t *testing.T) {
			asked, ended := make(chan struct{}), make(chan struct{})
			svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
				defer close(ended)
				if !yield(bridge.TextDelta{Message: "m1", Text: "Hel"}, nil) {
					t.Error("nobody listens")
				}
				close(asked)
				<-ctx.Done()
				yield(nil, ctx.Err())
			}}
			server := httptest.NewServer(fixed(svc, Options{}).mux())
			defer server.Close()
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/messages", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp, err := server.Client().Do(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body) // until the test hangs up
				_ = resp.Body.Close()
			}()
			await(t, "the question", asked)
			hangUp()
			await(t, "the end of the turn", ended)
			await(t, "the end of the request", done)
		})
	}
}

// TestHangUpIsNoFault shows that a client that leaves does not fill the log
// with faults of ours.
func TestHangUpIsNoFault(t *testing.T) {
	asked := make(chan struct{})
	svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		yield(bridge.TextDelta{Message: "m1", Text: "Hel"}, nil)
		close(asked)
		<-ctx.Done()
	}}
	var log strings.Builder // read when the server has closed
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	server := httptest.NewServer(fixed(svc, Options{Logger: logger}).mux())
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/messages", strings.NewReader(askStream))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the question", asked)
	hangUp()
	_ = resp.Body.Close() // it says that we have left
	server.Close()
	if log.Len() > 0 {
		t.Errorf("it logged %s", log.String())
	}
}

// TestStopAborts shows that a turn is aborted after a stop sequence.
func TestStopAborts(t *testing.T) {
	left := make(chan struct{})
	svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		defer close(left)
		yield(bridge.UsageReported{Usage: bridge.Usage{Calls: 1, InputTokens: 33, OutputTokens: 4}}, nil)
		yield(bridge.TextDelta{Message: "m1", Text: "a END b"}, nil)
		<-ctx.Done()
	}}
	body := strings.Replace(askStream, `"stream"`, `"stop_sequences":["END"],"stream"`, 1)
	w := post(t, fixed(svc, Options{}), "/v1/messages", body)
	await(t, "leaving", left)
	if got := w.Body.String(); !strings.Contains(got, `"text":"a "`) || !strings.Contains(got, `{"stop_reason":"stop_sequence","stop_sequence":"END"},"usage":{"input_tokens":33,`) {
		t.Errorf("%s", got)
	}
}

// TestParkedIsNotAborted shows that the end of a message which waits for tools
// neither waits for the end of the sequence nor cuts it off.
func TestParkedIsNotAborted(t *testing.T) {
	read, ended := make(chan struct{}), make(chan error, 1)
	svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		calls := []bridge.ToolCall{{ID: "c1", Name: "run", Args: map[string]any{}}}
		yield(bridge.MessageDone{Message: "m1", Calls: calls}, nil)
		went := yield(bridge.TurnEnded{Reason: bridge.EndTools}, nil)
		select {
		case <-read:
		case <-ctx.Done():
		}
		if !went {
			ended <- errors.New("the loop was left")
			return
		}
		ended <- ctx.Err()
	}}
	_, body := connect(t, fixed(svc, Options{}), askStream)
	readTo(t, body, "event: message_stop")
	close(read)
	if err := <-ended; err != nil {
		t.Errorf("the parked turn was aborted: %v", err)
	}
}

// stuck is a client that has stopped reading.
type stuck struct {
	httptest.ResponseRecorder
}

func (*stuck) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestSlowClient(t *testing.T) {
	ended := make(chan struct{})
	svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
		defer close(ended)
		for yield(bridge.TextDelta{Message: "m1", Text: "more "}, nil) {
			if ctx.Err() != nil {
				return
			}
		}
	}}
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(askStream))
	fixed(svc, Options{}).mux().ServeHTTP(&stuck{}, r)
	await(t, "the end of the turn", ended)
}

// TestSilence shows the signs of life: none for a while, so that an error can
// have its own status, then the beginning of the message, then pings.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := &player{play: func(_ context.Context, yield func(bridge.Event, error) bool) {
			time.Sleep(19 * time.Second) // the bubble's time
			yield(bridge.ToolProgress{CallID: "t1", Text: "not shown"}, nil)
			time.Sleep(12 * time.Second)
			yield(bridge.TextDelta{Message: "m1", Text: "Hi"}, nil)
			time.Sleep(9 * time.Second)
			yield(bridge.ToolProgress{CallID: "t1", Text: "not shown, so silence goes on"}, nil)
			time.Sleep(12 * time.Second)
			yield(bridge.MessageDone{Message: "m1", Text: "Hi"}, nil)
			yield(bridge.TurnEnded{Reason: bridge.EndDone}, nil)
		}}
		w := post(t, fixed(svc, Options{}), "/v1/messages", askStream)
		var names []string
		for line := range strings.Lines(w.Body.String()) {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		// At 20 s, 30 s, 31 s, 41 s, 51 s and 52 s.
		want := "message_start ping ping content_block_start content_block_delta ping ping content_block_stop message_delta message_stop"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestErrorWithinPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := &player{play: func(_ context.Context, yield func(bridge.Event, error) bool) {
			time.Sleep(19 * time.Second) // the bubble's time
			yield(nil, &bridge.Error{Code: bridge.CodeProvider, Status: 500, Message: "broken"})
		}}
		if w := post(t, fixed(svc, Options{}), "/v1/messages", askStream); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// watched tells when something has been sent.
type watched struct {
	*httptest.ResponseRecorder
	flushed chan struct{}
	once    sync.Once
}

func (w *watched) Flush() { w.once.Do(func() { close(w.flushed) }) }

// TestShutdown shows what clients are told when the server stops under them.
func TestShutdown(t *testing.T) {
	for name, test := range map[string]struct {
		body   string
		speaks bool
		want   string
	}{
		"stream":         {askStream, true, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Copilot unavailable: the server stops\"},\"request_id\":\"req_1\"}\n\n"},
		"silent stream":  {askStream, false, `{"type":"error","error":{"type":"overloaded_error","message":"Copilot unavailable: the server stops"},"request_id":"req_1"}`},
		"whole document": {ask, false, `{"type":"error","error":{"type":"overloaded_error","message":"Copilot unavailable: the server stops"},"request_id":"req_1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			w := &watched{ResponseRecorder: httptest.NewRecorder(), flushed: make(chan struct{})}
			svc := &player{play: func(ctx context.Context, yield func(bridge.Event, error) bool) {
				if test.speaks {
					yield(bridge.TextDelta{Message: "m1", Text: "Hi"}, nil)
					await(t, "the first word", w.flushed)
				}
				stop(&bridge.Error{Code: bridge.CodeUnavailable, Message: "the server stops"})
				<-ctx.Done()
				yield(nil, ctx.Err())
			}}
			r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(test.body)).WithContext(ctx)
			fixed(svc, Options{}).mux().ServeHTTP(w, r)
			if got := w.Body.String(); !strings.HasSuffix(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestErrorAfterEnd shows that nothing follows a message that is complete.
func TestErrorAfterEnd(t *testing.T) {
	w := post(t, fixed(plays(errors.New("too late"), says("Hi")...), Options{}), "/v1/messages", askStream)
	if got := w.Body.String(); !strings.HasSuffix(got, "data: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("%d %s", w.Code, got)
	}
}

// TestUnfinished shows that a sequence which just ends is no answer.
func TestUnfinished(t *testing.T) {
	for _, body := range []string{ask, askStream} {
		for _, last := range []bridge.Event{bridge.ToolProgress{}, bridge.TurnEnded{Reason: bridge.EndFailed}} {
			if w := post(t, fixed(plays(nil, last), Options{}), "/v1/messages", body); w.Code != http.StatusInternalServerError {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	}
}
