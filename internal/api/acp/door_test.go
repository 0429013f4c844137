package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/jsonrpc"
)

const everything = `{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"session":{"notices":{}},"elicitation":{"form":{}}}}`

// begin initializes a connection and opens a session, s1.
func begin(t *testing.T, s *script) *client {
	t.Helper()
	c := connect(t, s, Options{Version: "1.2.3"})
	c.call("initialize", everything)
	c.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, t.TempDir()))
	return c
}

func prompt(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"sessionId":"s1","prompt":[{"type":"text","text":` + string(b) + `}]}`
}

func TestInitialize(t *testing.T) {
	for _, tt := range []struct{ name, params string }{
		{"the same version", `{"protocolVersion":1}`},
		{"a later one", `{"protocolVersion":7,"clientCapabilities":{"session":[],"new":{"x":1}},"more":true}`},
		{"nothing", `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, &script{}, Options{Version: "1.2.3", Login: "log in there"})
			got := c.call("initialize", tt.params)
			for _, want := range []string{`"protocolVersion":1`, `"loadSession":true`, `"image":true`, `"version":"1.2.3"`, `"copilot-login"`, `"list":{}`} {
				if !strings.Contains(got, want) {
					t.Errorf("%s lacks %s", got, want)
				}
			}
		})
	}
}

func TestLogin(t *testing.T) {
	s := &script{login: &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "nobody is logged in", Remedy: "log in"}}
	c := connect(t, s, Options{Login: "log in there"})
	c.refused("authenticate", `{"methodId":"copilot-login"}`, acpwire.CodeAuthRequired, "nobody is logged in (log in)")
	c.refused("authenticate", `{"methodId":"other"}`, jsonrpc.CodeInvalidParams, "other")
	s.login = nil
	c.call("authenticate", `{"methodId":"copilot-login"}`)
}

func TestRefusals(t *testing.T) {
	c := begin(t, &script{turn: plays(nil)})
	dir := t.TempDir()
	servers := func(list string) string { return fmt.Sprintf(`{"cwd":%q,"mcpServers":[%s]}`, dir, list) }
	for _, tt := range []struct {
		method, params string
		code           int
		message        string
	}{
		{"session/fork", `{}`, jsonrpc.CodeMethodNotFound, "session/fork"},
		{"session/new", `[]`, jsonrpc.CodeInvalidParams, "not understood"},
		{"session/new", `{}`, jsonrpc.CodeInvalidParams, "cwd"},
		{"session/new", `{"cwd":"here","mcpServers":[]}`, jsonrpc.CodeInvalidParams, "absolute"},
		{"session/new", `{"cwd":"/no/such/directory","mcpServers":[]}`, jsonrpc.CodeInvalidParams, "no directory"},
		{"session/new", fmt.Sprintf(`{"cwd":%q,"additionalDirectories":["/tmp"],"mcpServers":[]}`, dir), jsonrpc.CodeInvalidParams, "one workspace"},
		{"session/new", servers(`{"name":"x","type":"sse","url":"http://h","headers":[]}`), jsonrpc.CodeInvalidParams, "mcpServers[0].type"},
		{"session/new", servers(`{"name":"x","command":"a","args":[],"env":[]},{"name":"x","command":"b","args":[],"env":[]}`), jsonrpc.CodeInvalidParams, "two servers"},
		{"session/new", servers(`{"name":"","command":"a"}`), jsonrpc.CodeInvalidParams, "name"},
		{"session/new", servers(`{"name":"x"}`), jsonrpc.CodeInvalidParams, "neither"},
		{"session/load", `{"cwd":"/"}`, jsonrpc.CodeInvalidParams, "sessionId"},
		{"session/load", fmt.Sprintf(`{"sessionId":"nobody","cwd":%q,"mcpServers":[]}`, dir), acpwire.CodeResourceNotFound, "nobody"},
		{"session/prompt", `{"sessionId":"nobody","prompt":[]}`, acpwire.CodeResourceNotFound, "nobody"},
		{"session/prompt", `{"sessionId":"s1","prompt":[]}`, jsonrpc.CodeInvalidParams, "empty"},
		{"session/prompt", `{"sessionId":"s1","prompt":[{"type":"audio","data":"","mimeType":"a/b"}]}`, jsonrpc.CodeInvalidParams, "prompt[0].type"},
		{"session/prompt", `{"sessionId":"s1","prompt":[{"type":"image","data":"%%","mimeType":"image/png"}]}`, jsonrpc.CodeInvalidParams, "prompt[0].data"},
		{"session/prompt", `{"sessionId":"s1","prompt":[{"type":"odd"}]}`, jsonrpc.CodeInvalidParams, "odd"},
		{"session/prompt", `{"sessionId":"s1","prompt":7}`, jsonrpc.CodeInvalidParams, "not understood"},
		{"session/close", `{"sessionId":"nobody"}`, acpwire.CodeResourceNotFound, "nobody"},
		{"session/set_mode", `{"sessionId":"s1","modeId":"wild"}`, jsonrpc.CodeInvalidParams, "wild"},
		{"session/set_config_option", `{"sessionId":"s1","configId":"colour","value":"red"}`, jsonrpc.CodeInvalidParams, "colour"},
		{"session/set_config_option", `{"sessionId":"s1","optionId":"model","value":"m"}`, jsonrpc.CodeInvalidParams, "configId"},
		{"session/set_config_option", `{"sessionId":"s1","configId":"model","type":"boolean","value":true}`, jsonrpc.CodeInvalidParams, "value"},
		{"session/set_config_option", `{"sessionId":"s1","configId":"model","value":"gone"}`, jsonrpc.CodeInvalidParams, "gone"},
		{"session/list", `{"cursor":"nobody"}`, jsonrpc.CodeInvalidParams, "cursor"},
	} {
		c.refused(tt.method, tt.params, tt.code, tt.message)
	}
	c.call("session/prompt", prompt("still there?"))
}

func TestOptions(t *testing.T) {
	var live *played
	s := &script{models: []bridge.Model{{ID: "small"}, {ID: "big", Name: "Big", ReasoningEfforts: []string{"low", "high"}, DefaultEffort: "high"}, {ID: "small"}},
		turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
			live = p
			plays(nil)(ctx, p, pr, yield)
		}}
	c := connect(t, s, Options{})
	got := c.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[{"name":"a","command":"run","args":["x"],"env":[{"name":"K","value":"V"}]},{"name":"b","type":"http","url":"http://h","headers":[{"name":"H","value":"W"}]}]}`, t.TempDir()))
	if !strings.Contains(got, `"currentValue":"small"`) || strings.Contains(got, "reasoning_effort") || strings.Count(got, `"value":"small"`) != 1 {
		t.Errorf("at first: %s", got)
	}
	o := s.opened[0]
	if o.MCPServers["a"].Command != "run" || o.MCPServers["a"].Env["K"] != "V" || o.MCPServers["b"].URL != "http://h" || o.MCPServers["b"].Headers["H"] != "W" {
		t.Errorf("servers %+v", o.MCPServers)
	}
	if o.Person != nil {
		t.Error("a client that cannot ask has a person")
	}
	got = c.call("session/set_config_option", `{"sessionId":"s1","configId":"model","value":"big"}`)
	if !strings.Contains(got, `"currentValue":"big"`) || !strings.Contains(got, `"currentValue":"high"`) {
		t.Errorf("with the other model: %s", got)
	}
	c.refused("session/set_config_option", `{"sessionId":"s1","configId":"reasoning_effort","value":"extreme"}`, jsonrpc.CodeInvalidParams, "low, high")
	c.call("session/set_config_option", `{"sessionId":"s1","configId":"reasoning_effort","value":"low"}`)
	c.call("session/set_model", `{"sessionId":"s1","modelId":"small"}`)
	c.call("session/set_config_option", `{"sessionId":"s1","configId":"mode","value":"`+modePrefix+`autopilot"}`)
	c.call("session/set_mode", `{"sessionId":"s1","modeId":"plan"}`)
	c.call("session/prompt", prompt("go"))
	if want := []string{"big/", "big/low", "small/"}; fmt.Sprint(live.set) != fmt.Sprint(want) {
		t.Errorf("set %q, want %q", live.set, want)
	}
	if live.prompts[0].Mode != bridge.ModePlan || live.Mode() != bridge.ModePlan {
		t.Errorf("the prompt's mode is %q, the session's %q", live.prompts[0].Mode, live.Mode())
	}
	if got := c.updates(acpwire.UpdateMode); len(got) != 2 || !strings.Contains(got[1], modePrefix+"plan") {
		t.Errorf("modes told: %q", got)
	}
}

func TestList(t *testing.T) {
	s := &script{}
	for i := range pageSize + 2 {
		s.stored = append(s.stored, bridge.SessionInfo{ID: fmt.Sprint("id", i), WorkingDir: "/w", Title: "t"})
	}
	s.stored = append(s.stored, bridge.SessionInfo{ID: "elsewhere", WorkingDir: "/v"}, bridge.SessionInfo{ID: "nowhere"})
	c := connect(t, s, Options{})
	got := c.call("session/list", `{"cwd":"/w/"}`)
	if strings.Count(got, "sessionId") != pageSize || !strings.Contains(got, fmt.Sprintf(`"nextCursor":"id%d"`, pageSize-1)) {
		t.Errorf("first page: %s", got)
	}
	got = c.call("session/list", fmt.Sprintf(`{"cwd":"/w","cursor":"id%d"}`, pageSize-1))
	if strings.Count(got, "sessionId") != 2 || strings.Contains(got, "nextCursor") {
		t.Errorf("second page: %s", got)
	}
	if got = c.call("session/list", `{"cwd":"/empty"}`); got != `{"sessions":[]}` {
		t.Errorf("nothing: %s", got)
	}
}

// A permanent rule is another option, where there is one.
func TestPermissionByRule(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]approval.Consent{`sandbox.read: "/srv/x"`: approval.Always, "": approval.No} {
		var got approval.Answer
		c := begin(t, &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
			q := approval.Question{Request: bridge.PermissionRequest{ID: "gate-1", Kind: bridge.PermissionShell, Tool: "bash"}, Summary: "run: cat /srv/x"}
			if rule != "" {
				q.Rules = []string{rule}
			}
			got, _ = p.opening.Asker.Ask(ctx, q)
			plays(nil)(ctx, p, pr, yield)
		}})
		id := c.request("session/prompt", prompt("go"))
		asked := c.asked("session/request_permission", `"result":{"outcome":{"outcome":"selected","optionId":"allow_by_rule"}}`)
		offered := strings.Contains(asked.raw, `{"optionId":"allow_by_rule","name":"Always allow, by the rule shown","kind":"allow_always"}`)
		if offered != (rule != "") || rule != "" && !strings.Contains(asked.raw, `/srv/x\\\"`) && !strings.Contains(asked.raw, `sandbox.read: \"/srv/x\"`) {
			t.Errorf("asked %s", asked.raw)
		}
		if c.answer(id); got.Consent != want {
			t.Errorf("%q: %v, want %v", rule, got, want)
		}
	}
}

func TestPermission(t *testing.T) {
	args := map[string]any{"command": "make"}
	for _, tt := range []struct {
		name, answer string
		want         approval.Consent
		wantErr      string
	}{
		{"once", `"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}`, approval.Once, ""},
		{"always", `"result":{"outcome":{"outcome":"selected","optionId":"allow_always"}}`, approval.Session, ""},
		{"rejected", `"result":{"outcome":{"outcome":"selected","optionId":"reject_once"}}`, approval.No, ""},
		{"an option that was not offered", `"result":{"outcome":{"outcome":"selected","optionId":"yes"}}`, approval.No, ""},
		{"cancelled", `"result":{"outcome":{"outcome":"cancelled"}}`, approval.No, ""},
		{"the old shape", `"result":{"selected":{"optionId":"allow_once"}}`, approval.No, ""},
		{"null", `"result":null`, approval.No, ""},
		{"garbage", `"result":"allow_once"`, approval.No, "could not be asked"},
		{"an error", `"error":{"code":-32601,"message":"what?"}`, approval.No, "could not be asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got approval.Answer
			var err error
			c := begin(t, &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
				r := bridge.PermissionRequest{ID: "gate-1", Kind: bridge.PermissionShell, Tool: "bash", Command: "make", Args: args}
				for _, ev := range []bridge.Event{
					bridge.ToolStarted{Call: bridge.ToolCall{ID: "other", Name: "bash", Args: map[string]any{"command": "ls"}}},
					bridge.ToolStarted{Call: bridge.ToolCall{ID: "this", Name: "bash", Args: args}},
					bridge.PermissionAsked{Request: r},
				} {
					yield(ev, nil)
				}
				got, err = p.opening.Asker.Ask(ctx, approval.Question{Request: r, Summary: "run: make"})
				plays(nil)(ctx, p, pr, yield)
			}})
			id := c.request("session/prompt", prompt("go"))
			asked := c.asked("session/request_permission", tt.answer)
			if !strings.Contains(asked.raw, `"toolCallId":"this"`) || !strings.Contains(asked.raw, `"title":"make"`) {
				t.Errorf("asked about %s", asked.raw)
			}
			c.answer(id)
			if got.Consent != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%v, %v; want %v, %q", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

// A client is shown the question, not the call that it was told of before, and
// all of it; or it is not asked.
func TestPermissionShowsTheQuestion(t *testing.T) {
	asks := func(q approval.Question, err *error) *script {
		return &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
			yield(bridge.ToolStarted{Call: bridge.ToolCall{ID: "this", Name: q.Request.Tool, Args: map[string]any{"command": "ls", "path": "good.txt", "description": "harmless"}}}, nil)
			_, *err = p.opening.Asker.Ask(ctx, q)
			plays(nil)(ctx, p, pr, yield)
		}}
	}
	long := strings.Repeat("echo step; ", 500) + "touch evil"
	for name, tt := range map[string]struct {
		q    approval.Question
		want []string
	}{
		"a long command": {approval.Question{Summary: "run: echo step; … (characters: 5510)", Detail: "| " + long, Says: "List files",
			Request: bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", CallID: "this", Args: map[string]any{"command": long}}},
			[]string{`"toolCallId":"this","title":"echo step; … (characters: 5510)"`, "| " + long, `"rawInput":{"command":"` + long + `"}`, "says: “List files”"}},
		"what cannot be seen": {approval.Question{Summary: "run: ls \u202e\u200b", Detail: "| a\x1b[8mb\n\n\n\n\n\n| <!-- c -->```", Request: bridge.PermissionRequest{Kind: bridge.PermissionShell, Tool: "bash", CallID: "this"}},
			[]string{`"title":"ls \\u202e\\u200b"`, `"text":"` + "````" + `\n`, `\n| a\\x1b[8mb\n(5 blank lines)\n| \u003c!-- c --\u003e` + "```" + `\n` + "````"}},
		"a file": {approval.Question{Summary: "write: evil.txt", Detail: "+evil", Request: bridge.PermissionRequest{Kind: bridge.PermissionWrite, Tool: "create", CallID: "this",
			Args: map[string]any{"path": "evil.txt", "file_text": "evil"}}},
			[]string{`"title":"write: evil.txt"`, `"type":"diff","path":"`, `/evil.txt","newText":"evil"`, `\n+evil\n`}},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			c := begin(t, asks(tt.q, &err))
			id := c.request("session/prompt", prompt("go"))
			asked := c.asked("session/request_permission", `"result":{"outcome":{"outcome":"cancelled"}}`)
			for _, want := range tt.want {
				if !strings.Contains(asked.raw, want) {
					t.Errorf("%q is not in %.2000s", want, asked.raw)
				}
			}
			if strings.Contains(asked.raw, "good.txt") || strings.Contains(asked.raw, "harmless") {
				t.Errorf("asked about something else: %s", asked.raw)
			}
			c.answer(id)
		})
	}
	var err error
	c := begin(t, asks(approval.Question{Summary: "run: x", Detail: strings.Repeat("ab ", approval.MaxShown/3)}, &err))
	c.answer(c.request("session/prompt", prompt("go")))
	if bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(err.Error(), "bytes long") {
		t.Errorf("too long: %v", err)
	}
}

// A question of which no event tells is put all the same.
func TestPermissionOutOfTheBlue(t *testing.T) {
	c := begin(t, &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
		yield(bridge.PermissionAsked{Request: bridge.PermissionRequest{ID: "q"}}, nil)
		_, err := p.opening.Asker.Ask(ctx, approval.Question{Request: bridge.PermissionRequest{ID: "q", Kind: bridge.PermissionURL, Args: "x"}, Summary: "fetch: h"})
		plays(err)(ctx, p, pr, yield)
	}})
	id := c.request("session/prompt", prompt("go"))
	asked := c.asked("session/request_permission", `"result":{"outcome":{"outcome":"cancelled"}}`)
	if !strings.Contains(asked.raw, `"toolCallId":"question-q","title":"fetch: h","kind":"fetch"`) {
		t.Errorf("asked about %s", asked.raw)
	}
	c.answer(id)
}

func TestPersonAnswers(t *testing.T) {
	var got bridge.Answer
	c := begin(t, &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
		var err error
		got, err = p.opening.Person.Ask(ctx, bridge.Question{Text: "Which?", Choices: []string{"a", "b"}})
		plays(err)(ctx, p, pr, yield)
	}})
	id := c.request("session/prompt", prompt("go"))
	asked := c.asked("elicitation/create", `"result":{"action":"accept","content":{"answer":"b"}}`)
	if !strings.Contains(asked.raw, `"enum":["a","b"]`) {
		t.Errorf("asked %s", asked.raw)
	}
	if l := c.answer(id); l.Error != nil || got.Text != "b" || got.Freeform {
		t.Errorf("%s, %+v", l.raw, got)
	}
}

func TestCommands(t *testing.T) {
	var live *played
	c := begin(t, &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
		live = p
		plays(nil)(ctx, p, pr, yield)
	}})
	if got := strings.Join(c.updates(acpwire.UpdateCommands), ""); strings.Contains(got, "allow-all") || strings.Contains(got, "future") || strings.Count(got, `"name"`) != 3 {
		t.Errorf("offered: %s", got)
	}
	c.call("session/prompt", prompt("/context"))
	if got := c.says(acpwire.UpdateAgentMessage); got != "much room\n" || live != nil {
		t.Errorf("said %q", got)
	}
	c.refused("session/prompt", prompt("/deploy now"), jsonrpc.CodeInvalidParams, "terminal")
	c.call("session/prompt", prompt("/plan the garden"))
	c.call("session/prompt", prompt("/allow-all on"))
	var said []string
	for _, p := range live.prompts {
		said = append(said, p.Mode+": "+p.Text)
	}
	if want := []string{"plan: the garden", "plan: /allow-all on"}; fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", said, want)
	}
}

func TestPromptContent(t *testing.T) {
	var got bridge.Prompt
	s := &script{turn: func(ctx context.Context, p *played, pr bridge.Prompt, yield func(bridge.Event, error) bool) {
		got = pr
		plays(nil)(ctx, p, pr, yield)
	}}
	c := begin(t, s)
	id := c.request("session/prompt", `{"sessionId":"s1","prompt":[{"type":"text","text":"Compare "},{"type":"resource_link","name":"a b.go","uri":"file:///w/a%20b.go"},`+
		`{"type":"text","text":" with "},{"type":"resource_link","name":"secret","uri":"file:///secret"},{"type":"resource_link","name":"page","uri":"https://h/page"},`+
		`{"type":"resource","resource":{"uri":"file:///w/c.go","text":"package c\n"}},{"type":"resource","resource":{"uri":"zed:///pic.png","mimeType":"image/png","blob":"AQI="}},`+
		`{"type":"image","mimeType":"image/png","data":"AQID"}]}`)
	c.asked("fs/read_text_file", `"result":{"content":"unsaved\n"}`)
	c.answer(id)
	want := "Compare [@a b.go](/w/a b.go) with [@secret](/secret)[@page](https://h/page)[@c.go](/w/c.go)\n\n" +
		"<context ref=\"/w/a b.go\">\nunsaved\n</context>\n<context ref=\"/w/c.go\">\npackage c\n</context>"
	if got.Text != want {
		t.Errorf("the prompt is %q, want %q", got.Text, want)
	}
	if len(got.Attachments) != 2 || got.Attachments[0].Name != "pic.png" || string(got.Attachments[1].Data) != "\x01\x02\x03" || got.Attachments[1].MIME != "image/png" {
		t.Errorf("attachments %+v", got.Attachments)
	}
}

func TestStopReasons(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		finish string
		want   string
	}{
		{"done", nil, "stop", `"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7`},
		{"length", nil, "length", `"stopReason":"max_tokens"`},
		{"filtered", nil, "content_filter", `"stopReason":"refusal"`},
		{"budget", &bridge.Error{Code: bridge.CodeBudget, Message: "used up"}, "", `"stopReason":"max_turn_requests"`},
		{"provider", &bridge.Error{Code: bridge.CodeProvider, Message: "down", Remedy: "wait"}, "", `"code":-32603,"message":"down (wait)"`},
		{"login", &bridge.Error{Code: bridge.CodeUnauthenticated, Message: "who?"}, "", `"code":-32000`},
		{"busy", &bridge.Error{Code: bridge.CodeBusy, Message: "busy: too many"}, "", `"message":"busy: too many"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := begin(t, &script{turn: plays(tt.err, bridge.UsageReported{Finish: tt.finish})})
			if l := c.answer(c.request("session/prompt", prompt("go"))); !strings.Contains(l.raw, tt.want) {
				t.Errorf("%s; want %s", l.raw, tt.want)
			}
		})
	}
}
