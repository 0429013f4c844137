package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

const hello = `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`

func TestErrorTable(t *testing.T) {
	for _, c := range []struct {
		err    *bridge.Error
		status int
		typ    string
		code   string
		header map[string]string
	}{
		{&bridge.Error{Code: bridge.CodeInvalid}, 400, "invalid_request_error", "invalid_request", nil},
		{&bridge.Error{Code: bridge.CodeInvalid, Status: 413}, 413, "invalid_request_error", "invalid_request", nil},
		{&bridge.Error{Code: bridge.CodeNotFound}, 404, "invalid_request_error", "not_found", nil},
		{&bridge.Error{Code: bridge.CodeUnauthenticated}, 503, "server_error", "copilot_unavailable", map[string]string{"X-Should-Retry": "false"}},
		{&bridge.Error{Code: bridge.CodeDenied}, 403, "permission_error", "permission_denied", nil},
		{&bridge.Error{Code: bridge.CodeConsent}, 403, "permission_error", "consent_required", nil},
		{&bridge.Error{Code: bridge.CodeUnavailable}, 503, "server_error", "copilot_unavailable", nil},
		{&bridge.Error{Code: bridge.CodeCrashed}, 503, "server_error", "runtime_exited", nil},
		{&bridge.Error{Code: bridge.CodeBusy}, 429, "rate_limit_error", "rate_limit_exceeded", map[string]string{"Retry-After": "1"}},
		{&bridge.Error{Code: bridge.CodeBusy, RetryAfter: 1500 * time.Millisecond}, 429, "rate_limit_error", "rate_limit_exceeded", map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500"}},
		{&bridge.Error{Code: bridge.CodeRateLimited, RetryAfter: time.Minute}, 429, "rate_limit_error", "rate_limit_exceeded", map[string]string{"Retry-After": "60"}},
		{&bridge.Error{Code: bridge.CodeRateLimited}, 429, "rate_limit_error", "rate_limit_exceeded", map[string]string{"Retry-After": ""}},
		{&bridge.Error{Code: bridge.CodeTimeout}, 504, "server_error", "timeout", map[string]string{"X-Should-Retry": "false"}},
		{&bridge.Error{Code: bridge.CodeCanceled}, 499, "server_error", "canceled", nil},
		{&bridge.Error{Code: bridge.CodeProvider}, 503, "server_error", "copilot_unavailable", map[string]string{"X-Should-Retry": "false"}},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 500}, 503, "server_error", "copilot_unavailable", nil},
		{&bridge.Error{Code: bridge.CodeProvider, Status: 422}, 422, "invalid_request_error", "provider_error", nil},
		{&bridge.Error{Code: bridge.CodeBudget}, 429, "insufficient_quota", "insufficient_quota", map[string]string{"X-Should-Retry": "false", "Retry-After": ""}},
		{&bridge.Error{Code: bridge.CodeConflict}, 409, "invalid_request_error", "conflict", map[string]string{"X-Should-Retry": "false"}},
		{&bridge.Error{Code: bridge.CodeUnsupported}, 400, "invalid_request_error", "unsupported", nil},
		{&bridge.Error{Code: bridge.CodeInternal}, 500, "server_error", "internal_error", map[string]string{"X-Should-Retry": ""}},
	} {
		t.Run(fmt.Sprint(c.err.Code, c.err.Status), func(t *testing.T) {
			c.err.Message, c.err.Remedy = "It broke", "Mend it."
			w := post(t, fixed(plays(c.err)), "/v1/chat/completions", hello)
			e := readError(t, w).Error
			if w.Code != c.status || *e.Type != c.typ || e.Code == nil || *e.Code != c.code || e.Param != nil {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if !strings.HasSuffix(e.Message, "It broke. Mend it.") {
				t.Errorf("message: %q", e.Message)
			}
			for k, v := range c.header {
				if got := w.Header().Get(k); got != v {
					t.Errorf("%s: got %q, want %q", k, got, v)
				}
			}
		})
	}
}

// Every code that the domain has must be in the table.
func TestErrorTableIsComplete(t *testing.T) {
	for _, code := range domainCodes(t) {
		if _, ok := kinds[code]; !ok {
			t.Errorf("%s has no row of its own", code)
		}
	}
}

// domainCodes reads the codes from the source of the domain.
func domainCodes(t *testing.T) []bridge.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../bridge/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []bridge.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			code, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, bridge.Code(code))
		}
		return true
	})
	if len(codes) < 15 {
		t.Fatalf("found only %v", codes)
	}
	return codes
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&bridge.Error{Code: bridge.CodeUnavailable}, "Copilot unavailable"},
		{&bridge.Error{Code: bridge.CodeUnavailable, Message: "Copilot unavailable"}, "Copilot unavailable"},
		{&bridge.Error{Code: bridge.CodeUnavailable, Message: "no network"}, "Copilot unavailable: no network"},
		{&bridge.Error{Code: bridge.CodeUnauthenticated, Message: "not logged in", Remedy: "Run copilot-bridge login."}, "Copilot unavailable: not logged in. Run copilot-bridge login."},
		{&bridge.Error{Code: bridge.CodeUnavailable, Message: "no worker is ready", Remedy: "Start one.", Elsewhere: true}, "no worker is ready. Start one."},
		{errTest, "Internal error"},
		{&bridge.Error{Code: bridge.CodeInternal, Cause: errTest}, "Internal error"},
		{fmt.Errorf("wrapped: %w", &bridge.Error{Code: bridge.CodeBusy, Message: "Busy."}), "Busy."},
	} {
		if got := errorBody(c.err).Error.Message; got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

func TestInternalErrorsAreLoggedNotTold(t *testing.T) {
	var log bytes.Buffer
	d := fixed(plays(errTest))
	d.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := post(t, d, "/v1/chat/completions", hello)
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") || !strings.Contains(log.String(), "secret detail") {
		t.Errorf("told %d %s, logged %s", w.Code, w.Body, &log)
	}
}

func TestEndedBy(t *testing.T) {
	stopping := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the server stops"}
	ctx, cancel := context.WithCancelCause(t.Context())
	if got := wire.EndedBy(ctx, errTest); !errors.Is(got, errTest) {
		t.Errorf("before: %v", got)
	}
	cancel(stopping)
	if got := wire.EndedBy(ctx, context.Canceled); !errors.Is(got, stopping) {
		t.Errorf("after: %v", got)
	}
	gone, cancel2 := context.WithCancel(t.Context())
	cancel2()
	if got := wire.EndedBy(gone, errTest); !errors.Is(got, context.Canceled) {
		t.Errorf("client gone: %v", got)
	}
}

func TestOversizedAndMistypedBodies(t *testing.T) {
	d := fixed(plays(nil))
	d.opts.MaxBody = 100
	if w := post(t, d, "/v1/chat/completions", `{"model":"`+strings.Repeat("x", 200)+`"}`); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	} else {
		readError(t, w)
	}
}
