// Package dashboard is the HTTP API of the dashboard and the page that uses it:
// sessions of every process of the bridge, their open questions, and what has
// happened. It reads the files of the bridge's home (internal/live,
// internal/timeline) and gets the rest as functions. It admits its callers by
// itself: being a program of the same user is not enough, since an agent's own
// commands are that too.
package dashboard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
	"github.com/copilot-bridge/copilot-bridge/internal/timeline"
)

// Options are what the dashboard needs. Its functions are called concurrently.
type Options struct {
	Key   string        // of the file dashboard.key: programs send it, and logins are signed with it
	Token string        // of the server, which opens the dashboard too; "" for none
	URL   func() string // of this server, without a slash at the end
	Home  string        // the bridge's
	About func() About
	// Resumer continues sessions that are not open; nil if there is none.
	Resumer Resumer
	// LinkRefused records the refused use of a link: it was used before, or has expired.
	LinkRefused func(ctx context.Context, question, why string)
	// Records serves usage, policy, audit log, orchestrations and health.
	Records Records
	// Logger must not be nil.
	Logger *slog.Logger
}

// maxBody bounds the body of a request.
const maxBody = 1 << 20

// API answers the dashboard's requests. Its methods may be called concurrently.
type API struct {
	opts    Options
	mux     *http.ServeMux
	pages   *pages
	login   *login
	links   *links
	library *timeline.Library
	watcher *watcher
	routed  []string // patterns, for requests that match none
}

// route is a path under /api/v1 with its handler. The result of answer is written as
// JSON. stream writes the response itself, unless it returns an error.
type route struct {
	pattern string
	answer  func(http.ResponseWriter, *http.Request) (any, error)
	stream  func(http.ResponseWriter, *http.Request) error
}

// routes is the table of the paths under /api/v1. All of them need a login.
func (a *API) routes() []route {
	return []route{
		{pattern: "GET /about", answer: a.about},
		{pattern: "GET /sessions", answer: a.sessions},
		{pattern: "GET /sessions/{id}", answer: a.session},
		{pattern: "GET /sessions/{id}/events", answer: a.events},
		{pattern: "GET /sessions/{id}/stream", stream: a.sessionStream},
		{pattern: "POST /sessions/{id}/stop", answer: a.stop},
		{pattern: "POST /sessions/{id}/messages", answer: a.message},
		{pattern: "POST /sessions/{id}/resume", answer: a.resume},
		{pattern: "GET /stream", stream: a.stateStream},
		{pattern: "GET /approvals", answer: a.approvals},
		{pattern: "POST /approvals/{id}", answer: a.approve},
		{pattern: "POST /approvals/{id}/link", answer: a.makeLink},
	}
}

// New makes the dashboard.
func New(opts Options) *API {
	a := &API{opts: opts, mux: http.NewServeMux(), pages: newPages(), login: newLogin(opts), links: newLinks(), library: timeline.OpenLibrary(opts.Home)}
	a.watcher = newWatcher(opts.Home, a.state)
	for _, r := range slices.Concat(a.routes(), a.recordRoutes()) {
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " /api/v1" + path
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) { a.serve(w, req, r) })
		a.routed = append(a.routed, pattern)
	}
	return a
}

// Handlers are by their http.ServeMux patterns. They decide by themselves whom they
// answer, so the server in front must give them the credentials of every request.
func (a *API) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/api/v1/":              http.HandlerFunc(a.api),
		"GET /approve/{token}":  http.HandlerFunc(a.showLink),
		"POST /approve/{token}": http.HandlerFunc(a.useLink),
		"GET /assets/":          http.HandlerFunc(a.pages.asset),
		"POST /login":           http.HandlerFunc(a.postLogin),
		"POST /logout":          http.HandlerFunc(a.postLogout),
	}
}

// Index is the page itself, which tells nothing: it asks the API.
func (a *API) Index() http.Handler { return http.HandlerFunc(a.pages.index) }

// LoggedIn reports whether a request comes from the page of a browser that has
// logged in. It is for what the page uses of the other APIs.
func (a *API) LoggedIn(r *http.Request) bool { return a.login.cookie(r) && fromPage(r) }

// api answers requests under /api/v1.
func (a *API) api(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if err := a.login.admit(r); err != nil {
		a.fail(w, err)
		return
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
		r.Header.Del(name) // nothing behind this needs them
	}
	if _, pattern := a.mux.Handler(r); pattern == "" {
		a.fail(w, a.unknown(r))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// serve answers with a route's value or error.
func (a *API) serve(w http.ResponseWriter, r *http.Request, to route) {
	if to.stream != nil {
		if err := to.stream(w, r); err != nil {
			a.fail(w, err)
		}
		return
	}
	v, err := to.answer(w, r)
	if err != nil {
		a.fail(w, wire.EndedBy(r.Context(), err))
		return
	}
	status := http.StatusOK
	if s, ok := v.(accepted); ok {
		status, v = http.StatusAccepted, s.body
	}
	wire.JSON(w, status, v)
}

// accepted is an answer with status 202.
type accepted struct{ body any }

// none is the answer of what only has an effect.
type none struct{}

// unknown is the error for a path or method that is not there.
func (a *API) unknown(r *http.Request) error {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		try := r.Clone(r.Context())
		try.Method = method
		if _, pattern := a.mux.Handler(try); pattern != "" {
			return refuse(http.StatusMethodNotAllowed, "method_not_allowed", text.Clip(r.Method, 32)+" cannot be used here.", "Use "+method+".")
		}
	}
	return refuse(http.StatusNotFound, "unknown_url", "There is no "+text.Clip(r.URL.Path, 128)+" here.", "There are: "+strings.Join(a.routed, ", ")+".")
}

// refusal is an error with a status and a code of this API.
type refusal struct {
	status                int
	code, message, remedy string
	retryAfter            time.Duration
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, code, message, remedy string) *refusal {
	return &refusal{status: status, code: code, message: message, remedy: remedy}
}

// invalid is the error for a request that cannot be understood.
func invalid(message, remedy string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: message, Remedy: remedy}
}

// isRefusal tells refusals from what failed otherwise.
func isRefusal(err error) bool {
	var own *refusal
	return errors.As(err, &own)
}

// describe is how people are told of an error.
func describe(err error) (status int, message, remedy string) {
	var own *refusal
	if errors.As(err, &own) {
		return own.status, own.message, own.remedy
	}
	e := bridge.AsError(err)
	message = e.Error()
	if e.Code == bridge.CodeInternal && e.Message == "" {
		message = "The bridge failed on this request; its log says more." // the cause was not written for people
	}
	return wire.Status(e), message, e.Remedy
}

// fail answers with an error: {"error":{"code","message","remedy"}}.
func (a *API) fail(w http.ResponseWriter, err error) {
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Remedy  string `json:"remedy,omitempty"`
		} `json:"error"`
	}
	e := &body.Error
	var status int
	status, e.Message, e.Remedy = describe(err)
	var own *refusal
	if !errors.As(err, &own) {
		e.Code = string(bridge.CodeOf(err))
		wire.Fail(w, a.opts.Logger, err, body)
		return
	}
	e.Code = own.code
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="copilot-bridge dashboard"`)
	}
	if own.retryAfter > 0 {
		w.Header().Set("Retry-After", seconds(own.retryAfter))
	}
	wire.JSON(w, status, body)
}

// decode reads the body of a request.
func decode[T any](w http.ResponseWriter, r *http.Request) (v T, err error) {
	if err = wire.Decode(w, r, maxBody, &v); err == nil {
		return v, nil
	}
	status, message, remedy := describe(err)
	switch status {
	case http.StatusRequestEntityTooLarge:
		remedy = "Send less at a time." // the other APIs' is about conversations
	case http.StatusBadRequest:
		message, remedy = bridge.AsError(err).Message, cmp.Or(remedy, "docs/reference/dashboard-api.md says what a body has.") // the cause is for programs
	default:
		return v, err
	}
	return v, refuse(status, "invalid", message, remedy)
}

// About is what the connect view tells of the bridge.
type About struct {
	Version   string   `json:"version"`
	URL       string   `json:"url"`
	Workspace string   `json:"workspace"`
	ReadOnly  bool     `json:"read_only"`
	Model     string   `json:"model"` // for the examples
	Models    []string `json:"models"`
	Notice    string   `json:"notice,omitempty"`
	Answers   string   `json:"answers"`
	Token     bool     `json:"token"` // clients need one
}

// about is GET /about.
func (a *API) about(_ http.ResponseWriter, r *http.Request) (any, error) {
	out := a.opts.About()
	out.Token = a.opts.Token != ""
	if out.Models == nil {
		out.Models = []string{}
	}
	// As the browser reaches it, perhaps through a proxy; the server in front has
	// checked the name.
	out.URL = base(r)
	return out, nil
}

// base is the address under which the client reaches this server.
func base(r *http.Request) string {
	if strings.HasPrefix(r.Header.Get("Origin"), "https:") {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
