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

// A request that GitHub does not take is no fault of GitHub's, and something else may
// have answered it.
func TestRequestsThatAreNotTaken(t *testing.T) {
	h := newHost(New(Options{}), bridge.ProfileChat)
	for _, tt := range []struct {
		status                int32
		said, message, remedy string
		problem               bridge.Problem
	}{
		{400, "odd", "GitHub did not take the request (400 odd)", "begin a new session, or choose another model: " + listModels, ""},
		{413, "413 Request Entity Too Large", "the request is too large for GitHub (413 Request Entity Too Large)", "begin a new session, or leave out large files and pictures", ""},
		{302, "302 Found", "GitHub's answer cannot be read (302 Found)", inBetween, bridge.ProblemFault},
		{0, "non-streaming response body was not valid JSON: EOF", "GitHub's answer cannot be read (non-streaming response body was not valid JSON: EOF)", inBetween, bridge.ProblemFault},
	} {
		d := &rpc.ModelCallFailureData{ErrorMessage: &tt.said}
		if tt.status != 0 {
			d.StatusCode = &tt.status
		}
		if e := h.modelFailure(d, nil); e.Code != bridge.CodeProvider || e.Problem() != tt.problem || e.Message != tt.message || e.Remedy != tt.remedy {
			t.Errorf("%d %s: %+v", tt.status, tt.said, e)
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
