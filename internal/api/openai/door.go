// Package openai is OpenAI's HTTP API: chat completions, responses and the list
// of models. It translates requests into bridge.Chat and events back into
// OpenAI's JSON, and keeps no state between requests. Package httpserver, in
// front of it, does authentication, checks of Host and Origin, and the access
// log. docs/reference/compatibility.md lists the fields that are honoured,
// ignored and refused.
package openai

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// Service answers what this API has understood. Its methods are called
// concurrently.
type Service interface {
	// Models lists every model as chat and as "agent/<id>".
	Models(ctx context.Context) ([]bridge.ChatModel, error)
	wire.Service
}

// Options tune the API.
type Options = wire.Options

type door struct {
	svc  Service
	opts Options
	now  func() time.Time           // tests fix it
	id   func(prefix string) string // makes ids: the prefix and something random
}

// New returns the handler of the paths under /v1/ and of errors in OpenAI's shape.
func New(svc Service, opts Options) http.Handler {
	return newDoor(svc, opts).mux()
}

func newDoor(svc Service, opts Options) *door {
	return &door{svc: svc, opts: opts.Defaults(), now: time.Now, id: func(prefix string) string { return prefix + rand.Text() }}
}

func (d *door) mux() http.Handler {
	mux := http.NewServeMux()
	// The mux answers other methods and paths with plain text, which clients
	// cannot turn into their errors. So all of them have a handler.
	for _, route := range []struct {
		method, path string
		answer       func(http.ResponseWriter, *http.Request) error
	}{
		{http.MethodPost, "/v1/chat/completions", d.chat},
		{http.MethodPost, "/v1/responses", d.responses},
		{http.MethodGet, "/v1/models", d.models},
		{http.MethodGet, "/v1/models/{id...}", d.model},
	} {
		mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) {
			if err := route.answer(w, r); err != nil {
				wire.Fail(w, d.opts.Logger, err, errorBody(err))
			}
		})
		mux.HandleFunc(route.path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", route.method)
			refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "%s is not possible on %s; use %s.", r.Method, r.URL.Path, route.method)
		})
	}
	// Answers are kept to be continued, not to be read, deleted or listed.
	mux.HandleFunc("/v1/responses/{id...}", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "unknown_url", "Responses cannot be read, deleted, cancelled, counted or compacted here: %s %s does not exist. "+
			"POST /v1/responses makes one, and previous_response_id continues from it.", r.Method, r.URL.Path)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "unknown_url", "There is no %s here. There are /v1/chat/completions, /v1/responses and /v1/models.", r.URL.Path)
	})
	return mux
}

// errorEnvelope is the body of every error answer and of an error event.
type errorEnvelope struct {
	Error errorObject `json:"error"`
}

// errorObject is OpenAI's error.
type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
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

// kind is what a code is called in this API.
type kind struct{ typ, code string }

// kinds are OpenAI's names of errors. wire.Status has the statuses.
var kinds = map[bridge.Code]kind{
	bridge.CodeInvalid:         {typeInvalid, "invalid_request"},
	bridge.CodeNotFound:        {typeInvalid, "not_found"},
	bridge.CodeUnauthenticated: {"authentication_error", "invalid_api_key"},
	bridge.CodeDenied:          {"permission_error", "permission_denied"},
	bridge.CodeConsent:         {"permission_error", "consent_required"},
	bridge.CodeUnavailable:     {typeServer, "copilot_unavailable"},
	bridge.CodeCrashed:         {typeServer, "runtime_exited"},
	bridge.CodeBusy:            {typeRateLimit, "rate_limit_exceeded"},
	bridge.CodeRateLimited:     {typeRateLimit, "rate_limit_exceeded"},
	bridge.CodeTimeout:         {typeServer, "timeout"},
	bridge.CodeCanceled:        {typeServer, "canceled"},
	bridge.CodeProvider:        {typeServer, "provider_error"},
	bridge.CodeBudget:          {typeQuota, typeQuota},
	bridge.CodeQuota:           {typeQuota, typeQuota},
	bridge.CodeConflict:        {typeInvalid, "conflict"},
	bridge.CodeUnsupported:     {typeInvalid, "unsupported"},
	bridge.CodeInternal:        {typeServer, "internal_error"},
}

// named gives an error a more precise param or code than the table.
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
	k, ok := kinds[wire.CodeOf(e)]
	if !ok {
		k = kind{typeServer, string(e.Code)}
	}
	body := errorObject{Message: wire.Sentence(e), Type: k.typ, Code: &k.code, Param: orNull(wire.Path(err))}
	if e.Code == bridge.CodeProvider && e.Status >= 400 && e.Status < 500 {
		body.Type = typeInvalid
	}
	if e.Problem() == bridge.ProblemModelUnknown {
		body.Param, body.Code = new("model"), new("model_not_found")
	}
	var n *named
	if errors.As(err, &n) {
		if n.param != "" {
			body.Param = &n.param
		}
		if n.code != "" {
			body.Code = &n.code
		}
	}
	return errorEnvelope{body}
}

// refuse answers a request for a path or a method that there is not.
func refuse(w http.ResponseWriter, status int, code, format string, args ...any) {
	wire.JSON(w, status, errorEnvelope{errorObject{Message: fmt.Sprintf(format, args...), Type: typeInvalid, Code: &code}})
}

// modelObject is a model as OpenAI's and Anthropic's clients read it at the same
// path. What it can do is told in OpenRouter's and in Copilot's fields; what is
// not known is left out. For Anthropic's clients 1970 is a time not known.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created,omitempty"`
	OwnedBy string `json:"owned_by"`

	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`

	ContextLength      int               `json:"context_length,omitempty"`
	Capabilities       modelCapabilities `json:"capabilities"`
	SupportedEndpoints []string          `json:"supported_endpoints"`
	Billing            *modelBilling     `json:"billing,omitempty"`
	Policy             map[string]string `json:"policy,omitempty"`
}

type modelCapabilities struct {
	Type   string `json:"type"`
	Limits struct {
		Context int `json:"max_context_window_tokens,omitempty"`
		Prompt  int `json:"max_prompt_tokens,omitempty"`
		Output  int `json:"max_output_tokens,omitempty"`
	} `json:"limits"`
	Supports struct {
		Streaming bool     `json:"streaming"`
		Vision    bool     `json:"vision,omitempty"`
		Efforts   []string `json:"reasoning_effort,omitempty"`
	} `json:"supports"`
}

type modelBilling struct {
	Premium    bool    `json:"is_premium"`
	Multiplier float64 `json:"multiplier"`
}

func newModelObject(m bridge.ChatModel) modelObject {
	name := cmp.Or(m.Model.Name, m.ID)
	if m.Profile == bridge.ProfileAgent {
		name += " (agent)"
	}
	out := modelObject{
		ID: m.Name, Object: "model", Created: m.Created, OwnedBy: cmp.Or(m.Vendor, "github-copilot"),
		Type: "model", DisplayName: name, CreatedAt: time.Unix(m.Created, 0).UTC().Format(time.RFC3339),
		ContextLength: m.ContextTokens, SupportedEndpoints: []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"},
	}
	c := &out.Capabilities
	c.Type, c.Supports.Streaming, c.Supports.Vision, c.Supports.Efforts = "chat", true, m.Vision, m.ReasoningEfforts
	c.Limits.Context, c.Limits.Prompt, c.Limits.Output = m.ContextTokens, m.PromptTokens, m.OutputTokens
	if m.Multiplier != nil {
		out.Billing = &modelBilling{*m.Multiplier > 0, *m.Multiplier}
	}
	if m.Policy != "" {
		out.Policy = map[string]string{"state": m.Policy}
	}
	return out
}

// models is GET /v1/models: the models as chat, then as agents.
func (d *door) models(w http.ResponseWriter, r *http.Request) error {
	list, err := d.svc.Models(r.Context())
	if err != nil {
		return wire.EndedBy(r.Context(), err)
	}
	out := struct {
		Object  string        `json:"object"`
		Data    []modelObject `json:"data"`
		HasMore bool          `json:"has_more"`
	}{"list", make([]modelObject, 0, len(list)), false}
	for _, profile := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
		for _, m := range list {
			if m.Profile == profile {
				out.Data = append(out.Data, newModelObject(m))
			}
		}
	}
	wire.JSON(w, http.StatusOK, out)
	return nil
}

// model is GET /v1/models/{id...}; ids of agents hold a slash. A name that the
// default model answers for does not exist.
func (d *door) model(w http.ResponseWriter, r *http.Request) error {
	m, err := d.resolve(w, r, r.PathValue("id"))
	if err != nil {
		return err
	}
	if m.Instead != "" {
		w.Header().Del(wire.ModelHeader)
		return noModel(&bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("there is no model %.128q; requests for it are answered by %s", m.Instead, m.Name),
			Remedy: "GET /v1/models lists what there is"})
	}
	wire.JSON(w, http.StatusOK, newModelObject(m))
	return nil
}

// resolve finds the model that a client names.
func (d *door) resolve(w http.ResponseWriter, r *http.Request, name string) (bridge.ChatModel, error) {
	if name == "" {
		return bridge.ChatModel{}, wire.At("model", "expected the name of a model")
	}
	m, err := wire.Resolve(w, r, d.svc, name)
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		return m, noModel(err)
	}
	return m, err
}

func noModel(err error) error { return &named{err: err, param: "model", code: "model_not_found"} }
