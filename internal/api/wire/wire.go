// Package wire is shared by the HTTP APIs (openai, anthropic, toolbus) and the
// server in front of them. It reads JSON bodies with errors that name the field,
// gathers a turn's events into an answer, writes JSON and server-sent events to
// slow clients, and has the table from error codes to HTTP statuses. It knows no
// API's JSON and does no authentication.
package wire

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Options tune an API. The zero value is ready to use.
type Options struct {
	MaxBody   int64         // of a request; default 32 MiB
	KeepAlive time.Duration // silence after which a stream shows a sign of life; default 10 s
	Logger    *slog.Logger
}

// Defaults returns the options with defaults for zero values.
func (o Options) Defaults() Options {
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Facts are what an API reports of a request, for its line in the log. They belong
// to the handler's goroutine.
type Facts struct {
	Requested string    // the model, as the client calls it
	Model     string    // the one that answers
	In, Out   int64     // tokens
	First     time.Time // when the first word of the answer came; zero before
	Failed    bool      // the turn ended without an answer
	Left      bool      // the client went away, or stopped reading, before the end
}

type factsKey struct{}

// WithFacts has the doors note down the facts of a request.
func WithFacts(ctx context.Context, f *Facts) context.Context {
	return context.WithValue(ctx, factsKey{}, f)
}

// FactsOf returns the facts of a request. Without WithFacts they are not read.
func FactsOf(ctx context.Context) *Facts {
	if f, ok := ctx.Value(factsKey{}).(*Facts); ok {
		return f
	}
	return &Facts{}
}

// See takes note of an event of the turn.
func (f *Facts) See(ev bridge.Event) {
	switch e := ev.(type) {
	case bridge.TextDelta:
		f.word(e.AgentID)
	case bridge.MessageDone:
		f.word(e.AgentID)
	case bridge.UsageReported:
		f.In, f.Out = f.In+e.Usage.InputTokens, f.Out+e.Usage.OutputTokens
	case bridge.TurnEnded:
		f.Failed = e.Reason == bridge.EndFailed || e.Reason == bridge.EndAborted
		if e.Usage != (bridge.Usage{}) {
			f.In, f.Out = e.Usage.InputTokens, e.Usage.OutputTokens
		}
	default:
	}
}

// word notes when the first one came; those of sub-agents are not the answer's.
func (f *Facts) word(agent string) {
	if agent == "" && f.First.IsZero() {
		f.First = time.Now()
	}
}

type drainingKey struct{}

// WithDraining gives requests the context that ends when their server stops.
func WithDraining(ctx, draining context.Context) context.Context {
	return context.WithValue(ctx, drainingKey{}, draining)
}

// Draining ends when the server of a request begins to stop. Running answers
// continue; handlers that wait for the client should end. Without WithDraining it
// is the request's own context.
func Draining(ctx context.Context) context.Context {
	if d, ok := ctx.Value(drainingKey{}).(context.Context); ok {
		return d
	}
	return ctx
}

type userKey struct{}

// WithUser gives requests the function that finds who is at the other end.
func WithUser(ctx context.Context, user func() int) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// User is the id of the user of this machine that has sent a request, -1 if it is
// not known.
func User(ctx context.Context) int {
	if user, ok := ctx.Value(userKey{}).(func() int); ok {
		return user()
	}
	return -1
}

// StatusClientGone is the status in access logs for a client that gave up.
const StatusClientGone = 499

// CodeOf is the code that clients are told: one for all that keeps Copilot from
// answering anybody. The login and the provider's key are not theirs to mend.
func CodeOf(e *bridge.Error) bridge.Code {
	if bridge.Outage(e) {
		return bridge.CodeUnavailable
	}
	return e.Code
}

// statuses is the table from the domain's codes to HTTP statuses.
var statuses = map[bridge.Code]int{
	bridge.CodeInvalid:         http.StatusBadRequest,
	bridge.CodeUnsupported:     http.StatusBadRequest,
	bridge.CodeUnauthenticated: http.StatusServiceUnavailable, // see CodeOf
	bridge.CodeDenied:          http.StatusForbidden,
	bridge.CodeConsent:         http.StatusForbidden,
	bridge.CodeNotFound:        http.StatusNotFound,
	bridge.CodeConflict:        http.StatusConflict,
	bridge.CodeBusy:            http.StatusTooManyRequests,
	bridge.CodeRateLimited:     http.StatusTooManyRequests,
	bridge.CodeBudget:          http.StatusTooManyRequests,
	bridge.CodeQuota:           http.StatusTooManyRequests,
	bridge.CodeCanceled:        StatusClientGone,
	bridge.CodeUnavailable:     http.StatusServiceUnavailable,
	bridge.CodeCrashed:         http.StatusServiceUnavailable,
	bridge.CodeTimeout:         http.StatusGatewayTimeout,
	bridge.CodeProvider:        http.StatusBadGateway,
}

// Status is the HTTP status for an error.
func Status(e *bridge.Error) int {
	switch {
	case CodeOf(e) == bridge.CodeProvider && 400 <= e.Status,
		e.Code == bridge.CodeInvalid && slices.Contains([]int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, e.Status):
		return e.Status
	}
	return cmp.Or(statuses[CodeOf(e)], http.StatusInternalServerError)
}

// final are the errors that client libraries are asked not to repeat: the outcome
// would be the same, or a whole turn would run again.
var final = []bridge.Code{bridge.CodeUnauthenticated, bridge.CodeTimeout, bridge.CodeCanceled, bridge.CodeProvider, bridge.CodeBudget, bridge.CodeQuota, bridge.CodeConflict}

// Sentence words an error for people: the problem, then the remedy.
func Sentence(e *bridge.Error) string {
	text := e.Error()
	switch {
	case e.Code == bridge.CodeInternal && e.Message == "":
		text = "Internal error" // the cause was not written for the client
	case e.Code == bridge.CodeInvalid && e.Message != "":
		text = e.Message // it names the place already
	case bridge.Outage(e) && !e.Elsewhere && !strings.HasPrefix(text, "Copilot unavailable"):
		text = strings.TrimSuffix("Copilot unavailable: "+text, ": ")
	}
	if e.Remedy == "" {
		return text
	}
	return strings.TrimSuffix(text, ".") + ". " + e.Remedy
}

// Fail answers with an error, before anything was sent.
func Fail(w http.ResponseWriter, log *slog.Logger, err error, body any) {
	LogFailure(log, err)
	e, h := bridge.AsError(err), w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	} else if e.Code == bridge.CodeBusy {
		h.Set("Retry-After", "1") // a provider's rate limit may last longer; clients have a back-off of their own
	}
	if slices.Contains(final, e.Code) {
		h.Set("X-Should-Retry", "false")
	}
	JSON(w, Status(e), body)
}

// LogFailure keeps what the client is not told.
func LogFailure(log *slog.Logger, err error) {
	e := bridge.AsError(err)
	level := slog.LevelDebug
	if e.Code == bridge.CodeInternal {
		level = slog.LevelError
	}
	log.Log(context.Background(), level, "request.failed", "code", e.Code, "error", e.Error())
}

// EndedBy returns why ctx ended, if it did, or else err. A body that did not arrive in
// time stays that: net/http ends the context then, as if the client had left.
func EndedBy(ctx context.Context, err error) error {
	var e *bridge.Error
	late := errors.As(err, &e) && e.Status == http.StatusRequestTimeout
	if ctx.Err() != nil && !late {
		return context.Cause(ctx)
	}
	return err
}

// DecodeBase64 reads base64 of either alphabet, padded or not.
func DecodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	data, err := encoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("not valid base64")
	}
	if len(data) == 0 {
		return nil, errors.New("there is no data in it")
	}
	return data, nil
}

// BaseName is the last element of a file's name, or "". It is no path here.
func BaseName(name string) string {
	switch name = path.Base(strings.ReplaceAll(name, `\`, "/")); name {
	case ".", "..", "/":
		return ""
	}
	return name
}
