package openai

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/rogpeppe/go-internal/txtar"
)

func TestBadResponseRequestsNameThePlace(t *testing.T) {
	const user = `{"role":"user","content":"hi"}`
	const tool = `"tools":[{"type":"function","name":"f"}]`
	items := func(list string) string { return `{"model":"gpt-5","input":[` + list + `]}` }
	with := func(fields string) string { return `{"model":"gpt-5","input":"hi",` + fields + `}` }
	for _, c := range []struct{ name, body, param, says string }{
		{"no model", `{"input":"hi"}`, "model", "is required"},
		{"no input", `{"model":"gpt-5"}`, "input", "is required"},
		{"null input", `{"model":"gpt-5","input":null}`, "input", "is required"},
		{"empty text", `{"model":"gpt-5","input":""}`, "input", "empty"},
		{"no items", items(``), "input", "nothing to answer"},
		{"input kind", `{"model":"gpt-5","input":7}`, "input", "expected a string or an array, got a number"},
		{"item kind", items(user + `,"x"`), "input[1]", "expected an object"},
		{"item without a type", items(`{}`), "input[0].type", "is required"},
		{"unknown item", items(user + `,{"type":"hologram"}`), "input[1].type", `"hologram"`},
		{"compaction", items(`{"type":"compaction","encrypted_content":"x"},` + user), "input[0].type", "summarize"},
		{"compaction trigger", items(user + `,{"type":"compaction_trigger"}`), "input[1].type", "summarize"},
		{"role", items(`{"role":"tool","content":"x"}`), "input[0].role", `"tool"`},
		{"content", items(`{"role":"user","content":7}`), "input[0].content", "a string or an array, got a number"},
		{"part", items(`{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":1}]}`), "input[0].content[1].text", "expected a string"},
		{"part type", items(`{"role":"user","content":[{"type":"video"}]}`), "input[0].content[0].type", `"video"`},
		{"remote image", items(`{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}`), "input[0].content[0].image_url", "does not fetch"},
		{"image by id", items(`{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}`), "input[0].content[0].image_url", "keeps no files"},
		{"file by id", items(`{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}`), "input[0].content[0].file_data", "keeps no files"},
		{"file data", items(`{"role":"user","content":[{"type":"input_file","file_data":"*"}]}`), "input[0].content[0].file_data", "base64"},
		{"audio", items(`{"role":"user","content":[{"type":"input_audio"}]}`), "input[0].content[0]", "audio"},
		{"image of the system", items(`{"role":"system","content":[{"type":"input_image","image_url":"data:image/png;base64,AAEC"}]},` + user), "input[0].content", "only users and tools"},
		{"image of the assistant", items(user + `,{"role":"assistant","content":[{"type":"input_image","image_url":"data:image/png;base64,AAEC"}]},` + user), "input[1].content", "only users and tools"},
		{"agents' message", items(`{"type":"agent_message","content":{}}`), "input[0].content", "a string or an array, got an object"},
		{"assistant last", items(user + `,{"role":"assistant","content":"yes"}`), "input[1]", "nothing to answer"},
		{"call last", items(user + `,{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`), "input[1]", "results"},
		{"empty message", items(`{"role":"user","content":[]}`), "input[0].content", "empty"},
		{"call without id", items(`{"type":"function_call","name":"f","arguments":"{}"}`), "input[0].call_id", "is required"},
		{"call without name", items(`{"type":"function_call","call_id":"a","arguments":"{}"}`), "input[0].name", "is required"},
		{"arguments", items(`{"type":"function_call","call_id":"a","name":"f","arguments":7}`), "input[0].arguments", "expected a string"},
		{"custom input", items(`{"type":"custom_tool_call","call_id":"a","name":"f","input":{}}`), "input[0].input", "expected a string"},
		{"result with its own id", items(`{"type":"function_call","call_id":"a","name":"f"},{"type":"function_call_output","id":"a","output":"x"}`), "input[1].call_id", "is required: the id of the call"},
		{"result without id", items(`{"type":"function_call_output","output":"x"}`), "input[0].call_id", "is required"},
		{"result kind", items(`{"type":"function_call","call_id":"a","name":"f"},{"type":"function_call_output","call_id":"a","output":{"x":1}}`), "input[1].output", "a string or an array, got an object"},
		{"foreign reference", items(user + `,{"type":"item_reference","id":"msg_abc"},` + user), "input[1].id", "send the item itself"},
		{"found tools", items(`{"type":"tool_search_output","call_id":"a","tools":[{"type":"function"}]}`), "input[0].tools[0].name", "is required"},
		{"background", with(`"background":true`), "background", "stream"},
		{"conversation", with(`"conversation":"conv_1"`), "conversation", "previous_response_id"},
		{"prompt template", with(`"prompt":{"id":"p"}`), "prompt", "instructions"},
		{"stream kind", with(`"stream":"yes"`), "stream", "expected a boolean"},
		{"tools kind", with(`"tools":{}`), "tools", "expected an array, got an object"},
		{"tool without a type", with(`"tools":[{"name":"f"}]`), "tools[0].type", "is required"},
		{"tool without a name", with(`"tools":[{"type":"web_search"},{"type":"function"}]`), "tools[1].name", "is required"},
		{"parameters", with(`"tools":[{"type":"function","name":"f","parameters":[]}]`), "tools[0].parameters", "expected an object"},
		{"namespace without a name", with(`"tools":[{"type":"namespace","tools":[]}]`), "tools[0].name", "is required"},
		{"tool in a namespace", with(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom"}]}]`), "tools[0].tools[0].name", "is required"},
		{"nested namespace", with(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"m"}]}]`), "tools[0].tools[0].type", "cannot stand in another"},
		{"tool choice kind", with(`"tool_choice":7`), "tool_choice", "a string or an object"},
		{"tool choice word", with(tool + `,"tool_choice":"maybe"`), "tool_choice", `"maybe"`},
		{"required of nothing", with(`"tools":[{"type":"web_search"}],"tool_choice":"required"`), "tool_choice", "no function"},
		{"unknown choice", with(tool + `,"tool_choice":{"type":"function","name":"g"}`), "tool_choice.name", `"g"`},
		{"hosted choice", with(tool + `,"tool_choice":{"type":"web_search_preview"}`), "tool_choice.type", "web_search_preview"},
		{"allowed kind", with(tool + `,"tool_choice":{"type":"allowed_tools","tools":7}`), "tool_choice.tools", "expected an array"},
		{"unknown allowed", with(tool + `,"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}`), "tool_choice.tools[1].name", `"g"`},
		{"allowed mode", with(tool + `,"tool_choice":{"type":"allowed_tools","mode":"must","tools":[]}`), "tool_choice.mode", `"must"`},
		{"none allowed but required", with(tool + `,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[]}`), "tool_choice.mode", "no function"},
		{"text kind", with(`"text":"json"`), "text", "expected an object"},
		{"format", with(`"text":{"format":{"type":"xml"}}`), "text.format.type", `"xml"`},
		{"schema without a name", with(`"text":{"format":{"type":"json_schema","schema":{}}}`), "text.format.name", "is required"},
		{"schema", with(`"text":{"format":{"type":"json_schema","name":"n"}}`), "text.format.schema", "JSON schema"},
		{"effort", with(`"reasoning":{"effort":"ultra"}`), "reasoning.effort", "low, high"},
	} {
		t.Run(c.name, func(t *testing.T) {
			svc := plays(nil)
			w := post(t, fixed(svc), "/v1/responses", c.body)
			e := readError(t, w).Error
			if w.Code != http.StatusBadRequest || *e.Type != "invalid_request_error" || len(svc.asked) != 0 {
				t.Errorf("%d %s, asked %d times", w.Code, w.Body, len(svc.asked))
			}
			if e.Param == nil || *e.Param != c.param || !strings.Contains(e.Message, c.says) {
				t.Errorf("got %s", w.Body)
			}
		})
	}
}

func TestCodexIsToldOfAnImageByItsCode(t *testing.T) {
	w := post(t, fixed(plays(nil)), "/v1/responses",
		`{"model":"gpt-5","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,"}]}]}`)
	e := readError(t, w).Error
	if w.Code != http.StatusBadRequest || e.Code == nil || *e.Code != "invalid_value" || !strings.HasSuffix(*e.Param, ".image_url") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestResponsesModel(t *testing.T) {
	done := []bridge.Event{bridge.MessageDone{Message: "m", Text: "ok"}, bridge.TurnEnded{Reason: bridge.EndDone}}
	w := post(t, fixed(plays(nil, done...)), "/v1/responses", `{"model":"gpt-9","input":"hi"}`)
	if e := readError(t, w).Error; w.Code != http.StatusNotFound || *e.Code != "model_not_found" || *e.Param != "model" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = post(t, fixed(plays(nil, done...)), "/v1/responses", `{"model":"anything","input":"hi","stream":true}`)
	if w.Code != http.StatusOK || w.Header().Get("X-Copilot-Bridge-Model") != "gpt-5" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestStoredResponsesCannotBeRead(t *testing.T) {
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/responses/resp_1"}, {"DELETE", "/v1/responses/resp_1"}, {"POST", "/v1/responses/resp_1/cancel"},
		{"GET", "/v1/responses/resp_1/input_items"}, {"POST", "/v1/responses/compact"},
	} {
		w := get(t, fixed(plays(nil)), c.method, c.path)
		if e := readError(t, w).Error; w.Code != http.StatusNotFound || !strings.Contains(e.Message, "previous_response_id") {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

func TestItemIDsTellTheirResponse(t *testing.T) {
	d := newDoor(plays(nil), Options{})
	response := d.id(responsePrefix)
	for i, prefix := range []string{"msg", "rs", "fc", "ctc", "tsc"} {
		id := itemID(prefix, response, i)
		if got, ok := responseOf(id); !ok || got != response {
			t.Errorf("%s is of %q, want %q", id, got, response)
		}
	}
	for _, id := range []string{"", "msg", "msg_", "msg_1", "msg__1", "msg_1_", "msg_1_x", "msg_1_-1", "fc_68a1f", "0", "_"} {
		if got, ok := responseOf(id); ok {
			t.Errorf("%q is of %q", id, got)
		}
	}
}

func TestToolNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	for _, c := range []struct {
		name toolName
		want string
	}{
		{toolName{"", "weather"}, "weather"},
		{toolName{"", "any name. at all"}, "any name. at all"}, // the client's own affair
		{toolName{"functions", "exec"}, "exec"},
		{toolName{"maps", "find"}, "maps__find"},
		{toolName{"mcp__maps__", "find"}, "mcp__maps__find"},
		{toolName{"maps", "find.place"}, "maps__find_place_fdd5e496"},
		{toolName{"maps", "find/place"}, "maps__find_place_378d6236"},
		{toolName{"maps", long}, "maps__" + long[:49] + "_91962a53"},
	} {
		if got := c.name.flat(); got != c.want || c.name.namespace != "" && len(got) > maxToolName {
			t.Errorf("%v is %q, want %q", c.name, got, c.want)
		}
	}
}

// Names that fall together must still be told apart in both directions.
func TestToolNamesThatCollide(t *testing.T) {
	svc := plays(nil, bridge.MessageDone{Message: "m", Calls: []bridge.ToolCall{
		{ID: "1", Name: "a__b_59b271ae", Args: map[string]any{}}, {ID: "2", Name: "a__b_9aa07759", Args: map[string]any{}},
	}}, bridge.TurnEnded{Reason: bridge.EndTools})
	w := post(t, fixed(svc), "/v1/responses", `{"model":"gpt-5","input":[{"role":"user","content":"x"},
		{"type":"function_call","call_id":"c","name":"b","namespace":"a","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":""}],
		"tools":[{"type":"function","name":"a__b"},{"type":"function","name":"a__b_59b271ae"},{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"}]}]}`)
	var names []string
	for _, tool := range svc.asked[0].Tools {
		names = append(names, tool.Name)
	}
	names = append(names, svc.asked[0].Messages[1].Calls[0].Name)
	if got := strings.Join(names, " "); got != "a__b a__b_59b271ae a__b_9aa07759 a__b_9aa07759" {
		t.Errorf("the model sees %s", got)
	}
	if !strings.Contains(w.Body.String(), `"call_id":"1","name":"a__b_59b271ae","arguments"`) ||
		!strings.Contains(w.Body.String(), `"call_id":"2","name":"b","namespace":"a"`) {
		t.Errorf("the client sees %s", w.Body)
	}
}

func FuzzResponseRequest(f *testing.F) {
	files, err := filepath.Glob("testdata/responses-*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range txtar.Parse(data).Files {
			if part.Name == "request" {
				f.Add(string(part.Data))
			}
		}
	}
	f.Add(`{"model":"gpt-5","input":[{"id":"msg_1_0"},{"role":"user","content":"x"}],"stream":true,"tool_choice":{"type":"allowed_tools"}}`)
	f.Fuzz(func(t *testing.T, body string) {
		svc := plays(nil, bridge.TextDelta{Message: "m", Text: "o"},
			bridge.MessageDone{Message: "m", Text: "ok", Calls: []bridge.ToolCall{{ID: "c", Name: "weather", Args: map[string]any{}}}},
			bridge.TurnEnded{Reason: bridge.EndTools})
		w := post(t, fixed(svc), "/v1/responses", body)
		if w.Code != http.StatusOK {
			if len(svc.asked) != 0 {
				t.Fatalf("refused after it was asked: %d %s", w.Code, w.Body)
			}
			readError(t, w)
			return
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			checkStream(t, w.Body.String())
		}
		c := svc.asked[0]
		last := c.Messages[len(c.Messages)-1]
		if last.Role != bridge.RoleUser && last.Role != bridge.RoleTool {
			t.Errorf("nothing to answer: %+v", last)
		}
		seen := map[string]bool{}
		for _, tool := range c.Tools {
			if tool.Name == "" || seen[tool.Name] || tool.Schema == nil {
				t.Errorf("tool %+v", tool)
			}
			seen[tool.Name] = true
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
