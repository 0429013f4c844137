package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const ask = `{"model":"claude-sonnet-4-5","max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`
const askStream = `{"model":"claude-sonnet-4-5","max_tokens":99,"stream":true,"messages":[{"role":"user","content":"hi"}]}`

// TestErrorTable holds status, type, message and headers of every code.
func TestErrorTable(t *testing.T) {
	for _, test := range []struct {
		err     error
		status  int
		typ     string
		message string
		retry   string // Retry-After
		final   bool
	}{
		{&bridge.Error{Code: bridge.CodeInvalid, Message: "bad"}, 400, "invalid_request_error", "bad", "", false},
		{&bridge.Error{Code: bridge.CodeInvalid, Status: 413, Message: "long"}, 413, "request_too_large", "long", "", false},
		{&bridge.Error{Code: bridge.CodeInvalid, Status: 415, Message: "odd"}, 415, "invalid_request_error", "odd", "", false},
		{&bridge.Error{Code: bridge.CodeUnsupported, Message: "cannot"}, 400, "invalid_request_error", "cannot", "", false},
		{&bridge.Error{Code: bridge.CodeConflict, Message: "busy with another"}, 409, "invalid_request_error", "busy with another", "", true},
		{&bridge.Error{Code: bridge.CodeNotFound, Message: "none"}, 404, "not_found_error", "none", "", false},
		{&bridge.Error{Code: bridge.CodeUnauthenticated, Message: "Not logged in.", Remedy: "Run copilot-bridge login."}, 503, "api_error", "Copilot unavailable: Not logged in. Run copilot-bridge login.", "", true},
		{&bridge.Error{Code: bridge.CodeDenied, Message: "no"}, 403, "permission_error", "no", "", false},
		{&bridge.Error{Code: bridge.CodeUnavailable, Message: "Copilot unavailable"}, 503, "overloaded_error", "Copilot unavailable", "", false},
		{&bridge.Error{Code: bridge.CodeUnavailable, Cause: errors.New("no runtime")}, 503, "overloaded_error", "Copilot unavailable: no runtime", "", false},
		{&bridge.Error{Code: bridge.CodeUnavailable, Message: "no worker is ready", Elsewhere: true}, 503, "overloaded_error", "no worker is ready", "", false},
		{&bridge.Error{Code: bridge.CodeCrashed, Message: "The runtime exited"}, 503, "overloaded_error", "The runtime exited", "", false},
		{&bridge.Error{Code: bridge.CodeBusy, Message: "full"}, 429, "rate_limit_error", "full", "1", false},
		{&bridge.Error{Code: bridge.CodeRateLimited, Message: "slow down", RetryAfter: 2500 * time.Millisecond}, 429, "rate_limit_error", "slow down", "3", false},
		{&bridge.Error{Code: bridge.CodeBudget, Message: "spent"}, 429, "rate_limit_error", "spent", "", true},
		{&bridge.Error{Code: bridge.CodeRateLimited, Message: "slow down"}, 429, "rate_limit_error", "slow down", "", false},
		{&bridge.Error{Code: bridge.CodeTimeout, Message: "late"}, 504, "timeout_error", "late", "", true},
		{context.DeadlineExceeded, 504, "timeout_error", "context deadline exceeded", "", true},
		{&bridge.Error{Code: bridge.CodeCanceled, Message: "gone"}, 499, "api_error", "gone", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Message: "broken"}, 503, "api_error", "Copilot unavailable: broken", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 400, Message: "too long"}, 400, "invalid_request_error", "too long", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 401, Message: "key"}, 401, "authentication_error", "key", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 403, Message: "no"}, 403, "permission_error", "no", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 404, Message: "none"}, 404, "not_found_error", "none", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 413, Message: "long"}, 413, "request_too_large", "long", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 429, Message: "slow"}, 429, "rate_limit_error", "slow", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 500, Message: "broken"}, 503, "api_error", "Copilot unavailable: broken", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 504, Message: "late"}, 503, "api_error", "Copilot unavailable: late", "", true},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 529, Message: "busy"}, 503, "overloaded_error", "Copilot unavailable: busy", "", true},
		{&bridge.Error{Code: bridge.CodeInternal, Message: "A fault of ours"}, 500, "api_error", "A fault of ours", "", false},
		{errors.New("/secret/path is broken"), 500, "api_error", "Internal error", "", false},
		{&bridge.Error{Code: "unheard of", Message: "odd"}, 500, "api_error", "odd", "", false},
	} {
		for _, body := range []string{ask, askStream} {
			w := post(t, fixed(plays(test.err), Options{}), "/v1/messages", body)
			var got errorEnvelope
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %v in %s", test.err, err, w.Body)
			}
			want := errorEnvelope{Type: "error", Error: errorObject{Type: test.typ, Message: test.message}, RequestID: "req_1"}
			if w.Code != test.status || got != want {
				t.Errorf("%v: got %d %+v, want %d %+v", test.err, w.Code, got, test.status, want)
			}
			if got := w.Header().Get("Retry-After"); got != test.retry {
				t.Errorf("%v: Retry-After %q, want %q", test.err, got, test.retry)
			}
			if got := w.Header().Get("X-Should-Retry") == "false"; got != test.final {
				t.Errorf("%v: X-Should-Retry: %v", test.err, got)
			}
		}
	}
}

func TestUnknownModel(t *testing.T) {
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		w := post(t, fixed(plays(nil), Options{}), path, strings.ReplaceAll(ask, "claude-sonnet-4-5", "nobody"))
		want := `{"type":"error","error":{"type":"not_found_error","message":"There is no model \"nobody\". There are claude-sonnet-4.5 and gpt-5-mini."},"request_id":"req_1"}`
		if got := w.Body.String(); w.Code != http.StatusNotFound || got != want {
			t.Errorf("%s: %d %s", path, w.Code, got)
		}
	}
}

func TestAnotherModelInstead(t *testing.T) {
	for _, body := range []string{ask, askStream} {
		w := post(t, fixed(plays(nil, says("hi")...), Options{}), "/v1/messages", strings.ReplaceAll(body, "claude-sonnet-4-5", "anything"))
		if w.Code != http.StatusOK || w.Header().Get("X-Copilot-Bridge-Model") != "claude-sonnet-4.5" || !strings.Contains(w.Body.String(), `"model":"claude-sonnet-4.5"`) {
			t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
		}
	}
	w := post(t, fixed(plays(nil), Options{}), "/v1/messages/count_tokens", strings.ReplaceAll(ask, "claude-sonnet-4-5", "anything"))
	if w.Code != http.StatusOK || w.Header().Get("X-Copilot-Bridge-Model") != "claude-sonnet-4.5" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

// TestCountWithoutCopilot shows that counting needs no Copilot.
func TestCountWithoutCopilot(t *testing.T) {
	svc := &player{down: &bridge.Error{Code: bridge.CodeUnavailable, Message: "down"}}
	if w := post(t, fixed(svc, Options{}), "/v1/messages/count_tokens", ask); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(t, fixed(svc, Options{}), "/v1/messages", ask); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTooLarge(t *testing.T) {
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		w := post(t, fixed(plays(nil), Options{MaxBody: 64}), path, ask)
		if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), `"type":"request_too_large","message":"the body is larger than 64 bytes. Send`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestMethodsAndPaths(t *testing.T) {
	handler := New(plays(nil), Options{})
	for _, test := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/messages", 405, "GET is not possible on /v1/messages; use POST."},
		{"DELETE", "/v1/messages/count_tokens", 405, "use POST"},
		{"POST", "/v1/messages/batches", 404, "There is no /v1/messages/batches here. There are /v1/messages and /v1/messages/count_tokens."},
		{"GET", "/v1/messages/batches/1", 404, "not_found_error"},
		{"POST", "/v1/complete", 404, "There is no /v1/complete here."},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "from-the-front")
		handler.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, w.Body)
		}
		if w.Header().Get("Request-Id") != "from-the-front" || !strings.Contains(w.Body.String(), `"request_id":"from-the-front"`) {
			t.Errorf("%s %s: the request's id is lost: %s", test.method, test.path, w.Body)
		}
		if allow := w.Header().Get("Allow"); (allow == "POST") != (test.status == 405) {
			t.Errorf("%s %s: Allow %q", test.method, test.path, allow)
		}
	}
}
