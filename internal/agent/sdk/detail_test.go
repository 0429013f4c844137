//go:build unix

package sdk_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// What the runtime tells of a request to the model, besides its tokens, is in the
// event and survives its encoding.
func TestUsageInFull(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{ReasoningEffort: "high"})
	o := agenttest.Collect(ctx, s, agenttest.Script("chunks one |two |three", "delay 20ms"))
	all := agenttest.Find[bridge.UsageReported](o)
	if o.Err != nil || len(all) != 1 || all[0].Call == nil {
		t.Fatalf("%+v, %v", all, o.Err)
	}
	c := all[0].Call
	if c.ID == "" || c.Effort != "high" || c.FirstToken <= 0 || c.InterToken <= 0 || c.Duration < c.FirstToken.Truncate(time.Millisecond) {
		t.Errorf("%+v", c)
	}
	line, err := bridge.EncodeEvent(all[0])
	if err != nil {
		t.Fatal(err)
	}
	back, err := bridge.DecodeEvent(line)
	if u, ok := back.(bridge.UsageReported); err != nil || !ok || u.Call.FirstToken != c.FirstToken {
		t.Errorf("%s: %+v, %v", line, back, err)
	}
}

// The ids by which a provider finds a failed call are in the error, of each try
// and of the turn.
func TestErrorInFull(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Github-Request-Id", "ABCD:1234")
		w.Header().Set("X-Copilot-Service-Request-Id", "the-key-of-somebody")
		http.Error(w, `{"error":{"message":"enough"}}`, http.StatusPaymentRequired)
	}))
	defer srv.Close()
	ctx, a, _ := start(t, func(o *sdk.Options) {
		o.Provider, o.Model = &bridge.Provider{Kind: "openai", BaseURL: srv.URL, APIKey: "the-key-of-somebody"}, "m"
	})
	o := agenttest.Collect(ctx, openSession(t, ctx, a, bridge.SessionSpec{}), bridge.Prompt{Text: "hi"})
	e := bridge.AsError(o.Err)
	if e == nil || e.Detail == nil || e.Detail.Type == "" || e.Detail.ProviderCallID != "ABCD:1234" || e.Detail.ServiceRequestID != "[REDACTED]" || e.Status != http.StatusPaymentRequired {
		t.Fatalf("%v: %+v", e, e.Detail)
	}
	tries := agenttest.Find[bridge.ModelFailed](o)
	if len(tries) == 0 || tries[0].Error.Detail == nil || tries[0].Error.Detail.ProviderCallID != "ABCD:1234" {
		t.Errorf("%+v", tries)
	}
	line, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back bridge.Error
	if err := back.UnmarshalJSON(line); err != nil || back.Detail == nil || !reflect.DeepEqual(back.Detail, e.Detail) {
		t.Errorf("%s: %+v, %v", line, back.Detail, err)
	}
}
