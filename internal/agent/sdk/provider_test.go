//go:build unix

package sdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
				if body := <-bodies; !strings.Contains(body, "the-model") && name != "azure" {
					t.Errorf("body %.200s", body)
				}
			default:
				t.Fatal("the provider was not asked")
			}
		})
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
