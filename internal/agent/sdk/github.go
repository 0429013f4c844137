package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	common "github.com/copilot-bridge/copilot-bridge/internal/agent/session"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// This file is the one place that says what can be wrong between the runtime and
// GitHub: the code, the words and the remedy of each problem. lookup.go finds
// out which it is before a session is opened.

const (
	settingsPage = "https://github.com/settings/copilot"
	listModels   = "`copilot-bridge models` lists those that you may use"
)

// problems are the code and the remedy of each problem.
var problems = map[bridge.Problem]struct {
	code   bridge.Code
	remedy string
}{
	bridge.ProblemLogin: {bridge.CodeUnauthenticated, "log in with `copilot-bridge login`, or set COPILOT_GITHUB_TOKEN to a token that may use Copilot"},
	bridge.ProblemAccount: {bridge.CodeUnauthenticated,
		"authorize the token for your organization (single sign-on), or log in with `copilot-bridge login`"},
	bridge.ProblemNoCopilot: {bridge.CodeUnauthenticated,
		"get Copilot at " + settingsPage + ", ask your organization for a seat, or log in with another account by `copilot-bridge login`"},
	bridge.ProblemPolicy: {bridge.CodeUnavailable, "have the policy for Copilot CLI enabled, at " + settingsPage + " or by the owner of your organization"},
	bridge.ProblemModelForbidden: {bridge.CodeDenied,
		"ask the owner of your organization to allow it, or choose another model: " + listModels},
	bridge.ProblemModelNotEnabled: {bridge.CodeDenied, "enable it at " + settingsPage + ", or choose another model: " + listModels},
	bridge.ProblemModelUnknown:    {bridge.CodeNotFound, "choose another model: " + listModels},
	bridge.ProblemQuota:           {bridge.CodeQuota, ""},
	bridge.ProblemRateLimit:       {bridge.CodeRateLimited, ""},
	bridge.ProblemUnreachable:     {bridge.CodeUnavailable, "check the network, the firewall and the proxy (HTTPS_PROXY)"},
	bridge.ProblemCertificate: {bridge.CodeUnavailable, "if that is your company's proxy, add its authority to this machine's certificates, " +
		"or name a file that has it in SSL_CERT_FILE"},
	bridge.ProblemClock: {bridge.CodeUnavailable, "set this machine's clock"},
	bridge.ProblemFault: {bridge.CodeUnavailable, "try again later; https://www.githubstatus.com tells what is known"},
}

// problem is the error for a problem that was met when the account was looked up.
func (h *host) problem(p bridge.Problem, format string, args ...any) *bridge.Error {
	as := problems[p]
	e := &bridge.Error{Code: as.code, Message: h.scrubText(fmt.Sprintf(format, args...)), Remedy: as.remedy, Detail: &bridge.ErrorDetail{Type: bridge.DetailAccount, Problem: p}}
	if host := h.githubHost(); p == bridge.ProblemUnreachable && host != "" {
		e.Remedy += ", and that GH_HOST is right: " + host
	}
	return e
}

// githubHost is the host that stands in GitHub's place, "" for GitHub's own.
func (h *host) githubHost() string { return program.Variable(h.opts.Env, "GH_HOST") }

// asProblem makes e the error for a problem. What the runtime tells besides stays.
func (h *host) asProblem(e *bridge.Error, p bridge.Problem, format string, args ...any) {
	made := h.problem(p, format, args...)
	e.Code, e.Message, e.Remedy, e.Detail.Problem = made.Code, made.Message, made.Remedy, p
}

// said is what GitHub answered, to stand in brackets.
func said(status int, message string) string {
	code := strconv.Itoa(status)
	if status == 0 {
		return message
	}
	return code + " " + strings.TrimPrefix(message, code+" ")
}

// ofGitHub names the problem of a failed request to one of GitHub's models.
func (h *host) ofGitHub(e *bridge.Error, model string, known *account) {
	if model == "" {
		model = "that was asked for"
	}
	why := said(e.Status, e.Message)
	switch e.Code {
	case bridge.CodeUnauthenticated:
		if e.Status == http.StatusForbidden {
			h.asProblem(e, bridge.ProblemModelForbidden, "GitHub does not let this account use the model %s (%s)", model, why)
			return
		}
		h.asProblem(e, bridge.ProblemLogin, "GitHub did not accept the token or login (%s)", why)
	case bridge.CodeDenied, bridge.CodeNotFound:
		switch state := known.policy(model); {
		case state == "disabled" || state == "unconfigured":
			h.asProblem(e, bridge.ProblemModelNotEnabled, "the model %s is not enabled for this account (%s)", model, why)
		case e.Detail.Code == "model_not_supported":
			h.asProblem(e, bridge.ProblemModelUnknown, "GitHub does not offer this account the model %s (%s)", model, why)
		default:
			h.asProblem(e, bridge.ProblemModelForbidden, "GitHub does not let this account use the model %s (%s)", model, why)
		}
	case bridge.CodeQuota:
		h.asProblem(e, bridge.ProblemQuota, "the premium requests of this account are used up (%s)", why)
		e.Detail.Resets, e.Detail.FreeModels = known.quota()
		wait := "wait"
		if e.Detail.Resets != "" {
			e.Message += "; they start anew on " + e.Detail.Resets
			wait = "wait until then"
		}
		if e.Remedy = wait + ", or allow paid requests at " + settingsPage; len(e.Detail.FreeModels) > 0 {
			e.Remedy = "use a model that costs none (" + strings.Join(e.Detail.FreeModels, ", ") + "), " + e.Remedy
		}
	case bridge.CodeRateLimited:
		h.asProblem(e, bridge.ProblemRateLimit, "GitHub's rate limit is reached (%s)", why)
		e.Remedy = "wait " + cmp.Or(wordsFor(e.RetryAfter), "a little") + " and try again"
	case bridge.CodeProvider:
		h.providerProblem(e)
	default:
	}
}

// providerProblem is for requests that GitHub did not answer, or with a fault of
// its own. The code stays: the runtime tries again, and may be let.
func (h *host) providerProblem(e *bridge.Error) {
	code := e.Code
	defer func() { e.Code = code }()
	switch at := badURL.FindStringSubmatch(e.Message); {
	case e.Status >= http.StatusInternalServerError:
		h.asProblem(e, bridge.ProblemFault, "GitHub has a fault of its own (%s)", said(e.Status, e.Message))
	case noAnswer.MatchString(e.Message), e.Status/100 == 3:
		h.asProblem(e, bridge.ProblemFault, notGitHub+" (%s)", said(e.Status, e.Message))
		e.Remedy = inBetween
	case e.Status == http.StatusRequestEntityTooLarge:
		e.Message, e.Remedy = "the request is too large for GitHub ("+said(e.Status, e.Message)+")", "begin a new session, or leave out large files and pictures"
	case e.Status != 0:
		e.Message, e.Remedy = "GitHub did not take the request ("+said(e.Status, e.Message)+")", "begin a new session, or choose another model: "+listModels
	case at == nil:
	case strings.Contains(e.Message, "certificate"):
		h.asProblem(e, bridge.ProblemCertificate, "the certificate of %s is not trusted", at[1])
	default:
		h.asProblem(e, bridge.ProblemUnreachable, "GitHub cannot be reached: %s: %s", at[1], cause(at[2]))
	}
}

// notGitHub and inBetween are for answers that GitHub would not give.
const (
	notGitHub = "GitHub's answer cannot be read"
	inBetween = "see that no proxy and no login page of the network answers in GitHub's place; otherwise try again later"
)

// badURL finds the host and the cause in what the runtime says of a request that
// could not be sent.
var badURL = regexp.MustCompile(`for url \(https?://([^/)]+)[^)]*\)(.*)`)

// cause is why a request could not be sent, in short.
func cause(text string) string {
	text = strings.ToLower(text)
	for _, c := range []struct{ sign, words string }{
		{"dns error", "no such host"}, {"connection refused", "connection refused"}, {"timed out", "no answer"}, {"unreachable", "the network is unreachable"}, {"reset", "the connection was cut"},
	} {
		if strings.Contains(text, c.sign) {
			return c.words
		}
	}
	return "the connection failed"
}

// lookupProblem names the problem of an account that could not be looked up, from
// the runtime's words: "Failed to validate SDK token (401): GitHub returned: …".
// It is nil where nothing was answered.
func (h *host) lookupProblem(words string) *bridge.Error {
	found := lookupFailed.FindStringSubmatch(words)
	if found == nil {
		if common.LoginRefused(words) {
			return h.problem(bridge.ProblemLogin, "GitHub did not accept the token or login (%s)", words)
		}
		return nil
	}
	status, _ := strconv.Atoi(found[1]) // it has three digits
	e := h.httpProblem(status, found[2], nil)
	e.Status = status
	return e
}

var lookupFailed = regexp.MustCompile(`\((\d{3})\): (?:GitHub returned: |Failed to fetch Copilot user info: )?(.*)`)

// httpProblem names the problem of an answer to a question about the account, or
// for its models.
func (h *host) httpProblem(status int, message string, known *account) *bridge.Error {
	why := said(status, message)
	switch {
	case status == http.StatusUnauthorized:
		return h.problem(bridge.ProblemLogin, "GitHub did not accept the token or login (%s)", why)
	case status == http.StatusNotFound || status == http.StatusForbidden && known != nil && !known.chat:
		return h.problem(bridge.ProblemNoCopilot, "%s has no Copilot (%s)", known.name(), why)
	case status == http.StatusForbidden && known != nil:
		return h.problem(bridge.ProblemPolicy, "a policy keeps %s from Copilot (%s)", known.name(), why)
	case status == http.StatusForbidden:
		return h.problem(bridge.ProblemAccount, "GitHub does not let the token look up its account (%s)", why)
	case status == http.StatusTooManyRequests:
		e := h.problem(bridge.ProblemRateLimit, "GitHub's rate limit is reached (%s)", why)
		e.RetryAfter = retryAfter(e)
		e.Remedy = "wait " + cmp.Or(wordsFor(e.RetryAfter), "a little") + " and try again"
		return e
	}
	return h.problem(bridge.ProblemFault, "GitHub has a fault of its own (%s)", why)
}

// listProblem names the problem of a list of models that could not be had, from
// the runtime's JSON; nil if it is of another kind.
func (h *host) listProblem(ctx context.Context, words string, known *account) *bridge.Error {
	_, raw, found := strings.Cut(words, "{")
	var told struct {
		Kind, Body, StatusText string
		Status                 int
	}
	if found {
		_ = json.NewDecoder(strings.NewReader("{" + raw)).Decode(&told) // if it is something else there is no kind
	}
	switch told.Kind {
	case "http":
		message, _ := providerMessage(told.Body)
		if message = strings.TrimSpace(message); message == "" || strings.HasPrefix(message, "<") {
			message = told.StatusText
		}
		e := h.httpProblem(told.Status, text.FirstLine(message, 200), known)
		e.Status = told.Status
		return e
	case "network":
		return h.unreachable(ctx, "")
	case "parse":
		e := h.problem(bridge.ProblemFault, notGitHub+": its list of models is none")
		e.Remedy = inBetween
		return e
	}
	return nil
}

// wordsFor is a time to wait, in words; "" for none.
func wordsFor(d time.Duration) string {
	for _, unit := range []struct {
		length, most time.Duration
		name         string
	}{{time.Second, 2 * time.Minute, "second"}, {time.Minute, 2 * time.Hour, "minute"}, {time.Hour, 48 * time.Hour, "hour"}, {24 * time.Hour, waitAtMost, "day"}} {
		if 0 < d && d <= unit.most {
			return text.Plural(int((d+unit.length-1)/unit.length), unit.name)
		}
	}
	return ""
}
