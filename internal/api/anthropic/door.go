// Package anthropic is Anthropic's Messages API: POST /v1/messages and
// POST /v1/messages/count_tokens. It translates requests into bridge.Chat and
// events back into messages and their stream, and keeps no state between
// requests. Package httpserver, in front of it, does authentication, checks of
// Host and Origin, and the access log. docs/reference/compatibility/anthropic.md
// lists the fields that are honoured, ignored and refused.
package anthropic

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// Service answers what this API has understood. Its methods are called
// concurrently.
type Service = wire.Service

// Options tune the API.
type Options = wire.Options

type door struct {
	svc  Service
	opts Options
	id   func(prefix string) string // makes ids: the prefix and something random
}

// New returns the handler of /v1/messages and of errors in Anthropic's shape.
func New(svc Service, opts Options) http.Handler {
	return newDoor(svc, opts).mux()
}

func newDoor(svc Service, opts Options) *door {
	return &door{svc: svc, opts: opts.Defaults(), id: func(prefix string) string { return prefix + rand.Text() }}
}

func (d *door) mux() http.Handler {
	mux := http.NewServeMux()
	// The mux answers other methods and paths with plain text, which clients
	// cannot turn into their errors. So all of them have a handler.
	for path, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"/v1/messages":              d.messages,
		"/v1/messages/count_tokens": d.countTokens,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				err = wire.EndedBy(r.Context(), err)
				wire.Fail(w, d.opts.Logger, err, errorBody(err, d.nameRequest(w)))
			}
		})
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", http.MethodPost)
			d.refuse(w, http.StatusMethodNotAllowed, typeInvalid, fmt.Sprintf("%s is not possible on %s; use POST.", r.Method, r.URL.Path))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d.refuse(w, http.StatusNotFound, typeNotFound, fmt.Sprintf("There is no %s here. There are /v1/messages and /v1/messages/count_tokens.", r.URL.Path))
	})
	return mux
}

// read decodes a request and checks it.
func (d *door) read(w http.ResponseWriter, r *http.Request, why purpose) (*prompt, error) {
	var req request
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		return nil, err
	}
	return req.prompt(why)
}

func (d *door) messages(w http.ResponseWriter, r *http.Request) error {
	p, err := d.read(w, r, needsAnswer)
	if err != nil {
		return err
	}
	model, err := wire.Resolve(w, r, d.svc, p.model)
	if err != nil {
		return err
	}
	p.model = model.Name // as the API answers with the model that an alias means
	if len(p.dropped) > 0 {
		d.opts.Logger.DebugContext(r.Context(), "anthropic.tools_dropped: they run at Anthropic", "tools", p.dropped)
	}
	p.chat.Door = "anthropic"
	p.chat.Model, p.chat.Profile, p.chat.Worker = model.ID, model.Profile, model.Worker
	p.chat.Effort = p.effort.of(model.Model)
	p.chat.Whole = !p.stream
	d.nameRequest(w)
	return d.answer(w, r, p)
}

// countTokens answers with an estimate: the runtime counts only what a session
// already holds, and each model counts differently.
func (d *door) countTokens(w http.ResponseWriter, r *http.Request) error {
	p, err := d.read(w, r, justCount)
	if err != nil {
		return err
	}
	// Counting needs no model, so only one that does not exist is an error.
	if _, err := wire.Resolve(w, r, d.svc, p.model); bridge.CodeOf(err) == bridge.CodeNotFound {
		return err
	}
	d.nameRequest(w)
	wire.JSON(w, http.StatusOK, struct {
		InputTokens int64 `json:"input_tokens"`
	}{promptTokens(&p.chat)})
	return nil
}

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

// types are Anthropic's types of errors. wire.Status has the statuses.
var types = map[bridge.Code]string{
	bridge.CodeInvalid:         typeInvalid,
	bridge.CodeUnsupported:     typeInvalid,
	bridge.CodeConflict:        typeInvalid,
	bridge.CodeNotFound:        typeNotFound,
	bridge.CodeUnauthenticated: typeAPI, // see wire.CodeOf
	bridge.CodeDenied:          typePermission,
	bridge.CodeConsent:         typePermission,
	bridge.CodeUnavailable:     typeOverloaded,
	bridge.CodeCrashed:         typeOverloaded,
	bridge.CodeBusy:            typeRateLimit,
	bridge.CodeRateLimited:     typeRateLimit,
	bridge.CodeBudget:          typeRateLimit,
	bridge.CodeQuota:           typeRateLimit,
	bridge.CodeTimeout:         typeTimeout,
}

// providerTypes are the types of a provider's errors, by status.
var providerTypes = map[int]string{
	http.StatusUnauthorized:          typeAuthentication,
	http.StatusForbidden:             typePermission,
	http.StatusNotFound:              typeNotFound,
	http.StatusRequestEntityTooLarge: typeTooLarge,
	http.StatusTooManyRequests:       typeRateLimit,
	http.StatusServiceUnavailable:    typeOverloaded,
	statusOverloaded:                 typeOverloaded,
}

func typeOf(e *bridge.Error) string {
	switch {
	case e.Code == bridge.CodeInvalid && e.Status == http.StatusRequestEntityTooLarge:
		return typeTooLarge
	case e.Code == bridge.CodeProvider && providerTypes[e.Status] != "":
		return providerTypes[e.Status]
	case e.Code == bridge.CodeProvider && 400 <= e.Status && e.Status < 500:
		return typeInvalid
	}
	return cmp.Or(types[e.Code], typeAPI)
}

// threadLost marks the error for an unknown thread, for clients.
type threadLost struct{ error }

func (t threadLost) Unwrap() error { return t.error }

// errorBody returns err as the API shows it.
func errorBody(err error, requestID string) errorEnvelope {
	e := bridge.AsError(err)
	body := errorEnvelope{Type: "error", RequestID: requestID, Error: errorObject{Type: typeOf(e), Message: wire.Sentence(e)}}
	var lost threadLost
	switch {
	case errors.As(err, &lost):
		body.Error.Details = &details{"thread_not_found"}
	case e.Code == bridge.CodeConsent:
		body.Error.Details = &details{string(e.Code)}
	}
	return body
}

// refuse answers a request for a path or a method that there is not.
func (d *door) refuse(w http.ResponseWriter, status int, typ, message string) {
	wire.JSON(w, status, errorEnvelope{Type: "error", RequestID: d.nameRequest(w), Error: errorObject{Type: typ, Message: message}})
}

// nameRequest sets the header in which clients look for the id of a request. The
// server may have given it one.
func (d *door) nameRequest(w http.ResponseWriter) string {
	id := cmp.Or(w.Header().Get("Request-Id"), w.Header().Get("X-Request-Id"))
	if id == "" {
		id = d.id("req_")
	}
	w.Header().Set("Request-Id", id)
	return id
}
