package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// TestRefusals holds the path and the text of errors in requests.
func TestRefusals(t *testing.T) {
	user := `"messages":[{"role":"user","content":"hi"}]`
	block := func(b string) string {
		return `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"user","content":[` + b + `]}]}`
	}
	with := func(fields string) string {
		return `{"model":"gpt-5-mini","max_tokens":9,` + user + `,` + fields + `}`
	}
	for _, test := range []struct{ name, body, want string }{
		{"no JSON", `{"model":`, "the body is not valid JSON: line 1, column 10: unexpected end of JSON input"},
		{"no model", `{"max_tokens":9,` + user + `}`, "model: the name of a model is required"},
		{"no max_tokens", `{"model":"gpt-5-mini",` + user + `}`, "max_tokens: the field is required"},
		{"negative max_tokens", `{"model":"gpt-5-mini","max_tokens":-1,` + user + `}`, "max_tokens: expected 0 or more, got -1"},
		{"wrong max_tokens", `{"model":"gpt-5-mini","max_tokens":"9",` + user + `}`, "max_tokens: expected an integer, got a string"},
		{"no messages", `{"model":"gpt-5-mini","max_tokens":9,"messages":[]}`, "messages: at least one message is required"},
		{"only system messages", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"system","content":"hi"}]}`, "messages: there is nothing in them to answer"},
		{"role", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"tool","content":"hi"}]}`, `messages[0].role: expected "user", "assistant" or "system", got "tool"`},
		{"content", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":7}]}`, "messages[0].content: expected a string or an array, got a number"},
		{"content object", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":{"type":"text"}}]}`, "messages[0].content: expected a string or an array, got an object"},
		{"empty content", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":[]}]}`, "messages[0].content: a user message must not be empty"},
		{"prefill", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"{"}]}`, "messages[1]: the conversation must end with a user message: the models here cannot continue the assistant's words (prefill)"},
		{"unknown block", block(`{"type":"text","text":"a"},{"type":"imgae"}`), `messages[1].content[1].type: a content block of type "imgae" is not possible here`},
		{"untyped block", block(`{"text":"a"}`), "messages[1].content[0].type: the field is required"},
		{"text of another kind", block(`{"type":"text","text":["a"]}`), "messages[1].content[0].text: expected a string, got an array"},
		{"call of the user", block(`{"type":"tool_use","id":"a","name":"b","input":{}}`), `messages[1].content[0].type: a content block of type "tool_use" is not possible here`},
		{"image by URL", block(`{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`), "messages[1].content[0].source: the bridge does not fetch for its clients: send the image itself, with a source of type base64"},
		{"document by id", block(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`), "messages[1].content[0].source: there are no uploaded files here: send the document itself, with a source of type base64"},
		{"upload", block(`{"type":"container_upload","file_id":"file_1"}`), "messages[1].content[0].type: there are no containers here: send the file itself"},
		{"image without source", block(`{"type":"image"}`), "messages[1].content[0].source.type: the field is required"},
		{"image of text", block(`{"type":"image","source":{"type":"base64","media_type":"text/plain","data":"YQ=="}}`), `messages[1].content[0].source.media_type: expected an image type such as image/png, got "text/plain"`},
		{"image as text", block(`{"type":"image","source":{"type":"text","media_type":"image/png","data":"YQ=="}}`), `messages[1].content[0].source.type: expected "base64", got "text"`},
		{"broken image", block(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"?"}}`), "messages[1].content[0].source.data: not valid base64"},
		{"empty image", block(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}`), "messages[1].content[0].source.data: there is no data in it"},
		{"source", block(`{"type":"image","source":[]}`), "messages[1].content[0].source: expected a string or an object, got an array"},
		{"document", block(`{"type":"document","source":{"type":"base64","media_type":"","data":"YQ=="}}`), `messages[1].content[0].source.media_type: expected a type such as application/pdf, got ""`},
		{"document source", block(`{"type":"document","source":{"type":"magic"}}`), `messages[1].content[0].source.type: expected "base64", "text" or "content", got "magic"`},
		{"document in document", block(`{"type":"document","source":{"type":"content","content":[{"type":"document"}]}}`), "messages[1].content[0].source.content: a document cannot hold another one"},
		{"result of what", block(`{"type":"tool_result","content":"a"}`), "messages[1].content[0].tool_use_id: the field is required"},
		{"result object", block(`{"type":"tool_result","tool_use_id":"a","content":{}}`), "messages[1].content[0].content: expected a string or an array, got an object"},
		{"image in result", block(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"b"},{"type":"image","source":{"type":"url"}}]}`), "messages[1].content[0].content[1].source: the bridge does not fetch for its clients: send the image itself, with a source of type base64"},
		{"result of the assistant", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_result"}]}]}`, "messages[0].content[0].type: a tool_result belongs into a user message"},
		{"call without id", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"a"}]}]}`, "messages[0].content[0].id: the field is required"},
		{"call without name", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}]}`, "messages[0].content[0].name: the field is required"},
		{"turn effort", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"system","content":"b","output_config":{"effort":"huge"}}]}`, `messages[1].output_config.effort: unknown effort "huge"`},
		{"no tool added", `{"model":"gpt-5-mini","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"system","content":[{"type":"tool_addition"}]}]}`, "messages[1].content[0].tool: the field is required"},
		{"system", with(`"system":[{"type":"image"}]`), `system[0].type: expected "text", got "image"`},
		{"system object", with(`"system":{}`), "system: expected a string or an array, got an object"},
		{"tool without name", with(`"tools":[{"input_schema":{}}]`), "tools[0].name: the field is required"},
		{"tool without schema", with(`"tools":[{"name":"a"}]`), "tools[0].input_schema: the field is required"},
		{"schema", with(`"tools":[{"name":"a","input_schema":"object"}]`), "tools[0].input_schema: expected an object, got a string"},
		{"two tools", with(`"tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}]`), `tools[1].name: there are two tools called "a"`},
		{"choice", with(`"tool_choice":{"type":"maybe"}`), `tool_choice.type: expected "auto", "any", "tool" or "none", got "maybe"`},
		{"choice of none", with(`"tool_choice":{"type":"any"}`), "tool_choice: there are no tools to choose from"},
		{"choice of another", with(`"tools":[{"name":"a","input_schema":{}}],"tool_choice":{"type":"tool","name":"b"}`), `tool_choice.name: there is no tool called "b"`},
		{"thinking", with(`"thinking":{"type":"deep"}`), `thinking.type: expected "enabled", "adaptive", "between_tools" or "disabled", got "deep"`},
		{"budget", with(`"thinking":{"type":"enabled"}`), "thinking.budget_tokens: the field is required"},
		{"effort", with(`"output_config":{"effort":"huge"}`), `output_config.effort: expected "low", "medium", "high", "xhigh" or "max", got "huge"`},
		{"format", with(`"output_format":{"type":"xml"}`), `output_format.type: expected "json_schema", got "xml"`},
		{"format schema", with(`"output_config":{"format":{"type":"json_schema"}}`), "output_config.format.schema: a JSON schema is required"},
		{"stop", with(`"stop_sequences":["a",""]`), "stop_sequences[1]: a stop sequence must not be empty"},
		{"stop number", with(`"stop_sequences":["a",1]`), "stop_sequences[1]: expected a string, got a number"},
		{"MCP", with(`"mcp_servers":[{"type":"url","url":"https://example.com","name":"a"}]`), "mcp_servers: the bridge does not connect to MCP servers for its clients: call them yourself and offer their tools in tools"},
		{"container", with(`"container":"container_1"`), "container: there are no containers here"},
		{"skills", with(`"container":{"id":null,"skills":[{"type":"anthropic","skill_id":"pdf"}]}`), "container: there are no containers here"},
		{"compaction", with(`"compaction":{"type":"summarize"}`), "compaction: the bridge does not summarise conversations: ask for a summary in a message"},
		{"thread", with(`"thread":{"type":"fork"}`), `thread.type: expected "create" or "continue", got "fork"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			svc := plays(nil)
			w := post(t, fixed(svc, Options{}), "/v1/messages", test.body)
			var got errorEnvelope
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v in %s", err, w.Body)
			}
			want := errorEnvelope{Type: "error", Error: errorObject{Type: typeInvalid, Message: test.want}, RequestID: "req_1"}
			if got != want || w.Code != http.StatusBadRequest {
				t.Errorf("got %d %+v\nwant %+v", w.Code, got, want)
			}
			if len(svc.asked) > 0 {
				t.Error("it was answered all the same")
			}
		})
	}
}

// TestTolerated holds fields that are ignored, or empty and so not refused.
func TestTolerated(t *testing.T) {
	for _, fields := range []string{
		`"container":null,"mcp_servers":[],"compaction":null,"container":{"id":null,"skills":[]}`,
		`"system":null,"tools":null,"tool_choice":null,"thinking":null,"stop_sequences":null,"output_config":null,"metadata":null,"thread":null`,
		`"temperature":"hot","top_p":[],"top_k":{},"service_tier":7,"context_management":{"edits":[]},"cache_control":{"type":"ephemeral"},"speed":"fast","inference_geo":"us","fallbacks":"default","diagnostics":{},"unheard_of":true`,
		`"tools":[{"type":"bash_20250124","name":"bash"},{"type":"mcp_toolset","mcp_server_name":"a"},{"type":"custom","name":"a","description":null,"input_schema":{},"strict":true,"input_examples":[{}]}],"tool_choice":{"type":"auto"}`,
		`"thinking":{"type":"disabled"},"output_config":{"effort":null,"task_budget":{"type":"tokens","total":9}}`,
	} {
		svc := plays(nil, says("hi")...)
		body := `{"model":"anything","max_tokens":9,"messages":[{"role":"user","content":"hi"}],` + fields + `}`
		w := post(t, fixed(svc, Options{}), "/v1/messages", body)
		if w.Code != http.StatusOK || len(svc.asked) != 1 {
			t.Errorf("%s: %d %s", fields, w.Code, w.Body)
		}
		if got := w.Header().Get("X-Copilot-Bridge-Model"); got != "claude-sonnet-4.5" {
			t.Errorf("the model that answers instead is called %q", got)
		}
		if got := w.Header().Get("Request-Id"); got != "req_1" {
			t.Errorf("Request-Id: %q", got)
		}
	}
}

func TestEffort(t *testing.T) {
	all := []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	for _, test := range []struct {
		want  effort
		known []string
		got   string
	}{
		{"", all, ""},
		{"high", nil, ""},
		{"high", all, "high"},
		{"max", []string{"low", "medium", "high"}, "high"},
		{"medium", []string{"low", "high"}, "low"},
		{"xhigh", []string{"low", "max"}, "max"},
		{"low", []string{"medium", "high"}, "medium"},
		{"none", all, "none"},
		{"none", []string{"low", "high"}, ""},
		{"high", []string{"turbo"}, ""},
	} {
		if got := test.want.of(bridge.Model{ReasoningEfforts: test.known}); got != test.got {
			t.Errorf("%q of %v: got %q, want %q", test.want, test.known, got, test.got)
		}
	}
	for tokens, want := range map[int64]effort{1024: "low", 8000: "medium", 31999: "high"} {
		if got := forBudget(tokens); got != want {
			t.Errorf("%d tokens: got %q, want %q", tokens, got, want)
		}
	}
}

func TestExact(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"string"}`: true,
		`{"type":"object"}`: false,
		`{"type":"object","additionalProperties":false}`:                                                                                                    true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                                              true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`:                                                 false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                           false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`:                     false,
		`{"anyOf":[{"type":"null"},{"type":"object","properties":{"a":{}},"additionalProperties":false}]}`:                                                  false,
		`{"$defs":{"x":{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}},"type":"array","items":{"$ref":"#/$defs/x"}}`: true,
	} {
		var v any
		if err := json.Unmarshal([]byte(schema), &v); err != nil {
			t.Fatal(err)
		}
		if got := exact(v); got != want {
			t.Errorf("%s: got %v", schema, got)
		}
	}
}

func TestToolIDs(t *testing.T) {
	for id, want := range map[string]string{
		"call_abc-1":                      "call_abc-1",
		"toolu_01D7FLrfh4GYq7yT1ULFeyMV":  "toolu_01D7FLrfh4GYq7yT1ULFeyMV",
		"functions.weather:0":             "toolu_bridge_ZnVuY3Rpb25zLndlYXRoZXI6MA",
		"":                                "toolu_bridge_",
		"toolu_bridge_Y2FsbDoy":           "toolu_bridge_dG9vbHVfYnJpZGdlX1kyRnNiRG95",
		strings.Repeat("x", 3) + "\u00e9": "toolu_bridge_eHh4w6k",
	} {
		if got := toolID(id); got != want {
			t.Errorf("%q becomes %q, want %q", id, got, want)
		}
		if got := callID(want); got != id {
			t.Errorf("%q came back as %q", id, got)
		}
	}
	for _, id := range []string{"toolu_bridge_!", "toolu_bridge_YQ", "call_1"} {
		if got := callID(id); got != id {
			t.Errorf("%q, which was never made here, becomes %q", id, got)
		}
	}
}

func FuzzToolID(f *testing.F) {
	f.Add("call_1")
	f.Add("functions.a:0")
	f.Add(wrapped)
	f.Fuzz(func(t *testing.T, id string) {
		out := toolID(id)
		if out == "" || strings.IndexFunc(out, foreign) >= 0 {
			t.Errorf("%q becomes %q", id, out)
		}
		if got := callID(out); got != id {
			t.Errorf("%q came back as %q", id, got)
		}
	})
}
