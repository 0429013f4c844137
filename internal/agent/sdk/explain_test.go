package sdk

import (
	"errors"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The record of a runtime's process is the first file that is written: a home that
// cannot be written to is told, not what came of it.
func TestStartInAReadOnlyHome(t *testing.T) {
	h := newHost(New(Options{}), bridge.ProfileChat)
	err := h.explainStart(errors.New("CLI process exited: exit status 1\nstderr: supervise: process record: open /h/run/a.json.tmp: read-only file system\nfailed to kill CLI process: os: process already finished"))
	e := bridge.AsError(err)
	if e.Error() != "the Copilot runtime did not start: open /h/run/a.json.tmp: read-only file system" || e.Remedy != "make its directory writable, or choose another with COPILOT_BRIDGE_HOME" {
		t.Errorf("%v, %s", e, e.Remedy)
	}
}

// How long to wait is in the words of a provider, if anywhere.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 20s. Visit https://x.": 20 * time.Second,
		"Please try again in 1m2.5s.":                         62500 * time.Millisecond,
		"Please try again in 345ms.":                          345 * time.Millisecond,
		"Please retry after 20 seconds.":                      20 * time.Second,
		"Please retry your request in 1 hour, 2 minutes":      62 * time.Minute,
		"429 Quota exceeded. Please retry in 37.25s.":         37250 * time.Millisecond,
		"retry after 999999 hours":                            waitAtMost,
		"retried 5 times (total retry wait time: 37 seconds)": 0,
		"Please try again in 20 steps":                        0,
		"This request would exceed the limit. Try again.":     0,
		"": 0,
	} {
		if got := retryAfter(&bridge.Error{Code: bridge.CodeRateLimited, Message: text}); got != want {
			t.Errorf("%q means %s, want %s", text, got, want)
		}
	}
	if got := retryAfter(&bridge.Error{Code: bridge.CodeProvider, Message: "try again in 20s"}); got != 0 {
		t.Errorf("no rate limit means %s", got)
	}
}
