//go:build unix

package sdk_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/sdk"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// Each kind of provider is reached at its own path with its own header, by
// the real runtime.
func TestProvidersOnTheWire(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		provider bridge.Provider
		path     string
		header   string
		value    string
	}{
		"openai":           {bridge.Provider{Kind: "openai"}, "/chat/completions", "Authorization", "Bearer the-key"},
		"openai responses": {bridge.Provider{Kind: "openai", WireAPI: "responses"}, "/responses", "Authorization", "Bearer the-key"},
		"ollama":           {bridge.Provider{Kind: "ollama"}, "/chat/completions", "Authorization", "Bearer the-key"},
		"anthropic":        {bridge.Provider{Kind: "anthropic"}, "/v1/messages", "X-Api-Key", "the-key"},
		"azure":            {bridge.Provider{Kind: "azure", AzureAPIVersion: "2024-10-21"}, "/openai/deployments/the-model/chat/completions", "Api-Key", "the-key"},
		"bearer token":     {bridge.Provider{Kind: "openai", BearerToken: "the-bearer"}, "/chat/completions", "Authorization", "Bearer the-bearer"},
		"wire model":       {bridge.Provider{Kind: "openai", WireModel: "the-model-as-deployed"}, "/chat/completions", "Authorization", "Bearer the-key"},
		"custom header":    {bridge.Provider{Kind: "openai", Headers: map[string]string{"X-Team": "bridge"}}, "/chat/completions", "X-Team", "bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan *http.Request, 16)
			bodies := make(chan string, 16)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				asked <- r
				bodies <- string(b)
				http.Error(w, `{"error":{"message":"enough seen"}}`, http.StatusBadRequest)
			}))
			defer srv.Close()
			tc.provider.BaseURL, tc.provider.APIKey = srv.URL, "the-key"
			ctx, a, _ := start(t, func(o *sdk.Options) { o.Provider, o.Model = &tc.provider, "the-model" })
			s := openSession(t, ctx, a, bridge.SessionSpec{Profile: bridge.ProfileChat})
			for ev, err := range s.Send(ctx, bridge.Prompt{Text: "hi", Headers: map[string]string{"X-Turn": "7"}}) {
				if _, ok := ev.(bridge.ModelFailed); ok || err != nil {
					break
				}
			}
			select {
			case r := <-asked:
				if r.URL.Path != tc.path || r.Header.Get(tc.header) != tc.value {
					t.Errorf("asked %s with %s: %q", r.URL.Path, tc.header, r.Header.Get(tc.header))
				}
				if r.Header.Get("X-Turn") != "7" {
					t.Error("the turn's header is lost")
				}
				body := <-bodies
				if !strings.Contains(body, "the-model") && name != "azure" {
					t.Errorf("body %.200s", body)
				}
				if wire := tc.provider.WireModel; wire != "" && !strings.Contains(body, `"model":"`+wire+`"`) {
					t.Errorf("another model: %.300s", body)
				}
			default:
				t.Fatal("the provider was not asked")
			}
		})
	}
}

// A session may have a provider and headers of its own, and a prompt headers that
// count instead. Its secrets stay out of errors.
func TestProviderOfOneSession(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Clone()
		http.Error(w, `{"error":{"message":"wrong: own-bearer-token, own-header-secret-value"}}`, http.StatusBadRequest)
	}))
	defer srv.Close()
	ctx, a, _ := start(t, nil)
	s := openSession(t, ctx, a, bridge.SessionSpec{Model: "theirs", Headers: map[string]string{"X-Session": "1", "X-Both": "session"},
		Provider: &bridge.Provider{Kind: "openai", BaseURL: srv.URL, BearerToken: "own-bearer-token", Headers: map[string]string{"X-Secret": "own-header-secret-value"}}})
	o := agenttest.Collect(ctx, s, bridge.Prompt{Text: "hi", Headers: map[string]string{"x-both": "prompt"}})
	if o.Err == nil || strings.Contains(o.Err.Error(), "own-") || !strings.Contains(o.Err.Error(), "[REDACTED]") {
		t.Errorf("the error is %v", o.Err)
	}
	for _, ev := range agenttest.Find[bridge.ModelFailed](o) {
		if strings.Contains(ev.Error.Error(), "own-") {
			t.Errorf("a failure says %v", ev.Error)
		}
	}
	h := <-asked
	if h.Get("Authorization") != "Bearer own-bearer-token" || h.Get("X-Secret") == "" || h.Get("X-Session") != "1" || h.Get("X-Both") != "prompt" {
		t.Errorf("asked with %v", h)
	}
}

// The bounds on tokens are limits of the model to the runtime: it compacts an
// agent's context by the first. (It sends the second to no provider, as version
// 1.0.14 shows.) A chat is not held to the first.
func TestTokensOfAProvider(t *testing.T) {
	t.Parallel()
	ctx, a, _ := start(t, func(o *sdk.Options) { o.Provider.MaxInputTokens, o.Provider.MaxOutputTokens = 54321, 4321 })
	for profile, bound := range map[bridge.Profile]bool{bridge.ProfileAgent: true, bridge.ProfileChat: false} {
		o := agenttest.Collect(ctx, openSession(t, ctx, a, bridge.SessionSpec{Profile: profile, Raw: true}), agenttest.Say("measured"))
		m := agenttest.Find[bridge.ContextMeasured](o)
		if o.Err != nil || len(m) == 0 || (m[0].Limit == 54321) != bound {
			t.Errorf("%s: %+v, %v", profile, m, o.Err)
		}
		told := slices.ContainsFunc(agenttest.Find[bridge.Other](o), func(e bridge.Other) bool {
			text, err := json.Marshal(e.Data)
			return err == nil && e.Name == bridge.RawPrefix+"model.turn_started" && strings.Contains(string(text), `"max_output_tokens":4321`)
		})
		if !told {
			t.Errorf("%s: the runtime does not know how much the model may say", profile)
		}
	}
}

func TestTelemetryIsPassedOn(t *testing.T) {
	for name, contents := range map[string]bool{"with contents": true, "without contents": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "traces.jsonl")
			ctx, a := traced(t, sdk.Telemetry{ExporterType: "file", FilePath: file, SourceName: "bridge-test", CaptureContent: contents})
			if err := a.Close(ctx); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(b), "bridge-test") || strings.Contains(string(b), "words to trace") != contents {
				t.Errorf("%d bytes of traces, %v", len(b), err)
			}
		})
	}
	t.Run("to an endpoint", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 1)
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case asked <- r.Method + " " + r.URL.Path:
			default:
			}
		}))
		t.Cleanup(srv.Close) // after the agent's end
		ctx, _ := traced(t, sdk.Telemetry{ExporterType: "otlp-http", OTLPEndpoint: srv.URL})
		select { // the runtime collects traces for ten seconds
		case got := <-asked:
			if got != "POST /v1/traces" {
				t.Errorf("the endpoint got %s", got)
			}
		case <-ctx.Done():
			t.Error("the endpoint got nothing")
		}
	})
}

// traced runs a turn with telemetry.
func traced(t *testing.T, telemetry sdk.Telemetry) (context.Context, *sdk.Agent) {
	t.Helper()
	ctx, a, _ := start(t, func(o *sdk.Options) { o.Telemetry = &telemetry })
	s := openSession(t, ctx, a, bridge.SessionSpec{})
	if o := agenttest.Collect(ctx, s, agenttest.Say("words to trace")); o.Err != nil {
		t.Fatal(o.Err)
	}
	return ctx, a
}
