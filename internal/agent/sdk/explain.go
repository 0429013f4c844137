package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
)

// The SDK has no error types for these cases; this file is the one
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
	case noSpace(text):
		return h.diskFull(err)
	case gone(text):
		out.Code = bridge.CodeCrashed
		out.Message = "the Copilot runtime exited; could not " + what
		out.Remedy = "try again: the runtime is started anew"
	case common.LoginRefused(text):
		return h.problem(bridge.ProblemLogin, "GitHub did not accept the token or login (%v)", out.Cause)
	case strings.Contains(text, "model") && (strings.Contains(text, "not available") || strings.Contains(text, "not found") || strings.Contains(text, "not supported")):
		out.Code = bridge.CodeNotFound
		out.Remedy = "`copilot-bridge models` lists those that there are"
	}
	return out
}

// gone says that the runtime has ended or is about to.
func gone(text string) bool {
	return strings.Contains(text, "server_shutting_down") || strings.Contains(text, "process exited") || strings.Contains(text, "client stopped") ||
		strings.Contains(text, "broken pipe") || strings.Contains(text, "file already closed")
}

// noSpace says that there is no room for what the runtime, or its supervisor,
// writes.
func noSpace(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "no space left on device") || strings.Contains(text, "enospc") || strings.Contains(text, "disk quota exceeded")
}

// diskFull is the error for that. It writes into its home and for a time into
// the temporary directory; the cause may say which.
func (h *host) diskFull(err error) *bridge.Error {
	text := h.scrubText(err.Error())
	for line := range strings.Lines(text) {
		if noSpace(line) {
			text = strings.TrimSpace(line) // the others say what came of it
			break
		}
	}
	return bridge.DiskFull(h.opts.Home+" or "+os.TempDir(), errors.New(text))
}

func (h *host) explainStart(err error) error {
	if noSpace(err.Error()) {
		return h.diskFull(err)
	}
	if found := notWritable.FindString(err.Error()); found != "" {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the Copilot runtime did not start: " + found,
			Remedy: "make its directory writable, or choose another with COPILOT_BRIDGE_HOME"}
	}
	out := &bridge.Error{Code: bridge.CodeUnavailable, Message: "the Copilot runtime did not start", Cause: h.scrub(err),
		Remedy: "run `copilot-bridge validate` to see why, or `copilot-bridge setup` to install the pinned runtime"}
	if strings.Contains(strings.ToLower(err.Error()), "protocol") {
		out.Message = "the Copilot runtime at " + h.opts.Runtime + " speaks another protocol version"
		out.Remedy = "unset COPILOT_CLI_PATH and run `copilot-bridge setup` to install the pinned runtime"
	}
	return out
}

// notWritable finds the supervisor's words for a home that cannot be written to.
var notWritable = regexp.MustCompile(`\bopen \S+: (?:read-only file system|permission denied)`)

// scrub removes the credentials that the runtime was given from an error.
func (h *host) scrub(err error) error {
	return common.ScrubError(err, h.opts.Provider, h.opts.Token)
}

func (h *host) scrubText(text string) string {
	return common.Scrub(text, h.opts.Provider, h.opts.Token)
}

// modelFailure is a failed request to the model. The runtime keeps trying
// by itself; whether to let it is the engine's business.
func (h *host) modelFailure(d *rpc.ModelCallFailureData, known *account) *bridge.Error {
	e := &bridge.Error{Code: bridge.CodeProvider}
	if d.StatusCode != nil {
		e.Status = int(*d.StatusCode)
	}
	code := ""
	if d.ErrorMessage != nil {
		e.Message, code = providerMessage(*d.ErrorMessage)
		e.Message = h.scrubText(e.Message)
	}
	if e.Message == "" {
		e.Message = "the request to the model failed"
	}
	e.Detail = &bridge.ErrorDetail{Type: str(d.ErrorType), Code: cmp.Or(str(d.ErrorCode), code), ProviderCallID: str(d.ProviderCallID), ServiceRequestID: str(d.ServiceRequestID)}
	h.classify(e, str(d.Model), known)
	if reflect.ValueOf(*e.Detail).IsZero() {
		e.Detail = nil
	}
	return e
}

// sessionError is the runtime giving up on a turn.
func (h *host) sessionError(d *rpc.SessionErrorData, model string, known *account) *bridge.Error {
	if noSpace(d.Message) && d.StatusCode == nil {
		return h.diskFull(errors.New(d.Message))
	}
	e := &bridge.Error{Code: bridge.CodeProvider, Message: h.scrubText(d.Message)}
	if d.StatusCode != nil {
		e.Status = int(*d.StatusCode)
	}
	e.Detail = &bridge.ErrorDetail{Type: d.ErrorType, Code: str(d.ErrorCode), ProviderCallID: str(d.ProviderCallID), ServiceRequestID: str(d.ServiceRequestID),
		URL: str(d.URL), AutoSwitch: d.EligibleForAutoSwitch != nil && *d.EligibleForAutoSwitch}
	if d.Remediation != nil {
		e.Detail.Remediation = string(*d.Remediation)
	}
	h.classify(e, model, known)
	return e
}

// retryAfter is how long a provider asks to wait, where its message says so:
// "try again in 1m2.5s", "retry after 20 seconds". The runtime obeys the header
// Retry-After but does not report its value.
func retryAfter(e *bridge.Error) time.Duration {
	found := retryIn.FindStringSubmatch(strings.ToLower(e.Message))
	if e.Code != bridge.CodeRateLimited || found == nil {
		return 0
	}
	wait, err := time.ParseDuration(shortUnits.Replace(found[1]))
	if err != nil {
		return waitAtMost // out of range
	}
	return min(waitAtMost, wait)
}

// waitAtMost is longer than any rate limit: a month.
const waitAtMost = 31 * 24 * time.Hour

var (
	retryIn = regexp.MustCompile(`\b(?:try again|retry|reset)\b[^.\d]{0,40}?\b(?:in|after)\s+((?:\d{1,6}(?:\.\d{1,9})?\s*` +
		`(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h)[\s,]*)+)\b`)
	shortUnits = strings.NewReplacer(" ", "", "\t", "", "\n", "", ",", "", "milliseconds", "ms", "millisecond", "ms", "seconds", "s", "second", "s",
		"secs", "s", "sec", "s", "minutes", "m", "minute", "m", "mins", "m", "min", "m", "hours", "h", "hour", "h")
)

// classify gives a failed request to the model its code, its remedy and, for
// GitHub's models, its problem.
func (h *host) classify(e *bridge.Error, model string, known *account) {
	switch {
	case e.Status == http.StatusPaymentRequired, e.Detail.Type == "quota":
		e.Code = bridge.CodeQuota
	case e.Status == http.StatusTooManyRequests, e.Detail.Type == "rate_limit":
		e.Code = bridge.CodeRateLimited
		e.RetryAfter = retryAfter(e)
	case aboutModel(e):
		e.Code = bridge.CodeNotFound
		if e.Status == http.StatusForbidden {
			e.Code = bridge.CodeDenied
		}
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden,
		e.Status == 0 && (strings.HasPrefix(e.Detail.Type, "auth") || common.LoginRefused(e.Message)):
		e.Code = bridge.CodeUnauthenticated
	}
	if h.opts.Provider != nil {
		h.ofProvider(e)
		return
	}
	h.ofGitHub(e, model, known)
}

// aboutModel says of a refused request that another model might be answered.
func aboutModel(e *bridge.Error) bool {
	switch e.Status {
	case http.StatusBadRequest:
		return e.Detail.Code == "model_not_supported"
	case http.StatusForbidden, http.StatusNotFound:
		return strings.HasPrefix(e.Detail.Code, "model_") || strings.Contains(strings.ToLower(e.Message), "model")
	}
	return false
}

// providerMessage finds the sentence and the code in a provider's error body,
// which arrives as JSON text.
func providerMessage(raw string) (message, code string) {
	type body struct {
		Message string `json:"message"`
		Code    any    `json:"code"` // some have numbers
	}
	var obj struct {
		body
		Error body `json:"error"`
	}
	if json.Unmarshal([]byte(raw), &obj) == nil {
		for _, b := range []body{obj.body, obj.Error} {
			if b.Message != "" {
				code, _ = b.Code.(string)
				return b.Message, code
			}
		}
	}
	if json.Unmarshal([]byte(raw), &message) == nil {
		return message, ""
	}
	return raw, ""
}

// providerModels asks a provider which models it has. The configured one is
// always among them, first; a provider without such a list has just that one.
func providerModels(ctx context.Context, p *bridge.Provider, configured string) ([]bridge.Model, error) {
	out := []bridge.Model{{ID: configured, Name: configured}}
	if p.Kind == "azure" {
		return out, nil // lists deployments only through another service
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	base := strings.TrimRight(p.BaseURL, "/")
	if p.Kind == "anthropic" {
		base += "/v1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the provider's address is not a URL", Cause: err}
	}
	switch {
	case p.BearerToken != "":
		req.Header.Set("Authorization", "Bearer "+p.BearerToken)
	case p.APIKey == "":
	case p.Kind == "anthropic":
		req.Header.Set("X-Api-Key", p.APIKey)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	default:
		req.Header.Set("Authorization", "Bearer "+p.APIKey)
	}
	for k, v := range p.Headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var request *url.Error // which names the address again
		if errors.As(err, &request) {
			err = request.Err
		}
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the provider at " + p.BaseURL + " cannot be reached",
			Remedy: "check COPILOT_BYOK_BASE_URL and that the server is running", Cause: err}
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("list of models: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, &bridge.Error{Code: bridge.CodeUnauthenticated, Status: resp.StatusCode,
			Message: "the provider at " + p.BaseURL + " refused the credentials", Remedy: "check COPILOT_BYOK_API_KEY or COPILOT_BYOK_BEARER_TOKEN"}
	case resp.StatusCode == http.StatusNotFound:
		return out, nil
	case resp.StatusCode/100 != 2:
		return nil, &bridge.Error{Code: bridge.CodeProvider, Status: resp.StatusCode,
			Message: fmt.Sprintf("the provider at %s answered %s to a request for its models", p.BaseURL, resp.Status),
			Remedy:  "check COPILOT_BYOK_BASE_URL; if it is right, try again later"}
	}
	models, err := decodeModels(body)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeProvider, Message: "the provider's list of models is not understood", Cause: err,
			Remedy: "check COPILOT_BYOK_BASE_URL, which often ends in /v1"}
	}
	for _, m := range models {
		if m.ID == configured {
			out[0] = m
		} else {
			out = append(out, m)
		}
	}
	return out, nil
}

// decodeModels reads a provider's list, with what some of them tell besides the
// ids: OpenRouter, vLLM, Anthropic. Fields of a wrong type count as absent.
func decodeModels(body []byte) ([]bridge.Model, error) {
	var list struct {
		Data []map[string]any `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var out []bridge.Model
	for _, m := range list.Data {
		word := func(name string) string { s, _ := m[name].(string); return s }
		number := func(names ...string) int {
			for _, name := range names {
				if n, ok := m[name].(float64); ok && n > 0 && n < 1<<40 {
					return int(n)
				}
			}
			return 0
		}
		id := word("id")
		if id == "" {
			continue
		}
		model := bridge.Model{ID: id, Name: cmp.Or(word("display_name"), word("name"), id), Vendor: word("owned_by"), Created: int64(number("created")),
			ContextTokens: number("context_length", "max_model_len", "max_input_tokens")}
		if at, err := time.Parse(time.RFC3339, word("created_at")); err == nil && at.Unix() > 0 {
			model.Created = at.Unix()
		}
		out = append(out, model)
	}
	return out, nil
}
