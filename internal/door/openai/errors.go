package openai

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// errorEnvelope is the body of every error answer and of an error event.
type errorEnvelope struct {
	Error errorObject `json:"error"`
}

// errorObject is OpenAI's error. Its empty strings are null on the wire,
// except for the message.
type errorObject struct {
	Message string
	Type    string
	Param   string
	Code    string
}

// MarshalJSON writes all four fields always, as the API does.
func (e errorObject) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Message string  `json:"message"`
		Type    *string `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}{e.Message, orNull(e.Type), orNull(e.Param), orNull(e.Code)})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// The values of an error's type.
const (
	typeInvalid   = "invalid_request_error"
	typeServer    = "server_error"
	typeRateLimit = "rate_limit_error"
	typeQuota     = "insufficient_quota"
)

// kind is a row of the table: what a code is called in this API.
type kind struct {
	typ  string
	code string
	// final asks client libraries, which repeat 409, 429 and 5xx by
	// themselves, not to: the outcome would be the same, or a whole turn would
	// run once more.
	final bool
}

// kindOf is the one table from the domain's codes to OpenAI's names. The
// status of each is in wire.Status.
func kindOf(c bridge.Code) kind {
	switch c {
	case bridge.CodeInvalid:
		return kind{typ: typeInvalid, code: "invalid_request"}
	case bridge.CodeNotFound:
		return kind{typ: typeInvalid, code: "not_found"}
	case bridge.CodeUnauthenticated:
		return kind{typ: "authentication_error", code: "invalid_api_key"}
	case bridge.CodeDenied:
		return kind{typ: "permission_error", code: "permission_denied"}
	case bridge.CodeConsent:
		return kind{typ: "permission_error", code: "consent_required"}
	case bridge.CodeUnavailable:
		return kind{typ: typeServer, code: "copilot_unavailable"}
	case bridge.CodeCrashed:
		return kind{typ: typeServer, code: "runtime_exited"}
	case bridge.CodeBusy, bridge.CodeRateLimited:
		return kind{typ: typeRateLimit, code: "rate_limit_exceeded"}
	case bridge.CodeTimeout:
		return kind{typ: typeServer, code: "timeout", final: true}
	case bridge.CodeCanceled:
		return kind{typ: typeServer, code: "canceled", final: true}
	case bridge.CodeProvider:
		// The runtime has already tried several times.
		return kind{typ: typeServer, code: "provider_error", final: true}
	case bridge.CodeBudget:
		return kind{typ: typeQuota, code: typeQuota, final: true}
	case bridge.CodeConflict:
		return kind{typ: typeInvalid, code: "conflict", final: true}
	case bridge.CodeUnsupported:
		return kind{typ: typeInvalid, code: "unsupported"}
	case bridge.CodeInternal:
		return kind{typ: typeServer, code: "internal_error"}
	}
	return kind{typ: typeServer, code: string(c)}
}

// named gives an error the param and the code that clients look for, where
// the table's are too general. Empty ones leave the table's.
type named struct {
	err   error
	param string
	code  string
}

func (n *named) Error() string { return n.err.Error() }
func (n *named) Unwrap() error { return n.err }

// errorBody returns err as the API shows it.
func errorBody(err error) errorEnvelope {
	e := bridge.AsError(err)
	k := kindOf(e.Code)
	body := errorObject{Message: sentence(e), Type: k.typ, Code: k.code, Param: wire.Path(err)}
	if e.Code == bridge.CodeProvider && e.Status >= 400 && e.Status < 500 {
		body.Type = typeInvalid
	}
	var n *named
	if errors.As(err, &n) {
		if n.param != "" {
			body.Param = n.param
		}
		if n.code != "" {
			body.Code = n.code
		}
	}
	return errorEnvelope{body}
}

// sentence is what a person reads: what was wrong, then what to do.
func sentence(e *bridge.Error) string {
	text := e.Error()
	switch {
	case e.Code == bridge.CodeInternal && e.Message == "":
		text = "Internal error" // the cause was not written for the client
	case e.Code == bridge.CodeInvalid && e.Message != "":
		text = e.Message // it names the place already
	}
	if e.Code == bridge.CodeUnavailable && !strings.HasPrefix(text, "Copilot unavailable") {
		text = strings.TrimSuffix("Copilot unavailable: "+text, ": ")
	}
	if e.Remedy == "" {
		return text
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text + " " + e.Remedy
}

// fail answers with an error, before anything else has been sent.
func (d *door) fail(w http.ResponseWriter, err error) {
	e := bridge.AsError(err)
	status := wire.Status(e)
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	} else if status == http.StatusTooManyRequests && e.Code != bridge.CodeBudget {
		h.Set("Retry-After", "1")
	}
	if kindOf(e.Code).final {
		h.Set("X-Should-Retry", "false")
	}
	d.logFailure(e)
	wire.JSON(w, status, errorBody(err))
}

// logFailure keeps what the client is not told.
func (d *door) logFailure(e *bridge.Error) {
	level := slog.LevelDebug
	if e.Code == bridge.CodeInternal {
		level = slog.LevelError
	}
	d.opts.Logger.Log(context.Background(), level, "request failed", "code", e.Code, "error", e.Error())
}

// endedBy returns why ctx ended, if it did: the client went away, or the
// server stops and says so. Otherwise it returns err.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
