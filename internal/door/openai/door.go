// Package openai is the door for clients that speak OpenAI's HTTP API: chat
// completions, responses and the list of models. It translates requests into
// bridge.Chat and events back into OpenAI's JSON; it keeps no state between
// requests. It does no authentication, no Host or Origin checks and no access
// log: what stands in front of it does. docs/compatibility.md says field by
// field what is honoured, ignored and refused.
package openai

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// Service answers what this door has understood. Its methods are called
// concurrently.
type Service interface {
	// Models is the list that clients see: every model as chat and as
	// "agent/<id>".
	Models(ctx context.Context) ([]bridge.ChatModel, error)
	// Model resolves a name that a client uses. CodeNotFound names what there
	// is.
	Model(ctx context.Context, name string) (bridge.ChatModel, error)
	// Answer runs one request and ends with TurnEnded; if it fails, a non-nil
	// error comes last, and errors before the first event come at once.
	// Leaving the loop, or the end of ctx, aborts the turn behind it.
	Answer(ctx context.Context, c bridge.Chat) iter.Seq2[bridge.Event, error]
	// Stream is the same through a channel, which is closed after the last
	// piece. leave must be called; it aborts a turn whose answer is not over,
	// and it is the caller who has to notice the end of ctx.
	Stream(ctx context.Context, c bridge.Chat) (pieces <-chan bridge.Piece, leave func())
}

// Options tune the door. The zero value is ready to use.
type Options struct {
	MaxBody   int64         // of a request; default 32 MiB
	KeepAlive time.Duration // silence after which a stream shows a sign of life; default 10 s
	Logger    *slog.Logger
}

type door struct {
	svc  Service
	opts Options
	now  func() time.Time           // tests fix it
	id   func(prefix string) string // makes ids: the prefix and something random
}

// New returns the handler of every path under /v1/ that this door knows, and
// of errors in OpenAI's shape for those it does not.
func New(svc Service, opts Options) http.Handler {
	return newDoor(svc, opts).mux()
}

func newDoor(svc Service, opts Options) *door {
	if opts.MaxBody <= 0 {
		opts.MaxBody = 32 << 20
	}
	if opts.KeepAlive <= 0 {
		opts.KeepAlive = 10 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &door{svc: svc, opts: opts, now: time.Now, id: func(prefix string) string { return prefix + rand.Text() }}
}

func (d *door) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", d.chat)
	mux.HandleFunc("POST /v1/responses", d.responses)
	mux.HandleFunc("GET /v1/models", d.models)
	mux.HandleFunc("GET /v1/models/{id...}", d.model)

	// The same paths with another method, and all other paths: the mux's own
	// answers are plain text, which clients cannot turn into their errors.
	for path, method := range map[string]string{
		"/v1/chat/completions": http.MethodPost,
		"/v1/responses":        http.MethodPost,
		"/v1/models":           http.MethodGet,
		"/v1/models/{id...}":   http.MethodGet,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { d.wrongMethod(w, r, method) })
	}
	mux.HandleFunc("/v1/responses/{id...}", d.storedResponse) // GET, DELETE, …: answers are not kept for reading
	mux.HandleFunc("/", d.wrongPath)
	return mux
}

func (d *door) wrongMethod(w http.ResponseWriter, r *http.Request, method string) {
	w.Header().Set("Allow", method)
	wire.JSON(w, http.StatusMethodNotAllowed, errorEnvelope{errorObject{
		Message: fmt.Sprintf("%s is not possible on %s; use %s.", r.Method, r.URL.Path, method),
		Type:    typeInvalid,
		Code:    "method_not_allowed",
	}})
}

func (d *door) wrongPath(w http.ResponseWriter, r *http.Request) {
	wire.JSON(w, http.StatusNotFound, errorEnvelope{errorObject{
		Message: fmt.Sprintf("There is no %s here. There are /v1/chat/completions, /v1/responses and /v1/models.", r.URL.Path),
		Type:    typeInvalid,
		Code:    "unknown_url",
	}})
}
