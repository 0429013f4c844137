// Package anthropic is the door for clients that speak Anthropic's Messages
// API: POST /v1/messages and POST /v1/messages/count_tokens. It translates
// requests into bridge.Chat and events back into messages and their stream; it
// keeps no state between requests. It does no authentication, no Host or
// Origin checks and no access log: what stands in front of it does.
// docs/compatibility/anthropic.md says field by field what is honoured,
// ignored and refused.
package anthropic

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
	// Model resolves a name that a client uses. CodeNotFound names what there
	// is.
	Model(ctx context.Context, name string) (bridge.ChatModel, error)
	// Answer runs one request and ends with TurnEnded; if it fails, a non-nil
	// error comes last, and errors before the first event come at once.
	// Leaving the loop early, or the end of ctx, aborts the turn behind it.
	Answer(ctx context.Context, c bridge.Chat) iter.Seq2[bridge.Event, error]
	// Stream is the same through a channel, which is closed after the last
	// piece. leave must be called; it aborts a turn whose answer is not over,
	// and it is the caller who has to notice the end of ctx.
	Stream(ctx context.Context, c bridge.Chat) (pieces <-chan bridge.Piece, leave func())
}

// Options tune the door. The zero value is ready to use.
type Options struct {
	MaxBody   int64         // of a request; default 32 MiB, as in the API
	KeepAlive time.Duration // silence after which a running stream pings; default 10 s
	// Patience is how long a stream waits for the model's first word before
	// it begins without one. Until then a failure still has its own HTTP
	// status, and the runtime takes up to 15 s to give up on a provider that
	// fails; default 20 s.
	Patience time.Duration
	Logger   *slog.Logger
}

type door struct {
	svc  Service
	opts Options
	id   func(prefix string) string // makes ids: the prefix and something random
}

// New returns the handler of /v1/messages and what lies below it, and of
// errors in Anthropic's shape for all other paths.
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
	if opts.Patience <= 0 {
		opts.Patience = 20 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &door{svc: svc, opts: opts, id: func(prefix string) string { return prefix + rand.Text() }}
}

func (d *door) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", d.messages)
	mux.HandleFunc("POST /v1/messages/count_tokens", d.countTokens)
	// The mux's own answers to other methods and paths are plain text, which
	// clients cannot turn into their errors.
	mux.HandleFunc("/v1/messages", d.wrongMethod)
	mux.HandleFunc("/v1/messages/count_tokens", d.wrongMethod)
	mux.HandleFunc("/", d.wrongPath)
	return mux
}

func (d *door) messages(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		d.fail(w, r, err)
		return
	}
	p, err := req.prompt(needsAnswer)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	model, err := d.svc.Model(r.Context(), p.model)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if model.Instead != "" {
		w.Header().Set("X-Copilot-Bridge-Model", model.Name)
	}
	if len(p.dropped) > 0 {
		d.opts.Logger.DebugContext(r.Context(), "tools that run at Anthropic are not offered", "tools", p.dropped)
	}
	p.chat.Door = "anthropic"
	p.chat.Model, p.chat.Profile = model.ID, model.Profile
	p.chat.Effort = p.effort.of(model.Model)
	p.chat.Whole = !p.stream
	id := d.id("msg_")
	w.Header().Set("Request-Id", d.requestID(w))
	switch {
	case p.maxTokens == 0:
		d.nothing(w, r, p, id)
	case p.stream:
		d.streamed(w, r, p, id)
	default:
		d.whole(w, r, p, id)
	}
}

// countTokens answers with an estimate: the runtime counts only what a session
// already holds, and each model would count otherwise.
func (d *door) countTokens(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := wire.Decode(w, r, d.opts.MaxBody, &req); err != nil {
		d.fail(w, r, err)
		return
	}
	p, err := req.prompt(justCount)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	// Only a model that does not exist is worth an error: counting needs none.
	if _, err := d.svc.Model(r.Context(), p.model); bridge.CodeOf(err) == bridge.CodeNotFound {
		d.fail(w, r, err)
		return
	}
	w.Header().Set("Request-Id", d.requestID(w))
	wire.JSON(w, http.StatusOK, struct {
		InputTokens int64 `json:"input_tokens"`
	}{promptTokens(&p.chat)})
}

func (d *door) wrongMethod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	d.refuse(w, http.StatusMethodNotAllowed, typeInvalid, fmt.Sprintf("%s is not possible on %s; use POST.", r.Method, r.URL.Path))
}

func (d *door) wrongPath(w http.ResponseWriter, r *http.Request) {
	d.refuse(w, http.StatusNotFound, typeNotFound,
		fmt.Sprintf("There is no %s here. There are /v1/messages and /v1/messages/count_tokens.", r.URL.Path))
}
