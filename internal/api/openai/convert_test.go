package openai

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// told is an error as a client reads it.
type told struct {
	Error struct {
		Message string  `json:"message"`
		Type    *string `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func readError(t *testing.T, w *httptest.ResponseRecorder) told {
	t.Helper()
	var e told
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error.Message == "" || e.Error.Type == nil {
		t.Fatalf("not an error: %d %s (%v)", w.Code, w.Body, err)
	}
	return e
}

func TestBadRequestsNameThePlace(t *testing.T) {
	const user = `{"role":"user","content":"hi"}`
	const tool = `{"type":"function","function":{"name":"f"}}`
	for _, c := range []struct{ name, body, param, says string }{
		{"no model", `{"messages":[` + user + `]}`, "model", "name of a model"},
		{"no messages", `{"model":"gpt-5"}`, "messages", "at least one"},
		{"empty messages", `{"model":"gpt-5","messages":[]}`, "messages", "at least one"},
		{"messages not a list", `{"model":"gpt-5","messages":"hi"}`, "messages", "expected an array, got a string"},
		{"role", `{"model":"gpt-5","messages":[{"role":"bot","content":"x"}]}`, "messages[0].role", `"bot"`},
		{"content", `{"model":"gpt-5","messages":[` + user + `,{"role":"user","content":7}]}`, "messages[1].content", "a string or an array, got a number"},
		{"part", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":1}]}]}`, "messages[0].content[1].text", "expected a string"},
		{"part type", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"video"}]}]}`, "messages[0].content[0].type", `"video"`},
		{"remote image", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"HTTPS://example.com/a.png"}}]}]}`, "messages[0].content[0].image_url", "does not fetch"},
		{"file path", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`, "messages[0].content[0].image_url", "data: URL"},
		{"not an image", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/plain,hello"}}]}]}`, "messages[0].content[0].image_url", "expected an image"},
		{"broken base64", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,A*"}}]}]}`, "messages[0].content[0].image_url", "base64"},
		{"empty image", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}]}]}`, "messages[0].content[0].image_url", "no data"},
		{"image kind", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"image_url","image_url":4}]}]}`, "messages[0].content[0].image_url", "expected a string or an object"},
		{"audio", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]}]}`, "messages[0].content[0]", "audio"},
		{"file id", `{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}`, "messages[0].content[0].file", "file_data"},
		{"image of the system", `{"model":"gpt-5","messages":[` + user + `,{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}}]},` + user + `]}`, "messages[1].content", "only users and tools"},
		{"image of the first system message", `{"model":"gpt-5","messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}}]},` + user + `]}`, "messages[0].content", "only users and tools"},
		{"assistant last", `{"model":"gpt-5","messages":[` + user + `,{"role":"assistant","content":"yes"}]}`, "messages[1]", "nothing to answer"},
		{"calls last", `{"model":"gpt-5","messages":[` + user + `,{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "messages[1]", "results"},
		{"nothing said", `{"model":"gpt-5","messages":[{"role":"user","content":""}]}`, "messages[0].content", "empty"},
		{"no content", `{"model":"gpt-5","messages":[{"role":"user","content":null}]}`, "messages[0].content", "empty"},
		{"tool without id", `{"model":"gpt-5","messages":[{"role":"tool","content":"x"}]}`, "messages[0].tool_call_id", "needs the id"},
		{"call without id", `{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f"}}]}]}`, "messages[0].tool_calls[0].id", "needs an id"},
		{"call without name", `{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function"}]}]}`, "messages[0].tool_calls[0].function.name", "needs the name"},
		{"call type", `{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"magic"}]}]}`, "messages[0].tool_calls[0].type", `"magic"`},
		{"call arguments", `{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":5}}]}]}`, "messages[0].tool_calls[0].function.arguments", "expected a string or an object"},
		{"function call without name", `{"model":"gpt-5","messages":[{"role":"assistant","function_call":{}}]}`, "messages[0].function_call.name", "needs the name"},
		{"n", `{"model":"gpt-5","n":2,"messages":[` + user + `]}`, "n", "got 2"},
		{"n zero", `{"model":"gpt-5","n":0,"messages":[` + user + `]}`, "n", "got 0"},
		{"audio out", `{"model":"gpt-5","modalities":["text","audio"],"messages":[` + user + `]}`, "modalities", "audio"},
		{"stops", `{"model":"gpt-5","stop":["a","b","c","d","e"],"messages":[` + user + `]}`, "stop", "at most 4"},
		{"empty stop", `{"model":"gpt-5","stop":["a",""],"messages":[` + user + `]}`, "stop[1]", "empty"},
		{"stop kind", `{"model":"gpt-5","stop":{"a":1},"messages":[` + user + `]}`, "stop", "a string or an array"},
		{"stream", `{"model":"gpt-5","stream":"yes","messages":[` + user + `]}`, "stream", "expected a boolean"},
		{"effort", `{"model":"gpt-5","reasoning_effort":"medium","messages":[` + user + `]}`, "reasoning_effort", "gpt-5 takes low, high"},
		{"unknown effort", `{"model":"plain","reasoning_effort":"lots","messages":[` + user + `]}`, "reasoning_effort", `"lots"`},
		{"tool without name", `{"model":"gpt-5","tools":[{"type":"function","function":{}}],"messages":[` + user + `]}`, "tools[0].function.name", "needs a name"},
		{"tool twice", `{"model":"gpt-5","tools":[` + tool + `,` + tool + `],"messages":[` + user + `]}`, "tools[1].function.name", "twice"},
		{"tool parameters", `{"model":"gpt-5","tools":[{"type":"function","function":{"name":"f","parameters":[]}}],"messages":[` + user + `]}`, "tools[0].function.parameters", "expected an object"},
		{"function without name", `{"model":"gpt-5","functions":[{}],"messages":[` + user + `]}`, "functions[0].name", "needs a name"},
		{"required without tools", `{"model":"gpt-5","tool_choice":"required","messages":[` + user + `]}`, "tool_choice", "declares no function"},
		{"tool choice", `{"model":"gpt-5","tools":[` + tool + `],"tool_choice":"maybe","messages":[` + user + `]}`, "tool_choice", `"maybe"`},
		{"tool choice kind", `{"model":"gpt-5","tool_choice":[],"messages":[` + user + `]}`, "tool_choice", "a string or an object"},
		{"unknown tool chosen", `{"model":"gpt-5","tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"g"}},"messages":[` + user + `]}`, "tool_choice.function.name", `"g"`},
		{"unknown tool allowed", `{"model":"gpt-5","tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[` + tool + `,{"type":"function","function":{"name":"g"}}]}},"messages":[` + user + `]}`, "tool_choice.allowed_tools.tools[1].function.name", `"g"`},
		{"allowed mode", `{"model":"gpt-5","tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"x","tools":[` + tool + `]}},"messages":[` + user + `]}`, "tool_choice.allowed_tools.mode", `"x"`},
		{"nothing allowed but required", `{"model":"gpt-5","tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}},"messages":[` + user + `]}`, "tool_choice.allowed_tools", "declares no function"},
		{"function choice", `{"model":"gpt-5","functions":[{"name":"f"}],"function_call":"must","messages":[` + user + `]}`, "function_call", `"must"`},
		{"unknown function chosen", `{"model":"gpt-5","functions":[{"name":"f"}],"function_call":{"name":"g"},"messages":[` + user + `]}`, "function_call.name", `"g"`},
		{"function choice kind", `{"model":"gpt-5","function_call":true,"messages":[` + user + `]}`, "function_call", "a string or an object"},
		{"format", `{"model":"gpt-5","response_format":{"type":"grammar"},"messages":[` + user + `]}`, "response_format.type", `"grammar"`},
		{"no schema", `{"model":"gpt-5","response_format":{"type":"json_schema"},"messages":[` + user + `]}`, "response_format.json_schema", "a name and a schema"},
		{"no schema name", `{"model":"gpt-5","response_format":{"type":"json_schema","json_schema":{"schema":{}}},"messages":[` + user + `]}`, "response_format.json_schema.name", "needs a name"},
		{"schema not an object", `{"model":"gpt-5","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":[]}},"messages":[` + user + `]}`, "response_format.json_schema.schema", "an object"},
		{"schema missing", `{"model":"gpt-5","response_format":{"type":"json_schema","json_schema":{"name":"x"}},"messages":[` + user + `]}`, "response_format.json_schema.schema", "an object"},
		{"syntax", `{"model":"gpt-5",}`, "", "line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			svc := plays(nil)
			w := post(t, fixed(svc), "/v1/chat/completions", c.body)
			e := readError(t, w).Error
			if w.Code != http.StatusBadRequest || *e.Type != "invalid_request_error" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if c.param == "" != (e.Param == nil) || e.Param != nil && *e.Param != c.param {
				t.Errorf("param: got %s, want %q", w.Body, c.param)
			}
			if !strings.Contains(e.Message, c.says) || c.param != "" && !strings.HasPrefix(e.Message, c.param+": ") {
				t.Errorf("message: got %q, want %q", e.Message, c.says)
			}
			if len(svc.asked) != 0 {
				t.Error("the service was asked all the same")
			}
		})
	}
}

func TestGoodRequests(t *testing.T) {
	done := []bridge.Event{bridge.MessageDone{Message: "m", Text: "ok"}, bridge.TurnEnded{Reason: bridge.EndDone}}
	for _, c := range []struct {
		name, body string
		check      func(bridge.Chat) bool
	}{
		{"nulls are absent", `"messages":[{"role":"user","content":"hi","name":null}],"tools":null,"tool_choice":null,"functions":null,"function_call":null,"stop":null,"n":null,"logprobs":null,"top_logprobs":null,"stream":null,"stream_options":null,"response_format":null,"reasoning_effort":null,"parallel_tool_calls":null,"modalities":null`,
			func(c bridge.Chat) bool { return c.Messages[0].Text == "hi" && !c.OneCall && c.Effort == "" }},
		{"a seed", `"messages":[{"role":"user","content":"hi"}],"seed":7`,
			func(c bridge.Chat) bool { return c.Messages[0].Text == "hi" }},
		{"stream_options without stream", `"messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}`,
			func(c bridge.Chat) bool { return c.Whole }},
		{"tool choice none", `"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"`,
			func(c bridge.Chat) bool { return c.Choice.Mode == bridge.ToolNone }},
		{"function call none", `"messages":[{"role":"user","content":"hi"}],"functions":[{"name":"f"}],"function_call":"none"`,
			func(c bridge.Chat) bool { return c.Choice.Mode == bridge.ToolNone && c.OneCall }},
		{"allowed and required", `"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}},{"type":"web_search"}]}}`,
			func(c bridge.Chat) bool {
				return len(c.Tools) == 1 && c.Tools[0].Name == "g" && c.Choice.Mode == bridge.ToolRequired
			}},
		{"parallel calls", `"messages":[{"role":"user","content":"hi"}],"parallel_tool_calls":true`,
			func(c bridge.Chat) bool { return !c.OneCall }},
		{"a system message at the end", `"messages":[{"role":"user","content":"hi"},{"role":"system","content":"now"}]`,
			func(c bridge.Chat) bool { return c.Messages[1].Role == bridge.RoleUser && c.System == "" }},
		{"a system message after the first", `"messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"},{"role":"developer","content":"b"},{"role":"user","content":"ho"}]`,
			func(c bridge.Chat) bool {
				return c.System == "a" && c.Messages[1].Role == bridge.RoleSystem && len(c.Messages) == 3
			}},
		{"a refusal", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"refusal":"no"},{"role":"assistant","content":[{"type":"refusal","refusal":"never"}]},{"role":"user","content":"ho"}]`,
			func(c bridge.Chat) bool { return c.Messages[1].Text == "no" && c.Messages[2].Text == "never" }},
		{"arguments that are an object", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","tool_call_id":"a","content":"y"}]`,
			func(c bridge.Chat) bool {
				args, ok := c.Messages[1].Calls[0].Args.(map[string]any)
				return ok && args["x"] == 1.0 && c.Messages[2].CallID == "a"
			}},
		{"an effort where the model names none", `"messages":[{"role":"user","content":"hi"}],"reasoning_effort":"xhigh"`,
			func(c bridge.Chat) bool { return c.Effort == "xhigh" }},
		{"text format", `"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"text"}`,
			func(c bridge.Chat) bool { return c.ResponseFormat == nil && !c.JSON }},
	} {
		t.Run(c.name, func(t *testing.T) {
			svc := plays(nil, done...)
			w := post(t, fixed(svc), "/v1/chat/completions", `{"model":"plain",`+c.body+`}`)
			if w.Code != http.StatusOK {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if !c.check(svc.asked[0]) {
				t.Errorf("got %+v", svc.asked[0])
			}
		})
	}
}

func FuzzChatRequest(f *testing.F) {
	f.Add(`{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`)
	f.Add(`{"model":"gpt-5","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}},{"type":"file","file":{"file_data":"aGk","filename":"../x"}}]}],"stream":true,"stop":["a"]}`)
	f.Add(`{"model":"gpt-5","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}],"function_call":{"name":"x"}},{"role":"function","content":"1"},{"role":"tool","tool_call_id":"a","content":null}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"function":{"name":"f"}}]}}}`)
	f.Add(`{"model":"gpt-5","functions":[{"name":"f"}],"function_call":{"name":"f"},"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},"messages":[{"role":"system","content":"x"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		svc := plays(nil, bridge.TextDelta{Message: "m", Text: "o"}, bridge.MessageDone{Message: "m", Text: "ok"}, bridge.TurnEnded{Reason: bridge.EndDone})
		w := post(t, fixed(svc), "/v1/chat/completions", body)
		if w.Code != http.StatusOK {
			if len(svc.asked) != 0 {
				t.Fatalf("refused after it was asked: %d %s", w.Code, w.Body)
			}
			readError(t, w)
			return
		}
		c := svc.asked[0]
		last := c.Messages[len(c.Messages)-1]
		if last.Role != bridge.RoleUser && last.Role != bridge.RoleTool {
			t.Errorf("nothing to answer: %+v", last)
		}
		for _, m := range c.Messages {
			for _, a := range m.Attachments {
				if a.Path != "" || len(a.Data) == 0 || strings.ContainsAny(a.Name, `/\`) {
					t.Errorf("attachment: %+v", a)
				}
			}
		}
	})
}
