package sdk

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// ofProvider says of an error of the user's own provider who it was, what it
// answered and what to check. The runtime's own words name neither.
func (h *host) ofProvider(e *bridge.Error) {
	who := "the provider at " + h.opts.Provider.BaseURL
	switch {
	case e.Code == bridge.CodeUnauthenticated:
		// The runtime's own text names variables that do not exist here.
		e.Message, e.Remedy = who+" refused the credentials", "check COPILOT_BYOK_API_KEY"
	case e.Code == bridge.CodeRateLimited:
		e.Message, e.Remedy = who+" limits requests: "+withStatus(e.Status, e.Message), "wait "+cmp.Or(wordsFor(e.RetryAfter), "a little")+" and try again"
	case e.Code == bridge.CodeQuota:
		e.Message, e.Remedy = who+" says that the quota is used up: "+e.Message, "see your plan with the provider"
	case e.Code == bridge.CodeDenied:
		e.Message, e.Remedy = who+" answered "+withStatus(e.Status, e.Message), "choose another model with COPILOT_BYOK_MODEL, or have the provider allow this one"
	case e.Code == bridge.CodeNotFound:
		e.Message, e.Remedy = who+" answered "+withStatus(e.Status, e.Message), "check COPILOT_BYOK_MODEL, and COPILOT_BYOK_BASE_URL, which often ends in /v1"
	case e.Code != bridge.CodeProvider:
	case e.Status != 0:
		e.Message = who + " answered " + withStatus(e.Status, e.Message)
		switch {
		case e.Status == http.StatusNotFound:
			e.Remedy = "check COPILOT_BYOK_MODEL, and COPILOT_BYOK_BASE_URL, which often ends in /v1"
		case e.Status >= http.StatusInternalServerError:
			e.Remedy = "try again later: the trouble is the provider's"
		default:
			e.Remedy = "check COPILOT_BYOK_MODEL and COPILOT_BYOK_WIRE_API, and what was sent: the provider does not accept the request"
		}
	case noAnswer.MatchString(e.Message):
		e.Message = who + " answered with something that is not a model's answer, such as a web page"
		e.Remedy = "check COPILOT_BYOK_BASE_URL, which often ends in /v1, and that COPILOT_BYOK_PROVIDER is its kind"
	default:
		if why := noConnection.FindStringSubmatch(e.Message); why != nil {
			e.Message = who + " cannot be reached: " + why[1]
		}
		e.Remedy = "check COPILOT_BYOK_BASE_URL and that the server is running"
	}
}

// withStatus joins an HTTP status and the provider's message. The message may
// only repeat the status.
func withStatus(status int, words string) string {
	told := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	if words = strings.TrimSpace(strings.TrimPrefix(words, told)); words == "" {
		return told
	}
	return told + ": " + words
}

var (
	noAnswer     = regexp.MustCompile(`request ended without sending any chunks|response body was not valid JSON|^No response was returned`)
	noConnection = regexp.MustCompile(`client error \(Connect\): (?:tcp connect error: |dns error: )?(.*?)(?: \(os error \d+\))?(?: \[E[A-Z_]+\])?$`)
)
