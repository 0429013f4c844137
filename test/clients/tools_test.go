package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/demomodel"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

type object = map[string]any

// toolDescription is the description of all tools in these tests.
const toolDescription = "does it"

// halfSurrogate is a placeholder for half of a surrogate pair in a request.
// Go's encoder cannot write one.
const halfSurrogate = "(half a pair)"

// conversation is a conversation, independent of the API.
type conversation struct {
	model, system string
	tools         []offeredTool
	choice        string // the name of the tool that must be called
	stream        bool
	steps         []step
}

type offeredTool struct {
	name   string
	schema any
}

// step is one message: user text, tool calls of the assistant, or tool results.
type step struct {
	user    string
	calls   []toolUse
	results []toolUse
}

type toolUse struct {
	id, name string
	args     string // JSON
	result   any    // a string, or parts in the format of the API
}

// answer is the model's answer, parsed from the API's response.
type answer struct {
	status int
	body   string
	text   string
	calls  []toolUse
}

// dialect is one of the APIs.
type dialect struct {
	name, path string
	limit      int // maximum length of a tool name
	write      func(conversation) object
	read       func(t *testing.T, events []object) answer // a single event without streaming
}

var dialects = []dialect{
	{"chat", "/v1/chat/completions", 64, writeChat, readChat},
	{"responses", "/v1/responses", 64, writeResponses, readResponses},
	{"anthropic", "/v1/messages", 128, writeMessages, readMessages},
}

func (s *served) send(t *testing.T, d dialect, k conversation) answer {
	t.Helper()
	body := d.write(k)
	body["model"], body["stream"] = k.model, k.stream
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte(halfSurrogate), []byte(`\ud83d`))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+d.path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // already read
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := answer{}
	if resp.StatusCode == http.StatusOK {
		out = d.read(t, events(t, k.stream, raw))
	}
	out.status, out.body = resp.StatusCode, string(raw)
	return out
}

// mustSend sends a request that must succeed.
func (s *served) mustSend(t *testing.T, d dialect, k conversation) answer {
	t.Helper()
	a := s.send(t, d, k)
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %.500s", d.name, a.status, a.body)
	}
	return a
}

func events(t *testing.T, stream bool, raw []byte) []object {
	t.Helper()
	decode := func(data []byte) object {
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatalf("%v in %.200q", err, data)
		}
		return o
	}
	if !stream {
		return []object{decode(raw)}
	}
	var out []object
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && string(data) != "[DONE]" {
			out = append(out, decode(data))
		}
	}
	return out
}

// jsonAt returns a value inside decoded JSON, nil if it is missing.
func jsonAt(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			o, _ := v.(object)
			v = o[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

func jsonText(v any, path ...any) string {
	s, _ := jsonAt(v, path...).(string)
	return s
}

func jsonList(v any, path ...any) []any {
	l, _ := jsonAt(v, path...).([]any)
	return l
}

func writeChat(k conversation) object {
	messages := []any{object{"role": "system", "content": k.system}}
	for _, s := range k.steps {
		switch {
		case s.user != "":
			messages = append(messages, object{"role": "user", "content": s.user})
		case s.calls != nil:
			var calls []any
			for _, c := range s.calls {
				calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.args}})
			}
			messages = append(messages, object{"role": "assistant", "content": nil, "tool_calls": calls})
		}
		for _, r := range s.results {
			messages = append(messages, object{"role": "tool", "tool_call_id": r.id, "content": r.result})
		}
	}
	body := object{"messages": messages}
	var tools []any
	for _, t := range k.tools {
		f := object{"name": t.name, "description": toolDescription}
		if t.schema != nil {
			f["parameters"] = t.schema
		}
		tools = append(tools, object{"type": "function", "function": f})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if k.choice != "" {
		body["tool_choice"] = object{"type": "function", "function": object{"name": k.choice}}
	}
	return body
}

func readChat(t *testing.T, events []object) (a answer) {
	t.Helper()
	for _, e := range events {
		m := jsonAt(e, "choices", 0, "message")
		if m == nil {
			m = jsonAt(e, "choices", 0, "delta")
		}
		a.text += jsonText(m, "content")
		for _, c := range jsonList(m, "tool_calls") {
			if jsonText(c, "id") != "" {
				a.calls = append(a.calls, toolUse{id: jsonText(c, "id"), name: jsonText(c, "function", "name")})
			}
			a.calls[len(a.calls)-1].args += jsonText(c, "function", "arguments")
		}
	}
	return a
}

func writeResponses(k conversation) object {
	var input []any
	for _, s := range k.steps {
		if s.user != "" {
			input = append(input, object{"role": "user", "content": s.user})
		}
		for _, c := range s.calls {
			input = append(input, object{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.args})
		}
		for _, r := range s.results {
			input = append(input, object{"type": "function_call_output", "call_id": r.id, "output": r.result})
		}
	}
	body := object{"input": input, "instructions": k.system, "store": false}
	var tools []any
	for _, t := range k.tools {
		f := object{"type": "function", "name": t.name, "description": toolDescription}
		if t.schema != nil {
			f["parameters"] = t.schema
		}
		tools = append(tools, f)
	}
	if tools != nil {
		body["tools"] = tools
	}
	if k.choice != "" {
		body["tool_choice"] = object{"type": "function", "name": k.choice}
	}
	return body
}

func readResponses(t *testing.T, events []object) (a answer) {
	t.Helper()
	answer := any(events[len(events)-1])
	if r := jsonAt(answer, "response"); r != nil {
		answer = r
	}
	for _, item := range jsonList(answer, "output") {
		if jsonText(item, "type") == "function_call" {
			a.calls = append(a.calls, toolUse{id: jsonText(item, "call_id"), name: jsonText(item, "name"), args: jsonText(item, "arguments")})
		}
		a.text += jsonText(item, "content", 0, "text")
	}
	for _, e := range events { // a stream also names calls when they start
		name := jsonText(e, "item", "name")
		if name != "" && !slices.ContainsFunc(a.calls, func(c toolUse) bool { return c.name == name }) {
			t.Errorf("the stream has the tool %q", name)
		}
	}
	return a
}

func writeMessages(k conversation) object {
	var messages []any
	for _, s := range k.steps {
		var blocks []any
		role := "user"
		if s.user != "" {
			blocks = append(blocks, object{"type": "text", "text": s.user})
		}
		for _, c := range s.calls {
			role = "assistant"
			blocks = append(blocks, object{"type": "tool_use", "id": c.id, "name": c.name, "input": json.RawMessage(c.args)})
		}
		for _, r := range s.results {
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": r.id, "content": r.result})
		}
		messages = append(messages, object{"role": role, "content": blocks})
	}
	body := object{"messages": messages, "system": k.system, "max_tokens": 1000}
	var tools []any
	for _, t := range k.tools {
		schema := t.schema
		if schema == nil {
			schema = object{}
		}
		tools = append(tools, object{"name": t.name, "description": toolDescription, "input_schema": schema})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if k.choice != "" {
		body["tool_choice"] = object{"type": "tool", "name": k.choice}
	}
	return body
}

func readMessages(t *testing.T, events []object) (a answer) {
	t.Helper()
	add := func(block any) {
		a.text += jsonText(block, "text")
		if jsonText(block, "type") != "tool_use" {
			return
		}
		args := ""
		if in, _ := jsonAt(block, "input").(object); len(in) > 0 {
			raw, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			args = string(raw)
		}
		a.calls = append(a.calls, toolUse{id: jsonText(block, "id"), name: jsonText(block, "name"), args: args})
	}
	for _, e := range events {
		for _, block := range jsonList(e, "content") {
			add(block)
		}
		add(jsonAt(e, "content_block"))
		a.text += jsonText(e, "delta", "text")
		if piece := jsonText(e, "delta", "partial_json"); piece != "" {
			a.calls[len(a.calls)-1].args += piece
		}
	}
	return a
}

// callEverything makes the model call every tool it is offered, by the offered
// name, and answer "seen" once it has the results.
func (s *served) callEverything() {
	s.model.Handle(func(r demomodel.Request) (demomodel.Reply, bool) {
		if !strings.Contains(r.LastUser(), "Call every tool.") {
			return nil, false
		}
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return demomodel.Reply{demomodel.Text("seen")}, true
		}
		var reply demomodel.Reply
		for _, name := range clientTools(&r) {
			reply = append(reply, demomodel.ToolCall(name, object{"x": name}))
		}
		return reply, true
	})
}

// clientTools returns the names of the client's tools in a request. An agent has
// additional tools.
func clientTools(r *demomodel.Request) (names []string) {
	for _, t := range r.Tools {
		if t.Description == toolDescription {
			names = append(names, t.Name)
		}
	}
	return names
}

// lastRequest is the last request to the model.
func (s *served) lastRequest() *demomodel.Request {
	all := s.model.Requests()
	return &all[len(all)-1]
}

// results are tool results of critical sizes. The runtime would put results of
// 20,481 bytes and more into a file. 5 MB exceed the context of the model that
// the runtime assumes.
var results = []struct {
	name string
	text string
}{
	{"20481 bytes", repeatTo(20481, "a line of text\r\n")},
	{"200 kB", repeatTo(200_000, "šíp ⟶ 😀\t\"quoted\" \\ \u2028 end\n")},
	{"one line", strings.Repeat("x", 100_000)},
	{"odd characters", " \n\x00\x01\x1b[31m red \x7f \ufffd \ufeff trailing blanks \r\n\t "},
	{"half a character", "a" + halfSurrogate + "b"},
	{"5 MB", repeatTo(5<<20, "0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ\n")},
}

// repeatTo repeats a text up to a size, with "[end]" as its end.
func repeatTo(size int, text string) string {
	return strings.Repeat("x", (size-5)%len(text)) + strings.Repeat(text, (size-5)/len(text)) + "[end]"
}

// TestResultsArriveWhole answers tool calls with long results. The model must
// get every byte, both when the call is still waiting and when a new session
// gets the whole history. No files are left.
func TestResultsArriveWhole(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	s.callEverything()
	for i, d := range dialects {
		for _, r := range results {
			t.Run(d.name+" "+r.name, func(t *testing.T) {
				k := conversation{model: s.model.Model(), stream: i%2 == 0, system: "one", tools: []offeredTool{{"look", nil}}, steps: []step{{user: "Call every tool."}}}
				calls := s.mustSend(t, d, k).calls
				if len(calls) != 1 {
					t.Fatalf("%d calls", len(calls))
				}
				calls[0].result = r.text
				k.steps = append(k.steps, step{calls: calls}, step{results: calls})
				if a := s.mustSend(t, d, k); a.text != "seen" {
					t.Fatalf("the answer is %q", a.text)
				}
				asked := s.lastRequest()
				want := strings.ReplaceAll(r.text, halfSurrogate, "\ufffd")
				if got := asked.ToolResults(); len(got) != 1 || got[0] != want {
					t.Errorf("the pending call got %d bytes of %d: %.300q", len(got[0]), len(want), got[0])
				}
				k.system = "two" // forces another session
				k.steps = append(k.steps, step{user: "rehearsal: text again"})
				if a := s.mustSend(t, d, k); a.text != "again" {
					t.Fatalf("the answer is %q", a.text)
				}
				if told := s.lastRequest().Messages[1].Content; !strings.Contains(told, "tool look ("+calls[0].id+"): "+want+"\n") {
					t.Errorf("a new session got %d bytes, without all of the %d", len(told), len(want))
				}
			})
		}
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !e.IsDir() { // directories of the runtimes, removed when those end
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestAgentsGetResultsWhole is the same for an agent. Long outputs of the
// agent's own tools still go to files.
func TestAgentsGetResultsWhole(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	s.callEverything()
	for _, d := range dialects {
		for _, r := range results[:4] {
			t.Run(d.name+" "+r.name, func(t *testing.T) {
				k := conversation{model: "agent/" + s.model.Model(), tools: []offeredTool{{"look", nil}}, steps: []step{{user: "Call every tool."}}}
				calls := s.mustSend(t, d, k).calls
				calls[0].result = r.text
				k.steps = append(k.steps, step{calls: calls}, step{results: calls})
				s.mustSend(t, d, k)
				if got := s.lastRequest().ToolResults(); len(got) != 1 || got[0] != r.text {
					t.Errorf("the pending call got %d bytes of %d: %.300q", len(got[0]), len(r.text), got[0])
				}
			})
		}
	}
}

// TestResultsInParts sends results as lists of texts and an image.
func TestResultsInParts(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	s.callEverything()
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	long := repeatTo(30_000, "a line\n")
	for name, parts := range map[string][]any{
		"chat":      {object{"type": "text", "text": long}, object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + pixel}}, object{"type": "text", "text": long}},
		"responses": {object{"type": "input_text", "text": long}, object{"type": "input_image", "image_url": "data:image/png;base64," + pixel}, object{"type": "input_text", "text": long}},
		"anthropic": {object{"type": "text", "text": long}, object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": pixel}}, object{"type": "text", "text": long}},
	} {
		t.Run(name, func(t *testing.T) {
			d := dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.name == name })]
			k := conversation{model: s.model.Model(), tools: []offeredTool{{"look", nil}}, steps: []step{{user: "Call every tool."}}}
			calls := s.mustSend(t, d, k).calls
			calls[0].result = parts
			k.steps = append(k.steps, step{calls: calls}, step{results: calls})
			s.mustSend(t, d, k)
			texts, images := 0, 0
			asked := s.lastRequest()
			for _, m := range asked.Messages {
				images += m.Images
				if m.Role == "tool" {
					texts += strings.Count(m.Content, long)
				}
			}
			if texts != 2 || images != 1 {
				t.Errorf("the model got %d texts of 2 and %d images of 1", texts, images)
			}
		})
	}
}

// unchangedNames are names that the model sees unchanged.
var unchangedNames = []string{"Bash", "bash_", "get_weather", "GET_WEATHER", "-", "_", "7", "a-b", "mcp__files__read", "github-mcp-server-get_me", "__proto__", "constructor",
	"store_memory_tool", strings.Repeat("n", 64)}

// unlistedNames are names that the runtime handles but does not list. They were
// found by trying 11,000 words from the runtime's files.
var unlistedNames = []string{"catalog_search", "extensions_manage", "extensions_reload", "get_context_remaining", "invoke_canvas_action",
	"list_canvas_capabilities", "list_powershell", "local_shell", "new_context", "open_canvas", "powershell", "read_powershell", "report_progress",
	"rg", "session_artifacts", "session_history", "stop_powershell", "store_memory", "vote_memory", "report_intent", "lsp", "session_store_sql", "semantic_code_search"}

// runtimeTools asks the runtime for the names of its built-in tools.
func runtimeTools(t *testing.T) []string {
	t.Helper()
	client := copilot.NewClient(&copilot.ClientOptions{Connection: copilot.StdioConnection{Path: runtimetest.Path(t)}, BaseDirectory: t.TempDir(), UseLoggedInUser: copilot.Bool(false)})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Stop(); err != nil {
			t.Errorf("stopping the runtime: %v", err)
		}
	}()
	var names []string
	for _, model := range []string{"gpt-5", "gpt-5.1-codex", "claude-sonnet-4.5", "gemini-2.5-pro"} {
		list, err := client.RPC.Tools.List(t.Context(), &rpc.ToolsListRequest{Model: &model})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
	}
	m := provider(t)
	session, err := client.CreateSession(t.Context(), &copilot.SessionConfig{Model: m.Model(), WorkingDirectory: t.TempDir(),
		Provider: &copilot.ProviderConfig{Type: "openai", BaseURL: m.URL(), APIKey: m.Key()}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.RPC.Tools.GetBuiltinDescriptors(t.Context(), &rpc.ToolsGetBuiltinDescriptorsRequest{})
	if err != nil || len(list.Tools) < 20 {
		t.Fatalf("the runtime lists %v, %v", list, err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if err := session.Disconnect(); err != nil {
		t.Error(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestEveryToolName offers client tools with the names of all runtime tools,
// and with other unusual but legal names. The client must be called by its own
// names, and the model must get the client's results.
func TestEveryToolName(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	s.callEverything()
	names := append(runtimeTools(t), unlistedNames...)
	for _, name := range slices.Clone(unlistedNames) { // the names that the bridge may use instead
		names = append(names, name+"_tool")
	}
	names = append(names, unchangedNames...)
	for _, d := range dialects {
		mine := slices.Clone(names)
		if d.limit > 64 {
			long := strings.Repeat("n", d.limit-1)
			mine = append(mine, long+"a", long+"b", strings.Repeat("n", 65))
		}
		slices.Sort(mine)
		mine = slices.Compact(mine)
		for _, model := range []string{s.model.Model(), "agent/" + s.model.Model()} {
			for _, stream := range []bool{false, true} {
				if !stream && model != s.model.Model() {
					continue // agents differ from chats in what the runtime gets, not in what the client gets
				}
				t.Run(fmt.Sprintf("%s, %s, stream %v", d.name, model, stream), func(t *testing.T) { s.everyName(t, d, model, mine, stream) })
			}
		}
	}
}

func (s *served) everyName(t *testing.T, d dialect, model string, names []string, stream bool) {
	t.Helper()
	k := conversation{model: model, stream: stream, system: "one", steps: []step{{user: "Call every tool."}}}
	for _, n := range names {
		k.tools = append(k.tools, offeredTool{n, object{"type": "object", "properties": object{"x": object{"type": "string"}}}})
	}
	calls := s.mustSend(t, d, k).calls
	asked := s.lastRequest()
	if len(calls) != len(names) {
		t.Fatalf("%d calls of %d tools; the model's request has %q", len(calls), len(names), asked.ToolNames())
	}
	if n := len(asked.Tools); n != len(names) && !strings.HasPrefix(model, "agent/") {
		t.Errorf("the model is offered %d tools, the client has %d: %q", n, len(names), asked.ToolNames())
	}
	for i := range calls {
		if calls[i].name != names[i] {
			t.Fatalf("call %d calls %q, not %q", i, calls[i].name, names[i])
		}
		if name := nameForModel(t, asked, calls[i].args); len(name) > 64 || name != names[i] && slices.Contains(unchangedNames, names[i]) {
			t.Errorf("the model sees %q as %q", names[i], name)
		}
		calls[i].result = "result of " + names[i]
	}
	k.steps = append(k.steps, step{calls: calls}, step{results: calls})
	if a := s.mustSend(t, d, k); a.text != "seen" {
		t.Fatalf("the answer is %q", a.text)
	}
	asked = s.lastRequest()
	got := asked.ToolResults()
	for i := range calls {
		if len(got) != len(calls) || got[i] != calls[i].result {
			t.Fatalf("for %q the model got %.200q (%d results)", names[i], got[i], len(got))
		}
	}
	k.system = "two"
	k.steps = append(k.steps, step{user: "rehearsal: text again"})
	if a := s.mustSend(t, d, k); a.text != "again" {
		t.Fatalf("the answer is %q", a.text)
	}
	asked = s.lastRequest()
	for i, c := range calls {
		if want := fmt.Sprintf("tool %s (%s): result of %s\n", nameForModel(t, asked, c.args), c.id, names[i]); !strings.Contains(asked.Messages[len(asked.Messages)-1].Content, want) {
			t.Errorf("the request of a new session lacks %q", want)
		}
	}
	for _, n := range []string{"store_memory", "get_weather", "bash"} {
		one := k
		one.choice, one.steps = n, []step{{user: "Call every tool."}}
		if a := s.mustSend(t, d, one); len(a.calls) != 1 || a.calls[0].name != n {
			t.Errorf("with the choice %s the calls are %+v", n, a.calls)
		}
		asked := s.lastRequest()
		if !strings.Contains(asked.Messages[len(asked.Messages)-1].Content, "Answer by calling the tool "+onlyTool(t, asked)) {
			t.Errorf("the model must call a different tool than %s", n)
		}
	}
}

// nameForModel returns the name by which the model called a tool, taken from the
// arguments. The model must have been offered it.
func nameForModel(t *testing.T, r *demomodel.Request, args string) string {
	t.Helper()
	var in struct{ X string }
	if err := json.Unmarshal([]byte(args), &in); err != nil {
		t.Fatalf("the arguments are %q: %v", args, err)
	}
	if !slices.Contains(r.ToolNames(), in.X) {
		t.Fatalf("the model was not offered %q", in.X)
	}
	return in.X
}

// onlyTool is the only client tool in the request.
func onlyTool(t *testing.T, r *demomodel.Request) string {
	t.Helper()
	names := clientTools(r)
	if len(names) != 1 {
		t.Fatalf("the model is offered %q", names)
	}
	return names[0]
}

// TestEverySchema offers tools whose schemas are less explicit than the runtime
// requires.
func TestEverySchema(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	s.callEverything()
	x := object{"x": object{"type": "string"}}
	for name, tc := range map[string]struct{ schema, want any }{
		"none":          {nil, object{"type": "object", "properties": object{}}},
		"empty":         {object{}, object{"type": "object", "properties": object{}}},
		"no type":       {object{"properties": x}, object{"type": "object", "properties": x}},
		"null type":     {object{"type": nil, "properties": x}, object{"type": "object", "properties": x}},
		"or null":       {object{"type": []any{"object", "null"}, "properties": x}, object{"type": "object", "properties": x}},
		"null or":       {object{"type": []any{"null", "object"}}, object{"type": "object", "properties": object{}}},
		"no properties": {object{"type": "object"}, object{"type": "object", "properties": object{}}},
		"required only": {object{"required": []any{"x"}}, object{"type": "object", "required": []any{"x"}, "properties": object{}}},
		"closed":        {object{"type": "object", "properties": x, "required": []any{"x"}, "additionalProperties": false}, object{"type": "object", "properties": x, "required": []any{"x"}, "additionalProperties": false}},
		"reference":     {object{"$ref": "#/$defs/a", "$defs": object{"a": object{"type": "object", "properties": x}}}, object{"type": "object", "properties": object{}, "$ref": "#/$defs/a", "$defs": object{"a": object{"type": "object", "properties": x}}}},
		// The runtime removes this, because OpenAI and Anthropic reject it.
		"alternatives":      {object{"properties": x, "anyOf": []any{object{"required": []any{"x"}}, object{"required": []any{"y"}}}}, object{"type": "object", "properties": x}},
		"described":         {object{"$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "description": "d", "properties": object{"x": object{"type": []any{"string", "null"}, "enum": []any{"a", nil}, "default": "a"}}}, object{"type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "description": "d", "properties": object{"x": object{"type": []any{"string", "null"}, "enum": []any{"a", nil}, "default": "a"}}}},
		"property true":     {object{"properties": object{"x": true}}, object{"type": "object", "properties": object{"x": true}}},
		"property of dicts": {object{"properties": object{"x": object{"additionalProperties": object{"type": "integer"}}}}, object{"type": "object", "properties": object{"x": object{"additionalProperties": object{"type": "integer"}}}}},
	} {
		for _, d := range dialects {
			t.Run(name+", "+d.name, func(t *testing.T) {
				k := conversation{model: s.model.Model(), tools: []offeredTool{{"look", tc.schema}}, steps: []step{{user: "Call every tool."}}}
				if a := s.mustSend(t, d, k); len(a.calls) != 1 || a.calls[0].name != "look" {
					t.Fatalf("the calls are %+v", a.calls)
				}
				asked := s.lastRequest()
				got, want := canonical(t, asked.Tools[0].Parameters), canonical(t, tc.want)
				if got != want {
					t.Errorf("the model sees %s, want %s", got, want)
				}
			})
		}
	}
	for name, schema := range map[string]any{"a string": object{"type": "string"}, "strings": object{"type": []any{"string", "null"}}, "odd": object{"type": 7}, "true": true} {
		for _, d := range dialects {
			t.Run("refused: "+name+", "+d.name, func(t *testing.T) {
				a := s.send(t, d, conversation{model: s.model.Model(), tools: []offeredTool{{"look", schema}}, steps: []step{{user: "Call every tool."}}})
				if a.status != http.StatusBadRequest || !strings.Contains(a.body, "an object") {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
	}
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		var decoded any
		if err = json.Unmarshal(raw, &decoded); err == nil {
			raw, err = json.Marshal(decoded)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestResultsOfUnknownCalls checks that all APIs reject tool results without a
// matching call.
func TestResultsOfUnknownCalls(t *testing.T) {
	s := serve(t, "COPILOT_BRIDGE_TOKEN="+token)
	for _, d := range dialects {
		for name, steps := range map[string][]step{
			"no call":      {{user: "hi"}, {results: []toolUse{{id: "call_9", result: "x"}}}},
			"another call": {{user: "hi"}, {calls: []toolUse{{id: "call_1", name: "look", args: "{}"}}}, {results: []toolUse{{id: "call_9", result: "x"}}}},
			"too early":    {{user: "hi"}, {results: []toolUse{{id: "call_9", result: "x"}}}, {calls: []toolUse{{id: "call_9", name: "look", args: "{}"}}}, {user: "and?"}},
		} {
			t.Run(d.name+", "+name, func(t *testing.T) {
				a := s.send(t, d, conversation{model: s.model.Model(), stream: true, tools: []offeredTool{{"look", nil}}, steps: steps})
				if a.status != http.StatusBadRequest || !strings.Contains(a.body, `\"call_9\"`) || !strings.Contains(a.body, "invalid_request_error") {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
	}
	if n := len(s.model.Requests()); n > 1 { // one request is the warm-up of the runtime
		t.Errorf("the model got %d requests", n)
	}
}
