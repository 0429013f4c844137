package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// The SDK has no error types of its own for these cases; this file is the one
// place that reads its texts.

// explain gives an error of an RPC its code. what completes "could not …".
func (h *host) explain(err error, what string) error {
	if err == nil {
		return nil
	}
	var known *bridge.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := strings.ToLower(err.Error())
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "could not " + what, Cause: h.scrub(err)}
	switch {
	case gone(text):
		out.Code = bridge.CodeCrashed
		out.Message = "the Copilot runtime exited; could not " + what
		out.Remedy = "try again: the runtime is started anew"
	case strings.Contains(text, "not authenticated") || strings.Contains(text, "authenticate first"):
		out.Code = bridge.CodeUnauthenticated
		out.Remedy = "log in with `copilot login`, set COPILOT_GITHUB_TOKEN, or configure a provider with COPILOT_BYOK_PROVIDER"
	case strings.Contains(text, "model") && (strings.Contains(text, "not available") || strings.Contains(text, "not found") || strings.Contains(text, "not supported")):
		out.Code = bridge.CodeNotFound
		out.Remedy = "see which models there are with `copilot-bridge validate`"
	}
	return out
}

// gone says that the runtime is not there any more, or about to go.
func gone(text string) bool {
	return strings.Contains(text, "server_shutting_down") || strings.Contains(text, "process exited") || strings.Contains(text, "client stopped") ||
		strings.Contains(text, "broken pipe") || strings.Contains(text, "file already closed")
}

func (h *host) explainStart(err error) error {
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the Copilot runtime did not start", Cause: h.scrub(err),
		Remedy: "run `copilot-bridge validate` to see why, or `copilot-bridge setup` to install the pinned runtime"}
	if strings.Contains(strings.ToLower(err.Error()), "protocol") {
		out.Message = "the Copilot runtime at " + h.opts.Runtime + " speaks another protocol version"
		out.Remedy = "unset COPILOT_CLI_PATH and run `copilot-bridge setup` to install the pinned runtime"
	}
	return out
}

// scrub takes the credentials that we handed out back out of an error.
func (h *host) scrub(err error) error {
	text := err.Error()
	clean := h.scrubText(text)
	if clean == text {
		return err
	}
	return errors.New(clean)
}

func (h *host) scrubText(text string) string {
	secrets := []string{h.opts.Token}
	if h.opts.Provider != nil {
		secrets = append(secrets, h.opts.Provider.APIKey)
	}
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[REDACTED]")
		}
	}
	return text
}

// modelFailure is a failed request to the model. The runtime goes on trying
// by itself; whether to let it is the engine's business.
func (h *host) modelFailure(d *rpc.ModelCallFailureData) *bridge.Error {
	e := &bridge.Error{Code: bridge.CodeProvider}
	if d.StatusCode != nil {
		e.Status = int(*d.StatusCode)
	}
	if d.ErrorMessage != nil {
		e.Message = h.scrubText(providerMessage(*d.ErrorMessage))
	}
	if e.Message == "" {
		e.Message = "the request to the model failed"
	}
	h.classify(e)
	return e
}

// sessionError is the runtime giving up on a turn.
func (h *host) sessionError(d *rpc.SessionErrorData) *bridge.Error {
	e := &bridge.Error{Code: bridge.CodeProvider, Message: h.scrubText(d.Message)}
	if d.StatusCode != nil {
		e.Status = int(*d.StatusCode)
	}
	switch d.ErrorType {
	case "authentication", "authorization":
		e.Code = bridge.CodeUnauthenticated
	case "rate_limit":
		e.Code = bridge.CodeRateLimited
	case "quota":
		e.Code = bridge.CodeBudget
	}
	h.classify(e)
	return e
}

// classify refines the code by the HTTP status and adds the remedy.
func (h *host) classify(e *bridge.Error) {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Code = bridge.CodeUnauthenticated
	case http.StatusTooManyRequests:
		e.Code = bridge.CodeRateLimited
	}
	switch e.Code {
	case bridge.CodeUnauthenticated:
		if h.opts.Provider != nil {
			// The runtime's own text names variables that do not exist here.
			e.Message = "the provider at " + h.opts.Provider.BaseURL + " refused the credentials"
			e.Remedy = "check COPILOT_BYOK_API_KEY"
		} else {
			e.Remedy = "log in with `copilot login` or set COPILOT_GITHUB_TOKEN"
		}
	case bridge.CodeRateLimited:
		e.Remedy = "wait a little and try again"
	case bridge.CodeProvider:
		if h.opts.Provider != nil && e.Status == 0 {
			e.Remedy = "check that " + h.opts.Provider.BaseURL + " can be reached"
		}
	default:
	}
}

// providerMessage finds the sentence in a provider's error body, which
// arrives as JSON text.
func providerMessage(raw string) string {
	var obj struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(raw), &obj) == nil {
		if obj.Message != "" {
			return obj.Message
		}
		if obj.Error.Message != "" {
			return obj.Error.Message
		}
	}
	var text string
	if json.Unmarshal([]byte(raw), &text) == nil {
		return text
	}
	return raw
}
