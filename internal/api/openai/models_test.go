package openai

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

func get(t *testing.T, d *door, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	d.mux().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestModels(t *testing.T) {
	const plain = `{"id":"plain","object":"model","owned_by":"github-copilot","type":"model","display_name":"plain","created_at":"1970-01-01T00:00:00Z","capabilities":{"type":"chat","limits":{},"supports":{"streaming":true}},"supported_endpoints":["/v1/chat/completions","/v1/responses","/v1/messages"]}`
	const gpt = `{"id":"gpt-5","object":"model","owned_by":"github-copilot","type":"model","display_name":"gpt-5","created_at":"1970-01-01T00:00:00Z","capabilities":{"type":"chat","limits":{},"supports":{"streaming":true,"reasoning_effort":["low","high"]}},"supported_endpoints":["/v1/chat/completions","/v1/responses","/v1/messages"]}`
	const agent = `{"id":"agent/gpt-5","object":"model","owned_by":"github-copilot","type":"model","display_name":"gpt-5 (agent)","created_at":"1970-01-01T00:00:00Z","capabilities":{"type":"chat","limits":{},"supports":{"streaming":true}},"supported_endpoints":["/v1/chat/completions","/v1/responses","/v1/messages"]}`
	for _, c := range []struct {
		path, body string
	}{
		{"/v1/models", `{"object":"list","data":[` + gpt + `,` + plain + `,` + agent + `],"has_more":false}`},
		{"/v1/models/gpt-5", gpt},
		{"/v1/models/agent/gpt-5", agent},
		{"/v1/models/agent%2Fgpt-5", agent},
	} {
		w := get(t, fixed(plays(nil)), "GET", c.path)
		if w.Code != 200 || w.Body.String() != c.body || w.Header().Get(wire.ModelHeader) != "" {
			t.Errorf("%s: %d %s %v", c.path, w.Code, w.Body, w.Header())
		}
	}
}

func TestNoModels(t *testing.T) {
	svc := plays(nil)
	svc.list = nil
	if w := get(t, fixed(svc), "GET", "/v1/models"); w.Body.String() != `{"object":"list","data":[],"has_more":false}` {
		t.Errorf("got %s", w.Body)
	}
	svc.err = &bridge.Error{Code: bridge.CodeUnavailable, Message: "down"}
	for _, path := range []string{"/v1/models", "/v1/models/gpt-5"} {
		if w := get(t, fixed(svc), "GET", path); w.Code != 503 || *readError(t, w).Error.Code != "copilot_unavailable" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestUnknownModel(t *testing.T) {
	d := fixed(plays(nil))
	for _, w := range []*httptest.ResponseRecorder{
		get(t, d, "GET", "/v1/models/nothing"),
		post(t, d, "/v1/chat/completions", strings.Replace(hello, "gpt-5", "nothing", 1)),
	} {
		e := readError(t, w).Error
		if w.Code != 404 || *e.Code != "model_not_found" || *e.Param != "model" || e.Message != `there is no model "nothing". There are gpt-5 and agent/gpt-5.` {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// What an unknown name leads to is told by a header and by the answer's own
// field, as OpenAI does with aliases; the list of models does not know it.
func TestAnotherModelInstead(t *testing.T) {
	d := fixed(plays(nil, bridge.MessageDone{Text: "x"}, bridge.TurnEnded{Reason: bridge.EndDone}))
	for _, stream := range []string{"", `"stream":true,`} {
		for path, body := range map[string]string{
			"/v1/chat/completions": strings.Replace(hello, "gpt-5", "anything", 1),
			"/v1/responses":        `{"model":"anything","input":"hi"}`,
		} {
			w := post(t, d, path, strings.Replace(body, "{", "{"+stream, 1))
			if w.Code != 200 || w.Header().Get(wire.ModelHeader) != "gpt-5" || !strings.Contains(w.Body.String(), `"model":"gpt-5"`) || strings.Contains(w.Body.String(), "anything") {
				t.Errorf("%s: %d %s %v", path, w.Code, w.Body, w.Header())
			}
		}
	}
	w := get(t, d, "GET", "/v1/models/anything")
	if e := readError(t, w).Error; w.Code != 404 || *e.Code != "model_not_found" || !strings.Contains(e.Message, "answered by gpt-5") || w.Header().Get(wire.ModelHeader) != "" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/chat/completions", 405, "POST"},
		{"GET", "/v1/responses", 405, "POST"},
		{"POST", "/v1/models", 405, "GET"},
		{"DELETE", "/v1/models/gpt-5", 405, "GET"},
		{"POST", "/v1/embeddings", 404, ""},
		{"GET", "/v1/", 404, ""},
	} {
		w := get(t, fixed(plays(nil)), c.method, c.path)
		if w.Code != c.status || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %v", c.method, c.path, w.Code, w.Header())
		}
		readError(t, w)
	}
}

// What a model can do and costs is told in the fields of other servers.
func TestModelDetails(t *testing.T) {
	svc, multiplier := plays(nil), 1.5
	m := &svc.list[0].Model
	m.Vendor, m.Created, m.ContextTokens, m.PromptTokens, m.OutputTokens, m.Vision = "openai", 1735689600, 264000, 128000, 64000, true
	m.ReasoningEfforts, m.Multiplier, m.Policy = []string{"low", "high"}, &multiplier, "disabled"
	want := `"created":1735689600,"owned_by":"openai","type":"model","display_name":"` + svc.list[0].Name + `","created_at":"2025-01-01T00:00:00Z","context_length":264000,` +
		`"capabilities":{"type":"chat","limits":{"max_context_window_tokens":264000,"max_prompt_tokens":128000,"max_output_tokens":64000},"supports":{"streaming":true,"vision":true,"reasoning_effort":["low","high"]}},` +
		`"supported_endpoints":["/v1/chat/completions","/v1/responses","/v1/messages"],"billing":{"is_premium":true,"multiplier":1.5},"policy":{"state":"disabled"}}`
	if w := get(t, fixed(svc), "GET", "/v1/models"); !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s\nwant %s", w.Body, want)
	}
}
