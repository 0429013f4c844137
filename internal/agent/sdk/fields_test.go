package sdk

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Quotas and the fields that only GitHub's own service sends, from events as the
// runtime's schema has them.
func TestFieldsOfGitHubsService(t *testing.T) {
	tr := newTranslator(&host{opts: &Options{}})
	var e copilot.SessionEvent
	if err := json.Unmarshal([]byte(`{"id":"1","timestamp":"2026-01-01T00:00:00Z","parentId":null,"type":"assistant.usage","data":{"model":"gpt-5","timeToFirstTokenMs":1.5,
		"interTokenLatencyMs":2,"duration":30,"reasoningEffort":"low","apiCallId":"a","providerCallId":"p","quotaSnapshots":{"premium_interactions":{"entitlementRequests":300,
		"isUnlimitedEntitlement":false,"overage":2,"overageAllowedWithExhaustedQuota":true,"remainingPercentage":12.5,"resetDate":"2026-02-01T00:00:00Z",
		"usageAllowedWithExhaustedQuota":true,"usedRequests":262}}}}`), &e); err != nil {
		t.Fatal(err)
	}
	var got bridge.UsageReported
	tr.translate(e, func(ev bridge.Event) { got, _ = ev.(bridge.UsageReported) })
	c := got.Call
	if c == nil || c.ID != "a" || c.ProviderID != "p" || c.Effort != "low" || c.FirstToken != 1500*time.Microsecond || c.InterToken != 2*time.Millisecond || c.Duration != 30*time.Millisecond {
		t.Fatalf("%+v", c)
	}
	want := bridge.Quota{Entitlement: 300, RemainingPercent: 12.5, Overage: 2, OverageAllowed: true, Resets: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
	if q := c.Quotas["premium_interactions"]; len(c.Quotas) != 1 || q != want {
		t.Errorf("%+v", c.Quotas)
	}

	text := func(s string) *string { return &s }
	yes, signIn := true, rpc.RemediationActionSignIn
	err := tr.host.sessionError(&rpc.SessionErrorData{ErrorType: "rate_limit", ErrorCode: text("user_weekly_rate_limited"), Message: "slow down", ProviderCallID: text("p"),
		ServiceRequestID: text("s"), URL: text("https://example.com/more"), Remediation: &signIn, EligibleForAutoSwitch: &yes}, "gpt-5", nil)
	full := bridge.ErrorDetail{Type: "rate_limit", Code: "user_weekly_rate_limited", ProviderCallID: "p", ServiceRequestID: "s", URL: "https://example.com/more",
		Remediation: "sign_in", AutoSwitch: true, Problem: bridge.ProblemRateLimit}
	if err.Code != bridge.CodeRateLimited || err.Detail == nil || !reflect.DeepEqual(*err.Detail, full) {
		t.Errorf("%+v, %+v", err, err.Detail)
	}
}
