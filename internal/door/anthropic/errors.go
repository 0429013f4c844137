package anthropic

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// The values of an error's type.
const (
	typeInvalid        = "invalid_request_error"
	typeAuthentication = "authentication_error"
	typePermission     = "permission_error"
	typeNotFound       = "not_found_error"
	typeTooLarge       = "request_too_large"
	typeRateLimit      = "rate_limit_error"
	typeAPI            = "api_error"
	typeOverloaded     = "overloaded_error"
	typeTimeout        = "timeout_error"
)

// statusOverloaded is Anthropic's own status.
const statusOverloaded = 529

// errorEnvelope is the body of every error answer and of an error event.
type errorEnvelope struct {
	Type      string      `json:"type"`
	Error     errorObject `json:"error"`
	RequestID string      `json:"request_id,omitempty"`
}

type errorObject struct {
	Type    string   `json:"type"`
	Message string   `json:"message"`
	Details *details `json:"details,omitempty"`
}

// details names a cause that clients act on.
type details struct {
	Code string `json:"error_code"`
}

// kindOfError is a row of the table: what a code is called in this API.
type kindOfError struct {
	typ string
	// final asks client libraries, which repeat 409, 429 and 5xx by
	// themselves, not to: the outcome would be the same, or a whole turn would
	// run once more.
	final bool
}

// kindOf is the one table from the domain's codes to Anthropic's names. The
// status of each is in wire.Status.
func kindOf(e *bridge.Error) kindOfError {
	switch e.Code {
	case bridge.CodeInvalid:
		if e.Status == http.StatusRequestEntityTooLarge {
			return kindOfError{typ: typeTooLarge}
		}
		return kindOfError{typ: typeInvalid}
	case bridge.CodeUnsupported:
		return kindOfError{typ: typeInvalid}
	case bridge.CodeConflict:
		return kindOfError{typ: typeInvalid, final: true}
	case bridge.CodeNotFound:
		return kindOfError{typ: typeNotFound}
	case bridge.CodeUnauthenticated:
		return kindOfError{typ: typeAuthentication}
	case bridge.CodeDenied, bridge.CodeConsent:
		return kindOfError{typ: typePermission}
	case bridge.CodeUnavailable, bridge.CodeCrashed:
		return kindOfError{typ: typeOverloaded}
	case bridge.CodeBusy, bridge.CodeRateLimited:
		return kindOfError{typ: typeRateLimit}
	case bridge.CodeBudget:
		return kindOfError{typ: typeRateLimit, final: true}
	case bridge.CodeTimeout:
		return kindOfError{typ: typeTimeout, final: true}
	case bridge.CodeCanceled:
		return kindOfError{typ: typeAPI, final: true}
	case bridge.CodeProvider:
		// The runtime has already tried several times.
		return kindOfError{typ: ofStatus(e.Status), final: true}
	case bridge.CodeInternal:
		return kindOfError{typ: typeAPI}
	}
	return kindOfError{typ: typeAPI}
}

// ofStatus is the type of an error that a provider answered with.
func ofStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return typeAuthentication
	case http.StatusForbidden:
		return typePermission
	case http.StatusNotFound:
		return typeNotFound
	case http.StatusRequestEntityTooLarge:
		return typeTooLarge
	case http.StatusTooManyRequests:
		return typeRateLimit
	case http.StatusServiceUnavailable, statusOverloaded:
		return typeOverloaded
	case http.StatusGatewayTimeout:
		return typeTimeout
	}
	if 400 <= status && status < 500 {
		return typeInvalid
	}
	return typeAPI
}

// threadLost marks the error for a thread that is not known, so that clients
// can tell it from others.
type threadLost struct{ error }

func (t threadLost) Unwrap() error { return t.error }

// errorBody returns err as the API shows it.
func errorBody(err error, requestID string) errorEnvelope {
	e := bridge.AsError(err)
	body := errorEnvelope{Type: "error", RequestID: requestID, Error: errorObject{Type: kindOf(e).typ, Message: text(e)}}
	var lost threadLost
	switch {
	case errors.As(err, &lost):
		body.Error.Details = &details{"thread_not_found"}
	case e.Code == bridge.CodeConsent:
		body.Error.Details = &details{string(e.Code)}
	}
	return body
}

// text is what a person reads: what was wrong, then what to do.
func text(e *bridge.Error) string {
	s := e.Error()
	switch {
	case e.Code == bridge.CodeInternal && e.Message == "":
		s = "Internal error" // the cause was not written for people, nor for other machines
	case e.Code == bridge.CodeInvalid && e.Message != "":
		s = e.Message // the cause only carries the place
	case e.Code == bridge.CodeUnavailable && !strings.HasPrefix(s, "Copilot unavailable"):
		s = join(": ", "Copilot unavailable", s)
	}
	if e.Remedy == "" {
		return s
	}
	return strings.TrimSuffix(s, ".") + ". " + e.Remedy
}

// fail answers with an error, before anything else has been sent.
func (d *door) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = endedBy(r.Context(), err)
	e := bridge.AsError(err)
	status, h := wire.Status(e), w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	} else if status == http.StatusTooManyRequests && e.Code != bridge.CodeBudget {
		h.Set("Retry-After", "1")
	}
	if kindOf(e).final {
		h.Set("X-Should-Retry", "false")
	}
	d.logFailure(e)
	h.Set("Request-Id", d.requestID(w))
	wire.JSON(w, status, errorBody(err, h.Get("Request-Id")))
}

// refuse answers what no handler is there for.
func (d *door) refuse(w http.ResponseWriter, status int, typ, message string) {
	id := d.requestID(w)
	w.Header().Set("Request-Id", id)
	wire.JSON(w, status, errorEnvelope{Type: "error", RequestID: id, Error: errorObject{Type: typ, Message: message}})
}

// requestID is the one that the front has given to the request, under the
// name that this API's clients look for.
func (d *door) requestID(w http.ResponseWriter) string {
	for _, name := range [...]string{"Request-Id", "X-Request-Id"} {
		if id := w.Header().Get(name); id != "" {
			return id
		}
	}
	return d.id("req_")
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
