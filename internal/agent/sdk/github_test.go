package sdk

import (
	"testing"
	"time"

	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// What the runtime says of a request to a model that could not be sent, by the
// words of the pinned one.
func TestConnectionsThatFailInATurn(t *testing.T) {
	h := newHost(New(Options{}), bridge.ProfileChat)
	for said, want := range map[string]struct {
		problem bridge.Problem
		message string
	}{
		"client error (Connect): dns error: failed to lookup address information: Name or service not known [ENOTFOUND]": {
			bridge.ProblemUnreachable, "GitHub cannot be reached: api.githubcopilot.com: no such host"},
		"client error (Connect): tcp connect error: Connection refused (os error 111)": {
			bridge.ProblemUnreachable, "GitHub cannot be reached: api.githubcopilot.com: connection refused"},
		"client error (Connect): operation timed out":                     {bridge.ProblemUnreachable, "GitHub cannot be reached: api.githubcopilot.com: no answer"},
		"client error (Connect): invalid peer certificate: UnknownIssuer": {bridge.ProblemCertificate, "the certificate of api.githubcopilot.com is not trusted"},
		"something new": {bridge.ProblemUnreachable, "GitHub cannot be reached: api.githubcopilot.com: the connection failed"},
	} {
		text := "Failed native model HTTP request: error sending request for url (https://api.githubcopilot.com/responses): " + said
		e := h.modelFailure(&rpc.ModelCallFailureData{ErrorMessage: &text}, nil)
		if e.Code != bridge.CodeProvider || e.Problem() != want.problem || e.Message != want.message || e.Remedy != problems[want.problem].remedy {
			t.Errorf("%s: %+v, %+v", said, e, e.Detail)
		}
	}
}

func TestWordsForTimes(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "", -time.Second: "", 300 * time.Millisecond: "1 second", 90 * time.Second: "90 seconds",
		15 * time.Minute: "15 minutes", 3*time.Hour - time.Second: "3 hours", 72 * time.Hour: "3 days", 400 * 24 * time.Hour: ""} {
		if got := wordsFor(wait); got != want {
			t.Errorf("%s: %q", wait, got)
		}
	}
}

// The runtime adds "api." to the host, unless it is an address.
func TestAPIHost(t *testing.T) {
	for host, want := range map[string]string{"": "api.github.com", "github.com": "api.github.com", "octo.ghe.com": "api.octo.ghe.com",
		"127.0.0.1:4711": "127.0.0.1:4711", "10.0.0.1": "10.0.0.1"} {
		if got := apiHost(host); got != want {
			t.Errorf("%s: %s", host, got)
		}
	}
}
